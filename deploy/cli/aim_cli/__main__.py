"""Say why an object is not ready, inspect the event log (what happened, would today's code decide the same), and move
from older API groups.
"""

# What a command needs is imported when it runs: `aim --help` answers at once (FW-555).
# ruff: noqa: PLC0415
from enum import StrEnum
from typing import Annotated, Final

import typer

app = typer.Typer(no_args_is_help=True, help=__doc__, pretty_exceptions_enable=False, rich_markup_mode=None)

NatsUrl = Annotated[str, typer.Option("--nats-url", envvar="AIM_NATS_URL", help="Message broker with the event log.")]
KindName = Annotated[str, typer.Argument(help="Kind, plural or short name, such as aimservice or aimsvc.")]
ObjectName = Annotated[str, typer.Argument(help="namespace/name, or name for cluster-scoped kinds.")]
_LOCAL: Final = "nats://127.0.0.1:4222"
Kubeconfig = Annotated[str | None, typer.Option(help="Kubeconfig of the cluster; default as for kubectl.")]
Context = Annotated[str | None, typer.Option(help="Context in the kubeconfig.")]


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
    from aim_cli.log_commands import replay
    from aim_cli.running import run

    run(replay(kind, name, nats_url))


@app.command("why")
def why_command(kind: KindName, name: ObjectName, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Say why an object is not ready: the cause first, and what to do; then what waits for it.

    Follows conditions from the object to the pod, volume or quota that they come down to. Asks the cluster alone.
    Exits with 0 when nothing is in its way, with 1 when something is, with 3 when there is no such object, with 4 when
    the cluster cannot be asked.
    """
    from aim_cli.output import OUT
    from aim_cli.running import run
    from aim_cli.why.command import run as why

    code = run(why(kind, name, kubeconfig, context, OUT))
    if code:
        raise typer.Exit(code)


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
    from aim_cli.log_commands import tell
    from aim_cli.running import run

    run(tell(kind, name, nats_url, trace=trace))


@app.command("migrate")
def migrate_command(
    files: Annotated[
        list[str] | None, typer.Option("-f", "--filename", help="File, folder, or - for standard input; repeatable.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of objects in files that name none.")
    ] = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
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
    from aim_cli.migration.command import Wish
    from aim_cli.migration.command import run as migrate
    from aim_cli.output import ERRORS, OUT
    from aim_cli.running import run

    wish = Wish(tuple(files or ()), namespace, kubeconfig, context, dry_run=dry_run, print_only=output is not None)
    code = run(migrate(wish, OUT, ERRORS))
    if code:
        raise typer.Exit(code)


def main() -> None:
    """Entry point of ``aim``."""
    app()


if __name__ == "__main__":
    main()
