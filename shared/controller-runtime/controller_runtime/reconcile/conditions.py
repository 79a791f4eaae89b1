"""Conditions: health of components, holds, and what is wanted against what is stored (FW-030, FW-100, FW-120)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from controller_runtime.api.enums import ConditionStatus, EventType, StatusValue
from controller_runtime.api.meta import Condition, Resource
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.log.cache.view import Lookup
from controller_runtime.reconcile.plan import Event


class ParentCondition(StrEnum):
    """Conditions that sum up the errors of all components (FW-070)."""

    DEPENDENCIES_REACHABLE = "DependenciesReachable"
    AUTH_VALID = "AuthValid"
    CONFIG_VALID = "ConfigValid"
    READY = "Ready"


RECONCILED: Final = "Reconciled"
"""Condition that is only there while an object is not reconciled: its passes fail (FW-477), or another manager keeps
overwriting what they apply (FW-814); the next good pass drops it (FW-038)."""


def condition_type(component: str) -> str:
    """Type of a component's condition (FW-035)."""
    return f"{component}Ready"


BRIEFLY: Final = timedelta(seconds=2)
"""How long a step goes unreported that the next one usually follows at once.

Kubernetes gives its times in whole seconds, so the real span is one to two.
"""
UNREPORTED: Final = ""
"""In place of a reason: nothing has been reported of the component so far."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a component is not reported, and what stands meanwhile.

    Attributes:
        span: it is reported after that long; ``None``: once what was asked for is known, which enqueues the object.
        since: when it became so; goes with ``span``.
        over: reasons of the stored condition that may stand meanwhile, with the state that each stands for; over any
            other the component is reported at once.
        whole: not this component alone, but the whole status stays as it is stored.

    Raises:
        ValueError: a span without its beginning would never end.
    """

    span: timedelta | None = None
    since: datetime | None = None
    over: Mapping[str, StatusValue] = field(default_factory=lambda: MappingProxyType({}))
    whole: bool = False

    def __post_init__(self) -> None:
        if (self.span is None) != (self.since is None):
            raise ValueError("span and since go together")

    def state(self, before: Condition | None) -> StatusValue | None:
        """The state that stands meanwhile; ``None`` = the stored condition may not stand."""
        return self.over.get(UNREPORTED if before is None else before.reason)

    def covers(self, before: Condition | None, now: datetime) -> bool:
        """Whether it is too early to tell, and what is stored may stand that long.

        A clock that is behind the API server's must not make the wait longer.
        """
        timely = self.span is None or self.since is None or timedelta() <= now - self.since < self.span
        return timely and (self.whole or self.state(before) is not None)

    def seconds_left(self, now: datetime) -> float | None:
        """Seconds until it ends by itself; ``None`` = no time ends it."""
        return None if self.span is None or self.since is None else (self.since + self.span - now).total_seconds()


def soonest(delays: Iterable[float | None]) -> float | None:
    """The shortest of some delays, of which ``None`` stands for "no need"."""
    return min((delay for delay in delays if delay is not None), default=None)


T = TypeVar("T", bound=Resource)

State: TypeAlias = StatusValue
"""State of a component; the same closed set as the status of objects (FW-020)."""

ERROR_STATES: Final = frozenset({State.FAILED, State.DEGRADED, State.NOT_AVAILABLE})
"""States that need a person's attention (FW-076 rule 6, FW-122)."""


class Dependency(StrEnum):
    """Which way the object and the component depend on each other (FW-031)."""

    UPSTREAM = "upstream"
    """The object needs it, but does not create it: a model, a template, a Secret."""
    DOWNSTREAM = "downstream"
    """Everything else, first of all what the object creates: a pod, a Job, a claim, a route."""


