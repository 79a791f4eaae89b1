"""Steps of a starting pod that the next one usually follows at once, and how long they wait to be told.

A pod that is running is often ready a moment later, and KServe calls its InferenceService ready right after that.
Each of these steps would cost a status write that is replaced before anybody reads it. They are told only once they
have lasted; what is wrong is always told at once.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from aim_shared.api import ConditionStatus, Pod, find_condition
from aim_shared.api.meta import Condition
from aim_shared.reconcile.components import Component, Dependency, State

SETTLES: Final = timedelta(seconds=2)
"""How long a step has to last; Kubernetes gives its times in whole seconds, so the real span is one to two."""

_STEPS: Final = {
    "NoPods": State.PROGRESSING,
    "PodsPending": State.PENDING,
    "PodsStarting": State.STARTING,
}
"""What was reported before such a step, and with which state."""


def seconds_to_wait(component: Component, pods: Sequence[Pod], *, workload_ready: bool, now: datetime) -> float | None:
    """Seconds until the component of the pods is worth a write; ``None`` when it is now."""
    since = _since(component.effective_reason, pods, workload_ready=workload_ready)
    if since is None or not timedelta() <= now - since < SETTLES:
        return None
    return (SETTLES - (now - since)).total_seconds()


def _since(reason: str, pods: Sequence[Pod], *, workload_ready: bool) -> datetime | None:
    if reason == "PodsStarting":
        return _latest(_starts(pods))
    if reason == "PodsReady" and not workload_ready:
        return _latest(_readiness(pods))
    return None


def _starts(pods: Iterable[Pod]) -> list[datetime | None]:
    statuses = (status for pod in pods for status in pod.status.container_statuses)
    return [status.state.running.started_at for status in statuses if status.state.running is not None]


def _readiness(pods: Iterable[Pod]) -> list[datetime | None]:
    found = (find_condition(pod.status.conditions, "Ready") for pod in pods)
    return [one.last_transition_time for one in found if one is not None and one.status is ConditionStatus.TRUE]


def _latest(moments: Iterable[datetime | None]) -> datetime | None:
    return max((moment for moment in moments if moment is not None), default=None)


def as_before(component: Component, before: Condition | None) -> Component:
    """What was reported before, if that was an earlier step of the same start."""
    if before is None or before.reason not in _STEPS:
        return component
    state = _STEPS[before.reason]
    return Component(component.name, state, before.reason, before.message, dependency=Dependency.DOWNSTREAM)
