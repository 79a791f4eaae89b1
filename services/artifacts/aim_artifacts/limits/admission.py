"""Admission of an artifact to storage, and whom a change of storage concerns."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from aim_artifacts.conditions import QUOTA_AVAILABLE
from aim_artifacts.indexes import (
    ARTIFACT_PODS_BY_CLAIM,
    CACHES_BY_ARTIFACT,
    PREDICTOR_PODS_BY_CLAIM,
    PROFILE_CACHES_BY_ARTIFACT,
    SERVICES_BY_PROFILE,
    SERVICES_BY_TEMPLATE,
    USERS_BY_CLAIM,
    is_waiting,
)
from aim_artifacts.limits.evicting import NO_EVICTION, Eviction, evict, look_again
from aim_artifacts.limits.eviction import drop_claim, is_protected
from aim_artifacts.limits.quota import Blocked, admit, on_their_way
from aim_artifacts.limits.storage import Storage, Usage
from aim_domain import (
    DEFAULT_NAME,
    AIMArtifact,
    AIMClusterRuntimeConfig,
    AIMRuntimeConfig,
    RuntimeConfigSpec,
    is_job_finished,
    labels,
)
from aim_domain.component_names import ComponentName
from aim_domain.parts import (
    ARTIFACT_CLAIMS,
    ARTIFACT_JOBS,
    ARTIFACTS,
    CLUSTER_RUNTIME_CONFIGS,
    NAMESPACES,
    RUNTIME_CONFIGS,
)
from aim_domain.storage_limits import NO_STORAGE_LIMITS, StorageLimits
from controller_runtime import (
    Change,
    ClassifiedError,
    Component,
    Dependency,
    Index,
    Key,
    MappingBy,
    Observability,
    Resource,
    State,
    View,
    WatchMapping,
    is_paused,
)
from controller_runtime.core import Job, Namespace, PersistentVolumeClaim

_NAME = ComponentName.STORAGE_QUOTA


@dataclass(frozen=True, slots=True)
class Admission:
    """Whether the artifact may have its volume.

    Attributes:
        component: ``None`` while no limit is configured.
        blocked: why not; ``None`` when it may.
        eviction: what is done about it.
    """

    component: Component | None = None
    blocked: Blocked | None = None
    limits: StorageLimits = NO_STORAGE_LIMITS
    eviction: Eviction = NO_EVICTION


def judge(artifact: AIMArtifact, config: RuntimeConfigSpec, size: int, view: View, now: datetime) -> Admission:
    """Decide about a volume that does not exist yet; without any limit nothing else is looked at."""
    # Whose turn it is no single decision sees: what makes room says it to each in turn (AR-472, FW-502).
    storage = Storage(view.untracked, now)
    limits = storage.limits_of(artifact.namespace)
    if isinstance(limits, ClassifiedError):
        return Admission(_unknown(limits))
    if not limits.apply:
        return Admission(limits=limits)
    scope = storage.scope_of(artifact.namespace)
    holdings = storage.holdings(scope)
    if isinstance(holdings, ClassifiedError):
        return Admission(_unknown(holdings))
    request, usage = storage.request(artifact, config, size), Usage(view.untracked)
    blocked = admit(
        request,
        storage.requests(scope, holdings, before=request),
        [holding.volume for holding in holdings],
        storage.known_limits_of,
        storage.evictables(holdings, usage),
    )
    if blocked is None:
        return Admission(_grant(), limits=limits)
    if blocked.victims:
        eviction = evict(artifact, blocked.victims, view, now)
    else:
        eviction = look_again(view.untracked, usage.mounted_elsewhere)
    return Admission(_waiting(blocked, eviction), blocked, limits, eviction)


def in_effect(artifact: AIMArtifact, view: View) -> Admission:
    """What is said about an artifact that has its volume; what was kept for it is not kept any longer (AR-447)."""
    limits = Storage(view).known_limits_of(artifact.namespace)
    return Admission(
        _grant() if limits.apply else None, limits=limits, eviction=Eviction(annotations=drop_claim(artifact))
    )


def movable(view: View, namespace: str | None) -> Iterable[Key]:
    """Waiting artifacts that get their volumes now, or others go for them; the rest needs no pass (AR-472).

    Args:
        namespace: only those that a change in it may concern; ``None`` = all.
    """
    storage = Storage(view)
    if namespace is not None and not storage.known_limits_of(namespace).apply:
        return []
    scope = None if namespace is None else storage.scope_of(namespace)
    holdings = storage.holdings(scope) if storage.is_anybody_waiting(scope) else []
    if isinstance(holdings, ClassifiedError):
        return []
    requests = storage.requests(scope, holdings)
    evictables = storage.evictables(holdings, Usage(view))
    volumes = [holding.volume for holding in holdings]
    found = on_their_way(requests, volumes, storage.known_limits_of, evictables)
    return [Key(request.namespace, request.name) for request in found]


def _waiting(blocked: Blocked, eviction: Eviction) -> Component:
    message = f"{blocked.message}; {eviction.note}" if eviction.note else blocked.message
    dependency = Dependency.UPSTREAM
    return Component(
        _NAME, State.PENDING, blocked.reason, message, dependency=dependency, observe=Observability.WARNING
    )


def _grant() -> Component:
    # No word of what is left: a limit that is lowered later takes nothing from a volume that is there (AR-443).
    return Component(_NAME, State.READY, QUOTA_AVAILABLE, "The volume counts towards the storage limits")


def _unknown(error: ClassifiedError) -> Component:
    return Component(_NAME, errors=(error,), dependency=Dependency.UPSTREAM)


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


def _letting_go(index: Index[R]) -> MappingBy[R]:
    """Something does not use any longer what the index finds it by."""

    def after(change: Change[R], view: View) -> Iterable[Key]:
        if not any(name == index.name for _, name, _ in change.groups):
            return []
        before, now = (set[str]() if one is None else set(index.values(one)) for one in (change.before, change.after))
        return movable(view, change.key.namespace) if before - now else []

    return MappingBy(index.part, after)


ARTIFACT_MAPPINGS: Final[tuple[WatchMapping, ...]] = (
    MappingBy(ARTIFACT_CLAIMS, _after_claim),
    MappingBy(ARTIFACTS, _after_artifact),
    MappingBy(CLUSTER_RUNTIME_CONFIGS, _after_cluster_config),
    MappingBy(RUNTIME_CONFIGS, _after_config),
    MappingBy(NAMESPACES, _after_namespace),
    MappingBy(ARTIFACT_JOBS, _after_job),
    _letting_go(USERS_BY_CLAIM),
    _letting_go(PREDICTOR_PODS_BY_CLAIM),
    _letting_go(ARTIFACT_PODS_BY_CLAIM),
    _letting_go(CACHES_BY_ARTIFACT),
    _letting_go(PROFILE_CACHES_BY_ARTIFACT),
    _letting_go(SERVICES_BY_TEMPLATE),
    _letting_go(SERVICES_BY_PROFILE),
)
