"""What serving publishes, consumes and reconciles, and which changes of other objects concern it."""

from dataclasses import replace
from typing import Final

from pydantic import Field

from aim_domain import (
    CONFIG_PREDICATES,
    POD_EFFECTS,
    AIMArtifact,
    AIMService,
    AnyProfile,
    DivisibleSettings,
    labels,
    pod_predicate,
)
from aim_domain.component_names import ROUTE_RECONCILED, ComponentName
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACTS,
    AUTOSCALERS,
    CLUSTER_MODELS,
    CLUSTER_PROFILES,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    CUSTOM_PROFILES,
    INFERENCE_SERVICE_EVENTS,
    INFERENCE_SERVICES,
    KAIWO_CONFIGS,
    MODELS,
    NAMESPACE_CONFIGS,
    NAMESPACES,
    NODES,
    PREDICTOR_PODS,
    PROFILE_CACHES,
    PROFILES,
    RUNTIME_CONFIGS,
    SERVICE_PLANS,
    SERVICES,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from aim_serving import SERVICE_NAME, indexes
from aim_serving.adapter_loading import ADAPTER_LOAD, AdapterLoader
from aim_serving.autoscaling import AWAKENING, SCALER_REMOVAL, SCALER_REPORT
from aim_serving.cleanup import cleans_up, finalize
from aim_serving.gpu import GPU_FREE
from aim_serving.inference_service import is_restricted
from aim_serving.profile import DISCOVERED
from aim_serving.reconcile import CONTROLLER, reconcile
from aim_serving.references import Model, Template, expects_no_template
from aim_serving.rollout_checks import ROLLOUT_CHECK
from aim_serving.runtime_config import (
    limited_namespace,
    reconcile_cluster_config,
    reconcile_config,
    reconcile_kaiwo_config,
    reconcile_namespace_config,
)
from aim_serving.template_cache import has_failed
from controller_runtime import (
    FACTS,
    ConditionStatus,
    MappingBy,
    Predicate,
    Reconciler,
    Resource,
    ServiceDefinition,
    StatusOwnership,
    StatusValue,
    Verb,
    find_condition,
    ready_words,
    writes,
)
from controller_runtime.core import HorizontalPodAutoscaler, Namespace, Pod

_WITHOUT_COMPLAINT: Final = (StatusValue.READY, StatusValue.PENDING, StatusValue.PROGRESSING)
_WATCHED_HPA_CONDITIONS: Final = ("ScalingActive", "AbleToScale")


def _of_model(model: Model) -> tuple[object, ...]:
    """Progress reports in conditions change nothing that serving reads; what has failed is quoted."""
    metadata = model.metadata
    own = (model.deleting, metadata.generation, metadata.labels, metadata.owner_references)
    read = find_condition(model.status.conditions, DISCOVERED)
    profiles = None if read is None else (read.status, read.reason)
    return (*own, model.status.status, _complaint(model), expects_no_template(model), profiles)


def _of_template(template: Template) -> tuple[object, ...]:
    metadata, status = template.metadata, template.status
    return (
        template.deleting,
        metadata.generation,
        metadata.labels,
        metadata.owner_references,
        status.status,
        status.profile,
        status.resolved_hardware,
        status.resolved_node_affinity,
        status.model_sources,
        _complaint(template),
    )


def _of_profile(profile: AnyProfile) -> tuple[object, ...]:
    """All but the number of nodes that it counts."""
    metadata, status = profile.metadata, profile.status
    own = (profile.deleting, metadata.generation, metadata.annotations, metadata.owner_references)
    found = (status.observed_generation, status.status, status.source_model, status.origin, status.base_image)
    return (*own, *found, status.resources, status.resolved_node_affinity, _complaint(profile))


def _complaint(obj: Model | Template | AnyProfile) -> str:
    return "" if obj.status.status in _WITHOUT_COMPLAINT else ready_words(obj.status.conditions)


def _of_artifact(artifact: AIMArtifact) -> tuple[object, ...]:
    """Only whether it has failed: who waits for it follows the cache (SV-134…SV-137); of adapters also why (LA-040)."""
    words = ready_words(artifact.status.conditions) if artifact.spec.type is not None else ""
    return (artifact.deleting, artifact.status.status, has_failed(artifact), words)


def _of_pod(pod: Pod) -> tuple[object, ...]:
    """Beside its health, restarts of the engine: one that is ready again at once has lost its adapters (LA-031)."""
    return (*pod_predicate(pod), sum(one.restart_count for one in pod.status.container_statuses), pod.status.pod_ip)


def _of_autoscaler(hpa: HorizontalPodAutoscaler) -> tuple[object, ...]:
    """Replicas and the two conditions count; metric values do not (SV-253, FW-114)."""
    spec, status = hpa.spec, hpa.status
    return (
        spec.min_replicas,
        spec.max_replicas,
        status.current_replicas,
        status.desired_replicas,
        *(_condition(hpa, type_) for type_ in _WATCHED_HPA_CONDITIONS),
    )


def _condition(hpa: HorizontalPodAutoscaler, type_: str) -> tuple[ConditionStatus, str] | None:
    """What does not work is quoted; what works may say another number every few seconds."""
    found = find_condition(hpa.status.conditions, type_)
    return (found.status, "" if found.status is ConditionStatus.TRUE else found.message) if found else None


