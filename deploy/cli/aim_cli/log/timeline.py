"""The story of an object across the five services: what changed, who decided what, and what was written."""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aim_cli.cluster.refs import JsonObject
from aim_cli.log.targets import LOGGED, Target, kind_name, located
from aim_cli.units import format_size
from aim_domain.kind_names import HORIZONTAL_POD_AUTOSCALER
from aim_domain.labels import ANNOTATION_PAUSED
from controller_runtime import Key, quantity
from controller_runtime.log import DecisionRecord, EnvelopeError, History, LoggedVersion

_SHARES: Final = ("averageUtilization", "averageValue", "value")


def rescaled(before: JsonObject, after: JsonObject) -> str:
    """What an autoscaler made of the replicas between two of its versions, and why; empty if it left them.

    The values are there only in the version that the log keeps of the very change (FW-724).
    """
    status = after.get("status") or {}
    new = status.get("desiredReplicas")
    old = (before.get("status") or {}).get("desiredReplicas", status.get("currentReplicas"))
    if new is None or old == new:
        return ""
    values = "; ".join(_values(after))
    return f"replicas {old} → {new}: {values}" if values else f"replicas {old} → {new}"


def _values(autoscaler: JsonObject) -> Iterable[str]:
    targets = {_name(one): _of(one).get("target") or {} for one in autoscaler["spec"].get("metrics") or ()}
    for metric in (autoscaler.get("status") or {}).get("currentMetrics") or ():
        current, target = _of(metric).get("current") or {}, targets.get(_name(metric), {})
        share = next((one for one in _SHARES if one in target and one in current), None)
        if share is not None:
            sign = "%" if share == "averageUtilization" else ""
            yield f"{_name(metric)} {_number(current[share])}{sign} of target {_number(target[share])}{sign}"


def _of(metric: JsonObject) -> JsonObject:
    """What it says, which stands under its type."""
    kind = str(metric.get("type") or "")
    return metric.get(kind[:1].lower() + kind[1:]) or {}


def _name(metric: JsonObject) -> str:
    said = _of(metric)
    return str(said.get("name") or (said.get("metric") or {}).get("name") or metric.get("type") or "")


def _number(value: int | str) -> str:
    parsed = quantity.parse_or_none(value)
    return str(value) if parsed is None else f"{parsed.value.normalize():f}"


