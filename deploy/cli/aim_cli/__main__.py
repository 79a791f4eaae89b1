"""Explain why an object is not ready, inspect and replay the event log, and migrate from older API groups.

Every command ends with 0 on success, 1 when it finds a problem or a difference, 2 when its arguments are wrong, 3 when
the object does not exist, 4 when the cluster or the event log cannot be read.
"""

from typing import Annotated

import typer

from aim_cli.commands import installation, log, objects

app = typer.Typer(
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in (objects, log, installation):
    group.register(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        # The import alone takes longer than most help.
        from importlib.metadata import version  # noqa: PLC0415

        typer.echo(f"aim {version('aim-cli')}")
        raise typer.Exit


@app.command("version")
def version_alone() -> None:
    """Show the release."""
    _print_version(True)


@app.callback(help=__doc__)
def options(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the release and exit.")
    ] = False,
) -> None:
    """See the module."""
    if context.invoked_subcommand is None and not version:
        typer.echo(context.get_help())


def main() -> None:
    """Entry point of ``aim``."""
    app()


if __name__ == "__main__":
    main()
