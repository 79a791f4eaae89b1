"""Which services a change concerns (serving.md section 17)."""

from collections.abc import Iterable
from typing import Final, TypeVar

from aim_serving.cache_health import has_failed
from aim_serving.derived_template import is_derived
from aim_serving.indexes import (
    FAILED_CACHES_BY_ARTIFACT,
    SERVICES_BY_CACHE,
    SERVICES_BY_CONFIG,
    SERVICES_BY_IMAGE,
    SERVICES_BY_MADE_MODEL,
    SERVICES_BY_MODEL,
    SERVICES_BY_STORED_TEMPLATE,
    SERVICES_BY_TEMPLATE,
    SERVICES_BY_WORKLOAD,
    WORKLOADS_BY_CLAIM,
    model_images,
)
from aim_serving.references import Model, Template
from aim_shared.api import (
    AIMArtifact,
    AIMClusterModel,
    AIMClusterRuntimeConfig,
    AIMClusterServiceTemplate,
    AIMModel,
    AIMRuntimeConfig,
    AIMService,
    AIMServiceTemplate,
    ConditionStatus,
    ConfigMap,
    Event,
    EventType,
    HorizontalPodAutoscaler,
    InferenceService,
    PersistentVolumeClaim,
    Pod,
    Resource,
    find_condition,
    labels,
)
from aim_shared.api.template_cache import AIMTemplateCache
from aim_shared.bus.entry import Change
from aim_shared.bus.part import Index, Key, scoped
from aim_shared.bus.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACTS,
    AUTOSCALERS,
    CLUSTER_MODELS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    CUSTOM_PROFILES,
    INFERENCE_SERVICE_EVENTS,
    INFERENCE_SERVICES,
    MODELS,
    PREDICTOR_PODS,
    RUNTIME_CONFIGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_shared.bus.view import View
from aim_shared.reconcile import pod_changes
from aim_shared.reconcile.changes import differs
from aim_shared.reconcile.reconciler import WakeBy
from aim_shared.runtimeconfig import changes as config_changes

C = TypeVar("C", AIMRuntimeConfig, AIMClusterRuntimeConfig)

_CONFLICT: Final = "the object has been modified"
_WATCHED_HPA_CONDITIONS: Final = ("ScalingActive", "AbleToScale")


def _keys(view: View, index: Index[AIMService], *values: str) -> list[Key]:
    return [service.key for value in values for service in view.select(index, value).items]


def _owners(obj: Resource | None) -> list[Key]:
    owners = obj.metadata.owner_references if obj is not None else ()
    return [Key(obj.namespace, owner.name) for owner in owners if obj is not None and owner.kind == "AIMService"]


# Models and templates


def _of_model(change: Change[AIMModel], view: View) -> Iterable[Key]:
    return _by_model(change.either, view) if _is_news(change.before, change.after) else ()


def _of_cluster_model(change: Change[AIMClusterModel], view: View) -> Iterable[Key]:
    return _by_model(change.either, view) if _is_news(change.before, change.after) else ()


def _by_model(model: Model | None, view: View) -> list[Key]:
    """By name, stored reference, image or description, or the name that a service gives to the model it makes."""
    if model is None:
        return []
    name = scoped(model.namespace, model.name)
    named = _keys(view, SERVICES_BY_MODEL, name) + _keys(view, SERVICES_BY_MADE_MODEL, name)
    return named + _keys(view, SERVICES_BY_IMAGE, model_images(model, model.namespace))


def _of_template(change: Change[AIMServiceTemplate], view: View) -> Iterable[Key]:
    return _by_template(change.either, view) if _is_news(change.before, change.after) else ()


def _of_cluster_template(change: Change[AIMClusterServiceTemplate], view: View) -> Iterable[Key]:
    return _by_template(change.either, view) if _is_news(change.before, change.after) else ()


def _by_template(template: Template | None, view: View) -> list[Key]:
    """By name, stored reference, or the model whose services select or default; a derived one also by its users."""
    if template is None:
        return []
    named = _keys(view, SERVICES_BY_TEMPLATE, scoped(template.namespace, template.name))
    selecting = _services_of_model(view, template)
    users = _owners(template) if isinstance(template, AIMServiceTemplate) and is_derived(template) else []
    return named + selecting + users


def _services_of_model(view: View, template: Template) -> list[Key]:
    """Services of the template's model, a namespaced one's in its namespace alone, whatever the scope of the model."""
    model = template.spec.model_name
    keys = _keys(view, SERVICES_BY_MODEL, scoped(template.namespace, model))
    local = view.get(MODELS, template.namespace, model).value if template.namespace else None
    cluster = view.get(CLUSTER_MODELS, None, model).value
    images = [model_images(one, template.namespace) for one in (local, cluster) if one is not None]
    return keys + _keys(view, SERVICES_BY_IMAGE, *images)


def _is_news(before: Model | Template | None, after: Model | Template | None) -> bool:
    """Progress reports in conditions change nothing that serving reads."""
    return before is None or after is None or _read_part(before) != _read_part(after)


def _read_part(obj: Model | Template) -> tuple[object, ...]:
    own = (obj.uid, obj.metadata.generation, obj.metadata.labels, obj.metadata.owner_references, obj.status.status)
    if isinstance(obj, AIMModel | AIMClusterModel):
        return own
    status = obj.status
    return (
        *own,
        status.profile,
        status.resolved_hardware,
        status.resolved_node_affinity,
        status.model_sources,
    )


# Configs


def _of_config(change: Change[AIMRuntimeConfig], view: View) -> Iterable[Key]:
    return _users(change, view) if config_changes.is_significant(change) else ()


