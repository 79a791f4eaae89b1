"""`python -m aim_local.node`: starts a node, ends it, shows what it left."""

import contextlib
import os
import select
import shutil
import time
from typing import Annotated, Final

import typer

from aim_local.assets import AssetError
from aim_local.node.leftovers import leftovers
from aim_local.node.node import Node
from aim_local.node.requirements import (
    NodeError,
    install_packages,
    missing_packages,
    require_linux_and_root,
    require_machine,
)
from aim_local.node.settings import NodeSettings

app: Final = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.command("packages")
def packages() -> None:
    """Install the Debian packages that a node runs."""
    try:
        require_linux_and_root()
        if installed := install_packages():
            typer.echo(f"installed {', '.join(installed)}")
    except NodeError as error:
        raise _failed(error) from error


@app.command("check")
def check() -> None:
    """Print why a node cannot start here: exit code 1 for the machine, 2 for programs that `make node-assets` makes."""
    settings = NodeSettings.from_environment()
    try:
        require_linux_and_root()
        if not missing_packages() or shutil.which("apt-get") is None:
            require_machine(settings)
    except NodeError as error:
        raise _failed(error) from error
    try:
        Node(settings, typer.echo).require()
    except (NodeError, AssetError) as error:
        typer.echo(f"node: {error}", err=True)
        raise typer.Exit(2) from error


@app.command("up")
def up() -> None:
    """Start the node; it runs until `down`."""
    settings = NodeSettings.from_environment()
    begun = time.monotonic()
    try:
        node = Node(settings, typer.echo)
        node.start()
    except (NodeError, AssetError) as error:
        raise _failed(error) from error
    typer.echo(f"up in {time.monotonic() - begun:.0f} s; logs in {settings.logs}")
    typer.echo(f"export KUBECONFIG={settings.kubeconfig}")
    typer.echo("`make node-down` ends it")


@app.command("down")
def down(after: Annotated[int, typer.Option(help="Wait for the end of this process first.")] = 0) -> None:
    """End the node and remove what it left on the machine; images and logs stay."""
    try:
        require_linux_and_root()
        if after:
            _until_ended(after)
        Node(NodeSettings.from_environment(), typer.echo).stop()
    except (NodeError, AssetError) as error:
        raise _failed(error) from error
    typer.echo("the node has ended, and left nothing")


@app.command("add-worker")
def add_worker() -> None:
    """Add a second node to the one that runs, in a network of its own; it ends with that, or by `remove-worker`."""
    try:
        require_linux_and_root()
        worker = Node(NodeSettings.from_environment(), typer.echo).add_worker()
    except (NodeError, AssetError) as error:
        raise _failed(error) from error
    typer.echo(f"{worker.name} is ready at {worker.address}; logs in {worker.logs}")


@app.command("remove-worker")
def remove_worker() -> None:
    """End the second node, and delete its Node and pods; its images stay."""
    try:
        require_linux_and_root()
        Node(NodeSettings.from_environment(), typer.echo).remove_worker()
    except (NodeError, AssetError) as error:
        raise _failed(error) from error


@app.command("leftovers")
def show_leftovers() -> None:
    """Print what of a node is on this machine; exit code 1 where there is anything."""
    found = leftovers(NodeSettings.from_environment())
    for line in found:
        typer.echo(line)
    raise typer.Exit(1 if found else 0)


def _until_ended(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with contextlib.closing(select.epoll()) as ends:
        ends.register(process, select.EPOLLIN)
        ends.poll()
    os.close(process)


def _failed(error: Exception) -> typer.Exit:
    typer.echo(f"node: {error}", err=True)
    return typer.Exit(1)


if __name__ == "__main__":
    app()
