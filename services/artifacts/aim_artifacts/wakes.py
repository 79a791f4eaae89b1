"""Which changes of other objects concern artifacts and caches (AR-046, AR-580, AR-800)."""

from collections.abc import Iterable
from typing import Final

from aim_artifacts.admission import admissible, admissible_after
from aim_artifacts.indexes import (
    ARTIFACTS_BY_CONFIG,
    ARTIFACTS_BY_NAMESPACE,
    CACHES_BY_ARTIFACT,
    CACHES_BY_CLUSTER_TEMPLATE,
    CACHES_BY_CONFIG,
    CACHES_BY_LABEL,
    CACHES_BY_SOURCE,
    CACHES_BY_TEMPLATE,
    CLUSTER_TEMPLATES_BY_SOURCE,
    LOCAL_CACHES_BY_CLUSTER_TEMPLATE,
    TEMPLATES_BY_SOURCE,
    mounted_claims,
    owning_artifacts,
    owning_job,
)
from aim_shared.api import (
    AIMArtifact,
    AIMClusterRuntimeConfig,
    AIMClusterServiceTemplate,
    AIMRuntimeConfig,
    AIMServiceTemplate,
    AIMTemplateCache,
    InferenceService,
    Job,
    Namespace,
    PersistentVolumeClaim,
    Pod,
    RoleBinding,
    labels,
)
from aim_shared.api.meta import find_condition
from aim_shared.bus.entry import Change
from aim_shared.bus.part import Key, scoped
from aim_shared.bus.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_JOBS,
    ARTIFACT_PODS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    CLUSTER_TEMPLATES,
    INFERENCE_SERVICES,
    NAMESPACES,
    RUNTIME_CONFIGS,
    STATUS_UPDATER_BINDINGS,
    TEMPLATES,
)
from aim_shared.bus.view import View
from aim_shared.reconcile.changes import differs
from aim_shared.reconcile.pod_changes import is_significant
from aim_shared.reconcile.reconciler import Wake, WakeBy
from aim_shared.runtimeconfig import changes as config_changes
from aim_shared.runtimeconfig.resolve import DEFAULT_NAME

# Artifacts


def _owners(change: Change[PersistentVolumeClaim] | Change[Job], _: View) -> Iterable[Key]:
    child = change.either
    return [] if child is None else owning_artifacts(child)


def _owner_of_claim(change: Change[PersistentVolumeClaim], view: View) -> Iterable[Key]:
    return _owners(change, view)


def _owner_of_job(change: Change[Job], view: View) -> Iterable[Key]:
    return _owners(change, view)


def _owner_of_pod(change: Change[Pod], view: View) -> Iterable[Key]:
    pod = change.either
    name = None if pod is None else owning_job(pod)
    if pod is None or name is None or not is_significant(change):
        return []
    job = view.get(ARTIFACT_JOBS, pod.namespace, name).value
    return [] if job is None else owning_artifacts(job)


def _all_of_namespace(change: Change[RoleBinding], view: View) -> Iterable[Key]:
    if change.old is not None and change.new is not None:
        return []
    return [artifact.key for artifact in view.select(ARTIFACTS_BY_NAMESPACE, change.key.namespace).items]


def _mounted(change: Change[InferenceService], view: View) -> Iterable[Key]:
    """Artifacts whose volume is mounted now and was not before, or by another generation (AR-426)."""
    before, after = change.before, change.after
    if after is None or (before is not None and before.metadata.generation == after.metadata.generation):
        return []
    claims = (view.get(ARTIFACT_CLAIMS, after.namespace, name).value for name in mounted_claims(after))
    return [key for claim in claims if claim is not None for key in owning_artifacts(claim)]


def _artifacts_of_config(change: Change[AIMRuntimeConfig], view: View) -> Iterable[Key]:
    found = view.select(ARTIFACTS_BY_CONFIG, change.key.name).items if config_changes.is_significant(change) else ()
    return [artifact.key for artifact in found if artifact.namespace == change.key.namespace]


def _artifacts_of_cluster_config(change: Change[AIMClusterRuntimeConfig], view: View) -> Iterable[Key]:
    found = view.select(ARTIFACTS_BY_CONFIG, change.key.name).items if config_changes.is_significant(change) else ()
    return [artifact.key for artifact in found]


# Artifacts that wait for storage (AR-472)


def _waiting_for_claim(change: Change[PersistentVolumeClaim], view: View) -> Iterable[Key]:
    return admissible_after(view, change.key.namespace) if change.new is None else []


def _waiting_for_config(change: Change[AIMClusterRuntimeConfig], view: View) -> Iterable[Key]:
    quotas = [None if one is None else one.spec.artifact_storage_quota for one in (change.before, change.after)]
    return admissible(view, None) if change.key.name == DEFAULT_NAME and quotas[0] != quotas[1] else []


def _waiting_for_namespace(change: Change[Namespace], view: View) -> Iterable[Key]:
    limits = [
        None if one is None else one.metadata.annotations.get(labels.ANNOTATION_STORAGE_QUOTA)
        for one in (change.before, change.after)
    ]
    return admissible(view, change.key.name) if limits[0] != limits[1] else []


