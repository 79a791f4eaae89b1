"""From components to conditions and one status: the shared state engine (FW-060…FW-097, FW-120…FW-125).

Pure: what a reconciler found out goes in with what is stored, and out comes everything the status needs, whether
children may be written, and when to look again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller_runtime.api.enums import ConditionStatus, EventType, StatusValue, worst_status
from controller_runtime.api.meta import Condition, find_condition
from controller_runtime.errors import BLOCKING_CATEGORIES, RETRIED_CATEGORIES, Category, ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.reconcile.conditions import (
    BRIEFLY,
    ERROR_STATES,
    Component,
    Dependency,
    Desired,
    Hold,
    Observability,
    ParentCondition,
    State,
    condition_json,
    events_of,
    settle,
    soonest,
)
from controller_runtime.reconcile.plan import Child, Delete, Effect, Event, Patch, Plan

GRACE_PERIOD: Final = timedelta(seconds=10)
"""How long infrastructure errors are kept from changing what was known before (FW-060)."""

_KEPT_STATES: Final = ERROR_STATES | {State.PENDING}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the state engine decided.

    Attributes:
        conditions: all conditions this service writes.
        status: overall status value (FW-076); kinds with other words map it (FW-023).
        may_apply: whether children may be written or deleted in this pass (FW-090).
        retry: the pass is to be retried with backoff because of this (FW-094).
        retry_within: seconds until the grace period ends, when it runs (FW-068).
        requeue_after: seconds until the first of the holds ends (FW-511).
        is_held: nothing is reported by this pass: the whole status stays as it is stored (FW-512).
        events: for transitions and standing errors.
        generation: the generation the pass worked on (FW-104).
    """

    conditions: tuple[Condition, ...]
    status: StatusValue
    may_apply: bool
    retry: ClassifiedError | None
    retry_within: float | None
    requeue_after: float | None
    is_held: bool
    events: tuple[Event, ...]
    generation: int


def evaluate(
    order: Sequence[str],
    components: Iterable[Component],
    *,
    generation: int,
    stored: Sequence[Condition],
    stored_status: StatusValue | None,
    now: datetime,
    errors: Sequence[ClassifiedError] = (),
    extra: Sequence[Desired] = (),
    failure: ClassifiedError | None = None,
    progressing: tuple[str, str] | None = None,
    created: datetime | None = None,
    sums_up: bool = True,
) -> Evaluation:
    """Conditions, status and decisions of one pass.

    Args:
        order: names of the components of this kind; only these are aggregated, in this order (FW-076, FW-080).
        components: everything reported; those without a name are discarded (FW-037).
        generation: ``metadata.generation`` of the object.
        stored: conditions in the stored status.
        stored_status: value in the stored status.
        now: the clock of the pass.
        errors: errors of the object's own spec or other inputs that have no component; they block (FW-090).
        extra: domain conditions, which take no part in the aggregation.
        failure: the failed write of this object's previous plan, ``view.failure``; nothing may be applied then.
        progressing: reason and message of ``Ready`` instead of ``Progressing`` (AR-485).
        created: when the object came, if its first status may wait until there is something lasting to tell (FW-518).
        sums_up: false where another service makes `Ready`, parent conditions and status value (FW-371): the conditions
            are those of the components alone.
    """
    named = sorted((part for part in components if part.name), key=lambda part: _rank(order, part.name))
    held = [part for part in named if _is_held(part, stored, now)]
    reported = [_as_reported(part, stored) if part in held else part for part in named]
    loose = (*errors, *(() if failure is None else (failure,)))
    every = (*loose, *(error for part in reported for error in part.errors))
    # What is wrong is reported at once, and all the rest with it; that a child is not there yet is not wrong.
    wrong = any(error.category is not Category.MISSING_DOWNSTREAM for error in every)
    held = [part for part in held if not (part.hold and part.hold.whole and wrong)]
    memory = _Memory(stored, stored_status, _grace_left(every, stored, now))
    judged = [_judge(part, memory) for part in reported]
    verdict = _aggregate([item for item in judged if item.component.name in order], every, loose, memory, progressing)
    desired = (
        *(item.desired for item in judged if not item.component.counted_only),
        *(_parents(every, stored) if sums_up else ()),
        *extra,
        *((verdict.ready,) if sums_up else ()),
    )
    settled = settle(desired, stored, generation=generation, now=now)
    first = None if progressing or wrong else _first_status(created, stored, verdict.status)
    holds = [part.hold for part in held if part.hold] + ([first] if first and first.covers(None, now) else [])
    return Evaluation(
        conditions=settled,
        status=verdict.status,
        may_apply=failure is None and not _blocked(errors, named),
        retry=_retry(every),
        retry_within=None if memory.grace_left is None else memory.grace_left.total_seconds(),
        requeue_after=soonest(hold.seconds_left(now) for hold in holds),
        is_held=any(hold.whole for hold in holds),
        events=tuple(
            event for event in events_of(desired, settled, stored) if not _is_reported_elsewhere(event, judged)
        ),
        generation=generation,
    )


