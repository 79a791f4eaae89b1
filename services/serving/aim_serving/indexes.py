"""Look-ups in the world that serving needs, other than by name."""

from collections.abc import Iterable
from typing import Final

from aim_serving.custom_model import custom_model_name
from aim_serving.image_name import ImageNameError, parse_image_name
from aim_serving.references import Model
from aim_shared.api import AIMService, Event, InferenceService, Resource, StatusValue, labels
from aim_shared.api.template_cache import AIMTemplateCache
from aim_shared.bus.part import Index, label_index, owner_index, scoped
from aim_shared.bus.parts import (
    CLUSTER_MODELS,
    CLUSTER_TEMPLATES,
    INFERENCE_SERVICE_EVENTS,
    INFERENCE_SERVICES,
    MODELS,
    PREDICTOR_PODS,
    SERVICES,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_shared.gpu.inventory import GPUS
from aim_shared.naming import NamingError, image_model_name, inference_service_name
from aim_shared.registry.image_reference import InvalidReferenceError, parse_image
from aim_shared.runtimeconfig.resolve import effective_name


def canonical_image(uri: str) -> str:
    """One text for all spellings of an image (MS-061); what is no reference stands for itself."""
    try:
        return str(parse_image(uri))
    except InvalidReferenceError:
        return uri


def _namespaces(obj: Resource, values: Iterable[str]) -> list[str]:
    """Values to be found from inside the namespace, and from the cluster scope."""
    return [key for value in values for key in (scoped(obj.namespace, value), scoped(None, value))]


# Models and templates

MODELS_BY_IMAGE: Final = Index(
    MODELS, "image", lambda model: [scoped(model.namespace, model.spec.image)], of_status=False
)
CLUSTER_MODELS_BY_IMAGE: Final = Index(CLUSTER_MODELS, "image", lambda model: [model.spec.image], of_status=False)
MODELS_BY_CANONICAL_IMAGE: Final = Index(
    MODELS,
    "canonical-image",
    lambda model: [scoped(model.namespace, canonical_image(model.spec.image))],
    of_status=False,
)
CLUSTER_MODELS_BY_CANONICAL_IMAGE: Final = Index(
    CLUSTER_MODELS, "canonical-image", lambda model: [canonical_image(model.spec.image)], of_status=False
)
TEMPLATES_BY_MODEL: Final = Index(
    TEMPLATES, "model", lambda template: [scoped(template.namespace, template.spec.model_name)], of_status=False
)
TEMPLATES_BY_OWNER: Final = owner_index(TEMPLATES)
CLUSTER_TEMPLATES_BY_MODEL: Final = Index(
    CLUSTER_TEMPLATES, "model", lambda template: [template.spec.model_name], of_status=False
)


# Caches and the workload


def _cache_templates(cache: AIMTemplateCache) -> list[str]:
    return [scoped(cache.namespace, cache.spec.template_name)]


def _artifacts_of_failed(cache: AIMTemplateCache) -> list[str]:
    listed = cache.status.artifacts.values() if cache.status.status is StatusValue.FAILED else ()
    return [scoped(cache.namespace, one.name) for one in listed]


def _claims(workload: InferenceService) -> list[str]:
    claims = (volume.persistent_volume_claim for volume in workload.spec.predictor.volumes)
    return [scoped(workload.namespace, claim.claim_name) for claim in claims if claim is not None]


def _involved(event: Event) -> list[str]:
    return [event.involved_object.uid]


CACHES_BY_TEMPLATE: Final = Index(TEMPLATE_CACHES, "template", _cache_templates)
FAILED_CACHES_BY_ARTIFACT: Final = Index(TEMPLATE_CACHES, "artifact", _artifacts_of_failed)
CACHES_BY_SERVICE: Final = label_index(TEMPLATE_CACHES, labels.SERVICE)
WORKLOADS_BY_CLAIM: Final = Index(INFERENCE_SERVICES, "claim", _claims, of_status=False)
EVENTS_BY_OBJECT: Final = Index(INFERENCE_SERVICE_EVENTS, "involved", _involved)
PODS_BY_WORKLOAD: Final = label_index(PREDICTOR_PODS, labels.KSERVE_INFERENCE_SERVICE)

# Services, for waking them


def _model_names(service: AIMService) -> list[str]:
    stored, named = service.status.resolved_model, service.spec.model.name
    names = {named.strip() if named else "", (stored.name or "") if stored else ""}
    return _namespaces(service, sorted(names - {""}))


def _images(service: AIMService) -> list[str]:
    model = service.spec.model
    image = model.custom.base_image if model.custom else model.image
    return _namespaces(service, [canonical_image(image.strip())]) if image else []


def _made_models(service: AIMService) -> list[str]:
    """The model that a service makes if it finds none; another one of that name keeps it from it (SV-267)."""
    model = service.spec.model
    if model.custom is not None:
        return [scoped(service.namespace, custom_model_name(model.custom))]
    image = (model.image or "").strip()
    try:
        parsed = parse_image_name(image)
    except ImageNameError:
        return []
    return [scoped(service.namespace, image_model_name(parsed.name, parsed.tag, image))]


def _workload_names(service: AIMService) -> list[str]:
    try:
        return [scoped(service.namespace, inference_service_name(service.name, service.namespace))]
    except NamingError:
        return []


def _template_names(service: AIMService) -> list[str]:
    named = service.spec.template.name if service.spec.template else None
    stored = service.status.resolved_template
    names = {named.strip() if named else "", (stored.name or "") if stored else ""}
    return _namespaces(service, sorted(names - {""}))


def _config_names(service: AIMService) -> list[str]:
    return _namespaces(service, [effective_name(service.spec.runtime_config_name)])


def _cache_reference(service: AIMService) -> list[str]:
    stored = service.status.cache.template_cache_ref if service.status.cache else None
    return [scoped(service.namespace, stored.name)] if stored and stored.name else []


def _stored_template(service: AIMService) -> list[str]:
    stored = service.status.resolved_template
    return [scoped(service.namespace, stored.name)] if stored and stored.name else []


SERVICES_BY_MODEL: Final = Index(SERVICES, "model", _model_names)
SERVICES_BY_IMAGE: Final = Index(SERVICES, "image", _images)
SERVICES_BY_MADE_MODEL: Final = Index(SERVICES, "made-model", _made_models)
SERVICES_BY_WORKLOAD: Final = Index(SERVICES, "workload", _workload_names)
SERVICES_BY_TEMPLATE: Final = Index(SERVICES, "template", _template_names)
SERVICES_BY_STORED_TEMPLATE: Final = Index(SERVICES, "stored-template", _stored_template)
SERVICES_BY_CONFIG: Final = Index(SERVICES, "config", _config_names)
SERVICES_BY_CACHE: Final = Index(SERVICES, "cache", _cache_reference)

ALL: Final = (
    GPUS,
    MODELS_BY_IMAGE,
    CLUSTER_MODELS_BY_IMAGE,
    MODELS_BY_CANONICAL_IMAGE,
    CLUSTER_MODELS_BY_CANONICAL_IMAGE,
    TEMPLATES_BY_MODEL,
    TEMPLATES_BY_OWNER,
    CLUSTER_TEMPLATES_BY_MODEL,
    CACHES_BY_TEMPLATE,
    CACHES_BY_SERVICE,
    FAILED_CACHES_BY_ARTIFACT,
    WORKLOADS_BY_CLAIM,
    EVENTS_BY_OBJECT,
    PODS_BY_WORKLOAD,
    SERVICES_BY_MODEL,
    SERVICES_BY_IMAGE,
    SERVICES_BY_MADE_MODEL,
    SERVICES_BY_WORKLOAD,
    SERVICES_BY_TEMPLATE,
    SERVICES_BY_STORED_TEMPLATE,
    SERVICES_BY_CONFIG,
    SERVICES_BY_CACHE,
)


def model_images(model: Model, namespace: str) -> str:
    """The value of a model's image for `SERVICES_BY_IMAGE`; without a namespace that of all namespaces."""
    return scoped(namespace, canonical_image(model.spec.image))
