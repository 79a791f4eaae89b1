"""The decision record of one pass (design item 7)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import uuid4

from aim_shared.bus.decision import DecisionRecord, RecordedFailure, RecordedWrite
from aim_shared.bus.entry import Entry
from aim_shared.bus.recorded import LISTED, recorded_reads, recorded_standing
from aim_shared.bus.standing import Standing
from aim_shared.bus.view import ReadLog, WorldView
from aim_shared.json import JsonObject, canonical
from aim_shared.reconcile.execution import Execution, WriteResult
from aim_shared.reconcile.plan import Plan
from aim_shared.reconcile.plan_json import abridged, plan_to_json
from aim_shared.telemetry.tracing import current_traceparent

MOST_BYTES: Final = 64_000
"""Length of the longest record (FW-440)."""
BUG: Final = "exception: "
"""How the outcome of a pass begins that ended in an exception."""


@dataclass(frozen=True, slots=True)
class PassRecord:
    """What is known of a pass when it begins.

    Attributes:
        at: the clock that the pass is given.
        standing: how far the world is.
        woken_by: the change that brought the pass.
        traceparent: trace context of the pass.
    """

    service: str
    controller: str
    entry: Entry[Any]
    generation: int
    at: datetime
    standing: Standing
    woken_by: str = ""
    traceparent: str | None = field(default_factory=current_traceparent)

    def of_plan(self, view: WorldView, plan: Plan, execution: Execution) -> DecisionRecord:
        """The record of a pass that came to a plan."""
        writes = tuple(RecordedWrite.model_validate(write.to_json()) for write in execution.writes)
        return self._record(view, _outcome(execution), plan_to_json(plan), writes)

    def of_bug(self, view: WorldView, what: str) -> DecisionRecord:
        """The record of a pass that ended in an exception."""
        return self._record(view, f"{BUG}{what}", {}, ())

    def _record(
        self, view: WorldView, outcome: str, plan: JsonObject, writes: tuple[RecordedWrite, ...]
    ) -> DecisionRecord:
        failure = view.failure
        record = DecisionRecord(
            id=uuid4().hex,
            service=self.service,
            controller=self.controller,
            part=self.entry.part.name,
            namespace=self.entry.key.namespace,
            name=self.entry.key.name,
            uid=self.entry.version.uid,
            at=self.at,
            generation=self.generation,
            woken_by=self.woken_by,
            traceparent=self.traceparent or "",
            world=recorded_standing(self.standing, view.reads.searched_parts),
            reads=recorded_reads(view.reads),
            failure=None
            if failure is None
            else RecordedFailure(category=failure.category, reason=failure.reason, message=failure.message),
            failing_since=view.failing_since,
            plan=plan,
            writes=writes,
            outcome=outcome,
        )
        return _bounded(record, view.reads)


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
    return record if _fits(record) else record.model_copy(update={"writes": record.writes[:LISTED]})


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
