"""``aim replay`` and ``aim timeline``: what the event log says."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from aim_cli.answer import Answer, Form, complain, plain, tell
from aim_cli.asking import JsonObject
from aim_cli.connecting import history
from aim_cli.errors import Exit, TargetError
from aim_cli.log_targets import kind_name, target
from aim_cli.output import OUT, counted, safe
from aim_cli.services import services
from aim_cli.targets import Where
from aim_cli.timeline import Moment, deeds, is_paused_now, timeline
from aim_cli.waterfall import bar_data, drawn, waterfall
from aim_cli.waterfall_page import page_of
from controller_runtime.bus.history import DecisionFilter, History
from controller_runtime.replay import Replayed, Replayer, Verdict

_WIDEST_NAME: Final = 60
_NAMES_FOLLOWED: Final = 40
_STYLES: Final = {Verdict.SAME: "green", Verdict.DIFFERENT: "bold red", Verdict.UNKNOWN: "yellow"}


async def replay(kind: str | None, name: str | None, where: Where, nats_url: str, form: Form) -> Exit:
    """Print each decision as it was taken again; the code by how they turned out."""
    wanted = decisions_of(kind, name, where)
    code = services()
    async with history(nats_url) as log:
        await _tell_dropped(log)
        return await replayed(Replayer(log, code), wanted, form, f" about {kind} {name}" if kind else "")


async def replayed(replayer: Replayer, wanted: DecisionFilter, form: Form, about: str = "") -> Exit:
    """Print each decision as soon as it was taken again; data at the end."""
    counts: Counter[Verdict] = Counter()
    found: list[JsonObject] = []
    async for one in replayer.decisions(wanted):
        counts[one.verdict] += 1
        if form is Form.TABLE:
            _print_replayed(one, of_many=wanted.name is None)
        else:
            found.append(replayed_data(one))
    if replayer.unreadable:
        counts[Verdict.UNKNOWN] += replayer.unreadable
        what = counted(replayer.unreadable, "decision record")
        complain(f"{what} cannot be read by this release: look with the one that wrote the log")
    tell(Answer({"decisions": found, **{verdict.value: counts[verdict] for verdict in Verdict}}, (_sum(counts),)), form)
    if not counts:
        complain(f"the event log holds no decision{about}")
    if counts[Verdict.DIFFERENT]:
        return Exit.FOUND
    return Exit.WORDS if counts[Verdict.UNKNOWN] or not counts else Exit.WELL


def _sum(counts: Counter[Verdict]) -> str:
    each = f"{counts[Verdict.SAME]} same, {counts[Verdict.DIFFERENT]} different, {counts[Verdict.UNKNOWN]} undetermined"
    return f"{counted(counts.total(), 'decision')}: {each}"


@dataclass(frozen=True, slots=True)
class Told:
    """What of a story is told.

    Attributes:
        trace: also what its traces did in other namespaces.
        since: nothing from before.
        form: how each moment is printed by who follows them.
    """

    trace: bool = False
    since: datetime | None = None
    form: Form = Form.TABLE


async def story(kind: str, name: str | None, where: Where, nats_url: str, wish: Told) -> Answer:
    """The story of an object."""
    wanted = target(kind, name, where)
    async with history(nats_url) as log:
        await _tell_dropped(log)
        paused = await is_paused_now(log, wanted)
        moments = await timeline(log, wanted, everywhere=wish.trace)
    some = [moment for moment in moments if wish.since is None or moment.at >= wish.since]
    return told(f"{kind} {wanted.key}", some, wish, paused=paused)


async def picture(kind: str, name: str | None, where: Where, nats_url: str, page: Path | None) -> Answer:
    """The life of an object as bars; also written to a page if one is named."""
    wanted = target(kind, name, where)
    async with history(nats_url) as log:
        await _tell_dropped(log)
        bars = await waterfall(log, wanted)
    about = f"{kind} {wanted.key}"
    if not bars:
        return Answer([], (), Exit.ABSENT, (f"the event log holds nothing about {about}",))
    lines = drawn(bars, OUT.width)
    if page is not None:
        await asyncio.to_thread(page.write_text, page_of(about, bars), "utf-8")
        lines = [f"written to {page}"]
    return Answer([bar_data(bar) for bar in bars], tuple(lines))


def told(about: str, moments: Sequence[Moment], wish: Told, *, paused: bool) -> Answer:
    """Moments, as data and as lines."""
    if not moments:
        return Answer([], (), Exit.ABSENT, (f"the event log holds nothing about {about}",))
    width = min(_WIDEST_NAME, max(len(moment.about) for moment in moments))
    lines = [f"{about} is paused: nothing is decided about it"] if paused else []
    lines += [_moment(moment, width) for moment in moments]
    traces = list(_traces(moments))
    if traces and not wish.trace:
        traces.append("Of these traces this is what is near; --trace shows what they did elsewhere.")
    return Answer([_moment_data(moment) for moment in moments], (*lines, *traces))


async def followed(kind: str, name: str | None, where: Where, nats_url: str, wish: Told) -> Exit:
    """Print the story of an object as it goes on, a line or a JSON object each, until somebody interrupts it."""
    wanted = target(kind, name, where)
    known: set[Moment] = set()
    async with history(nats_url) as log, aclosing(log.decided(wanted.key.namespace)) as wakes:
        await _tell_dropped(log)
        async for _ in wakes:
            moments = await timeline(log, wanted, everywhere=wish.trace)
            news = [one for one in moments if one not in known and (wish.since is None or one.at >= wish.since)]
            known.update(moments)
            for one in news:
                told_now = _moment(one, _NAMES_FOLLOWED) if wish.form is Form.TABLE else json.dumps(_moment_data(one))
                print(plain(told_now), flush=True)
    return Exit.WELL


def _traces(moments: Sequence[Moment]) -> Iterable[str]:
    for one, _ in Counter(moment.trace for moment in moments if moment.trace).most_common():
        of_trace = [moment for moment in moments if moment.trace == one]
        services = ", ".join(sorted({moment.who for moment in of_trace}))
        yield f"trace {one} of {of_trace[0].about}: {counted(len(of_trace), 'moment')}, in {services}"


def decisions_of(kind: str | None, name: str | None, where: Where) -> DecisionFilter:
    """The decisions about an object; without a kind all, or those of a namespace.

    Raises:
        TargetError: no such kind, or its name is missing.
    """
    if kind is None:
        return DecisionFilter(namespace=where.namespace)
    if name is None and "/" not in kind:
        raise TargetError(f"name of the {kind} is missing; give it, or neither kind nor name for every decision")
    wanted = target(kind, name, where)
    return DecisionFilter(part=wanted.part.name, namespace=wanted.key.namespace, name=wanted.key.name)


async def _tell_dropped(log: History) -> None:
    """Whoever reads a log must know where it begins (FW-451)."""
    for what, since in (await log.complete_since()).items():
        complain(f"the log of {what} is complete since {since:%Y-%m-%d %H:%M:%S} UTC; what came before was dropped")


def _print_replayed(one: Replayed, *, of_many: bool) -> None:
    record = one.stored.record
    reads = record.reads.objects
    absent = sum(read.uid is None for read in reads)
    objects = len(reads) - absent + sum(group.count for group in record.reads.groups if group.index is None)
    look_ups = len(record.reads.indexes) + sum(group.count for group in record.reads.groups if group.index is not None)
    saw = f"saw {counted(objects, 'object')}, {absent} absent, {counted(look_ups, 'look-up')}"
    verdict = f"[{_STYLES[one.verdict]}]{one.verdict.value}[/]"
    when = record.at.strftime("%H:%M:%S.%f")[:-3]
    about = f"{safe(f'{kind_name(record.part)} {record.key}')}  " if of_many else ""
    OUT.print(f"{when}  {record.service:10}  {about}{saw:45}  {safe(deeds(record))}  {verdict}")
    why = (
        *(f"found otherwise: {what}" for what in one.otherwise),
        *(f"asked beyond the record: {what}" for what in one.beyond),
    )
    shown = () if one.verdict is Verdict.SAME else why
    for line in (*one.differences, *(f"missing: {what}" for what in one.missing), *shown):
        OUT.print(f"              {safe(line)}", style="dim")


def replayed_data(one: Replayed) -> JsonObject:
    """For ``-o json``, which other releases read as well (FW-624)."""
    record = one.stored.record
    told: JsonObject = json.loads(record.to_json())
    named = {key: told.get(key, "") for key in ("id", "service", "namespace", "name", "at", "outcome")}
    because = {
        "differences": list(one.differences),
        "missing": list(one.missing),
        "beyond": list(one.beyond),
        "otherwise": list(one.otherwise),
    }
    return {**named, "kind": kind_name(record.part), "did": deeds(record), "verdict": one.verdict.value, **because}


def _moment(moment: Moment, width: int) -> str:
    when = moment.at.strftime("%H:%M:%S.%f")[:-3]
    return f"{when}  {moment.trace[:6]:6}  {moment.who:10}  {moment.about:{width}}  {moment.what}"


def _moment_data(moment: Moment) -> JsonObject:
    at = moment.at.isoformat()
    return {"at": at, "who": moment.who, "about": moment.about, "what": moment.what, "trace": moment.trace}
