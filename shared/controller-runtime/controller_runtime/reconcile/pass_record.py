"""The decision records of a service (FW-435)."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias
from uuid import uuid4

from controller_runtime.bus.decision import DecisionRecord, RecordedFailure, RecordedWrite
from controller_runtime.bus.recorded import LISTED, recorded_reads, recorded_standing
from controller_runtime.bus.view import ReadLog
from controller_runtime.json import canonical
from controller_runtime.reconcile.decide import Decision, Interceptor, Proceed
from controller_runtime.reconcile.execution import Execution, WriteResult
from controller_runtime.reconcile.plan import Plan
from controller_runtime.reconcile.plan_json import abridged, plan_to_json
from controller_runtime.texts import shortened

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
        world=recorded_standing(decision.standing, decision.reads.searched_parts),
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