def _of_other_service(service: AIMService) -> tuple[object, ...]:
    """Whether it demands a shared cache (SV-234); of a new version beside a service also how it is doing (SV-342)."""
    status, metadata = service.status, service.metadata
    beside = metadata.labels.get(labels.COMPONENT) == labels.COMPONENT_CANDIDATE
    health = (status.status, ready_words(status.conditions)) if beside else ()
    return (service.deleting, metadata.generation, status.resolved_template, status.resolved_profile, *health)


def _leaving(obj: Resource) -> bool:
    return obj.deleting


def _of_namespace(namespace: Namespace) -> tuple[bool, bool]:
    return namespace.deleting, is_restricted(namespace)


PREDICATES: Final = (
    Predicate(MODELS, _of_model),
    Predicate(CLUSTER_MODELS, _of_model),
    Predicate(TEMPLATES, _of_template),
    Predicate(CLUSTER_TEMPLATES, _of_template),
    Predicate(PROFILES, _of_profile),
    Predicate(CLUSTER_PROFILES, _of_profile),
    *CONFIG_PREDICATES,
    Predicate(ARTIFACTS, _of_artifact),
    Predicate(ARTIFACT_CLAIMS, _leaving),
    Predicate(PREDICTOR_PODS, _of_pod),
    Predicate(AUTOSCALERS, _of_autoscaler),
    Predicate(NAMESPACES, _of_namespace),
    Predicate(SERVICES, _of_other_service),
)


PUBLISHED: Final = (
    SERVICES,
    RUNTIME_CONFIGS,
    CLUSTER_RUNTIME_CONFIGS,
    NAMESPACE_CONFIGS,
    KAIWO_CONFIGS,
    INFERENCE_SERVICES,
    INFERENCE_SERVICE_EVENTS,
    AUTOSCALERS,
    PREDICTOR_PODS,
    SERVICE_PLANS,
    NAMESPACES,
)
CONSUMED: Final = (
    *PUBLISHED,
    MODELS,
    CLUSTER_MODELS,
    TEMPLATES,
    CLUSTER_TEMPLATES,
    NODES,
    TEMPLATE_CACHES,
    PROFILES,
    CLUSTER_PROFILES,
    PROFILE_CACHES,
    ARTIFACTS,
    ARTIFACT_CLAIMS,
    CUSTOM_PROFILES,
    FACTS,
)

WRITTEN: Final = (
    writes(SERVICES, Verb.APPLY, Verb.PATCH, Verb.DELETE),
    writes(MODELS, Verb.CREATE),
    writes(TEMPLATES, Verb.CREATE, Verb.PATCH, Verb.DELETE),
    writes(TEMPLATE_CACHES, Verb.CREATE, Verb.PATCH, Verb.DELETE),
    writes(PROFILES, Verb.APPLY, Verb.DELETE),
    writes(PROFILE_CACHES, Verb.CREATE, Verb.PATCH, Verb.DELETE),
    writes(ARTIFACTS, Verb.CREATE, Verb.DELETE),
    writes(INFERENCE_SERVICES, Verb.APPLY),
    writes(CUSTOM_PROFILES, Verb.APPLY),
    writes(SERVICE_PLANS, Verb.APPLY, Verb.DELETE),
)

SERVICE_RECONCILER: Final = Reconciler(
    controller=CONTROLLER,
    part=SERVICES,
    reconcile=reconcile,
    finalizer=labels.FINALIZER_SERVICE,
    finalize=finalize,
    cleans_up=cleans_up,
    status=StatusOwnership(
        foreign_fields=frozenset({"routing"}),
        foreign_conditions=frozenset({ComponentName.HTTP_ROUTE.condition, ROUTE_RECONCILED}),
    ),
)
CONFIG_RECONCILER: Final = Reconciler(controller="runtime-config", part=RUNTIME_CONFIGS, reconcile=reconcile_config)
CLUSTER_CONFIG_RECONCILER: Final = Reconciler(
    controller="cluster-runtime-config",
    part=CLUSTER_RUNTIME_CONFIGS,
    reconcile=reconcile_cluster_config,
    mappings=(MappingBy(NAMESPACES, limited_namespace),),
)
NAMESPACE_CONFIG_RECONCILER: Final = Reconciler(
    controller="namespace-config", part=NAMESPACE_CONFIGS, reconcile=reconcile_namespace_config
)
KAIWO_CONFIG_RECONCILER: Final = Reconciler(
    controller="kaiwo-config", part=KAIWO_CONFIGS, reconcile=reconcile_kaiwo_config
)


class ServingSettings(DivisibleSettings):
    """Settings of serving beside the common ones."""

    engine_proxy: str = Field("", description="HTTP proxy to the engines in pods; empty reaches them directly (LA-034)")


SETTINGS: Final = ServingSettings
"""The class of the settings that `definition` takes."""


def definition(settings: ServingSettings) -> ServiceDefinition:
    """The declaration of the serving service."""
    loading = replace(ADAPTER_LOAD, runner=lambda _: AdapterLoader(settings.engine_proxy))
    return ServiceDefinition(
        name=SERVICE_NAME,
        publishes=PUBLISHED,
        consumes=CONSUMED,
        indexes=indexes.ALL,
        predicates=PREDICATES,
        reconcilers=(
            SERVICE_RECONCILER,
            CONFIG_RECONCILER,
            CLUSTER_CONFIG_RECONCILER,
            NAMESPACE_CONFIG_RECONCILER,
            KAIWO_CONFIG_RECONCILER,
        ),
        effects=(*POD_EFFECTS, SCALER_REMOVAL, SCALER_REPORT, GPU_FREE, AWAKENING, ROLLOUT_CHECK, loading),
        writes=WRITTEN,
        governs_streams=True,
        divisible=True,
        shards=settings.shards,
    )