# Caches


def _users_of_artifact(change: Change[AIMArtifact], view: View) -> Iterable[Key]:
    if not differs(change, _shown_to_caches):
        return []
    keys: dict[Key, None] = {}
    for artifact in (change.before, change.after):
        if artifact is not None:
            keys.update(dict.fromkeys(cache.key for cache in _caches_of(artifact, view)))
    return keys


def _caches_of(artifact: AIMArtifact, view: View) -> Iterable[AIMTemplateCache]:
    """Caches that list the artifact, that made it, or that want its source."""
    namespace, uri = artifact.namespace, artifact.spec.source_uri
    yield from view.select(CACHES_BY_ARTIFACT, artifact.uid).items
    label = artifact.metadata.labels.get(labels.TEMPLATE_CACHE_NAME)
    if label is not None:
        yield from view.select(CACHES_BY_LABEL, scoped(namespace, label)).items
    yield from view.select(CACHES_BY_SOURCE, scoped(namespace, uri)).items
    for local in view.select(TEMPLATES_BY_SOURCE, scoped(namespace, uri)).items:
        yield from view.select(CACHES_BY_TEMPLATE, scoped(namespace, local.name)).items
    for shared in view.select(CLUSTER_TEMPLATES_BY_SOURCE, uri).items:
        yield from view.select(LOCAL_CACHES_BY_CLUSTER_TEMPLATE, scoped(namespace, shared.name)).items


def _shown_to_caches(artifact: AIMArtifact) -> tuple[object, ...]:
    """Everything of an artifact but its progress."""
    metadata, status = artifact.metadata, artifact.status
    return (
        artifact.uid,
        metadata.generation,
        metadata.deletion_timestamp,
        metadata.labels,
        metadata.annotations.get(labels.ANNOTATION_PROMOTED_FROM),
        metadata.owner_references,
        status.has("status"),
        status.status,
        status.persistent_volume_claim,
        _ready_of(artifact),
    )


def _ready_of(obj: AIMArtifact | AIMServiceTemplate | AIMClusterServiceTemplate) -> tuple[str, str, str] | None:
    ready = find_condition(obj.status.conditions, "Ready")
    return None if ready is None else (ready.status, ready.reason, ready.message)


def _users_of_template(change: Change[AIMServiceTemplate], view: View) -> Iterable[Key]:
    found = view.select(CACHES_BY_TEMPLATE, scoped(change.key.namespace, change.key.name)).items
    return [cache.key for cache in found] if differs(change, _shown_by_template) else []


def _users_of_cluster_template(change: Change[AIMClusterServiceTemplate], view: View) -> Iterable[Key]:
    found = view.select(CACHES_BY_CLUSTER_TEMPLATE, change.key.name).items
    return [cache.key for cache in found] if differs(change, _shown_by_template) else []


def _shown_by_template(template: AIMServiceTemplate | AIMClusterServiceTemplate) -> tuple[object, ...]:
    """Status value, Ready condition and model sources (FW-116)."""
    return (template.uid, template.status.status, _ready_of(template), template.status.model_sources)


def _caches_of_config(change: Change[AIMRuntimeConfig], view: View) -> Iterable[Key]:
    found = view.select(CACHES_BY_CONFIG, change.key.name).items if config_changes.is_significant(change) else ()
    return [cache.key for cache in found if cache.namespace == change.key.namespace]


def _caches_of_cluster_config(change: Change[AIMClusterRuntimeConfig], view: View) -> Iterable[Key]:
    found = view.select(CACHES_BY_CONFIG, change.key.name).items if config_changes.is_significant(change) else ()
    return [cache.key for cache in found]


ARTIFACT_WAKES: Final[tuple[Wake, ...]] = (
    WakeBy(ARTIFACT_CLAIMS, _owner_of_claim),
    WakeBy(ARTIFACT_JOBS, _owner_of_job),
    WakeBy(ARTIFACT_PODS, _owner_of_pod),
    WakeBy(STATUS_UPDATER_BINDINGS, _all_of_namespace),
    WakeBy(RUNTIME_CONFIGS, _artifacts_of_config),
    WakeBy(CLUSTER_RUNTIME_CONFIGS, _artifacts_of_cluster_config),
    WakeBy(INFERENCE_SERVICES, _mounted),
    WakeBy(ARTIFACT_CLAIMS, _waiting_for_claim),
    WakeBy(CLUSTER_RUNTIME_CONFIGS, _waiting_for_config),
    WakeBy(NAMESPACES, _waiting_for_namespace),
)
CACHE_WAKES: Final[tuple[Wake, ...]] = (
    WakeBy(ARTIFACTS, _users_of_artifact),
    WakeBy(TEMPLATES, _users_of_template),
    WakeBy(CLUSTER_TEMPLATES, _users_of_cluster_template),
    WakeBy(RUNTIME_CONFIGS, _caches_of_config),
    WakeBy(CLUSTER_RUNTIME_CONFIGS, _caches_of_cluster_config),
)
