"""What is told about an object that has no plan: it cannot be read (FW-476), its reconcile raised (FW-477), or took too
long (FW-747).

All end as one condition and one Event on the object itself, of what no service writes as the Event alone. Everything
else that is stored stays as it is, because nothing newer is known.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from controller_runtime.api.enums import ConditionStatus, EventType
from controller_runtime.api.meta import Condition
from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.reconcile.components import Observability
from controller_runtime.reconcile.condition_names import RECONCILED, ParentCondition
from controller_runtime.reconcile.conditions import Desired, condition_json, events_of, settle
from controller_runtime.reconcile.plan import NOTHING, Event, Plan
from controller_runtime.reconcile.reconciler import Reconciler
from controller_runtime.reconcile.state_engine import evaluate, status_json
from controller_runtime.reconcile.watchdog import Subject

INTERNAL_ERROR: Final = "InternalError"
BUDGET_EXCEEDED: Final = "TimeBudgetExceeded"


def of_undecodable(reconciler: Reconciler[Any], raw: JsonObject, error: ClassifiedError, now: datetime) -> Plan:
    """`ConfigValid=False` with the words of the error, which name the field.

    A service that owns a part of the status only leaves this to the one that owns the rest: it is one fault.
    """
    if reconciler.status.only_conditions:
        return NOTHING
    if reconciler.part.read_only:
        return _event_only(error.reason, error.message)
    status, stored = _stored(reconciler, raw)
    verdicts = {ParentCondition.CONFIG_VALID, ParentCondition.READY}
    evaluation = evaluate(
        reconciler.part.kind.kind,
        (),
        generation=_generation(raw),
        stored=stored,
        stored_status=None,
        now=now,
        errors=(error,),
        extra=[_kept(condition) for condition in stored if condition.type not in verdicts],
    )
    has_value = "status" in reconciler.part.model.model_fields["status"].annotation.model_fields
    # `Ready` repeats the words of `ConfigValid`: one fault, one Event.
    events = tuple(event for event in evaluation.events if event.condition == ParentCondition.CONFIG_VALID)
    return Plan(status=status_json(evaluation, status, has_value=has_value), events=events)


def of_bug(reconciler: Reconciler[Any], raw: JsonObject, bug: Exception, now: datetime) -> Plan:
    """`Reconciled=False`; where a service owns named conditions only, the first of them tells it instead."""
    message = f"reconciling fails and is retried with backoff: {type(bug).__name__}: {bug}"
    return _not_reconciled(reconciler, raw, INTERNAL_ERROR, message, now)


def of_overrun(reconciler: Reconciler[Any], raw: JsonObject, overrun: Subject, budget: float, now: datetime) -> Plan:
    """As of a bug, but that nothing is tried again: the version has held the event loop (FW-747)."""
    message = (
        f"{overrun.kind} {overrun.name} not reconciled: a decision about it took longer than {budget:g} s at "
        f"{overrun.version}; change its spec, or delete it"
    )
    return _not_reconciled(reconciler, raw, BUDGET_EXCEEDED, message, now)


def _not_reconciled(reconciler: Reconciler[Any], raw: JsonObject, reason: str, message: str, now: datetime) -> Plan:
    told_by = min(reconciler.status.only_conditions, default=RECONCILED)
    if reconciler.part.read_only:
        return _event_only(reason, message)
    status, stored = _stored(reconciler, raw)
    wanted = Desired(told_by, ConditionStatus.FALSE, reason, message, Observability.ERROR)
    desired = (*(_kept(condition) for condition in stored if condition.type != told_by), wanted)
    settled = settle(desired, stored, generation=_generation(raw), now=now)
    conditions = [condition_json(condition) for condition in settled]
    return Plan(status={**status, "conditions": conditions}, events=events_of(desired, settled, stored))


def _event_only(reason: str, message: str) -> Plan:
    """Of what no service writes, not even the status is ours (FW-542)."""
    return Plan(events=(Event(EventType.WARNING, reason, message, standing=True),))


def _stored(reconciler: Reconciler[Any], raw: JsonObject) -> tuple[JsonObject, list[Condition]]:
    """What the service owns of the stored status: fields, and the conditions that can be read."""
    status = raw.get("status")
    own = reconciler.status.own(status) if isinstance(status, Mapping) else {}
    readable = [found for found in map(_condition, own.pop("conditions", ())) if found is not None]
    return own, readable


def _condition(raw: JsonObject) -> Condition | None:
    try:
        return Condition.model_validate(raw)
    except ValidationError:
        return None


def _kept(condition: Condition) -> Desired:
    return Desired(
        condition.type, condition.status, condition.reason, condition.message, Observability.SILENT, keep=True
    )


def _generation(raw: JsonObject) -> int:
    return int(raw["metadata"].get("generation") or 0)