def _rank(order: Sequence[str], name: str) -> int:
    return order.index(name) if name in order else len(order)


def _soft(errors: Iterable[ClassifiedError]) -> list[ClassifiedError]:
    """Errors that may pass by themselves: retried, and granted the grace period."""
    return [error for error in errors if error.category in RETRIED_CATEGORIES]


def _blocked(errors: Iterable[ClassifiedError], components: Iterable[Component]) -> bool:
    of_inputs = (error for part in components if part.blocks for error in part.errors)
    return any(error.category in BLOCKING_CATEGORIES for error in (*errors, *of_inputs))


def _retry(errors: Iterable[ClassifiedError]) -> ClassifiedError | None:
    """The error to retry for; its text depends on the number alone, which keeps log cardinality low (FW-094)."""
    soft = _soft(errors)
    if not soft:
        return None
    known = any(error.category is Category.INFRASTRUCTURE for error in soft)
    category = Category.INFRASTRUCTURE if known else Category.UNKNOWN
    return ClassifiedError(category, "InfrastructureError", f"{len(soft)} dependency failure(s)")


# Holds


def _is_held(component: Component, stored: Sequence[Condition], now: datetime) -> bool:
    """Whether it is too early to tell of the component, and what is stored may stand that long (FW-510)."""
    before = find_condition(tuple(stored), component.condition_type)
    return component.hold is not None and component.hold.covers(before, now)


_EARLY: Final = frozenset({StatusValue.PENDING, StatusValue.PROGRESSING, StatusValue.STARTING})


def _first_status(created: datetime | None, stored: Sequence[Condition], status: StatusValue) -> Hold | None:
    """The first status of an object may wait while all it says is that something is under way (FW-518)."""
    is_first = find_condition(tuple(stored), ParentCondition.READY) is None
    if created is None or not is_first or status not in _EARLY:
        return None
    return Hold(BRIEFLY, created, whole=True)


def _as_reported(component: Component, stored: Sequence[Condition]) -> Component:
    """The component as it was reported last; one that never was is counted alone."""
    before = find_condition(tuple(stored), component.condition_type)
    state = None if component.hold is None else component.hold.state(before)
    if state is None:
        return component
    if before is None:
        return Component(component.name, state, dependency=component.dependency, counted_only=True)
    return Component(component.name, state, before.reason, before.message, dependency=component.dependency)


# Grace period


@dataclass(frozen=True, slots=True)
class _Memory:
    """What is stored, and how much of the grace period is left; ``None`` when it does not run."""

    conditions: Sequence[Condition]
    status: StatusValue | None
    grace_left: timedelta | None


def _grace_left(errors: Iterable[ClassifiedError], stored: Sequence[Condition], now: datetime) -> timedelta | None:
    """The first occurrence starts the timer in the same pass (FW-065); ten seconds are outside (FW-060)."""
    if not _soft(errors):
        return None
    reachable = find_condition(tuple(stored), ParentCondition.DEPENDENCIES_REACHABLE)
    since = reachable.last_transition_time if reachable and reachable.status is ConditionStatus.FALSE else now
    return grace_left(since or now, now)


def grace_left(since: datetime, now: datetime) -> timedelta | None:
    """How much of a grace period is left that began then; ``None`` once it has ended (FW-060, FW-863)."""
    left = GRACE_PERIOD - (now - since)
    # A beginning that lies further ahead than clocks differ was written before the clock was set back.
    return left if timedelta() < left <= 2 * GRACE_PERIOD else None


def _is_protected(component: Component, before: Condition | None, memory: _Memory) -> bool:
    """Whether the grace period keeps the component as it was (FW-061…FW-063)."""
    only_soft = bool(component.errors) and len(_soft(component.errors)) == len(component.errors)
    return memory.grace_left is not None and before is not None and only_soft


def _was_failing(before: Condition, memory: _Memory) -> bool:
    """Whether an untrue condition stood for an error: then it was the one that `Ready` named."""
    ready = find_condition(tuple(memory.conditions), ParentCondition.READY)
    return memory.status in ERROR_STATES and ready is not None and ready.reason == before.reason


# Components


@dataclass(frozen=True, slots=True)
class _JudgedComponent:
    """A component with its condition, its state in the aggregation, and whether the grace period protects it."""

    component: Component
    desired: Desired
    state: State
    protected: bool


