"""``aim replay`` and ``aim timeline``: what the event log says."""

import asyncio
from collections import Counter
from typing import Final

import typer

from aim_cli.connecting import history
from aim_cli.output import ERRORS, OUT, counted, safe
from aim_cli.services import services
from aim_cli.targets import TargetError, kind_name, target
from aim_cli.timeline import Moment, deeds, is_paused_now, timeline
from controller_runtime.bus.history import DecisionFilter, History
from controller_runtime.replay import Replayed, Replayer, Verdict

_WIDEST_NAME: Final = 60
_STYLES: Final = {Verdict.SAME: "green", Verdict.DIFFERENT: "bold red", Verdict.UNKNOWN: "yellow"}


async def replay(kind: str | None, name: str | None, nats_url: str) -> None:
    """Print each decision as it was taken again, and end as they turned out."""
    counts = await _replay(kind, name, nats_url)
    OUT.print(
        f"{counted(counts.total(), 'decision')}: {counts[Verdict.SAME]} same, {counts[Verdict.DIFFERENT]} different, "
        f"{counts[Verdict.UNKNOWN]} undetermined"
    )
    if not counts:
        about = f" about {kind} {name}" if kind else ""
        ERRORS.print(f"the event log holds no decision{safe(about)}")
    if counts[Verdict.DIFFERENT]:
        raise typer.Exit(1)
    if counts[Verdict.UNKNOWN] or not counts:
        raise typer.Exit(2)


async def tell(kind: str, name: str, nats_url: str, *, trace: bool) -> None:
    """Print the story of an object."""
    moments = await _timeline(kind, name, nats_url)
    if not moments:
        ERRORS.print(f"the event log holds nothing about {safe(kind)} {safe(name)}")
        raise typer.Exit(3)
    shown = [moment for moment in moments if moment.near or trace]
    width = min(_WIDEST_NAME, max(len(moment.about) for moment in shown))
    for moment in shown:
        _print_moment(moment, width)
    for one, count in Counter(moment.trace for moment in moments if moment.trace).most_common():
        of_trace = [moment for moment in moments if moment.trace == one]
        services = ", ".join(sorted({moment.who for moment in of_trace}))
        OUT.print(f"trace {one} of {of_trace[0].about}: {counted(count, 'moment')}, in {services}")
    if len(shown) < len(moments):
        left_out = counted(len(moments) - len(shown), "moment")
        OUT.print(f"Omitted: {left_out} of the same traces about other objects; --trace shows them.")


async def _replay(kind: str | None, name: str | None, nats_url: str) -> Counter[Verdict]:
    """Print each decision as soon as it was taken again."""
    wanted = _decisions_of(kind, name)
    counts: Counter[Verdict] = Counter()
    code = await asyncio.to_thread(services)
    async with history(nats_url) as log:
        await _tell_dropped(log)
        replayer = Replayer(log, code)
        async for one in replayer.decisions(wanted):
            counts[one.verdict] += 1
            _print_replayed(one, of_many=kind is None)
        if replayer.unreadable:
            counts[Verdict.UNKNOWN] += replayer.unreadable
            what = counted(replayer.unreadable, "decision record")
            ERRORS.print(f"{what} cannot be read by this release: look with the one that wrote the log")
    return counts


def _decisions_of(kind: str | None, name: str | None) -> DecisionFilter:
    if kind is None:
        return DecisionFilter()
    if name is None:
        raise TargetError(f"name of the {kind} is missing; give it, or neither kind nor name for every decision")
    wanted = target(kind, name)
    return DecisionFilter(part=wanted.part.name, namespace=wanted.key.namespace, name=wanted.key.name)


async def _timeline(kind: str, name: str, nats_url: str) -> list[Moment]:
    wanted = target(kind, name)
    async with history(nats_url) as log:
        await _tell_dropped(log)
        if await is_paused_now(log, wanted):
            OUT.print(f"{kind} {name} is paused: nothing is decided about it", style="bold yellow")
        return await timeline(log, wanted)


async def _tell_dropped(log: History) -> None:
    """Whoever reads a log must know where it begins (FW-451)."""
    for what, since in (await log.complete_since()).items():
        ERRORS.print(f"the log of {what} is complete since {since:%Y-%m-%d %H:%M:%S} UTC; what came before was dropped")


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


def _print_moment(moment: Moment, width: int) -> None:
    when = moment.at.strftime("%H:%M:%S.%f")[:-3]
    trace = moment.trace[:6]
    OUT.print(f"{when}  {trace:6}  {moment.who:10}  {safe(moment.about):{width}}  {safe(moment.what)}")
