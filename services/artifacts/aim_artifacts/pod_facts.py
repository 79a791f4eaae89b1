"""What effects found out about pods: logs and events, and which of them are still to be read (FW-146, FW-155)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aim_artifacts.failures import is_told
from aim_shared.api import Event, Pod, PodPhase
from aim_shared.bus.fact import Fact, get_fact
from aim_shared.bus.parts import FACTS
from aim_shared.bus.view import View
from aim_shared.reconcile.inspect_pods import LogRequest, newest_pod, pods_wanting_events, wanted_logs
from aim_shared.reconcile.log_patterns import LOG_TAIL_LINES
from aim_shared.reconcile.plan import Effect

SERVICE: Final = "artifacts"
"""Name of this service, under which its facts are kept."""
POD_LOG: Final = "pod-log"
"""Effect: the last lines of a container's log, credentials masked."""
POD_EVENTS: Final = "pod-events"
"""Effect: the Events about a pod."""
REPEAT: Final = timedelta(seconds=10)
"""How often the events of a pending pod, and a log that could not be read, are read again (FW-155)."""


def log_key(request: LogRequest) -> str:
    """What names the fact about a log."""
    return f"{request.pod_uid}/{request.container}{'/previous' if request.previous else ''}"


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts as one pass sees them."""

    view: View

    def log_of(self, request: LogRequest) -> str | None:
        """The tail of a log, if it was read."""
        fact = self._fact(POD_LOG, log_key(request))
        return None if fact is None or fact.outcome is None else str(fact.outcome["tail"])

    def log_was_read(self, request: LogRequest) -> bool:
        """Whether reading the log was tried, with whatever result."""
        return self._fact(POD_LOG, log_key(request)) is not None

    def events_of(self, pod: Pod) -> Sequence[Event]:
        """The pod's events as last read."""
        fact = self._fact(POD_EVENTS, pod.uid)
        if fact is None or fact.outcome is None:
            return ()
        return [Event.model_validate(event) for event in fact.outcome["events"]]

    def is_reading_log(self, pods: Sequence[Pod]) -> bool:
        """Whether the log that decides about the newest pod is still to be read."""
        return any(not self.log_was_read(request) for request in logs_to_read(pods))

    def effects(self, pods: Sequence[Pod]) -> tuple[Effect, ...]:
        """What to read about a Job's pods now."""
        logs = (log_effect(request) for request in logs_to_read(pods) if not self.log_was_read(request))
        events = (self._events_effect(pod) for pod in pods_wanting_events(newest_pod(pods)))
        return (*logs, *events)

    def log_again(self, request: LogRequest) -> Effect:
        """Read a log whose last reading brought no result, not before some seconds have passed."""
        fact = self._fact(POD_LOG, log_key(request))
        return log_effect(request, None if fact is None else fact.observed_at + REPEAT)

    def _events_effect(self, pod: Pod) -> Effect:
        fact = self._fact(POD_EVENTS, pod.uid)
        params = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}
        return Effect(POD_EVENTS, pod.uid, params, None if fact is None else fact.observed_at + REPEAT)

    def _fact(self, effect: str, key: str) -> Fact | None:
        return get_fact(self.view, FACTS, SERVICE, effect, key).value


def logs_to_read(pods: Sequence[Pod]) -> tuple[LogRequest, ...]:
    """Logs of the newest pod that would sharpen its classification; none when it speaks for itself (AR-350)."""
    newest = newest_pod(pods)
    if any(pod.status.phase is PodPhase.FAILED and is_told(pod) for pod in newest):
        return ()
    return wanted_logs(newest)


def log_effect(request: LogRequest, not_before: datetime | None = None) -> Effect:
    """Read the tail of a container's log."""
    params = {
        "namespace": request.namespace,
        "pod": request.pod,
        "container": request.container,
        "previous": request.previous,
        "tailLines": LOG_TAIL_LINES,
    }
    return Effect(POD_LOG, log_key(request), params, not_before)
