"""The life of an object as bars: what was made for it, when, and when each of that was ready (FW-650)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aim_cli.cluster.refs import JsonObject
from aim_cli.log.targets import LOGGED, Target, located
from aim_cli.log.timeline import ANYBODY, Reader, body_of, related
from controller_runtime.bus.chain import LoggedVersion
from controller_runtime.bus.decision import DecisionRecord
from controller_runtime.bus.history import History
from controller_runtime.bus.part import Key

_READY_VALUES: Final = frozenset({"Ready", "Running"})
_READY_CONDITIONS: Final = frozenset({"Ready", "Complete"})
_READY_PHASES: Final = frozenset({"Bound", "Succeeded"})


@dataclass(frozen=True, slots=True)
class Bar:
    """One object of the picture.

    Attributes:
        begun: when its first version was published.
        ready: when it was ready for the first time; ``None`` of what never was, or has no such state.
        state: the last that is known of it.
        writes: when decisions about it wrote something.
    """

    kind: str
    key: Key
    begun: datetime
    ready: datetime | None
    state: str
    writes: tuple[datetime, ...] = ()

    @property
    def moments(self) -> Iterable[datetime]:
        """Everything that has a time."""
        return (self.begun, *self.writes, *(() if self.ready is None else (self.ready,)))


async def waterfall(history: History, wanted: Target, reader: Reader = ANYBODY) -> list[Bar]:
    """The object first, then its relatives and what was made for it, by when they began.

    What was there before is left out: the object waited for none of it.
    """
    found = await related(history, wanted, reader=reader)
    own = bar_of(wanted, found.versions, found.records)
    if own is None:
        return []
    others = {*found.objects, *[await located(history, one) for one in _written(found.records)]} - {wanted}
    bars = [bar_of(one, await reader.versions(history, one), found.records) for one in others]
    later = (bar for bar in bars if bar is not None and bar.begun >= own.begun)
    return [own, *sorted(later, key=lambda bar: (bar.begun, bar.kind, bar.key))]


def bar_of(target: Target, versions: Sequence[LoggedVersion], records: Iterable[DecisionRecord]) -> Bar | None:
    """The bar of an object; ``None`` if the log holds nothing of it."""
    first = next((one for one in versions if not one.deleted), None)
    if first is None:
        return None
    told = [(one.state.time, body) for one in versions if not one.deleted and (body := body_of(one)) is not None]
    ready = next((at for at, body in told if is_ready(body)), None)
    state = "deleted" if versions[-1].deleted else _state(told[-1][1]) if told else ""
    own = (one for one in records if (one.part, one.key) == (target.part.name, target.key))
    writes = tuple(one.at for one in own if one.writes)
    return Bar(target.part.kind.kind, target.key, first.state.time, ready, state, writes)


def is_ready(obj: JsonObject) -> bool:
    """Whether an object of any kind has come to what it is made for."""
    status = obj.get("status") or {}
    parents = status.get("parents") or ()
    return (
        status.get("status") in _READY_VALUES
        or status.get("phase") in _READY_PHASES
        or _holds(status, _READY_CONDITIONS)
        or (bool(parents) and all(_holds(one, frozenset({"Accepted"})) for one in parents))
    )


def _holds(said: JsonObject, types: frozenset[str]) -> bool:
    return any(one["type"] in types and one["status"] == "True" for one in said.get("conditions") or ())


def _state(obj: JsonObject) -> str:
    status = obj.get("status") or {}
    return str(status.get("status") or status.get("phase") or ("Ready" if is_ready(obj) else ""))


def _written(records: Iterable[DecisionRecord]) -> Iterable[Target]:
    """What decisions created or applied, of the kinds that the log holds."""
    for record in records:
        for write in record.writes:
            part = next((one for one in LOGGED if one.kind.kind == write.kind), None)
            if part is not None and write.name:
                yield Target(part, Key(write.namespace if part.kind.namespaced else "", write.name))


def bar_data(bar: Bar) -> JsonObject:
    """A bar, as data."""
    return {
        "kind": bar.kind,
        "namespace": bar.key.namespace,
        "name": bar.key.name,
        "begun": bar.begun.isoformat(),
        "ready": None if bar.ready is None else bar.ready.isoformat(),
        "state": bar.state,
        "writes": [at.isoformat() for at in bar.writes],
    }


# The picture

_NAME: Final = 46


def drawn(bars: Sequence[Bar], width: int) -> list[str]:
    """A line for each bar, so many columns wide at least for names and times; one line more with the scale.

    A bar goes from creation to the first readiness (●), or to the end of the picture while there is none (▸). A dot
    in it is a moment at which a decision about the object wrote something.
    """
    if not bars:
        return []
    begun = min(bar.begun for bar in bars)
    span = max(_seconds(begun, moment) for bar in bars for moment in bar.moments) or 0.001
    columns = max(20, width - _NAME - 24)
    lines = [f"{'':{_NAME}}  0 s{f'{span:.2f} s':>{columns - 3}}"]
    for number, bar in enumerate(bars):
        name = f"{'' if number == 0 else '  '}{bar.kind} {bar.key.name}"
        name = name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
        lines.append(f"{name:{_NAME}}  {_line(bar, begun, span, columns)}  {_outcome(bar, begun)}")
    return lines


def _line(bar: Bar, begun: datetime, span: float, columns: int) -> str:
    def column(moment: datetime) -> int:
        return min(columns - 1, max(0, round(_seconds(begun, moment) / span * (columns - 1))))

    first = column(bar.begun)
    last = columns - 1 if bar.ready is None else column(bar.ready)
    cells = [" "] * columns
    cells[first : last + 1] = "─" * (last + 1 - first)
    for write in bar.writes:
        if first <= column(write) <= last:
            cells[column(write)] = "•"
    cells[last] = "▸" if bar.ready is None else "●"
    return "".join(cells)


def _outcome(bar: Bar, begun: datetime) -> str:
    if bar.ready is None:
        return bar.state or "made"
    return f"{bar.state or 'ready'} {_seconds(begun, bar.ready):.2f} s"


def _seconds(begun: datetime, moment: datetime) -> float:
    return (moment - begun).total_seconds()
