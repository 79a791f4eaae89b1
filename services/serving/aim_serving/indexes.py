"""Look-ups in the cache that serving needs, other than by name."""

from typing import Final

from aim_domain import GPUS, NAMESPACE_CONFIGS_BY_NAMESPACE, AIMService, AIMTemplateCache, AnyProfile, labels
from aim_domain.parts import (
    ARTIFACTS,
    CLUSTER_MODELS,
    CLUSTER_PROFILES,
    CLUSTER_TEMPLATES,
    INFERENCE_SERVICE_EVENTS,
    MODELS,
    PREDICTOR_PODS,
    PROFILE_CACHES,
    PROFILES,
    SERVICES,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_serving.gpu import GPU_NODES, GPU_SIZES
from aim_serving.workload_health import is_informative
from controller_runtime import Depth, Index, label_index, owner_index, scoped
from controller_runtime.core import Event
from oci_registry import InvalidReferenceError, parse_image


def canonical_image(uri: str) -> str:
    """One text for all spellings of an image (MS-061); what is no reference stands for itself."""
    try:
        return str(parse_image(uri))
    except InvalidReferenceError:
        return uri


# Models and templates

MODELS_BY_IMAGE: Final = Index(
    MODELS, "image", lambda model: [scoped(model.namespace, model.spec.image)], depth=Depth.SPEC
)
CLUSTER_MODELS_BY_IMAGE: Final = Index(CLUSTER_MODELS, "image", lambda model: [model.spec.image], depth=Depth.SPEC)
MODELS_BY_CANONICAL_IMAGE: Final = Index(
    MODELS,
    "canonical-image",
    lambda model: [scoped(model.namespace, canonical_image(model.spec.image))],
    depth=Depth.SPEC,
)
CLUSTER_MODELS_BY_CANONICAL_IMAGE: Final = Index(
    CLUSTER_MODELS, "canonical-image", lambda model: [canonical_image(model.spec.image)], depth=Depth.SPEC
)
TEMPLATES_BY_MODEL: Final = Index(
    TEMPLATES, "model", lambda template: [scoped(template.namespace, template.spec.model_name)], depth=Depth.SPEC
)
TEMPLATES_BY_OWNER: Final = owner_index(TEMPLATES)
CLUSTER_TEMPLATES_BY_MODEL: Final = Index(
    CLUSTER_TEMPLATES, "model", lambda template: [template.spec.model_name], depth=Depth.SPEC
)


# Profiles


def _model_of_profile(profile: AnyProfile) -> str:
    source = profile.status.source_model
    return source.name or "" if source is not None else ""


def _by_model(profile: AnyProfile) -> list[str]:
    model = _model_of_profile(profile)
    return [scoped(profile.namespace, model)] if model else []


def _by_aim_id(profile: AnyProfile) -> list[str]:
    # Those of overrides belong to their service alone (PR-060).
    is_overlay = labels.ANNOTATION_OVERLAY_SERVICE in profile.metadata.annotations
    return [scoped(profile.namespace, profile.spec.aim_id)] if profile.spec.aim_id and not is_overlay else []


PROFILES_BY_MODEL: Final = Index(PROFILES, "source-model", _by_model)
CLUSTER_PROFILES_BY_MODEL: Final = Index(CLUSTER_PROFILES, "source-model", _by_model)
PROFILES_BY_AIM_ID: Final = Index(PROFILES, "aim-id", _by_aim_id)
CLUSTER_PROFILES_BY_AIM_ID: Final = Index(CLUSTER_PROFILES, "aim-id", _by_aim_id)
PROFILES_BY_OWNER: Final = owner_index(PROFILES)


# Caches and the workload


def _cache_templates(cache: AIMTemplateCache) -> list[str]:
    return [scoped(cache.namespace, cache.spec.template_name)]


def _involved(event: Event) -> list[str]:
    return [event.involved_object.uid] if is_informative(event) else []


CACHES_BY_TEMPLATE: Final = Index(TEMPLATE_CACHES, "template", _cache_templates)
CACHES_BY_PROFILE: Final = Index(
    PROFILE_CACHES, "profile", lambda cache: [scoped(cache.namespace, cache.spec.profile_name)]
)
PROFILE_CACHES_BY_SERVICE: Final = label_index(PROFILE_CACHES, labels.SERVICE)
CACHES_BY_SERVICE: Final = label_index(TEMPLATE_CACHES, labels.SERVICE)
EVENTS_BY_OBJECT: Final = Index(INFERENCE_SERVICE_EVENTS, "involved", _involved)
PODS_BY_WORKLOAD: Final = label_index(PREDICTOR_PODS, labels.KSERVE_INFERENCE_SERVICE)


def _stored_template(service: AIMService) -> list[str]:
    stored = service.status.resolved_template
    return [scoped(service.namespace, stored.name)] if stored and stored.name else []


ARTIFACTS_BY_OWNER: Final = owner_index(ARTIFACTS)
SERVICES_BY_OWNER: Final = owner_index(SERVICES)


def _stored_profile(service: AIMService) -> list[str]:
    stored = service.status.resolved_profile
    return [scoped(service.namespace, stored.name)] if stored and stored.name else []


SERVICES_BY_STORED_PROFILE: Final = Index(SERVICES, "stored-profile", _stored_profile)
SERVICES_BY_STORED_TEMPLATE: Final = Index(SERVICES, "stored-template", _stored_template)

ALL: Final = (
    GPUS,
    GPU_SIZES,
    GPU_NODES,
    MODELS_BY_IMAGE,
    CLUSTER_MODELS_BY_IMAGE,
    MODELS_BY_CANONICAL_IMAGE,
    CLUSTER_MODELS_BY_CANONICAL_IMAGE,
    TEMPLATES_BY_MODEL,
    TEMPLATES_BY_OWNER,
    CLUSTER_TEMPLATES_BY_MODEL,
    CACHES_BY_TEMPLATE,
    CACHES_BY_SERVICE,
    CACHES_BY_PROFILE,
    PROFILE_CACHES_BY_SERVICE,
    PROFILES_BY_MODEL,
    CLUSTER_PROFILES_BY_MODEL,
    PROFILES_BY_AIM_ID,
    CLUSTER_PROFILES_BY_AIM_ID,
    PROFILES_BY_OWNER,
    SERVICES_BY_STORED_PROFILE,
    EVENTS_BY_OBJECT,
    PODS_BY_WORKLOAD,
    ARTIFACTS_BY_OWNER,
    SERVICES_BY_OWNER,
    SERVICES_BY_STORED_TEMPLATE,
    NAMESPACE_CONFIGS_BY_NAMESPACE,
)
