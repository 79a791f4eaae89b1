"""Whom room for a volume concerns: a line that no single decision sees (AR-472).

What makes room, or makes somebody evictable, wakes those that can go on by it, and nobody where nothing is limited.
"""

from collections.abc import Iterable
from typing import Final, TypeVar

from aim_artifacts.indexes import (
    ARTIFACT_PODS_BY_CLAIM,
    CACHES_BY_ARTIFACT,
    PREDICTOR_PODS_BY_CLAIM,
    SERVICES_BY_TEMPLATE,
    USERS_BY_CLAIM,
    is_waiting,
)
from aim_artifacts.limits.admission import movable
from aim_artifacts.limits.retention import is_protected
from aim_domain import (
    DEFAULT_NAME,
    AIMArtifact,
    AIMClusterRuntimeConfig,
    AIMRuntimeConfig,
    is_job_finished,
    labels,
)
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_JOBS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    NAMESPACES,
    RUNTIME_CONFIGS,
)
from controller_runtime import Change, Index, Key, Resource, View, Wake, WakeBy, is_paused
from controller_runtime.core import Job, Namespace, PersistentVolumeClaim

R = TypeVar("R", bound=Resource)


def _after_claim(change: Change[PersistentVolumeClaim], view: View) -> Iterable[Key]:
    return movable(view, change.key.namespace) if change.new is None else []


def _after_artifact(change: Change[AIMArtifact], view: View) -> Iterable[Key]:
    """One that stood before others and has given up its place, or that may be evicted now."""
    given_up = _wants_volume(change.before) and not _wants_volume(change.after)
    left = change.after is None or change.after.deleting or is_paused(change.after)
    offered = change.after is not None and _retention(change.before) != _retention(change.after)
    return movable(view, change.key.namespace) if (given_up and left) or offered else []


def _wants_volume(artifact: AIMArtifact | None) -> bool:
    return artifact is not None and is_waiting(artifact) and not artifact.deleting and not is_paused(artifact)


def _retention(artifact: AIMArtifact | None) -> object:
    """What decides whether, and when, one with a volume is evicted."""
    if artifact is None or is_waiting(artifact):
        return None
    spec = artifact.spec
    own = (spec.retention_priority, spec.runtime_config_name, artifact.status.last_used)
    return (*own, is_protected(artifact), is_paused(artifact))


def _after_cluster_config(change: Change[AIMClusterRuntimeConfig], view: View) -> Iterable[Key]:
    before, after = (None if one is None else one.spec.artifact_storage_quota for one in (change.before, change.after))
    limited = change.key.name == DEFAULT_NAME and before != after
    return movable(view, None) if limited or _has_other_priority(change) else []


def _after_config(change: Change[AIMRuntimeConfig], view: View) -> Iterable[Key]:
    return movable(view, change.key.namespace) if _has_other_priority(change) else []


def _has_other_priority(change: Change[AIMClusterRuntimeConfig] | Change[AIMRuntimeConfig]) -> bool:
    before, after = (None if one is None else one.spec.artifact for one in (change.before, change.after))
    return before != after


def _after_namespace(change: Change[Namespace], view: View) -> Iterable[Key]:
    limits = [
        None if one is None else one.metadata.annotations.get(labels.ANNOTATION_STORAGE_QUOTA)
        for one in (change.before, change.after)
    ]
    return movable(view, change.key.name) if limits[0] != limits[1] else []


def _after_job(change: Change[Job], view: View) -> Iterable[Key]:
    return movable(view, change.key.namespace) if _works(change.before) and not _works(change.after) else []


def _works(job: Job | None) -> bool:
    return job is not None and not is_job_finished(job)


def _letting_go(index: Index[R]) -> WakeBy[R]:
    """Something does not use any longer what the index finds it by."""

    def after(change: Change[R], view: View) -> Iterable[Key]:
        if not any(name == index.name for _, name, _ in change.groups):
            return []
        before, now = (set[str]() if one is None else set(index.values(one)) for one in (change.before, change.after))
        return movable(view, change.key.namespace) if before - now else []

    return WakeBy(index.part, after)


ARTIFACT_WAKES: Final[tuple[Wake, ...]] = (
    WakeBy(ARTIFACT_CLAIMS, _after_claim),
    WakeBy(ARTIFACTS, _after_artifact),
    WakeBy(CLUSTER_RUNTIME_CONFIGS, _after_cluster_config),
    WakeBy(RUNTIME_CONFIGS, _after_config),
    WakeBy(NAMESPACES, _after_namespace),
    WakeBy(ARTIFACT_JOBS, _after_job),
    _letting_go(USERS_BY_CLAIM),
    _letting_go(PREDICTOR_PODS_BY_CLAIM),
    _letting_go(ARTIFACT_PODS_BY_CLAIM),
    _letting_go(CACHES_BY_ARTIFACT),
    _letting_go(SERVICES_BY_TEMPLATE),
)
