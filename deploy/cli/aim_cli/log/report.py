"""``aim timeline``: what the event log says of an object, as lines and as bars."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from shutil import get_terminal_size
from typing import Final

from aim_cli.answer import JSONPATH, Answer, Form, count_of, plain, text_of
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import Where
from aim_cli.errors import Exit
from aim_cli.log.connecting import history, report_dropped
from aim_cli.log.targets import LOGGED, Target, located, target
from aim_cli.log.timeline import ANYBODY, Everywhere, Moment, Reader, body_of, is_paused_now, related, timeline
from controller_runtime import Key
from controller_runtime.log import DecisionRecord, History, LoggedVersion

_READY_VALUES: Final = frozenset({"Ready", "Running"})
_READY_CONDITIONS: Final = frozenset({"Ready", "Complete"})
_READY_PHASES: Final = frozenset({"Bound", "Succeeded"})
_DELETED: Final = "deleted"


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
    others = {*found.objects, *[await located(history, one) for one in _written_targets(found.records)]} - {wanted}
    bars = [bar_of(one, await reader.versions(history, one), found.records) for one in others]
    later = (bar for bar in bars if bar is not None and bar.begun >= own.begun)
    return [own, *sorted(later, key=lambda bar: (bar.begun, bar.kind, bar.key))]


def bar_of(target: Target, versions: Sequence[LoggedVersion], records: Iterable[DecisionRecord]) -> Bar | None:
    """The bar of an object; ``None`` if the log holds nothing of it."""
    first = next((one for one in versions if not one.deleted), None)
    if first is None:
        return None
    reported = [(one.state.time, body) for one in versions if not one.deleted and (body := body_of(one)) is not None]
    ready = next((at for at, body in reported if is_ready(body)), None)
    state = _DELETED if versions[-1].deleted else _state(reported[-1][1]) if reported else ""
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


def _written_targets(records: Iterable[DecisionRecord]) -> Iterable[Target]:
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


def scale_of(bars: Sequence[Bar]) -> tuple[datetime, float]:
    """The first moment, and the seconds from there to the end of the picture.

    It ends when the first object and all that was made for it had become ready: what is written later, for days, would
    leave no room for that. While the object is not ready, it ends with the last moment that is known.
    """
    begun = min(bar.begun for bar in bars)
    ready = [bar.ready for bar in bars if bar.ready is not None]
    moments = ready if bars[0].ready is not None else [moment for bar in bars for moment in bar.moments]
    return begun, max(_seconds(begun, moment) for moment in moments) or 0.001


_NAME: Final = 46


def drawn(bars: Sequence[Bar], width: int) -> list[str]:
    """A line for each bar, so many columns wide at least for names and times; one line more with the scale.

    A bar goes from creation to the first readiness (●), or to the end of the picture while there is none (▸). A dot
    in it is a moment at which a decision about the object wrote something.
    """
    if not bars:
        return []
    begun, span = scale_of(bars)
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
    state = "deleted, was ready after" if bar.state == _DELETED else bar.state or "ready"
    return f"{state} {_seconds(begun, bar.ready):.2f} s"


def _seconds(begun: datetime, moment: datetime) -> float:
    return (moment - begun).total_seconds()


_STYLE: Final = """
:root { color-scheme: light dark; --line: #2563eb; --dim: #64748b; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .2rem .6rem; white-space: nowrap; font-weight: normal; }
td.bar { width: 60%; }
tr:nth-child(even) { background: color-mix(in srgb, currentColor 5%, transparent); }
.track { position: relative; height: 1rem; }
.span { position: absolute; top: .3rem; height: .4rem; background: var(--line); border-radius: .2rem; min-width: 2px; }
.open { background: repeating-linear-gradient(90deg, var(--line) 0 6px, transparent 6px 10px); }
.write { position: absolute; top: .1rem; height: .8rem; width: 2px; background: currentColor; }
.dim { color: var(--dim); }
"""


def page_of(title: str, bars: Sequence[Bar]) -> str:
    """The page; what users named is shown as text, whatever it holds."""
    begun, span = scale_of(bars)
    rows = "\n".join(_row(bar, begun, span, indented=number > 0) for number, bar in enumerate(bars))
    name = escape(plain(title))
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{name}</title>
<style>{_STYLE}</style>
<h1>{name}</h1>
<p class="dim">From {begun:%Y-%m-%d %H:%M:%S} UTC, {span:.2f} s. A bar goes from creation until the object was ready for
the first time; dashed while it is not. A stroke is a decision that wrote something.</p>
<table>
<tr><th>object<th>state<th>ready after<th>
{rows}
</table>
</html>
"""


def _row(bar: Bar, begun: datetime, span: float, *, indented: bool) -> str:
    def share(moment: datetime) -> float:
        return max(0.0, min(100.0, 100 * (moment - begun).total_seconds() / span))

    left = share(bar.begun)
    right = 100.0 if bar.ready is None else share(bar.ready)
    kind = "span open" if bar.ready is None else "span"
    shown = (write for write in bar.writes if _seconds(begun, write) <= span)
    strokes = "".join(f'<i class="write" style="left:{share(write):.2f}%"></i>' for write in shown)
    name = escape(plain(f"{bar.kind} {bar.key}"))
    after = "" if bar.ready is None else f"{(bar.ready - begun).total_seconds():.2f} s"
    indent = ' style="padding-left:2rem"' if indented else ""
    return (
        f"<tr><td{indent}>{name}<td>{escape(plain(bar.state))}<td>{after}"
        f'<td class="bar"><div class="track"><i class="{kind}" style="left:{left:.2f}%;width:{right - left:.2f}%"></i>'
        f"{strokes}</div>"
    )


_WIDEST_NAME: Final = 60
_NAMES_FOLLOWED: Final = 40


@dataclass(frozen=True, slots=True)
class StoryOptions:
    """What of a story is printed.

    Attributes:
        trace: also what its traces did in other namespaces.
        since: nothing from before.
        form: how each moment is printed by who follows them.
    """

    trace: bool = False
    since: datetime | None = None
    form: Form = Form.TABLE

    @property
    def everywhere(self) -> Everywhere | None:
        """What is read of other namespaces."""
        return Everywhere(self.since) if self.trace else None


async def story(kind: str, name: str | None, where: Where, nats_url: str, wish: StoryOptions) -> Answer:
    """The story of an object."""
    wanted = target(kind, name, where)
    async with history(nats_url, where) as log:
        await report_dropped(log)
        wanted = await located(log, wanted)
        paused = await is_paused_now(log, wanted)
        moments = await timeline(log, wanted, everywhere=wish.everywhere)
    some = [moment for moment in moments if wish.since is None or moment.at >= wish.since]
    return story_answer(f"{kind} {wanted.key}", some, wish, paused=paused)


async def picture(kind: str, name: str | None, where: Where, nats_url: str, page: Path | None) -> Answer:
    """The life of an object as bars; also written to a page if one is named."""
    wanted = target(kind, name, where)
    async with history(nats_url, where) as log:
        await report_dropped(log)
        wanted = await located(log, wanted)
        bars = await waterfall(log, wanted)
    about = f"{kind} {wanted.key}"
    if not bars:
        return Answer([], (), Exit.ABSENT, (f"the event log holds nothing about {about}",))
    lines = drawn(bars, get_terminal_size().columns)
    if page is not None:
        await asyncio.to_thread(page.write_text, page_of(about, bars), "utf-8")
        lines = [f"written to {page}"]
    return Answer([bar_data(bar) for bar in bars], tuple(lines))


def story_answer(about: str, moments: Sequence[Moment], wish: StoryOptions, *, paused: bool) -> Answer:
    """Moments, as data and as lines."""
    if not moments:
        since = f" since {wish.since:%Y-%m-%d %H:%M:%S} UTC" if wish.since else ""
        return Answer([], (), Exit.ABSENT, (f"the event log holds nothing about {about}{since}",))
    width = min(_WIDEST_NAME, max(len(moment.about) for moment in moments))
    lines = [f"{about} is paused: nothing is decided about it"] if paused else []
    lines += [_moment(moment, width) for moment in moments]
    traces = list(_traces(moments))
    if traces and not wish.trace:
        traces.append("Of these traces this is what is near; --trace shows what they did elsewhere.")
    return Answer([_moment_data(moment) for moment in moments], (*lines, *traces))


async def followed(kind: str, name: str | None, where: Where, nats_url: str, wish: StoryOptions) -> Exit:
    """Print the story of an object as it goes on, a line or a JSON object each, until an interrupt."""
    wanted = target(kind, name, where)
    known: set[Moment] = set()
    async with history(nats_url, where) as log, aclosing(log.stirred(wanted.key.namespace)) as wakes:
        await report_dropped(log)
        async for _ in wakes:
            moments = await timeline(log, await located(log, wanted), everywhere=wish.everywhere)
            news = [one for one in moments if one not in known and (wish.since is None or one.at >= wish.since)]
            known.update(moments)
            for one in news:
                print(_followed(one, wish.form), end="", flush=True)
    return Exit.WELL


def _followed(moment: Moment, form: Form) -> str:
    """A moment as it is printed alone: a line, a line of JSON, or what a template makes of it."""
    if form.word == JSONPATH:
        return text_of(Answer(_moment_data(moment), ()), form)
    return plain(_moment(moment, _NAMES_FOLLOWED) if form.of_lines else json.dumps(_moment_data(moment))) + "\n"


def _traces(moments: Sequence[Moment]) -> Iterable[str]:
    for one, _ in Counter(moment.trace for moment in moments if moment.trace).most_common():
        of_trace = [moment for moment in moments if moment.trace == one]
        services = ", ".join(sorted({moment.who for moment in of_trace}))
        yield f"trace {one} of {of_trace[0].about}: {count_of(len(of_trace), 'moment')}, in {services}"


def _moment(moment: Moment, width: int) -> str:
    when = moment.at.strftime("%H:%M:%S.%f")[:-3]
    return f"{when}  {moment.trace[:6]:6}  {moment.who:10}  {moment.about:{width}}  {moment.what}"


def _moment_data(moment: Moment) -> JsonObject:
    at = moment.at.isoformat()
    return {"at": at, "who": moment.who, "about": moment.about, "what": moment.what, "trace": moment.trace}
