"""Commands about the installation as a whole."""

# What a command needs is imported when it runs: `aim --help` answers at once (FW-555).
# ruff: noqa: PLC0415
from enum import StrEnum
from typing import Annotated

import typer

from aim_cli.arguments import Context, Kubeconfig


class Objects(StrEnum):
    """Forms in which `migrate` prints objects."""

    YAML = "yaml"


def migrate(
    files: Annotated[
        list[str] | None, typer.Option("-f", "--filename", help="File, folder, or - for standard input; repeatable.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of objects in files that name none.")
    ] = "default",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Annotated[
        Objects | None, typer.Option("-o", "--output", help="Print the objects; write nothing, compare with nothing.")
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
    from aim_cli.migration.command import run as moved
    from aim_cli.output import ERRORS, OUT
    from aim_cli.running import run

    wish = Wish(tuple(files or ()), namespace, kubeconfig, context, dry_run=dry_run, print_only=output is not None)
    code = run(moved(wish, OUT, ERRORS))
    if code:
        raise typer.Exit(code)


def register(app: typer.Typer) -> None:
    """Make the commands known."""
    app.command("migrate")(migrate)
