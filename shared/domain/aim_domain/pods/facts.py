"""What is asked about pods beyond what the watch shows, and how it is read: log tails and Events (AR-352, FW-146)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from aim_domain import trim
from aim_domain.masking import masked
from aim_domain.pods.inspect_pods import LogRequest, pods_wanting_events, quiet_since
from aim_domain.pods.log_patterns import LOG_TAIL_LINES
from controller_runtime import (
    BRIEFLY,
    ApiModel,
    ApiVerb,
    ClassifiedError,
    Clients,
    Effect,
    EffectError,
    EffectRunner,
    EffectType,
    Fact,
    Items,
    JsonObject,
    KubeClient,
    KubeError,
    Resource,
    Verb,
    View,
    access,
    classify,
)
from controller_runtime.core import Event, Pod
from controller_runtime.kinds import EVENT, POD

REPEAT: Final = timedelta(seconds=10)
"""How often the Events of a pending pod, and a log that could not be read, are read again (FW-098, FW-155)."""

RARELY: Final = timedelta(seconds=30)
"""The same for ReplicaSets, whose Events are those of a whole namespace."""

LASTING: Final = timedelta(seconds=5)
"""How long a Job may have no pod, or a claim no volume, before its Events are read: most have one by then."""


class LogParams(ApiModel):
    """Which container's log is read; of its run before the present one if it is the previous."""

    namespace: str
    pod: str
    container: str
    previous: bool = False


class LogTail(ApiModel):
    """The last lines of a log."""

    tail: str = ""


class EventsParams(ApiModel):
    """About which object Events are read, a pod unless a kind is given, or which a field selector chooses."""

    namespace: str
    pod: str
    uid: str = ""
    kind: str = "pod"
    selector: str = ""


class EventList(ApiModel):
    """Events as the platform keeps them."""

    events: Items[JsonObject] = ()


_LARGEST_TAIL: Final = 64 << 10
_MOST_EVENTS: Final = 100


async def read_pod_log(kube: KubeClient, params: LogParams) -> LogTail:
    """The end of a container's log, credentials masked.

    Raises:
        EffectError: the API server does not give it, for example because the pod is gone.
    """
    namespace, pod, container = params.namespace, params.pod, params.container
    try:
        text = await kube.pod_log(
            namespace, pod, container, tail_lines=LOG_TAIL_LINES, previous=params.previous, limit_bytes=_LARGEST_TAIL
        )
    except KubeError as error:
        raise _unreadable(f"log of container {container} of pod {namespace}/{pod}", error) from error
    return LogTail(tail=masked(text))


async def read_pod_events(kube: KubeClient, params: EventsParams) -> EventList:
    """The Events about one object, credentials masked.

    Raises:
        EffectError: the API server does not list them.
    """
    selector = params.selector or f"involvedObject.uid={params.uid}"
    try:
        page = await kube.list(EVENT, params.namespace, field_selector=selector, limit=_MOST_EVENTS)
    except KubeError as error:
        raise _unreadable(f"Events of {params.kind} {params.namespace}/{params.pod}", error) from error
    return EventList(events=tuple(_masked(trim.event(event)) for event in page.items))


def _masked(event: JsonObject) -> JsonObject:
    return {**event, "message": masked(str(event.get("message") or ""))}


def _unreadable(what: str, error: KubeError) -> EffectError:
    cause = classify(error, verb=Verb.GET)
    return EffectError(ClassifiedError(cause.category, cause.reason, f"{what}: {cause.message}"))


def _log_reader(clients: Clients) -> EffectRunner[LogParams, LogTail]:
    return partial(read_pod_log, clients.kube)


def _events_reader(clients: Clients) -> EffectRunner[EventsParams, EventList]:
    return partial(read_pod_events, clients.kube)


