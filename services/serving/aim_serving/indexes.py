"""Look-ups in the cache that serving needs, other than by name."""

from typing import Final

from aim_domain import GPUS, NAMESPACE_CONFIGS_BY_NAMESPACE, AIMService, AIMTemplateCache, labels
from aim_domain.parts import (
    ARTIFACTS,
    CLUSTER_MODELS,
    CLUSTER_TEMPLATES,
    INFERENCE_SERVICE_EVENTS,
    MODELS,
    PREDICTOR_PODS,
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


# Caches and the workload


def _cache_templates(cache: AIMTemplateCache) -> list[str]:
    return [scoped(cache.namespace, cache.spec.template_name)]


def _involved(event: Event) -> list[str]:
    return [event.involved_object.uid] if is_informative(event) else []


CACHES_BY_TEMPLATE: Final = Index(TEMPLATE_CACHES, "template", _cache_templates)
CACHES_BY_SERVICE: Final = label_index(TEMPLATE_CACHES, labels.SERVICE)
EVENTS_BY_OBJECT: Final = Index(INFERENCE_SERVICE_EVENTS, "involved", _involved)
PODS_BY_WORKLOAD: Final = label_index(PREDICTOR_PODS, labels.KSERVE_INFERENCE_SERVICE)


def _stored_template(service: AIMService) -> list[str]:
    stored = service.status.resolved_template
    return [scoped(service.namespace, stored.name)] if stored and stored.name else []


ARTIFACTS_BY_OWNER: Final = owner_index(ARTIFACTS)
SERVICES_BY_OWNER: Final = owner_index(SERVICES)
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
    EVENTS_BY_OBJECT,
    PODS_BY_WORKLOAD,
    ARTIFACTS_BY_OWNER,
    SERVICES_BY_OWNER,
    SERVICES_BY_STORED_TEMPLATE,
    NAMESPACE_CONFIGS_BY_NAMESPACE,
)