_LARGEST_FAMILY: Final = 50
_AUTOSCALERS: Final = next(part for part in LOGGED if part.kind == HORIZONTAL_POD_AUTOSCALER)


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the story.

    Attributes:
        who: a service, or the API server for what others did.
        kind: of the object that it is about.
        what: in words.
        decision: its id; empty of what was not decided.
    """

    at: datetime
    who: str
    kind: str
    key: Key
    what: str
    trace: str
    decision: str = ""

    @property
    def about(self) -> str:
        """Kind and name of the object."""
        return f"{self.kind} {self.key}"


def trace_id(traceparent: str) -> str:
    """The trace id of a ``traceparent``; empty when there is none."""
    fields = traceparent.split("-")
    return fields[1] if len(fields) == 4 else ""


@dataclass(frozen=True, slots=True)
class Related:
    """What belongs to the story of an object.

    Attributes:
        versions: its own.
        objects: it, what it refers to, and their owners.
        records: decisions about these, and those that share one of its traces.
    """

    versions: tuple[LoggedVersion, ...]
    objects: frozenset[Target]
    records: tuple[DecisionRecord, ...]


def _ever(_: Target) -> datetime | None:
    return datetime.min.replace(tzinfo=UTC)


def _whole(record: DecisionRecord) -> DecisionRecord:
    return record


@dataclass(frozen=True, slots=True)
class Reader:
    """The reader of a story; by default one who may know everything.

    Attributes:
        since: from when on they may know the past of an object; ``None`` = nothing of it.
        redacted: as much of a decision as they may know.
    """

    since: Callable[[Target], datetime | None] = _ever
    redacted: Callable[[DecisionRecord], DecisionRecord] = _whole

    async def versions(self, history: History, of: Target) -> tuple[LoggedVersion, ...]:
        """The versions of an object that they may know."""
        since = self.since(of)
        if since is None:
            return ()
        return tuple(one for one in await history.versions(of.part.name, of.key) if one.state.time >= since)


ANYBODY: Final = Reader()


@dataclass(frozen=True, slots=True)
class Everywhere:
    """Also what the traces of an object did in other namespaces.

    A user who applies a whole platform in one trace does not want all of it in the story of one service; and every
    decision since then is read for it.
    """

    since: datetime | None = None


async def related(
    history: History, wanted: Target, *, everywhere: Everywhere | None = None, reader: Reader = ANYBODY
) -> Related:
    """Read what belongs to an object."""
    versions = await reader.versions(history, wanted)
    own = [decision.record for decision in await history.decisions_of(wanted.part.name, wanted.key)]
    traces = {trace_id(one.state.traceparent) for one in versions} | {trace_id(one.traceparent) for one in own}
    traces.discard("")
    concerned = await _family(history, wanted, versions)
    places = ((one.part.name, one.key) for one in concerned)
    where, since = (wanted.key.namespace, None) if everywhere is None else (None, everywhere.since)
    decisions = await history.decisions_near(where, places, traces, since)
    records = tuple(reader.redacted(one.record) for one in decisions if _belongs(one.record, traces, concerned))
    return Related(versions, frozenset(concerned), records)


async def timeline(
    history: History, wanted: Target, *, everywhere: Everywhere | None = None, reader: Reader = ANYBODY
) -> list[Moment]:
    """The versions of the object, and every decision that belongs to its story."""
    found = await related(history, wanted, everywhere=everywhere, reader=reader)
    moments = [*_of_versions(found.versions), *of_records(found.records)]
    for autoscaler in _autoscalers(wanted, found.records):
        moments += _of_versions(await reader.versions(history, autoscaler))
    return sorted(moments, key=lambda moment: moment.at)


async def is_paused_now(history: History, wanted: Target) -> bool:
    """Whether the last version that is known says so (SV-270): nothing is decided about it until it does not."""
    versions = await history.versions(wanted.part.name, wanted.key)
    body = None if not versions or versions[-1].deleted else body_of(versions[-1])
    return body is not None and (body["metadata"].get("annotations") or {}).get(ANNOTATION_PAUSED) == "true"


def _autoscalers(wanted: Target, records: Iterable[DecisionRecord]) -> set[Target]:
    """Those that decisions about the object read: they alone know how many replicas it gets (FW-725)."""
    own = (one.reads.objects for one in records if _is_about(one, {wanted}))
    return {Target(_AUTOSCALERS, read.key) for reads in own for read in reads if read.part == _AUTOSCALERS.name}


def _belongs(record: DecisionRecord, traces: set[str], concerned: AbstractSet[Target]) -> bool:
    return trace_id(record.traceparent) in traces or _is_about(record, concerned)


def _is_about(record: DecisionRecord, concerned: AbstractSet[Target]) -> bool:
    return any(one.part.name == record.part and one.key == record.key for one in concerned)


async def _family(history: History, first: Target, versions: tuple[LoggedVersion, ...]) -> set[Target]:
    """The object, what it refers to, their owners, and so on; bounded, because a log may hold loops."""
    known = {first}
    waiting = [body for version in versions[-1:] if (body := body_of(version)) is not None]
    while waiting and len(known) < _LARGEST_FAMILY:
        for named in relatives(waiting.pop()):
            relative = await located(history, named)
            if relative in known:
                continue
            known.add(relative)
            present = await history.versions(relative.part.name, relative.key)
            waiting += [body for version in present[-1:] if (body := body_of(version)) is not None]
    return known


def relatives(obj: JsonObject) -> set[Target]:
    """What an object resolved to, and its owners."""
    status = obj.get("status") or {}
    caches = status.get("cache") or {}
    resolved = [status.get(name) for name in ("resolvedModel", "resolvedTemplate", "resolvedProfile")]
    references = [*resolved, caches.get("templateCacheRef"), caches.get("profileCacheRef")]
    owners = obj["metadata"].get("ownerReferences") or []
    namespace = obj["metadata"].get("namespace") or ""
    found = [_target(one.get("kind", ""), one.get("namespace") or "", one["name"]) for one in references if one]
    found += [_target(one["kind"], namespace, one["name"]) for one in owners]
    return {one for one in found if one is not None}


def _target(kind: str, namespace: str, name: str) -> Target | None:
    part = next((part for part in LOGGED if part.kind.kind == kind.rpartition("/")[2]), None)
    if part is None:
        return None
    return Target(part, Key(namespace if part.kind.namespaced else "", name))


def _of_versions(versions: tuple[LoggedVersion, ...]) -> list[Moment]:
    moments = []
    before: JsonObject | None = None
    for version in versions:
        kind, key = kind_name(version.part), version.key
        if version.hole is not None and before is not None:
            moments.append(Moment(version.state.time, "history", kind, key, f"hole: {version.hole.value}", ""))
        what = _change(before, version)
        if what:
            trace = trace_id(version.state.traceparent)
            moments.append(Moment(version.state.time, "kubernetes", kind, key, what, trace))
        before = None if version.deleted else body_of(version) or before
    return moments


def body_of(version: LoggedVersion) -> JsonObject | None:
    """The object; ``None`` of a deletion and of what cannot be read."""
    try:
        return version.state.object()
    except EnvelopeError:
        return None


def _change(before: JsonObject | None, version: LoggedVersion) -> str:
    if version.deleted:
        return "deleted"
    after = body_of(version)
    if after is None:
        return "a version that cannot be read"
    if before is None:
        return "created"
    metadata = after["metadata"]
    parts = []
    if metadata.get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"):
        # The API server counts this as a new generation, too.
        parts.append("deletion requested")
    elif metadata.get("generation") != before["metadata"].get("generation"):
        parts.append(f"spec changed (generation {metadata.get('generation')})")
    old, new = _status(before), _status(after)
    if old != new:
        parts.append(f"status {old or 'none'} → {new or 'none'}")
    if version.part == _AUTOSCALERS.name and (scaled := rescaled(before, after)):
        parts.append(scaled)
    return ", ".join(parts)


def _status(obj: JsonObject) -> str:
    return str((obj.get("status") or {}).get("status") or "")


def of_records(records: Iterable[DecisionRecord]) -> list[Moment]:
    """What was decided, with how far and how fast downloads are where that was reported (FW-686)."""
    before: dict[tuple[str, Key], tuple[datetime, int]] = {}
    return [_of_record(record, _progress(record, before)) for record in sorted(records, key=lambda one: one.at)]


def _of_record(record: DecisionRecord, progress: str) -> Moment:
    what = f"{deeds(record)}; {progress}" if progress else deeds(record)
    trace = trace_id(record.traceparent)
    return Moment(record.at, record.service, kind_name(record.part), record.key, what, trace, record.id)


def _progress(record: DecisionRecord, before: dict[tuple[str, Key], tuple[datetime, int]]) -> str:
    """Bytes so far, and for each second since the decision with fewer; empty where nothing was added."""
    progress = (record.plan.get("status") or {}).get("progress") or {}
    done, total = progress.get("downloadedBytes"), progress.get("totalBytes")
    if not isinstance(done, int):
        return ""
    where = (record.part, record.key)
    at, last = before.get(where, (record.at, -1))
    if done == last:
        return ""
    before[where] = record.at, done
    of = f" of {format_size(total)}B" if isinstance(total, int) and total else ""
    seconds = (record.at - at).total_seconds()
    # A download that starts over has fewer than before, which is no speed.
    speed = f" at {format_size(int((done - last) / seconds))}B/s" if last >= 0 and done > last and seconds > 0 else ""
    return f"{format_size(done)}B{of}{speed}"


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
