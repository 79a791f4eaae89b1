"""What is asked about pods beyond what the watch shows, and what the answers look like (FW-146, FW-155)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from aim_shared.api import AIMService, ApiModel, ConditionStatus, Event, Items, Pod, find_condition, to_json
from aim_shared.bus.fact import Fact, get_fact
from aim_shared.bus.parts import FACTS
from aim_shared.bus.view import View
from aim_shared.reconcile.inspect_pods import LogRequest, pods_wanting_events, wanted_logs
from aim_shared.reconcile.plan import Effect

SERVICE: Final = "serving"
POD_LOG: Final = "pod-log"
POD_EVENTS: Final = "pod-events"
EVENTS_INTERVAL: Final = timedelta(seconds=10)
"""How often the Events of a pod are read again while it is pending (FW-098)."""
PATIENCE: Final = timedelta(seconds=2)
"""How long a pod that nothing is known against may be pending before its Events are read.

Most pods are not pending for longer, and cost neither the request nor a status that is replaced at once.
"""


class PodLogParams(ApiModel):
    """Which log to read."""

    namespace: str = ""
    pod: str = ""
    container: str = ""
    previous: bool = False


class LogOutcome(ApiModel):
    """The end of a log."""

    tail: str = ""


class PodEventsParams(ApiModel):
    """Whose Events to read."""

    namespace: str = ""
    pod: str = ""
    uid: str = ""


class EventsOutcome(ApiModel):
    """The Events of a pod."""

    events: Items[Event] = ()


class PodFacts:
    """Answers that are known, and effects for those that are missing or due again."""

    def __init__(self, view: View, service: AIMService, pods: Sequence[Pod]) -> None:
        self._service = service
        self._pods = pods
        self._logs: Mapping[LogRequest, Fact | None] = {
            request: get_fact(view, FACTS, SERVICE, POD_LOG, self._log_key(request)).value
            for request in wanted_logs(pods)
        }
        self._events: Mapping[str, Fact | None] = {
            pod.uid: get_fact(view, FACTS, SERVICE, POD_EVENTS, self._events_key(pod)).value
            for pod in pods_wanting_events(pods)
        }

    def log_of(self, request: LogRequest) -> str | None:
        """The log tail; ``None`` when it is not known or can not be read."""
        fact = self._logs.get(request)
        outcome = fact.read(LogOutcome) if fact else None
        return outcome.tail if outcome else None

    def events_of(self, pod: Pod) -> Sequence[Event]:
        """The Events of a pending pod as far as they are known."""
        fact = self._events.get(pod.uid)
        outcome = fact.read(EventsOutcome) if fact else None
        return outcome.events if outcome else ()

    @property
    def events_known(self) -> bool:
        """Whether the Events of every pending pod have been read once."""
        return all(fact is not None for fact in self._events.values())

    @property
    def logs_known(self) -> bool:
        """Whether every log that tells why a container failed has been read, or could not be."""
        return all(fact is not None for fact in self._logs.values())

    def effects(self) -> tuple[Effect, ...]:
        """What to read, and when: a log once, Events again and again while the pod is pending."""
        logs = [self._log_effect(request) for request, fact in self._logs.items() if fact is None]
        events = [self._events_effect(pod) for pod in self._pods if pod.uid in self._events]
        return (*logs, *events)

    def _log_effect(self, request: LogRequest) -> Effect:
        params = PodLogParams(
            namespace=request.namespace, pod=request.pod, container=request.container, previous=request.previous
        )
        return Effect(POD_LOG, self._log_key(request), to_json(params))

    def _events_effect(self, pod: Pod) -> Effect:
        fact = self._events[pod.uid]
        due = fact.observed_at + EVENTS_INTERVAL if fact else _first_reading(pod)
        params = PodEventsParams(namespace=pod.namespace, pod=pod.name, uid=pod.uid)
        return Effect(POD_EVENTS, self._events_key(pod), to_json(params), not_before=due)

    def _log_key(self, request: LogRequest) -> str:
        return f"{self._service.uid}/{request.pod_uid}/{request.container}/{request.previous}"

    def _events_key(self, pod: Pod) -> str:
        return f"{self._service.uid}/{pod.uid}"


def is_unschedulable(pod: Pod) -> bool:
    """Whether the pod itself says that no node takes it."""
    scheduled = find_condition(pod.status.conditions, "PodScheduled")
    return scheduled is not None and scheduled.status is ConditionStatus.FALSE


def _first_reading(pod: Pod) -> datetime | None:
    """At once when the scheduler has given up already; its Event tells why."""
    created = pod.metadata.creation_timestamp
    return None if is_unschedulable(pod) or created is None else created + PATIENCE
