"""Inspect the event log (what happened, why, would today's code decide the same), and move from older API groups."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from enum import StrEnum
from typing import Annotated, Any, Final, TypeVar

import structlog
import typer
from rich.console import Console
from rich.markup import escape

from aim_cli.connecting import UnreachableError, history
from aim_cli.migration.command import Wish
from aim_cli.migration.command import run as run_migration
from aim_cli.migration.reading import UnreadableError
from aim_cli.services import services
from aim_cli.targets import TargetError, kind_name, target
from aim_cli.timeline import Moment, deeds, is_paused_now, timeline
from controller_runtime.bus.connection import BusError
from controller_runtime.bus.history import DecisionFilter, History
from controller_runtime.replay import Replayed, Replayer, Verdict

T = TypeVar("T")
app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
_out: Final = Console(soft_wrap=True)
_errors: Final = Console(stderr=True, soft_wrap=True)

NatsUrl = Annotated[str, typer.Option("--nats-url", envvar="AIM_NATS_URL", help="Message broker with the event log.")]
KindName = Annotated[str, typer.Argument(help="Kind, plural or short name, such as aimservice or aimsvc.")]
ObjectName = Annotated[str, typer.Argument(help="namespace/name, or name for cluster-scoped kinds.")]
_LOCAL: Final = "nats://127.0.0.1:4222"
_WIDEST_NAME: Final = 60
_UNREADABLE: Final = 4
"""What no verdict exits with: an outage says nothing about decisions."""
_STYLES: Final = {Verdict.SAME: "green", Verdict.DIFFERENT: "bold red", Verdict.UNKNOWN: "yellow"}


class Output(StrEnum):
    """Forms in which objects are printed."""

    YAML = "yaml"


@app.command("replay")
def replay_command(
    kind: Annotated[str | None, typer.Argument(help="Kind, plural or short name; without it, every decision.")] = None,
    name: Annotated[str | None, typer.Argument(help="namespace/name, or name for cluster-scoped kinds.")] = None,
    nats_url: NatsUrl = _LOCAL,
) -> None:
    """Make every recorded decision again, of one object or of all, from the log alone, and compare.

    Exits with 0 when today's code decides the same, with 1 when it decides anything differently, otherwise with 2 when
    an outcome is undetermined, naming what is missing. Exits with 4 when the log cannot be read.
    """
    counts = _run(_replay(kind, name, nats_url))
    _out.print(
        f"{_counted(counts.total(), 'decision')}: {counts[Verdict.SAME]} same, {counts[Verdict.DIFFERENT]} different, "
        f"{counts[Verdict.UNKNOWN]} undetermined"
    )
    if not counts:
        about = f" about {kind} {name}" if kind else ""
        _errors.print(f"the event log holds no decision{escape(about)}")
    if counts[Verdict.DIFFERENT]:
        raise typer.Exit(1)
    if counts[Verdict.UNKNOWN] or not counts:
        raise typer.Exit(2)


@app.command("timeline")
def timeline_command(
    kind: KindName,
    name: ObjectName,
    nats_url: NatsUrl = _LOCAL,
    *,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show everything in its traces, also about other objects.")
    ] = False,
) -> None:
    """Show what happened to an object, its relatives and its namespace, in order, across all services.

    Exits with 3 when the log holds nothing about it, with 4 when the log cannot be read.
    """
    moments = _run(_timeline(kind, name, nats_url))
    if not moments:
        _errors.print(f"the event log holds nothing about {escape(kind)} {escape(name)}")
        raise typer.Exit(3)
    shown = [moment for moment in moments if moment.near or trace]
    width = min(_WIDEST_NAME, max(len(moment.about) for moment in shown))
    for moment in shown:
        _print_moment(moment, width)
    for one, count in Counter(moment.trace for moment in moments if moment.trace).most_common():
        of_trace = [moment for moment in moments if moment.trace == one]
        services = ", ".join(sorted({moment.who for moment in of_trace}))
        _out.print(f"trace {one} of {of_trace[0].about}: {_counted(count, 'moment')}, in {services}")
    if len(shown) < len(moments):
        left_out = _counted(len(moments) - len(shown), "moment")
        _out.print(f"Omitted: {left_out} of the same traces about other objects; --trace shows them.")


@app.command("migrate")
def migrate_command(
    files: Annotated[
        list[str] | None, typer.Option("-f", "--filename", help="File, folder, or - for standard input; repeatable.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of objects in files that name none.")
    ] = "default",
    kubeconfig: Annotated[str | None, typer.Option(help="Kubeconfig of the cluster; default as for kubectl.")] = None,
    context: Annotated[str | None, typer.Option(help="Context in the kubeconfig.")] = None,
    output: Annotated[
        Output | None, typer.Option("-o", "--output", help="Print the objects; write nothing, compare with nothing.")
    ] = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; write nothing.")] = False,
) -> None:
    """Move resources of aim.silogen.ai and config.kaiwo.silogen.ai to today's kinds.

    Reads them from the cluster, or from files with -f, and writes today's resources in the order of their references.
    Nothing that exists is overwritten: runtime configs are completed, anything else is left as it is. Old resources
    stay untouched. It may be run again at any time.

    Exits with 0 when everything has its place, with 1 when something was not mapped, differs from what is there or was
    refused (everything else is written nevertheless), with 2 when a file cannot be read, with 4 when the cluster cannot
    be asked.
    """
    wish = Wish(tuple(files or ()), namespace, kubeconfig, context, dry_run=dry_run, print_only=output is not None)
    code = _run(run_migration(wish, _out, _errors))
    if code:
        raise typer.Exit(code)


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
            what = _counted(replayer.unreadable, "decision record")
            _errors.print(f"{what} cannot be read by this release: look with the one that wrote the log")
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
            _out.print(f"{kind} {name} is paused: nothing is decided about it", style="bold yellow")
        return await timeline(log, wanted)


async def _tell_dropped(log: History) -> None:
    """Whoever reads a log must know where it begins (FW-451)."""
    for what, since in (await log.complete_since()).items():
        _errors.print(
            f"the log of {what} is complete since {since:%Y-%m-%d %H:%M:%S} UTC; what came before was dropped"
        )


def _print_replayed(one: Replayed, *, of_many: bool) -> None:
    record = one.stored.record
    reads = record.reads.objects
    absent = sum(read.uid is None for read in reads)
    objects = len(reads) - absent + sum(group.count for group in record.reads.groups if group.index is None)
    look_ups = len(record.reads.indexes) + sum(group.count for group in record.reads.groups if group.index is not None)
    saw = f"saw {_counted(objects, 'object')}, {absent} absent, {_counted(look_ups, 'look-up')}"
    verdict = f"[{_STYLES[one.verdict]}]{one.verdict.value}[/]"
    when = record.at.strftime("%H:%M:%S.%f")[:-3]
    about = f"{escape(f'{kind_name(record.part)} {record.key}')}  " if of_many else ""
    _out.print(f"{when}  {record.service:10}  {about}{saw:45}  {escape(deeds(record))}  {verdict}")
    why = (
        *(f"found otherwise: {what}" for what in one.otherwise),
        *(f"asked beyond the record: {what}" for what in one.beyond),
    )
    shown = () if one.verdict is Verdict.SAME else why
    for line in (*one.differences, *(f"missing: {what}" for what in one.missing), *shown):
        _out.print(f"              {escape(line)}", style="dim")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _print_moment(moment: Moment, width: int) -> None:
    when = moment.at.strftime("%H:%M:%S.%f")[:-3]
    trace = moment.trace[:6]
    _out.print(f"{when}  {trace:6}  {moment.who:10}  {escape(moment.about):{width}}  {escape(moment.what)}")


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; an error that the user can do something about ends the command with one line.

    With 2 where the words of the command are wrong, as typer does; with 4 where the log or the cluster cannot be read.
    """
    causes: list[BaseException] = []
    results: list[T] = []
    try:
        results.append(asyncio.run(work))
    except* (TargetError, UnreadableError, UnreachableError, BusError) as group:
        causes = leaves(group)
    if causes:
        _errors.print(f"aim: {escape(str(causes[0]))}")
        raise typer.Exit(2 if isinstance(causes[0], TargetError | UnreadableError) else _UNREADABLE)
    return results[0]


def leaves(error: BaseException) -> list[BaseException]:
    """The errors inside of nested groups."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]


def main() -> None:
    """Entry point of ``aim``."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    app()


if __name__ == "__main__":
    main()
