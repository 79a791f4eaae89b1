"""Which Kubernetes Events are worth a request: de-duplication, combination and rates (FW-121, FW-125)."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from controller_runtime.api.enums import EventType
from controller_runtime.reconcile.condition_names import ParentCondition
from controller_runtime.reconcile.plan import Event, Subject

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
            # Its transition was told by this process's predecessor; a restart is no reason to say it again.
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
    """The Event for transitions of one pass: reason of ``Ready`` or else of the last, all of them in the message.

    Those with the same words need them once; it is news when one of them is. Of warnings the reason of a condition that
    sums up says least.
    """
    if len({(event.type, event.message) for event in sharing}) == 1 and sharing[0].type is EventType.WARNING:
        of_component = [event for event in sharing if event.condition not in _SUMMING] or sharing
        return replace(of_component[0], standing=all(event.standing for event in sharing))
    if len({(event.reason, event.message) for event in sharing}) == 1:
        return min(sharing, key=lambda event: event.standing)
    leading = next((event for event in sharing if event.condition == ParentCondition.READY), sharing[-1])
    changes = (f"{event.condition}={event.status} {event.reason}: {event.message}" for event in sharing)
    return replace(leading, message="; ".join(changes))