def _is_reported_elsewhere(event: Event, judged: Iterable[_JudgedComponent]) -> bool:
    """Whether ``Ready`` only takes over what the service says that writes the condition (FW-121)."""
    elsewhere = (item.desired for item in judged if item.component.counted_only)
    return event.type is EventType.WARNING and any(
        (one.reason, one.message) == (event.reason, event.message) for one in elsewhere
    )


def _judge(component: Component, memory: _Memory) -> _JudgedComponent:
    before = find_condition(tuple(memory.conditions), component.condition_type)
    if before is not None and _is_protected(component, before, memory):
        kept = Desired(component.condition_type, before.status, before.reason, before.message, keep=True)
        return _JudgedComponent(component, kept, _preserved_state(component, before, memory), protected=True)
    state = component.effective_state
    desired = Desired(
        component.condition_type,
        ConditionStatus.TRUE if state is State.READY else ConditionStatus.FALSE,
        component.effective_reason,
        component.effective_message,
        component.observe or (Observability.ERROR if state in ERROR_STATES else Observability.INFO),
    )
    return _JudgedComponent(component, desired, _scanned_state(component, state), protected=False)


def _scanned_state(component: Component, state: State) -> State:
    """State of a component in the aggregation (FW-077)."""
    if state is State.READY or state in _KEPT_STATES:
        return state
    return State.PENDING if component.dependency is Dependency.UPSTREAM else State.PROGRESSING


def _preserved_state(component: Component, before: Condition, memory: _Memory) -> State:
    if before.status is ConditionStatus.TRUE:
        return State.READY
    if memory.status is not None and _was_failing(before, memory):
        # Who does not see whether it still fails says neither that it does worse nor that it recovers.
        return State(memory.status)
    # A stored Pending came from this component or from one that is still Pending: keeping it changes nothing.
    pending = component.dependency is Dependency.UPSTREAM or memory.status is StatusValue.PENDING
    return State.PENDING if pending else State.PROGRESSING


# Parent conditions


@dataclass(frozen=True, slots=True)
class _Parent:
    """One row of the table in FW-070; of several (category, reason) pairs the first that occurs wins (FW-075)."""

    type: ParentCondition
    faults: tuple[tuple[frozenset[Category], str], ...]
    good_reason: str
    good_message: str


_PARENTS: Final = (
    _Parent(
        ParentCondition.DEPENDENCIES_REACHABLE,
        ((RETRIED_CATEGORIES, "InfrastructureError"),),
        "Reachable",
        "All dependencies are reachable",
    ),
    _Parent(
        ParentCondition.AUTH_VALID,
        ((frozenset({Category.AUTH}), "AuthError"),),
        "AuthenticationValid",
        "All credentials are accepted",
    ),
    _Parent(
        ParentCondition.CONFIG_VALID,
        (
            (frozenset({Category.INVALID_SPEC}), "InvalidSpec"),
            (frozenset({Category.MISSING_UPSTREAM}), "ReferenceNotFound"),
        ),
        "ConfigurationValid",
        "The configuration is valid",
    ),
)


def _parents(errors: Sequence[ClassifiedError], stored: Sequence[Condition]) -> list[Desired]:
    """Parent conditions: absent until the first error, present ever after (FW-071, FW-072)."""
    wanted = (_parent(row, errors, stored) for row in _PARENTS)
    return [condition for condition in wanted if condition is not None]


def _parent(row: _Parent, errors: Sequence[ClassifiedError], stored: Sequence[Condition]) -> Desired | None:
    for categories, reason in row.faults:
        first = next((error for error in errors if error.category in categories), None)
        if first is not None:
            return Desired(row.type, ConditionStatus.FALSE, reason, first.message, Observability.ERROR)
    if find_condition(tuple(stored), row.type) is None:
        return None
    return Desired(row.type, ConditionStatus.TRUE, row.good_reason, row.good_message)


# Aggregation


@dataclass(frozen=True, slots=True)
class _Verdict:
    ready: Desired
    status: StatusValue


_FATAL: Final = (
    (Category.AUTH, "AuthError"),
    (Category.INVALID_SPEC, "InvalidSpec"),
    (Category.MISSING_UPSTREAM, "ReferenceNotFound"),
)
"""Rules 1 to 3 of FW-076: these make the object Failed whatever its components say (FW-079)."""


