"""Commands about the event log."""

# What a command needs is imported when it runs: `aim --help` answers at once (FW-555).
# ruff: noqa: PLC0415
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aim_cli import completion
from aim_cli.answer import Form, announce, complain
from aim_cli.arguments import LOCAL, Context, KindName, Kubeconfig, MaybeName, Namespace, NatsUrl, Output

if TYPE_CHECKING:
    from aim_cli.cluster.targets import Where
    from aim_cli.errors import Exit


def replay(
    kind: Annotated[
        str | None,
        typer.Argument(help="Kind, plural or short name; or a file of `aim export`.", autocompletion=completion.kinds),
    ] = None,
    name: MaybeName = None,
    namespace: Namespace = None,
    output: Output = Form.TABLE,
    nats_url: NatsUrl = LOCAL,
    against: Annotated[
        Path | None,
        typer.Option("--against", help="Python or virtual environment of another release to compare with."),
    ] = None,
    as_test: Annotated[
        Path | None,
        typer.Option("--as-test", help="Write a pytest file, and its data beside it."),
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="All decisions in the log.")] = False,
) -> None:
    """Repeat recorded decisions, from the log or a file, and compare the results.

    Selects the decisions about an object, a kind, a namespace (-n), those in a file, or --all.

    Exits with 0 when this release decides the same, with 1 when it decides differently, with 2 when an outcome is
    undetermined (the output names what is missing), with 3 when there is no decision about the object, with 4 when
    the log cannot be read. --against compares the decisions of two releases, with the same codes.
    """
    from aim_cli.cluster.targets import Where
    from aim_cli.errors import Exit
    from aim_cli.log.connecting import SUFFIX
    from aim_cli.running import run
    from controller_runtime.log import without_credentials

    some = bool(kind or namespace)
    if (every and some) or not (every or some or nats_url.endswith(SUFFIX)):
        complain("aim: name either an object, a kind, a namespace (-n) or a file of `aim export`, or --all decisions")
        raise typer.Exit(Exit.WORDS)
    if kind is not None and kind.endswith(SUFFIX):
        nats_url, kind, name = kind, name, None
    where = Where(namespace=namespace)
    announce(f"taking decisions again, from {without_credentials(nats_url)}", output)
    if against is not None or as_test is not None:
        raise typer.Exit(_replay_elsewhere(kind, name, where, nats_url, output, against=against, as_test=as_test))
    # Who waits has read a line by now (FW-728).
    from aim_cli.log.replaying import replay

    raise typer.Exit(run(replay(kind, name, where, nats_url, output)))


def _replay_elsewhere(
    kind: str | None,
    name: str | None,
    where: "Where",
    nats_url: str,
    output: Form,
    *,
    against: Path | None,
    as_test: Path | None,
) -> "Exit":
    from aim_cli.answer import Answer, answered
    from aim_cli.errors import TargetError
    from aim_cli.log.exporting import as_test as written
    from aim_cli.log.replaying import against as compared
    from aim_cli.log.targets import decisions_of
    from aim_cli.running import waited

    def ask() -> Answer:
        wanted = decisions_of(kind, name, where)
        if against is not None and as_test is not None:
            raise TargetError("--against and --as-test do different things; give one of them")
        if against is not None:
            return waited(compared(nats_url, wanted, against))
        assert as_test is not None
        return waited(written(nats_url, wanted, as_test))

    return answered(ask, output)


def export(
    file: Annotated[Path, typer.Argument(help="File to write; its name ends with .aimlog.")],
    kind: Annotated[
        str | None,
        typer.Argument(help="Kind, plural or short name; without it, every decision.", autocompletion=completion.kinds),
    ] = None,
    name: MaybeName = None,
    namespace: Namespace = None,
    output: Output = Form.TABLE,
    nats_url: NatsUrl = LOCAL,
    since: Annotated[str, typer.Option("--since", help="Only decisions since a time, or since 10m ago.")] = "",
) -> None:
    """Write decisions, and all objects of the kinds that they read, into a file that replays without a cluster.

    Masks credentials. The file contains these kinds from all namespaces, because decisions count them; the output
    lists them. Exits with 2 when the file cannot be written, with 3 when there is no such decision, with 4 when the log
    cannot be read.
    """
    from dataclasses import replace
    from datetime import UTC, datetime

    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.targets import Where
    from aim_cli.log.exporting import export as exported
    from aim_cli.log.targets import decisions_of
    from aim_cli.running import waited
    from aim_cli.units import moment
    from controller_runtime.log import without_credentials

    def ask() -> Answer:
        wanted = decisions_of(kind, name, Where(namespace=namespace))
        announce(f"writing {file} from {without_credentials(nats_url)}", output)
        begun = moment(since, datetime.now(UTC)) if since else None
        return waited(exported(nats_url, file, replace(wanted, since=begun)))

    raise typer.Exit(answered(ask, output))


