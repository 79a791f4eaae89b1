"""`python -m aim_local.assets`: builds and finds the programs of a real cluster."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from aim_local.assets.build import build_assets, given_programs
from aim_local.assets.golang import AssetError, Go
from aim_local.assets.recipes import Definitions, Group, Program
from aim_local.assets.reduced import files
from aim_local.assets.toolset import Toolset, find_toolset

_TRUE: Final = frozenset({"1", "true", "yes"})

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command("build")
def build(
    keda: Annotated[bool, typer.Option("--keda", help="Build KEDA's operator, too; KEDA=1 does the same.")] = False,
    node: Annotated[bool, typer.Option("--node", help="Build the programs of a node, too, and KEDA's.")] = False,
) -> None:
    """Make what is missing; nothing to do the second time."""
    groups = {Group.CONTROL_PLANE}
    if node or keda or os.environ.get("KEDA", "").lower() in _TRUE:
        groups.add(Group.KEDA)
    if node:
        groups.add(Group.NODE)
    try:
        toolset = find_toolset()
        build_assets(toolset.cache, Go.find, typer.echo, groups, given_programs(toolset.given))
    except AssetError as error:
        typer.echo(f"kube-assets: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"complete in {toolset.cache.root}")


@app.command("crds")
def crds(
    folder: Annotated[Path, typer.Argument(help="Folder of the embedded control plane's definitions.")],
) -> None:
    """Write the neighbours' definitions for the embedded control plane, made from upstream's."""
    try:
        wanted = files(find_toolset())
    except AssetError as error:
        typer.echo(f"kube-assets: {error}", err=True)
        raise typer.Exit(1) from error
    for name, text in wanted.items():
        (folder / name).write_text(text, encoding="utf-8")


@app.command("path")
def path(
    name: Annotated[str, typer.Argument(help="Program or set of definitions, such as etcd or keda-crds.")],
) -> None:
    """Print where a program or a folder of definitions is."""
    try:
        typer.echo(_find(find_toolset(), name))
    except AssetError as error:
        typer.echo(f"kube-assets: {error}", err=True)
        raise typer.Exit(1) from error


def _find(toolset: Toolset, name: str) -> str:
    if name in tuple(Program):
        return str(toolset.program(Program(name)))
    if name in tuple(Definitions):
        return str(toolset.cache.definitions(Definitions(name)))
    raise AssetError(f"nothing is named {name}; there are {', '.join([*Program, *Definitions])}")


if __name__ == "__main__":
    app()
