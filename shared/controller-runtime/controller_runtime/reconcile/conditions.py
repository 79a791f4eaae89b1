"""Bookkeeping of conditions: what a pass wants them to be, against what is stored (FW-100…FW-107, FW-120…FW-125)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from controller_runtime.api.enums import ConditionStatus, EventType
from controller_runtime.api.meta import Condition
from controller_runtime.json import JsonObject
from controller_runtime.reconcile.components import Observability
from controller_runtime.reconcile.plan import Event

MAX_MESSAGE: Final = 32768
"""Longest message of a condition, in characters (FW-107)."""
_MAX_REASON: Final = 1024
_REASON: Final = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")


@dataclass(frozen=True, slots=True)
class Desired:
    """A condition as this pass wants it; times and generation are added by `settle`.

    Attributes:
        observe: how a transition, or a standing error, is reported (FW-122, FW-123).
        keep: leave a stored condition of this type as it is, time and words included (FW-066).
    """

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""
    observe: Observability = Observability.INFO
    keep: bool = False


def condition(
    type_: str, holds: bool, reason: str, message: str = "", observe: Observability = Observability.INFO
) -> Desired:
    """A domain condition, to be handed to the state engine as an extra one."""
    return Desired(type_, ConditionStatus.TRUE if holds else ConditionStatus.FALSE, reason, message, observe)


def settle(
    desired: Iterable[Desired], stored: Sequence[Condition], *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """The conditions to write, in the order of first mention; of several with one type the last wins (FW-103).

    Stored conditions that nobody mentions are left out, which removes them (FW-038).
    """
    final = {wanted.type: wanted for wanted in desired}
    before = {condition.type: condition for condition in stored}
    return tuple(_settled(wanted, before.get(wanted.type), generation, now) for wanted in final.values())


def _settled(wanted: Desired, before: Condition | None, generation: int, now: datetime) -> Condition:
    if wanted.keep and before is not None:
        return before.model_copy(update={"observed_generation": generation})
    reason, message = _valid(wanted.reason, wanted.message)
    changed = before is None or (before.status, before.reason) != (wanted.status, reason)
    since = None if before is None else before.last_transition_time
    return Condition(
        type=wanted.type,
        status=wanted.status,
        reason=reason,
        message=message,
        last_transition_time=now if changed or since is None else since,
        observed_generation=generation,
    )


def _valid(reason: str, message: str) -> tuple[str, str]:
    """Reason and message that the schema accepts (FW-107)."""
    if len(reason) > _MAX_REASON or not _REASON.fullmatch(reason):
        quoted = f"reason {reason[:_MAX_REASON]!r}"
        reason, message = "Unknown", f"{quoted}: {message}" if message else quoted
    return reason, message[:MAX_MESSAGE]


def is_transition(after: Condition, before: Condition | None) -> bool:
    """Whether the change deserves an event (FW-105)."""
    return before is None or (before.status, before.reason) != (after.status, after.reason)


def events_of(
    desired: Iterable[Desired], settled: Sequence[Condition], stored: Sequence[Condition]
) -> tuple[Event, ...]:
    """Kubernetes Events for transitions and for standing errors (FW-121…FW-124)."""
    classes = {wanted.type: wanted.observe for wanted in desired}
    before = {condition.type: condition for condition in stored}
    events = (_event(after, before.get(after.type), classes[after.type]) for after in settled)
    return tuple(event for event in events if event is not None)


def _event(after: Condition, before: Condition | None, observe: Observability) -> Event | None:
    transition = is_transition(after, before)
    standing = not transition and observe is Observability.ERROR
    if observe is Observability.SILENT or not (transition or standing):
        return None
    return Event(
        EventType.NORMAL if observe is Observability.INFO else EventType.WARNING,
        after.reason,
        after.message or _generated_message(after),
        standing=standing,
        condition=after.type,
        status=after.status.value,
    )


_VERDICTS: Final[Mapping[ConditionStatus, str]] = MappingProxyType(
    {ConditionStatus.TRUE: "ready", ConditionStatus.FALSE: "not ready"}
)


def _generated_message(after: Condition) -> str:
    subject = after.type.removesuffix("Ready") or "object"
    return f"{subject} is {_VERDICTS.get(after.status, 'unknown')}: {after.reason}"


def condition_json(condition: Condition) -> JsonObject:
    """The condition as it is stored, with the time in whole seconds as Kubernetes writes it."""
    since = condition.last_transition_time
    generation = condition.observed_generation
    return {
        "type": condition.type,
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        **({} if since is None else {"lastTransitionTime": timestamp(since)}),
        **({} if generation is None else {"observedGeneration": generation}),
    }


def timestamp(moment: datetime) -> str:
    """A time as Kubernetes writes it: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