def import_(
    file: Annotated[Path, typer.Argument(help="File of `aim export`.")],
    output: Output = Form.TABLE,
) -> None:
    """Check a file of `aim export` and list its content; commands that read the log accept the file directly.

    Exits with 1 when it contains a credential, with 2 when it is damaged or no such file.
    """
    from aim_cli.answer import answered
    from aim_cli.log.exporting import examined

    raise typer.Exit(answered(lambda: examined(file), output))


def timeline(
    kind: KindName,
    name: MaybeName = None,
    namespace: Namespace = None,
    output: Output = Form.TABLE,
    nats_url: NatsUrl = LOCAL,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    since: Annotated[str, typer.Option("--since", help="Only events since a time, or since 10m ago.")] = "",
    *,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show everything in its traces, also in other namespaces.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue with new events.")] = False,
    waterfall: Annotated[
        bool, typer.Option("--waterfall", help="Draw a bar for each object: created, decided, ready.")
    ] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write these bars to a self-contained HTML file.")] = None,
) -> None:
    """Show what happened to an object, its relatives and its namespace, in order, across all services.

    Uses the kubeconfig only for the default namespace. Exits with 3 when the log has nothing about the object, with 4
    when the log cannot be read.
    """
    from datetime import UTC, datetime

    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.targets import Where
    from aim_cli.log.report import StoryOptions, followed, picture, story
    from aim_cli.running import run, waited
    from aim_cli.units import moment

    where = Where(kubeconfig, context, namespace)

    def wish() -> StoryOptions:
        return StoryOptions(trace, moment(since, datetime.now(UTC)) if since else None, output)

    async def go_on() -> "Exit":
        return await followed(kind, name, where, nats_url, wish())

    def ask() -> Answer:
        if waterfall or html is not None:
            return waited(picture(kind, name, where, nats_url, html))
        return waited(story(kind, name, where, nats_url, wish()))

    if follow:
        raise typer.Exit(run(go_on()))
    raise typer.Exit(answered(ask, output))


def state(
    at: Annotated[str, typer.Option("--at", help="Time such as 2026-11-23T14:05:00Z, or 10m for ten minutes ago.")],
    kind: Annotated[
        str | None,
        typer.Argument(help="Kind, plural or short name; without it, every object.", autocompletion=completion.kinds),
    ] = None,
    name: MaybeName = None,
    namespace: Namespace = None,
    output: Output = Form.TABLE,
    nats_url: NatsUrl = LOCAL,
) -> None:
    """Show objects as they were at a time; -o yaml prints them.

    Exits with 3 when the object did not exist or the log does not reach back, with 4 when the log cannot be read.
    """
    from datetime import UTC, datetime

    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.targets import Where
    from aim_cli.log.past import Scope
    from aim_cli.log.past import state as answer_of
    from aim_cli.log.targets import target
    from aim_cli.running import waited
    from aim_cli.units import moment

    def ask() -> Answer:
        wanted = None if kind is None else target(kind, name, Where(namespace=namespace))
        return waited(answer_of(nats_url, Scope(wanted, namespace), moment(at, datetime.now(UTC))))

    raise typer.Exit(answered(ask, output))


def diff(
    since: Annotated[
        str, typer.Option("--from", help="Time such as 2026-11-23T14:05:00Z, or 10m for ten minutes ago.")
    ],
    until: Annotated[str, typer.Option("--to", help="As --from; default is now.")] = "0s",
    kind: Annotated[
        str | None,
        typer.Argument(help="Kind, plural or short name; without it, every object.", autocompletion=completion.kinds),
    ] = None,
    name: MaybeName = None,
    namespace: Namespace = None,
    output: Output = Form.TABLE,
    nats_url: NatsUrl = LOCAL,
) -> None:
    """Compare the cluster at two points in time: objects that were added, deleted or changed, field by field.

    Exits with 1 when there is a difference, with 4 when the log cannot be read.
    """
    from datetime import UTC, datetime

    from aim_cli.answer import Answer, answered
    from aim_cli.cluster.targets import Where
    from aim_cli.log.past import Scope
    from aim_cli.log.past import diff as answer_of
    from aim_cli.log.targets import target
    from aim_cli.running import waited
    from aim_cli.units import moment

    def ask() -> Answer:
        now = datetime.now(UTC)
        wanted = None if kind is None else target(kind, name, Where(namespace=namespace))
        return waited(answer_of(nats_url, Scope(wanted, namespace), moment(since, now), moment(until, now)))

    raise typer.Exit(answered(ask, output))


def register(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command("replay", short_help="Repeat recorded decisions and compare the results.")(replay)
    app.command("export", short_help="Write a part of the event log to a file.")(export)
    app.command("import", short_help="Check a file of `aim export`.")(import_)
    app.command("timeline", short_help="Show what happened to an object, in order.")(timeline)
    app.command("state", short_help="Show objects as they were at a time.")(state)
    app.command("diff", short_help="Compare objects at two points in time.")(diff)
