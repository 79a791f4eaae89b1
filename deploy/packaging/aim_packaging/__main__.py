"""`python -m aim_packaging chart`: writes the generated files of the charts, or checks them."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.callback()
def _main() -> None:
    """What installs the platform on a cluster."""


@app.command()
def chart(
    folder: Annotated[Path, typer.Argument(help="folder of the charts")] = Path("deploy/charts"),
    check: Annotated[bool, typer.Option(help="only tell what is not up to date")] = False,
) -> None:
    """Write permissions and broker users into the chart."""
    from aim_packaging.chart import outdated, write  # noqa: PLC0415  # imports all services

    if not check:
        write(folder)
    elif wrong := outdated(folder):
        for path in wrong:
            typer.echo(f"{path} is not up to date; run `make chart`", err=True)
        sys.exit(1)


if __name__ == "__main__":
    app()
