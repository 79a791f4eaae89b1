"""What is recorded of a reconcile: its plan as JSON, its decision record and its trace."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import uuid4

from opentelemetry.trace import Span, SpanKind

from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject, canonical
from controller_runtime.log.cache.view import ReadLog
from controller_runtime.log.history.decisions import (
    LISTED,
    DecisionRecord,
    RecordedFailure,
    RecordedWrite,
    recorded_position,
    recorded_reads,
)
from controller_runtime.log.wire.version import Change, Entry
from controller_runtime.names import PREFIX
from controller_runtime.reconcile.child import children_in_order
from controller_runtime.reconcile.conditions import timestamp
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.plan import Child, Delete, Effect, Event, Execution, Patch, Plan, Subject, WriteResult
from controller_runtime.telemetry import tracing
from controller_runtime.texts import shortened

MOST_ORIGINS: Final = 8
"""Changes that are remembered of an object between two passes; more tell nothing further."""


class Origin(NamedTuple):
    """A change that woke an object.

    Attributes:
        what: in words.
        part: of the object that changed.
        traceparent: the context that the change belongs to.
        published: when it was put onto the bus, in seconds since 1970; 0 if it did not come over it.
    """

    what: str
    part: str
    traceparent: str
    published: float

    @classmethod
    def of(cls, change: Change[Any], what: str) -> "Origin | None":
        """That of a change; ``None`` where its trace is not exported."""
        entry = change.new or change.old
        if entry is None or entry.traceparent is None or not tracing.is_sampled(entry.traceparent):
            return None
        # When an object went is not known: its last version was published long before.
        published = entry.published if change.new is not None else 0.0
        return cls(what, change.part.name, entry.traceparent, published)


@dataclass(frozen=True, slots=True)
class Wait:
    """Why the last pass left an object for later.

    Attributes:
        since: when, in seconds since 1970.
    """

    why: str
    since: float


def pass_span(
    controller: str, entry: Entry[Any], origins: Sequence[Origin], wait: Wait | None
) -> AbstractContextManager[Span]:
    """The span that a pass runs in."""
    own = entry.traceparent
    if own is None or not tracing.is_sampled(own):
        return tracing.span("", own)
    return _exported(controller, entry, own, origins, wait)


@contextmanager
def _exported(
    controller: str, entry: Entry[Any], own: str, origins: Sequence[Origin], wait: Wait | None
) -> Iterator[Span]:
    parent = _followed(own, origins, wait)
    about = tracing.about_object(entry.part.kind.kind, entry.key.namespace, entry.key.name, entry.version.uid)
    shared = tuple({one.traceparent for one in origins if not _is_of(own, one)})
    with tracing.span(f"reconcile {controller}", parent, about, links=shared) as current:
        yield current


def _followed(own: str, origins: Sequence[Origin], wait: Wait | None) -> str | None:
    """The context of what the pass follows upon: the first change that woke it, or the end of a wait."""
    if not origins:
        return own if wait is None else tracing.past("wait", own, wait.since, {f"{PREFIX}.wait.for": wait.why})
    first = origins[0]
    before = first.traceparent if _is_of(own, first) else own
    if not first.published:
        return before
    subject = f"{PREFIX}.state.{first.part}"
    return tracing.past(
        f"process {subject}",
        before,
        first.published,
        {**tracing.messaging("process", subject), f"{PREFIX}.change": first.what},
        kind=SpanKind.CONSUMER,
        # What other traces have part in stays in its own, and is named (FW-575).
        links=() if before is first.traceparent else (first.traceparent,),
    )


def _is_of(own: str, origin: Origin) -> bool:
    """Whether a change belongs to the trace of the object itself."""
    return own.split("-")[1] == origin.traceparent.split("-")[1]


def waits_from_now(why: str) -> Wait | None:
    """A wait that begins; ``None`` where no observer wants it."""
    return Wait(why, time.time()) if tracing.is_exporting() else None


def plan_to_json(plan: Plan) -> JsonObject:
    """The plan with sorted, complete and minimal content."""
    children = [
        *children_in_order(c for c in plan.children if c.owned),
        *children_in_order(c for c in plan.children if not c.owned),
    ]
    return _compact(
        patches=[_patch(patch) for patch in plan.patches],
        deletes=[_delete(delete) for delete in plan.deletes],
        children=[_child(child) for child in children],
        status=plan.status,
        events=[_event(event) for event in plan.events],
        effects=[_effect(effect) for effect in plan.effects],
        requeueAfter=plan.requeue_after,
        retry=None if plan.retry is None else error_to_json(plan.retry),
        retryWithin=plan.retry_within,
    )


def error_to_json(error: ClassifiedError) -> JsonObject:
    """A classified error."""
    return {"category": error.category.value, "reason": error.reason, "message": error.message}


_DIGESTED_SINGLY: Final = 100
_NAMES: Final = ("part", "namespace", "name", "kind", "key", "reason")


def abridged(plan: JsonObject, members: Iterable[str]) -> JsonObject:
    """The plan with digests instead of the content of some members: equal plans still are equal, others are not.

    Args:
        plan: as `plan_to_json` makes it.
    """
    return {**plan, **{name: _digests(plan[name]) for name in members if name in plan}}


def _digests(member: object) -> object:
    if not isinstance(member, list) or len(member) > _DIGESTED_SINGLY:
        return {"digest": _digest(member)}
    return [{**_identity(item), "digest": _digest(item)} for item in member]


def _identity(item: JsonObject) -> JsonObject:
    metadata = (item.get("body") or {}).get("metadata") or {}
    return {name: value for name in _NAMES if (value := item.get(name, metadata.get(name)))}


def _digest(value: object) -> str:
    return hashlib.blake2b(canonical(value), digest_size=12).hexdigest()


def is_nothing(plan: Plan) -> bool:
    """Whether the plan asks for nothing at all, not even to look again."""
    return not plan_to_json(plan)


def _patch(patch: Patch) -> JsonObject:
    return _compact(
        part=patch.part.name,
        namespace=patch.namespace,
        name=patch.name,
        resourceVersion=patch.resource_version,
        body=patch.body,
        why=patch.why,
    )


def _delete(delete: Delete) -> JsonObject:
    return _compact(part=delete.part.name, namespace=delete.namespace, name=delete.name, uid=delete.uid, why=delete.why)


def _child(child: Child) -> JsonObject:
    members = {"part": child.part.name, "mode": child.mode.value, "owned": child.owned, "body": child.body}
    limits = [quota.most for quota in child.quotas]
    return {**members, "quota": limits[0] if len(limits) == 1 else limits} if limits else members


def _event(event: Event) -> JsonObject:
    return _compact(
        type=event.type.value,
        reason=event.reason,
        message=event.message,
        standing=event.standing or None,
        condition=event.condition,
        status=event.status,
        about=None if event.about is None else _subject(event.about),
        ofDeletes=event.of_deletes or None,
    )


def _subject(subject: Subject) -> JsonObject:
    return _compact(part=subject.part.name, namespace=subject.namespace, name=subject.name, uid=subject.uid)


def _effect(effect: Effect) -> JsonObject:
    return _compact(
        kind=effect.kind,
        key=effect.key,
        params=effect.params,
        notBefore=None if effect.not_before is None else timestamp(effect.not_before),
    )


def _compact(**members: object) -> JsonObject:
    return {name: value for name, value in members.items() if value is not None and value not in ("", [], ())}


MOST_BYTES: Final = 64_000
"""Length of the longest record (FW-440)."""
_FEWEST: Final = 10
_LINE: Final = 500
"""Characters of an error that tell what it is about."""
BUG: Final = "exception: "
"""How the outcome of a pass begins that ended in an exception."""


Recorder: TypeAlias = Callable[[DecisionRecord], object]
"""Takes decision records; never waits and never raises."""


class Records(Interceptor):
    """Has a record of each decision of which anything came, and of each that raised."""

    def __init__(self, service: str, record: Recorder) -> None:
        self._service = service
        self._record = record

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        try:
            return proceed(decision)
        except Exception as bug:
            self._record(record_of(self._service, decision, f"{BUG}{type(bug).__name__}: {bug}"))
            raise

    def carried_out(self, decision: Decision[Any], plan: Plan, execution: Execution) -> None:
        if execution.is_news:
            self._record(record_of(self._service, decision, _outcome(execution), plan, execution))


def record_of(
    service: str,
    decision: Decision[Any],
    outcome: str,
    plan: Plan | None = None,
    execution: Execution | None = None,
) -> DecisionRecord:
    """The record of a decision; without a plan, of one that raised."""
    obj, view = decision.obj, decision.view
    failure, writes = view.failure, () if execution is None else execution.writes
    record = DecisionRecord(
        id=uuid4().hex,
        service=service,
        controller=decision.reconciler.controller,
        part=decision.reconciler.part.name,
        namespace=obj.key.namespace,
        name=obj.key.name,
        uid=obj.metadata.uid,
        at=decision.now,
        generation=obj.metadata.generation,
        woken_by=decision.woken_by,
        traceparent=decision.traceparent or "",
        shard=view.shard,
        world=recorded_position(decision.position, decision.reads.searched_parts),
        reads=recorded_reads(decision.reads),
        failure=None
        if failure is None
        else RecordedFailure(category=failure.category, reason=failure.reason, message=failure.message),
        failing_since=view.failing_since,
        plan={} if plan is None else plan_to_json(plan),
        writes=tuple(RecordedWrite.model_validate(write.to_json()) for write in writes),
        outcome=outcome,
    )
    return _bounded(record, decision.reads)


def _bounded(record: DecisionRecord, reads: ReadLog) -> DecisionRecord:
    """The record, with less of what the history or today's code can tell again, until it is short enough."""
    for listed in (LISTED // 4, 0):
        if _fits(record):
            return record
        record = record.model_copy(update={"reads": recorded_reads(reads, listed)})
    largest_first = sorted(record.plan, key=lambda name: len(canonical(record.plan[name])), reverse=True)
    for name in largest_first:
        if _fits(record):
            return record
        update = {"plan": abridged(record.plan, (name,)), "abridged": (*record.abridged, name)}
        record = record.model_copy(update=update)
    for most in (LISTED, _FEWEST):
        if _fits(record):
            return record
        record = _with_less_to_read(record, most)
    return record


def _with_less_to_read(record: DecisionRecord, most: int) -> DecisionRecord:
    """The record with that many writes, and texts of some characters to each; no replay needs them."""
    writes = record.writes[:most]
    shorter = (one.model_copy(update={"error": shortened(one.error, _LINE)}) for one in writes)
    return record.model_copy(update={"writes": tuple(shorter), "outcome": shortened(record.outcome, _LINE)})


def _fits(record: DecisionRecord) -> bool:
    return len(record.to_json()) <= MOST_BYTES


def _outcome(execution: Execution) -> str:
    if execution.failure is not None:
        return f"failed: {execution.failure}"
    if execution.status_failure is not None:
        return f"status failed: {execution.status_failure}"
    if execution.drop is not None:
        return f"dropped: {execution.drop.value}"
    held = next((write for write in execution.writes if write.result is WriteResult.HELD), None)
    return "done" if held is None else f"held back: {held.error}"
