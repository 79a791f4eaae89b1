"""What artifacts and caches look at in other objects; a change of the rest wakes none (AR-046, AR-580, AR-800)."""

from typing import Final

from aim_domain import (
    SHOWN_OF_OLDER_CONFIGS,
    AIMArtifact,
    AIMClusterServiceTemplate,
    AIMService,
    AIMServiceTemplate,
    AIMTemplateCache,
    InferenceService,
    labels,
    shown_of_config,
    shown_of_pod,
)
from aim_domain.parts import (
    ARTIFACT_PODS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    INFERENCE_SERVICES,
    NAMESPACES,
    PREDICTOR_PODS,
    RUNTIME_CONFIGS,
    SERVICES,
    STATUS_UPDATER_BINDINGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from controller_runtime import Shown, find_condition, is_paused
from controller_runtime.core import Namespace, Pod, RoleBinding


def _of_artifact(artifact: AIMArtifact) -> tuple[object, ...]:
    """Everything of an artifact but its progress."""
    metadata, status = artifact.metadata, artifact.status
    return (
        metadata.generation,
        metadata.deletion_timestamp,
        metadata.labels,
        metadata.annotations.get(labels.ANNOTATION_PROMOTED_FROM),
        metadata.annotations.get(labels.ANNOTATION_ENV_AS_OF),
        metadata.annotations.get(labels.ANNOTATION_EVICTION_PROTECTED),
        is_paused(artifact),
        metadata.owner_references,
        status.has("status"),
        status.status,
        status.persistent_volume_claim,
        status.last_used,
        _ready_of(artifact),
    )


def _of_template(template: AIMServiceTemplate | AIMClusterServiceTemplate) -> tuple[object, ...]:
    """Status value, Ready condition and model sources (FW-116)."""
    return (template.status.status, _ready_of(template), template.status.model_sources)


def _ready_of(obj: AIMArtifact | AIMServiceTemplate | AIMClusterServiceTemplate) -> tuple[str, str, str] | None:
    ready = find_condition(obj.status.conditions, "Ready")
    return None if ready is None else (ready.status, ready.reason, ready.message)


def _of_other_cache(cache: AIMTemplateCache) -> bool:
    """Whether it goes on using an artifact (AR-586)."""
    return cache.deleting


def _of_namespace(namespace: Namespace) -> tuple[object, ...]:
    return (namespace.deleting, namespace.metadata.annotations.get(labels.ANNOTATION_STORAGE_QUOTA))


def _of_workload(workload: InferenceService) -> object:
    """When a model was deployed (AR-425, AR-426); what it mounts is an index."""
    return (workload.metadata.creation_timestamp, workload.metadata.generation)


def _of_service(service: AIMService) -> object:
    """Whether it wants a cache of its own (AR-464); which template it wants is an index."""
    return service.deleting


def _of_predictor_pod(_: Pod) -> None:
    """That it is there; what it mounts, as long as it runs, is an index."""


def _of_binding(binding: RoleBinding) -> object:
    """That it is there, and for whom (AR-813)."""
    return (binding.role_ref.name, binding.subjects)


SHOWN: Final = (
    Shown(ARTIFACTS, _of_artifact),
    Shown(TEMPLATE_CACHES, _of_other_cache),
    Shown(TEMPLATES, _of_template),
    Shown(CLUSTER_TEMPLATES, _of_template),
    Shown(RUNTIME_CONFIGS, shown_of_config),
    Shown(CLUSTER_RUNTIME_CONFIGS, shown_of_config),
    *SHOWN_OF_OLDER_CONFIGS,
    Shown(ARTIFACT_PODS, shown_of_pod),
    Shown(NAMESPACES, _of_namespace),
    Shown(INFERENCE_SERVICES, _of_workload),
    Shown(SERVICES, _of_service),
    Shown(PREDICTOR_PODS, _of_predictor_pod),
    Shown(STATUS_UPDATER_BINDINGS, _of_binding),
)
