"""Runs recorded decisions again with today's code and compares (design: replay)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aim_cli.targets import by_name
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.history import History, StoredDecision
from aim_shared.bus.replay_view import ReplayView
from aim_shared.json import JsonObject, canonical, loads
from aim_shared.reconcile.decide import decide
from aim_shared.reconcile.plan_json import plan_to_json
from aim_shared.reconcile.reconciler import Reconciler, ServiceDefinition


class Verdict(StrEnum):
    """How a decision of today compares with the recorded one."""

    SAME = "same"
    DIFFERS = "DIFFERS"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True)
class Replayed:
    """One decision, taken again.

    Attributes:
        differences: members of the plan that differ, with both values.
        notes: holes and questions that the record can not answer; with any of them the verdict is approximate.
    """

    stored: StoredDecision
    verdict: Verdict
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


async def replay(history: History, definitions: tuple[ServiceDefinition, ...], stored: StoredDecision) -> Replayed:
    """Take one decision again from the log alone."""
    record = stored.record
    reconciler = _reconciler(definitions, record)
    if reconciler is None:
        return Replayed(stored, Verdict.UNKNOWN, notes=(f"no controller {record.service}/{record.controller} today",))
    fetched = await history.fetch_reads(record)
    objects = {where: version.body for where, version in fetched.objects.items() if version.body is not None}
    return replay_record(reconciler, stored, ReplayView(record, objects))


def replay_record(reconciler: Reconciler[Any], stored: StoredDecision, view: ReplayView) -> Replayed:
    """Take one decision again with a view that was rebuilt from it. Pure."""
    record = stored.record
    found = view.get(reconciler.part, record.namespace, record.name)
    if found.value is None:
        return Replayed(stored, Verdict.UNKNOWN, notes=("the version of the object itself is no longer kept",))
    plan = loads(canonical(plan_to_json(decide(reconciler, found.value, view, record.at))))
    differences = tuple(_differences("", record.plan, plan))
    notes = (*(f"hole: {hole}" for hole in view.holes), *(f"not in the record: {what}" for what in view.missing))
    if not differences:
        return Replayed(stored, Verdict.SAME, notes=notes)
    return Replayed(stored, Verdict.UNKNOWN if notes else Verdict.DIFFERS, differences, notes)


def _reconciler(definitions: tuple[ServiceDefinition, ...], record: DecisionRecord) -> Reconciler[Any] | None:
    definition = by_name(definitions, record.service)
    if definition is None:
        return None
    return next((one for one in definition.reconcilers if one.controller == record.controller), None)


def _differences(path: str, then: object, now: object) -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        return _in_objects(path, then, now)
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = enumerate(zip(then, now, strict=True))
        return [line for index, (old, new) in pairs for line in _differences(f"{path}[{index}]", old, new)]
    return [] if then == now else [f"{path or 'plan'}: then {_short(then)}, now {_short(now)}"]


def _in_objects(path: str, then: JsonObject, now: JsonObject) -> list[str]:
    names = sorted({*then, *now})
    return [
        line for name in names for line in _differences(f"{path}.{name}".lstrip("."), then.get(name), now.get(name))
    ]


def _short(value: object) -> str:
    text = canonical(value).decode()
    return text if len(text) <= 80 else f"{text[:77]}..."
