"""Kubernetes Events about reconciled objects: which are worth a request, and their writing (FW-120, FW-413)."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

import structlog

from controller_runtime.api.enums import EventType
from controller_runtime.json import JsonObject
from controller_runtime.kinds import EVENT
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ApiError, KubeError
from controller_runtime.kube.guard import NotLeaderError
from controller_runtime.reconcile.child import Target
from controller_runtime.reconcile.conditions import ParentCondition, timestamp
from controller_runtime.reconcile.plan import Event, Subject, kind_of

STANDING_SECONDS: Final = 300.0
"""A standing error is repeated at most this often per object and condition."""
BURST: Final = 25
"""Events per object before the refill rate counts."""
REFILL_SECONDS: Final = 300.0
"""Time in which an object earns one more event."""
SIMILAR_LIMIT: Final = 10
"""Different messages of one object, type and reason before they are combined."""
SIMILAR_SECONDS: Final = 600.0
"""Window in which similar events are counted."""
MAX_MESSAGE: Final = 1024
"""Longest message of an Event, in characters (FW-413)."""
_COMBINED: Final = "(combined from similar events): "
_REMEMBERED_OBJECTS: Final = 4096
_SUMMING: Final = frozenset[str](ParentCondition)


@dataclass(frozen=True, slots=True)
class Posting:
    """An event that may go out.

    Attributes:
        identity: type, reason and message under which repetitions are counted; combined ones share an empty message.
        message: cut to the allowed length.
    """

    identity: tuple[str, str, str]
    message: str


@dataclass(slots=True)
class _ObjectMemory:
    tokens: float
    refilled: float
    spoken: dict[str, float] = field(default_factory=dict)
    similar: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)


class EventRates:
    """Remembers, for a bounded number of objects, what was said lately."""

    def __init__(self) -> None:
        self._objects: OrderedDict[str, _ObjectMemory] = OrderedDict()

    def admit(self, uid: str, event: Event, now: float) -> Posting | None:
        """What to post for an event of that object; ``None`` when it has to stay silent.

        Args:
            now: any steadily rising clock, in seconds.
        """
        memory = self._memory(uid, now)
        subject = event.condition or event.reason
        spoken = memory.spoken.get(subject)
        if event.standing and spoken is None and event.condition:
            # Its transition was reported by this process's predecessor; a restart is no reason to say it again.
            spoken = memory.spoken[subject] = now
        if event.standing and spoken is not None and now - spoken < STANDING_SECONDS:
            return None
        if not _take_token(memory, now):
            return None
        memory.spoken[subject] = now
        return _combine(memory, event, now)

    def forget(self, uid: str) -> None:
        """Drop what is remembered about an object that is gone."""
        self._objects.pop(uid, None)

    def _memory(self, uid: str, now: float) -> _ObjectMemory:
        memory = self._objects.setdefault(uid, _ObjectMemory(BURST, now))
        self._objects.move_to_end(uid)
        if len(self._objects) > _REMEMBERED_OBJECTS:
            self._objects.popitem(last=False)
        return memory


def _take_token(memory: _ObjectMemory, now: float) -> bool:
    memory.tokens = min(BURST, memory.tokens + (now - memory.refilled) / REFILL_SECONDS)
    memory.refilled = now
    if memory.tokens < 1:
        return False
    memory.tokens -= 1
    return True


def _combine(memory: _ObjectMemory, event: Event, now: float) -> Posting:
    """Beyond ten different messages the rest share one Event."""
    messages = memory.similar.setdefault((event.type, event.reason), {})
    for old in [message for message, at in messages.items() if now - at >= SIMILAR_SECONDS]:
        del messages[old]
    known = event.message in messages
    if known or len(messages) < SIMILAR_LIMIT:
        messages[event.message] = now
        return Posting((event.type, event.reason, event.message), event.message[:MAX_MESSAGE])
    return Posting((event.type, event.reason, ""), (_COMBINED + event.message)[:MAX_MESSAGE])


def bundles(events: Iterable[Event]) -> list[tuple[Event, ...]]:
    """What goes out as one Event: the Normal transitions of a pass, and warnings with the same words (FW-121)."""
    transitions: list[Event] = []
    others: dict[tuple[EventType, str, str, Subject | None], list[Event]] = {}
    for event in events:
        if event.type is EventType.NORMAL and event.condition:
            transitions.append(event)
        else:
            # Conditions that sum up give the same words another reason.
            reason = "" if event.type is EventType.WARNING else event.reason
            others.setdefault((event.type, reason, event.message, event.about), []).append(event)
    return [tuple(sharing) for sharing in (transitions, *others.values()) if sharing]


def combined(sharing: Sequence[Event]) -> Event:
    """The Event for transitions of one pass: reason and message of ``Ready`` or else of the last, the others by name.

    Those with the same words need them once; it is news when one of them is. Of warnings the reason of a condition that
    sums up says least.
    """
    if len({(event.type, event.message) for event in sharing}) == 1 and sharing[0].type is EventType.WARNING:
        of_component = [event for event in sharing if event.condition not in _SUMMING] or sharing
        return replace(of_component[0], standing=all(event.standing for event in sharing))
    if len({(event.reason, event.message) for event in sharing}) == 1:
        return min(sharing, key=lambda event: event.standing)
    leading = next((event for event in sharing if event.condition == ParentCondition.READY), sharing[-1])
    others = ", ".join(f"{event.condition}={event.status}" for event in sharing if event is not leading)
    # What comes last is cut first: a long message of Ready outweighs the names.
    return replace(leading, message=f"{leading.message} ({others})")


CLUSTER_EVENTS_NAMESPACE: Final = "default"
"""Where events about cluster-scoped objects live (FW-413)."""
_REMEMBERED_EVENTS: Final = 4096
_NAME_DIGITS: Final = 16

_log = structlog.get_logger(__name__)


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class _Posted:
    """An Event that exists, and how often it has happened."""

    name: str
    resource_version: str
    count: int


class EventWriter:
    """Posts events, counting repetitions on the existing Event. Never raises for a failed request (FW-126)."""

    def __init__(
        self,
        kube: KubeClient,
        field_manager: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self._kube = kube
        self._manager = field_manager
        self._clock = clock
        self._now = now
        self._rates = EventRates()
        self._posted: OrderedDict[tuple[str, tuple[str, str, str]], _Posted] = OrderedDict()
        self._failures = 0

    @property
    def failures(self) -> int:
        """Events that could not be written since start."""
        return self._failures

    async def emit(self, target: Target, source: str, events: Iterable[Event]) -> None:
        """Post what the rates allow, under that source component; what shares an Event is logged one by one.

        Raises:
            NotLeaderError: this process may not write any more (FW-407); then nothing counts as posted.
        """
        self._kube.check_guard()
        for sharing in bundles(events):
            event = combined(sharing)
            posting = self._rates.admit(_uid(target, event), event, self._clock())
            if posting is not None:
                for one in sharing:
                    _report(one)
                await self._post_safely(target, source, event, posting)

    async def post(self, target: Target, source: str, event: Event) -> bool:
        """Post an Event that belongs to no pass, and that the caller has logged; whether it was written, or not due."""
        posting = self._rates.admit(_uid(target, event), event, self._clock())
        failures = self._failures
        if posting is not None:
            await self._post_safely(target, source, event, posting)
        return self._failures == failures

    def forget(self, uid: str) -> None:
        """Drop what is remembered about an object that is gone."""
        self._rates.forget(uid)
        for key in [key for key in self._posted if key[0] == uid]:
            del self._posted[key]

    async def _post_safely(self, target: Target, source: str, event: Event, posting: Posting) -> None:
        try:
            await self._post(target, source, event, posting)
        except NotLeaderError:
            raise
        except KubeError as error:
            self._failures += 1
            _log.info(
                "event not written",
                namespace=target.namespace,
                name=target.name,
                reason=event.reason,
                error=str(error),
            )

    async def _post(self, target: Target, source: str, event: Event, posting: Posting) -> None:
        key = (_uid(target, event), posting.identity)
        known = self._posted.get(key)
        involved = _involved(target, event)
        namespace = involved.get("namespace") or CLUSTER_EVENTS_NAMESPACE
        answer = None if known is None else await self._repeat(known, namespace, posting.message)
        count = 1 if known is None or answer is None else known.count + 1
        if answer is None:
            answer = await self._kube.create(
                EVENT, self._body(involved, source, event, posting, namespace), self._manager
            )
        metadata = answer["metadata"]
        self._posted[key] = _Posted(metadata["name"], metadata["resourceVersion"], count)
        self._posted.move_to_end(key)
        if len(self._posted) > _REMEMBERED_EVENTS:
            self._posted.popitem(last=False)

    async def _repeat(self, known: _Posted, namespace: str, message: str) -> JsonObject | None:
        """Count one more on an existing Event; ``None`` when it has expired or another client changed it."""
        patch = {"count": known.count + 1, "lastTimestamp": timestamp(self._now()), "message": message}
        try:
            return await self._kube.merge_patch(
                EVENT,
                known.name,
                namespace,
                patch,
                resource_version=known.resource_version,
                field_manager=self._manager,
            )
        except ApiError as error:
            if error.is_not_found or error.is_conflict:
                return None
            raise

    def _body(self, involved: JsonObject, source: str, event: Event, posting: Posting, namespace: str) -> JsonObject:
        moment = timestamp(self._now())
        body = {
            "metadata": {"name": f"{involved['name'][:200]}.{uuid4().hex[:_NAME_DIGITS]}", "namespace": namespace},
            "involvedObject": involved,
            "type": event.type.value,
            "reason": event.reason,
            "message": posting.message,
            "source": {"component": source},
            "reportingComponent": source,
            "reportingInstance": "",
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        return kind_of(body, EVENT)


def _uid(target: Target, event: Event) -> str:
    return target.uid if event.about is None else event.about.uid


def _involved(target: Target, event: Event) -> JsonObject:
    """The reference to what the Event is about; of another object than the target no version is known."""
    subject = event.about or target
    version = str(target.raw["metadata"].get("resourceVersion") or "") if event.about is None else ""
    kind = subject.part.kind
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": subject.name,
        "uid": subject.uid,
        **({"resourceVersion": version} if version else {}),
        **({"namespace": subject.namespace} if subject.namespace else {}),
    }


def _report(event: Event) -> None:
    """The log line of a condition (FW-122, FW-128); controller, namespace and name are bound by the worker."""
    level = _log.info if event.type is EventType.NORMAL else _log.error
    about = {} if event.about is None else {"about": f"{event.about.namespace}/{event.about.name}"}
    level(event.message, condition=event.condition, status=event.status, reason=event.reason, **about)
