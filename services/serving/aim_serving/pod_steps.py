"""Which steps of starting pods are not told at once (SV-198, SV-201).

A pod that is running is often ready a moment later, and KServe calls its InferenceService ready right after that. And
what pods wait for, or why they fail, stands in Events and logs that have to be read first. Until then the last step
that was told stands.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from controller_runtime import BRIEFLY, ERROR_STATES, Component, ConditionStatus, State, find_condition
from controller_runtime.core import Pod

_EARLIER: Final[Mapping[str, State]] = MappingProxyType(
    {
        "NoPods": State.PROGRESSING,
        "PodsPending": State.PENDING,
        "PodsStarting": State.STARTING,
    }
)
"""Steps of the same start that may stand for another moment."""


@dataclass(frozen=True, slots=True)
class Explained:
    """Whether everything has been read that may give the state of the pods another reason."""

    events: bool
    logs: bool

    def explain(self, state: State) -> bool:
        """Whether this state is known with its reason."""
        return self.events if state is State.PENDING else self.logs or state not in ERROR_STATES


def held_back(component: Component, pods: Sequence[Pod], explained: Explained, *, workload_ready: bool) -> Component:
    """The component of the pods, held if it is a step that will be overtaken or has still to be explained."""
    if not explained.explain(component.effective_state):
        return component.hold_until_known(over=_EARLIER)
    since = _since(component.effective_reason, pods, workload_ready=workload_ready)
    return component if since is None else component.hold_for(BRIEFLY, since=since, over=_EARLIER)


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
