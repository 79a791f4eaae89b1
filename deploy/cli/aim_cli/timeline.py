"""The story of an object across the five services: what changed, who decided what, and what was written."""

from dataclasses import dataclass
from datetime import datetime

from aim_cli.targets import Target, kind_name
from aim_shared.bus.chain import LoggedVersion
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.history import DecisionFilter, History
from aim_shared.json import JsonObject


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the story.

    Attributes:
        who: a service, or the API server for what others did.
        about: kind and name of the object.
        what: in words.
    """

    at: datetime
    who: str
    about: str
    what: str
    trace: str


def trace_id(traceparent: str) -> str:
    """The trace id of a ``traceparent``; empty when there is none."""
    fields = traceparent.split("-")
    return fields[1] if len(fields) == 4 else ""


async def timeline(history: History, target: Target) -> list[Moment]:
    """The versions of the object, the decisions about it, and every decision that belongs to its traces."""
    versions = await history.versions(target.part.name, target.key)
    own = await history.decisions_of(target.part.name, target.key)
    traces = {trace_id(version.traceparent) for version in versions} | {
        trace_id(decision.record.traceparent) for decision in own
    }
    traces.discard("")
    related = [
        decision.record
        for decision in await history.decisions(DecisionFilter())
        if trace_id(decision.record.traceparent) in traces
    ]
    mine = {decision.record.id for decision in own}
    records = [decision.record for decision in own] + [record for record in related if record.id not in mine]
    moments = [*_of_versions(versions), *(_of_record(record) for record in records)]
    return sorted(moments, key=lambda moment: moment.at)


def _of_versions(versions: tuple[LoggedVersion, ...]) -> list[Moment]:
    moments = []
    before: JsonObject | None = None
    for version in versions:
        about = f"{kind_name(version.part)} {version.key}"
        if version.hole is not None and before is not None:
            moments.append(Moment(version.time, "history", about, f"hole: {version.hole.value}", ""))
        what = _change(before, version)
        if what:
            moments.append(Moment(version.time, "kubernetes", about, what, trace_id(version.traceparent)))
        before = version.body
    return moments


def _change(before: JsonObject | None, version: LoggedVersion) -> str:
    after = version.body
    if after is None:
        return "deleted"
    if before is None:
        return "created"
    metadata = after["metadata"]
    parts = []
    if metadata.get("generation") != before["metadata"].get("generation"):
        parts.append(f"spec changed (generation {metadata.get('generation')})")
    if metadata.get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"):
        parts.append("deletion requested")
    old, new = _status(before), _status(after)
    if old != new:
        parts.append(f"status {old or 'none'} → {new or 'none'}")
    return ", ".join(parts)


def _status(obj: JsonObject) -> str:
    return str((obj.get("status") or {}).get("status") or "")


def _of_record(record: DecisionRecord) -> Moment:
    about = f"{kind_name(record.part)} {record.key}"
    return Moment(record.at, record.service, about, deeds(record), trace_id(record.traceparent))


def deeds(record: DecisionRecord) -> str:
    """What a decision wrote and asked for, in one line."""
    writes = [f"{write.verb} {write.kind} {write.name}{_result(write.result)}" for write in record.writes]
    effects = [f"asked for {effect['kind']}" for effect in record.plan.get("effects", [])]
    reason = _reason(record.plan.get("status") or {})
    outcome = [] if record.outcome == "done" else [record.outcome]
    return "; ".join([*writes, *effects, *([reason] if reason else []), *outcome]) or "nothing"


def _result(result: str) -> str:
    return "" if result in ("", "ok", "done") else f" ({result})"


def _reason(status: JsonObject) -> str:
    """The overall status and why, as the decision saw it."""
    conditions = {one["type"]: one for one in status.get("conditions", [])}
    decisive = conditions.get("Ready") or next(iter(conditions.values()), None)
    if decisive is None:
        return ""
    value = status.get("status")
    return (
        f"{value}: {decisive['reason']}" if value else f"{decisive['type']}={decisive['status']} {decisive['reason']}"
    )