def _aggregate(
    judged: Sequence[_JudgedComponent],
    errors: Sequence[ClassifiedError],
    loose: Sequence[ClassifiedError],
    memory: _Memory,
    progressing: tuple[str, str] | None,
) -> _Verdict:
    """``Ready`` and the status value (FW-076)."""
    for category, reason in _FATAL:
        fatal = next((error for error in errors if error.category is category), None)
        if fatal is not None:
            return _Verdict(_not_ready(reason, fatal.message), StatusValue.FAILED)
    if all(item.state is State.READY for item in judged):
        return _Verdict(_READY, StatusValue.READY)
    unprotected = _unprotected(judged, loose, memory)
    worst = worst_status([item.state for item in judged] + ([StatusValue.DEGRADED] if unprotected else []))
    return _Verdict(_why_not_ready(judged, unprotected, progressing), worst or StatusValue.READY)


_READY: Final = Desired(ParentCondition.READY, ConditionStatus.TRUE, "AllComponentsReady", "All components are ready")


def _not_ready(reason: str, message: str, observe: Observability = Observability.ERROR) -> Desired:
    return Desired(ParentCondition.READY, ConditionStatus.FALSE, reason, message, observe)


def _unprotected(
    judged: Sequence[_JudgedComponent], loose: Sequence[ClassifiedError], memory: _Memory
) -> list[ClassifiedError]:
    """Infrastructure errors that the grace period does not hide; it hides all that belong to no component."""
    of_components = (error for item in judged if not item.protected for error in item.component.errors)
    return _soft((*(() if memory.grace_left is not None else loose), *of_components))


def _why_not_ready(
    judged: Sequence[_JudgedComponent], soft: Sequence[ClassifiedError], progressing: tuple[str, str] | None
) -> Desired:
    """Rule 6 of FW-076."""
    broken = next((item for item in judged if item.state in ERROR_STATES), None)
    if broken is not None:
        return _not_ready(broken.desired.reason, broken.desired.message)
    if soft:
        return _not_ready("InfrastructureError", soft[0].message)
    waiting = [item.component for item in judged if item.state is not State.READY]
    # Whose condition is not written here shall not make a status that says nothing new either (FW-513).
    own = [part for part in waiting if not part.counted_only]
    named = ", ".join(part.name for part in own or waiting)
    said = next((item.desired.message for item in judged if item.component in (own or waiting)), "")
    reason, message = progressing or ("Progressing", f"Waiting for {named}{f': {said}' if said else ''}")
    return _not_ready(reason, message, Observability.INFO)


# From an evaluation to a plan


def status_json(
    evaluation: Evaluation,
    fields: Mapping[str, object] | None = None,
    *,
    value: StatusValue | None = None,
    has_value: bool = True,
) -> JsonObject:
    """The status to apply: the service's own fields, value, generation and conditions, without nulls (FW-412).

    Args:
        fields: the service's own fields under their JSON names; ``None`` anywhere in it means absent.
        value: stored instead of the framework's value (FW-023, FW-024).
        has_value: false for kinds without a status value (FW-022).
    """
    own = without_nulls(dict(fields or {}))
    return {
        **own,
        **({"status": (value or evaluation.status).value} if has_value else {}),
        "observedGeneration": evaluation.generation,
        "conditions": [condition_json(condition) for condition in evaluation.conditions],
    }


def without_nulls(value: JsonObject) -> JsonObject:
    """The object without members that are null, at any depth."""
    return {key: _without_nulls(member) for key, member in value.items() if member is not None}


def _without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return without_nulls(value)
    return [_without_nulls(item) for item in value] if isinstance(value, list | tuple) else value


def assemble(
    evaluation: Evaluation,
    *,
    status: JsonObject | None,
    patches: Sequence[Patch] = (),
    deletes: Sequence[Delete] = (),
    children: Sequence[Child] = (),
    events: Sequence[Event] = (),
    effects: Sequence[Effect] = (),
    requeue_after: float | None = None,
) -> Plan:
    """The plan of a pass: nothing but status, events and effects when writing is not allowed (FW-009, FW-090).

    While the whole status is held there is neither status nor event.

    Args:
        requeue_after: the clock alone changes the answer after that many seconds, beside the end of a hold.
        events: events beside those of conditions (FW-130); what is not deleted has none.
    """
    allowed = evaluation.may_apply
    reported = tuple(event for event in events if allowed or not event.of_deletes)
    return Plan(
        patches=tuple(patches) if allowed else (),
        deletes=tuple(deletes) if allowed else (),
        children=tuple(children) if allowed else (),
        status=None if evaluation.is_held else status,
        events=() if evaluation.is_held else (*evaluation.events, *reported),
        effects=tuple(effects),
        requeue_after=soonest((evaluation.requeue_after, requeue_after)),
        retry=evaluation.retry,
        # The end of a hold is kept also while an error is retried ever more seldom.
        retry_within=soonest((evaluation.retry_within, evaluation.requeue_after if evaluation.retry else None)),
    )