class Observability(Enum):
    """How loudly a condition is reported (FW-122)."""

    INFO = "info"
    """A Normal event on transition."""
    WARNING = "warning"
    """A Warning event on transition: a transient problem."""
    ERROR = "error"
    """A Warning event on transition, repeated while the condition stands (FW-125)."""
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Reference:
    """One specific object that a component is about (FW-030)."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Component:
    """Health of one aspect. What is ``None`` is derived from the errors (FW-032…FW-034).

    Attributes:
        name: a `ComponentName`; an empty one discards the component (FW-037).
        is_input: whether its errors block deletes and applies (FW-090); by default those of upstream components do.
        observe: overrides the class of observability that follows from the state.
        counted_only: its condition is not written here: another service writes it (FW-374), or it is not reported yet.
        hold: how long it is not reported (FW-510); see `hold_for`.
    """

    name: str
    state: State | None = None
    reason: str | None = None
    message: str | None = None
    errors: tuple[ClassifiedError, ...] = ()
    dependency: Dependency = Dependency.DOWNSTREAM
    is_input: bool | None = None
    reference: Reference | None = None
    observe: Observability | None = None
    counted_only: bool = False
    hold: Hold | None = None

    @property
    def condition_type(self) -> str:
        return condition_type(self.name)

    @property
    def effective_state(self) -> State:
        return self.state if self.state is not None else state_of(self.errors)

    @property
    def effective_reason(self) -> str:
        if self.reason:
            return self.reason
        return self.errors[0].reason if self.errors else "Ready"

    @property
    def effective_message(self) -> str:
        if self.message is not None:
            return self.message
        return self.errors[0].message if self.errors else ""

    @property
    def blocks(self) -> bool:
        """Whether errors of this component are errors of an input (FW-090)."""
        return self.dependency is Dependency.UPSTREAM if self.is_input is None else self.is_input

    def hold_for(
        self, span: timedelta, *, since: datetime, over: Mapping[str, State] = MappingProxyType({}), whole: bool = False
    ) -> "Component":
        """The component, reported only once it has lasted (FW-510).

        Args:
            over: reasons of its stored condition that may stand meanwhile, with the state that each stands for;
                `UNREPORTED` = there is no condition yet. Over any other it is reported at once.
            whole: the whole status stays as it is stored, not the condition of the component alone.
        """
        return replace(self, hold=Hold(span, since, over, whole))

    def hold_until_known(self, *, over: Mapping[str, State] = MappingProxyType({}), whole: bool = False) -> "Component":
        """The component, reported once an effect of the same plan has brought its fact, which enqueues the object."""
        return replace(self, hold=Hold(over=over, whole=whole))


_FAILING: Final = frozenset({Category.AUTH, Category.RESOURCE_EXHAUSTION, Category.INVALID_SPEC})
_DEGRADING: Final = frozenset({Category.MISSING_UPSTREAM, Category.INFRASTRUCTURE})


def state_of(errors: tuple[ClassifiedError, ...]) -> State:
    """State that follows from errors alone (FW-034, FW-047)."""
    categories = {error.category for error in errors}
    if not categories:
        return State.READY
    if categories & _FAILING:
        return State.FAILED
    return State.DEGRADED if categories & _DEGRADING else State.PROGRESSING


Inspect: TypeAlias = Callable[[T], Component]
"""Says how an object that was found is doing; name and dependency are filled in afterwards."""


def healthy(_: Resource) -> Component:
    """The inspector of things whose existence is all that matters."""
    return Component("", State.READY)


def upstream(name: str, lookup: Lookup[T], inspect: Inspect[T] = healthy, *, what: str) -> Component:
    """Component of something the object refers to; not found is a missing reference (FW-039).

    Args:
        what: kind and name for the message, such as ``Deployment shop/web``.
    """
    missing = ClassifiedError(
        Category.MISSING_UPSTREAM, "ReferenceNotFound", f"{what} was not found; create it or correct the reference"
    )
    return _convert(name, lookup, inspect, missing, Dependency.UPSTREAM)


def downstream(name: str, lookup: Lookup[T], inspect: Inspect[T] = healthy, *, what: str) -> Component:
    """Component of a child; not found means not there yet (FW-039). A failed read of it blocks (FW-090)."""
    missing = ClassifiedError(Category.MISSING_DOWNSTREAM, "ResourceNotReady", f"{what} does not exist yet")
    return _convert(name, lookup, inspect, missing, Dependency.DOWNSTREAM)


def plain(name: str, lookup: Lookup[T], inspect: Inspect[T] = healthy, *, what: str) -> Component:
    """Component of neither kind; not found is reported as it is (FW-039)."""
    missing = ClassifiedError(Category.MISSING_DOWNSTREAM, "NotFound", f"{what} was not found")
    return _convert(name, lookup, inspect, missing, Dependency.DOWNSTREAM)


def _convert(
    name: str, lookup: Lookup[T], inspect: Inspect[T], missing: ClassifiedError, dependency: Dependency
) -> Component:
    if lookup.value is not None:
        return replace(inspect(lookup.value), name=name, dependency=dependency)
    if lookup.error is not None:
        return Component(name, errors=(lookup.error,), dependency=dependency, is_input=True)
    return Component(name, errors=(missing,), dependency=dependency)


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

    Stored conditions that are not mentioned are left out, which removes them (FW-038).
    """
    final = {wanted.type: wanted for wanted in desired}
    before = {condition.type: condition for condition in stored}
    return tuple(_settle(wanted, before.get(wanted.type), generation, now) for wanted in final.values())


def _settle(wanted: Desired, before: Condition | None, generation: int, now: datetime) -> Condition:
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
    # An annotation or a status may hold a time of year 1 or 9999 whose zone leaves the calendar: its digits stay.
    with suppress(OverflowError):
        moment = moment.astimezone(UTC)
    # Unlike strftime, it writes four digits of every year.
    return f"{moment.replace(tzinfo=None).isoformat(timespec='seconds')}Z"
