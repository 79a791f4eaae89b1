"""What is asked about discovery pods beyond what the watch shows (FW-146, FW-155)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from aim_discovery.effect_kinds import SERVICE_NAME, EffectKind
from aim_shared.api import Event, Pod
from aim_shared.bus.fact import Fact, get_fact
from aim_shared.bus.parts import FACTS
from aim_shared.bus.view import View
from aim_shared.json import JsonObject
from aim_shared.reconcile.inspect_pods import LogRequest, newest_pod, pods_wanting_events, wanted_logs
from aim_shared.reconcile.plan import Effect

EVENTS_INTERVAL: Final = timedelta(seconds=10)
"""How often the Events of a pod are read while it is pending."""
PATIENCE: Final = timedelta(seconds=2)
"""How long a pod may be pending before its Events are read: most are not pending for longer."""


class PodFacts:
    """Answers that are known about the newest pod of a Job, and effects for those that are missing or due."""

    def __init__(self, view: View, pods: Sequence[Pod]) -> None:
        self._pods = newest_pod(pods)
        self._logs = {
            request: _fact(view, EffectKind.POD_LOG, _log_key(request)) for request in wanted_logs(pods, of_job=True)
        }
        self._events = {pod.uid: _fact(view, EffectKind.POD_EVENTS, pod.uid) for pod in self._pending}

    @property
    def _pending(self) -> tuple[Pod, ...]:
        return pods_wanting_events(self._pods)

    def log_of(self, request: LogRequest) -> str | None:
        """The log tail; empty when it can not be read, ``None`` while it is not known."""
        fact = self._logs.get(request)
        return None if fact is None else str((fact.outcome or {}).get("tail") or "")

    def events_of(self, pod: Pod) -> Sequence[Event]:
        """The Events of a pending pod, as far as they are known."""
        fact = self._events.get(pod.uid)
        found = (fact.outcome or {}).get("events") if fact is not None else None
        return tuple(Event.model_validate(one) for one in found or ())

    def log_effects(self) -> tuple[Effect, ...]:
        """Logs that were never read."""
        return tuple(_log_effect(request) for request, fact in self._logs.items() if fact is None)

    def event_effects(self) -> tuple[Effect, ...]:
        """Events, again and again while the pod is pending."""
        return tuple(_events_effect(pod, self._events[pod.uid]) for pod in self._pending)


def _fact(view: View, kind: EffectKind, key: str) -> Fact | None:
    return get_fact(view, FACTS, SERVICE_NAME, kind, key).value


def _log_key(request: LogRequest) -> str:
    return f"{request.pod_uid}/{request.container}/{'previous' if request.previous else 'current'}"


def _log_effect(request: LogRequest) -> Effect:
    params: JsonObject = {
        "namespace": request.namespace,
        "pod": request.pod,
        "container": request.container,
        "previous": request.previous,
    }
    return Effect(EffectKind.POD_LOG, _log_key(request), params)


def _events_effect(pod: Pod, fact: Fact | None) -> Effect:
    due: datetime | None
    if fact is not None:
        due = fact.observed_at + EVENTS_INTERVAL
    else:
        created = pod.metadata.creation_timestamp
        due = None if created is None else created + PATIENCE
    params: JsonObject = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}
    return Effect(EffectKind.POD_EVENTS, pod.uid, params, not_before=due)
