"""What artifacts and caches look at in other objects; a change of the rest wakes none (AR-046, AR-580, AR-800)."""

from typing import Final

from aim_domain import (
    SHOWN_OF_OLDER_CONFIGS,
    AIMArtifact,
    AIMClusterServiceTemplate,
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
    RUNTIME_CONFIGS,
    STATUS_UPDATER_BINDINGS,
    TEMPLATE_CACHES,
    TEMPLATES,
)
from controller_runtime import Shown, find_condition
from controller_runtime.core import Namespace, RoleBinding


def _of_artifact(artifact: AIMArtifact) -> tuple[object, ...]:
    """Everything of an artifact but its progress."""
    metadata, status = artifact.metadata, artifact.status
    return (
        metadata.generation,
        metadata.deletion_timestamp,
        metadata.labels,
        metadata.annotations.get(labels.ANNOTATION_PROMOTED_FROM),
        metadata.annotations.get(labels.ANNOTATION_ENV_AS_OF),
        metadata.owner_references,
        status.has("status"),
        status.status,
        status.persistent_volume_claim,
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
    """When it was made (AR-425), which never changes; what it mounts is an index."""
    return workload.metadata.creation_timestamp


def _of_binding(_: RoleBinding) -> None:
    """That it is there."""


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
    Shown(STATUS_UPDATER_BINDINGS, _of_binding),
)
