"""The storage limits in an artifact's pass, as a component; and who is worth a pass (AR-470…AR-472, AR-485)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from aim_artifacts.conditions import QUOTA_AVAILABLE
from aim_artifacts.limits.evicting import NO_EVICTION, Eviction, evict, look_again
from aim_artifacts.limits.quota import NO_LIMITS, Blocked, Limits, admit, on_their_way
from aim_artifacts.limits.retention import drop_claim
from aim_artifacts.limits.storage import Storage
from aim_artifacts.limits.usage import Usage
from aim_domain import AIMArtifact, RuntimeConfigSpec
from aim_domain.component_names import ComponentName
from controller_runtime import ClassifiedError, Component, Dependency, Key, Observability, State, View

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
    limits: Limits = NO_LIMITS
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
        return Admission(_granted(), limits=limits)
    if blocked.victims:
        eviction = evict(artifact, blocked.victims, view, now)
    else:
        eviction = look_again(view.untracked, usage.mounted_elsewhere)
    return Admission(_waiting(blocked, eviction), blocked, limits, eviction)


def in_effect(artifact: AIMArtifact, view: View) -> Admission:
    """What is said about an artifact that has its volume; what was kept for it is not kept any longer (AR-447)."""
    limits = Storage(view).known_limits_of(artifact.namespace)
    return Admission(
        _granted() if limits.apply else None, limits=limits, eviction=Eviction(annotations=drop_claim(artifact))
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


def _granted() -> Component:
    return Component(_NAME, State.READY, QUOTA_AVAILABLE, "The volume is within the storage limits")


def _unknown(error: ClassifiedError) -> Component:
    return Component(_NAME, errors=(error,), dependency=Dependency.UPSTREAM)