POD_LOG: Final = EffectType(
    "pod-log", LogParams, LogTail, _log_reader, 16, (access(POD, ApiVerb.GET, subresource="log"),)
)
"""The last lines of a container's log, credentials masked."""
POD_EVENTS: Final = EffectType(
    "pod-events", EventsParams, EventList, _events_reader, 16, (access(EVENT, ApiVerb.LIST),)
)
"""The Kubernetes Events about a pod."""
POD_EFFECTS: Final = (POD_LOG, POD_EVENTS)
"""Effects of every service that reads pods."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """The facts of one service about pods, as one pass sees them, and effects for what is missing or due again.

    Attributes:
        owner: UID of the object of the pass. Its facts are its own: a fact enqueues only the object that asked for it.
    """

    view: View
    service: str
    owner: str
    now: datetime

    def log_of(self, request: LogRequest) -> str | None:
        """The log tail; ``None`` when it is not known or cannot be read."""
        read = POD_LOG.result_of(self._log(request))
        return None if read is None else read.tail

    def events_of(self, pod: Pod) -> Sequence[Event]:
        """The Events of a pod as far as they are known."""
        return self._events(_events_key(self.owner, pod))

    def events_known(self, pods: Sequence[Pod]) -> bool:
        """Whether the Events of every pending pod have been read once."""
        return all(self._events_fact(_events_key(self.owner, pod)) is not None for pod in pods_wanting_events(pods))

    def unread_logs(self, requests: Iterable[LogRequest]) -> tuple[Effect, ...]:
        """Those of the logs that were not read yet."""
        return tuple(log_effect(self.owner, request) for request in requests if self._log(request) is None)

    def log_again(self, request: LogRequest) -> Effect:
        """Read a log whose last reading brought no result, not before some seconds have passed."""
        fact = self._log(request)
        return log_effect(self.owner, request, None if fact is None else fact.observed_at + REPEAT)

    def due_events(self, pods: Sequence[Pod]) -> tuple[Effect, ...]:
        """Events, again and again while a pod is pending."""
        return tuple(self._events_effect(pod) for pod in pods_wanting_events(pods))

    def events_about(self, obj: Resource) -> Sequence[Event]:
        """The Events of an object that makes pods or volumes, as far as they are known."""
        return self._events(_events_key(self.owner, obj))

    def due_events_about(self, obj: Resource) -> tuple[Effect, ...]:
        """Its Events, again and again once it has lasted: most have made their pod or volume by then."""
        if self.patience(obj.metadata.creation_timestamp) is not None:
            return ()
        params = EventsParams(namespace=obj.namespace, pod=obj.name, uid=obj.uid, kind=obj.kind)
        return (self._repeated(_events_key(self.owner, obj), params),)

    def patience(self, since: datetime | None) -> float | None:
        """Seconds for which nothing is asked about what began then; ``None`` = it has lasted.

        A clock that is far behind the API server's must not make the wait longer.
        """
        left = None if since is None else (since + LASTING - self.now).total_seconds()
        return left if left is not None and 0 < left <= 2 * LASTING.total_seconds() else None

    def replica_set_events(self, workload: Resource) -> Sequence[Event]:
        """What ReplicaSets of a workload's Deployment say of pods that they could not make, as far as it is known."""
        return self._events(_replica_sets_key(self.owner, workload))

    def due_replica_set_events(self, workload: Resource) -> tuple[Effect, ...]:
        """The same, again and again while the workload lacks pods."""
        params = EventsParams(
            namespace=workload.namespace,
            pod=workload.name,
            uid="",
            kind="ReplicaSet",
            selector="involvedObject.kind=ReplicaSet,reason=FailedCreate",
        )
        return (self._repeated(_replica_sets_key(self.owner, workload), params, RARELY),)

    def _events(self, key: str) -> Sequence[Event]:
        read = POD_EVENTS.result_of(self._events_fact(key))
        return () if read is None else [Event.model_validate(event) for event in read.events]

    def _repeated(self, key: str, params: EventsParams, every: timedelta = REPEAT) -> Effect:
        fact = self._events_fact(key)
        return POD_EVENTS.ask(key, params, None if fact is None else fact.observed_at + every)

    def _events_effect(self, pod: Pod) -> Effect:
        fact = self._events_fact(_events_key(self.owner, pod))
        due = self._first_reading(pod) if fact is None else fact.observed_at + REPEAT
        params = EventsParams(namespace=pod.namespace, pod=pod.name, uid=pod.uid)
        return POD_EVENTS.ask(_events_key(self.owner, pod), params, due)

    def _first_reading(self, pod: Pod) -> datetime | None:
        """When a pod that nothing is known against has lasted; most are not pending for longer, and cost no request.

        A clock that is behind the API server's must not make the wait longer.
        """
        since = quiet_since(pod)
        return None if since is None else min(since, self.now) + BRIEFLY

    def _log(self, request: LogRequest) -> Fact | None:
        return POD_LOG.look_up(self.view, self.service, _log_key(self.owner, request)).value

    def _events_fact(self, key: str) -> Fact | None:
        return POD_EVENTS.look_up(self.view, self.service, key).value


def log_effect(owner: str, request: LogRequest, not_before: datetime | None = None) -> Effect:
    """Read the tail of a container's log."""
    params = LogParams(
        namespace=request.namespace, pod=request.pod, container=request.container, previous=request.previous
    )
    return POD_LOG.ask(_log_key(owner, request), params, not_before)


def _events_key(owner: str, about: Resource) -> str:
    return f"{owner}/{about.uid}"


def _replica_sets_key(owner: str, workload: Resource) -> str:
    return f"{owner}/{workload.uid}/replicasets"


def _log_key(owner: str, request: LogRequest) -> str:
    return f"{owner}/{request.pod_uid}/{request.container}{'/previous' if request.previous else ''}"