def _of_cluster_config(change: Change[AIMClusterRuntimeConfig], view: View) -> Iterable[Key]:
    return _users(change, view) if config_changes.is_significant(change) else ()


def _users(change: Change[C], view: View) -> list[Key]:
    return _keys(view, SERVICES_BY_CONFIG, scoped(change.key.namespace, change.key.name))


# Caches and artifacts


def _of_cache(change: Change[AIMTemplateCache], view: View) -> Iterable[Key]:
    return () if change.either is None else _users_of_cache(change.either, view)


def _users_of_cache(cache: AIMTemplateCache, view: View) -> list[Key]:
    namespace = cache.namespace
    return [
        *_owners(cache),
        *_keys(view, SERVICES_BY_STORED_TEMPLATE, scoped(namespace, cache.spec.template_name)),
        *_keys(view, SERVICES_BY_CACHE, scoped(namespace, cache.name)),
        *_labelled(cache),
    ]


def _labelled(cache: AIMTemplateCache) -> list[Key]:
    name = cache.metadata.labels.get(labels.SERVICE_NAME) or cache.metadata.labels.get(labels.SERVICE)
    return [Key(cache.namespace, name)] if name else []


def _of_artifact(change: Change[AIMArtifact], view: View) -> Iterable[Key]:
    """Only who judges a failed cache looks at its artifacts; others follow the cache (SV-134…SV-137)."""
    before, after = change.before, change.after
    if before is not None and after is not None and _failure_part(before) == _failure_part(after):
        return []
    failed = view.select(FAILED_CACHES_BY_ARTIFACT, scoped(change.key.namespace, change.key.name)).items
    return [key for cache in failed for key in _users_of_cache(cache, view)]


def _failure_part(artifact: AIMArtifact) -> tuple[object, ...]:
    return (artifact.uid, artifact.deleting, artifact.status.status, has_failed(artifact))


def _of_claim(change: Change[PersistentVolumeClaim], view: View) -> Iterable[Key]:
    """A claim that goes away while a workload mounts it (SV-173)."""
    if change.after is not None and not change.after.deleting:
        return ()
    mounting = view.select(WORKLOADS_BY_CLAIM, scoped(change.key.namespace, change.key.name)).items
    return [key for workload in mounting for key in _owners(workload)]


# The workload


def _of_workload(change: Change[InferenceService], view: View) -> Iterable[Key]:
    """The owner; and whoever needs the name, when it becomes free or taken (SV-146)."""
    owners = _owners(change.either)
    if not differs(change, lambda workload: workload.metadata.owner_references):
        return owners
    return owners + _keys(view, SERVICES_BY_WORKLOAD, scoped(change.key.namespace, change.key.name))


def _of_profile(change: Change[ConfigMap], _: View) -> Iterable[Key]:
    return _owners(change.either)


def _of_event(change: Change[Event], view: View) -> Iterable[Key]:
    """Warnings, except the conflicts that KServe reports on every change (SV-193)."""
    event = change.after
    if event is None or event.type is not EventType.WARNING or _CONFLICT in event.message:
        return ()
    involved = event.involved_object
    return _owners(view.get(INFERENCE_SERVICES, involved.namespace, involved.name).value)


def _of_pod(change: Change[Pod], view: View) -> Iterable[Key]:
    pod = change.either
    if pod is None or not pod_changes.is_significant(change):
        return ()
    name = pod.metadata.labels.get(labels.KSERVE_INFERENCE_SERVICE, "")
    return _owners(view.get(INFERENCE_SERVICES, pod.namespace, name).value)


def _of_autoscaler(change: Change[HorizontalPodAutoscaler], _: View) -> Iterable[Key]:
    """Replicas and the two conditions count; metric values do not (SV-253, FW-114)."""
    hpa = change.either
    if hpa is None or not differs(change, _hpa_part):
        return ()
    name = hpa.metadata.labels.get(labels.SERVICE_NAME) or hpa.metadata.labels.get(labels.SERVICE)
    return [Key(hpa.namespace, name)] if name else ()


def _hpa_part(hpa: HorizontalPodAutoscaler) -> tuple[object, ...]:
    spec, status = hpa.spec, hpa.status
    return (
        hpa.uid,
        spec.min_replicas,
        spec.max_replicas,
        status.current_replicas,
        status.desired_replicas,
        *(_condition_status(hpa, type_) for type_ in _WATCHED_HPA_CONDITIONS),
    )


def _condition_status(hpa: HorizontalPodAutoscaler, type_: str) -> ConditionStatus | None:
    found = find_condition(hpa.status.conditions, type_)
    return found.status if found else None


WAKES: Final = (
    WakeBy(MODELS, _of_model),
    WakeBy(CLUSTER_MODELS, _of_cluster_model),
    WakeBy(TEMPLATES, _of_template),
    WakeBy(CLUSTER_TEMPLATES, _of_cluster_template),
    WakeBy(RUNTIME_CONFIGS, _of_config),
    WakeBy(CLUSTER_RUNTIME_CONFIGS, _of_cluster_config),
    WakeBy(TEMPLATE_CACHES, _of_cache),
    WakeBy(ARTIFACTS, _of_artifact),
    WakeBy(ARTIFACT_CLAIMS, _of_claim),
    WakeBy(INFERENCE_SERVICES, _of_workload),
    WakeBy(CUSTOM_PROFILES, _of_profile),
    WakeBy(INFERENCE_SERVICE_EVENTS, _of_event),
    WakeBy(PREDICTOR_PODS, _of_pod),
    WakeBy(AUTOSCALERS, _of_autoscaler),
)
"""Everything that wakes an AIMService beside its own changes and its facts."""
