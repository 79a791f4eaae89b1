"""`python -m aim_local`: the demo, and the platform alone."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from aim_local.actors.settings import Weights
from aim_local.demo import DemoError, DemoSettings, demo
from aim_local.node import NodeError
from aim_local.processes import end_with_parent
from aim_local.stack import ClusterKind, StackError, StackSettings
from aim_local.up import up
from controller_runtime import KubeError
from controller_runtime.telemetry import exporting

_ROOT: Final = Path(__file__).parents[3]
_INTERRUPTED: Final = 130
_TRUE: Final = frozenset({"1", "true", "yes"})

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def commands() -> None:
    """The platform on one machine, for demos and tests. Never for production."""


_Cluster = Annotated[
    ClusterKind,
    typer.Option(help="In memory, of real programs (`make kube-assets`), or with a node (`make node-assets`)."),
]
_Keda = Annotated[bool, typer.Option("--keda", help="With KEDA's operator in a real cluster; KEDA=1 does the same.")]
_Folder = Annotated[Path, typer.Option(help="Logs, kubeconfig and data.")]
_Parent = Annotated[int | None, typer.Option(help="End with this process, which must be the parent.")]


@app.command("demo")
def run_demo(
    *,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up until Ctrl-C; KEEP=1 does the same.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds from apply to the answer.")] = 120.0,
    cluster: _Cluster = ClusterKind.EMBEDDED,
    keda: _Keda = False,
    folder: _Folder = _ROOT / ".run",
    parent: _Parent = None,
) -> None:
    """From an AIMService to an answer of its model; exit code 0 when it came."""
    stays = keep or _is_set("KEEP")
    stack = _settings(folder, cluster, keda=keda)
    console = Console()
    _end_with(parent)
    try:
        with exporting("demo"):
            asyncio.run(_interruptible(demo(DemoSettings(stack, timeout, stays), console)))
    except (DemoError, NodeError, StackError, KubeError) as error:
        console.print(f"\nThe demo failed: {error}", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(0 if stays else _INTERRUPTED) from None


@app.command("up")
def run_up(
    *,
    cluster: _Cluster = ClusterKind.EMBEDDED,
    kubeconfig: Annotated[Path | None, typer.Option(help="Of any other cluster, which this one then is.")] = None,
    actors: Annotated[
        str | None, typer.Option(help="Parts of a cluster to play: names, `all`, `hardware`; else what is missing.")
    ] = None,
    keda: _Keda = False,
    folder: _Folder = _ROOT / ".run",
    parent: _Parent = None,
) -> None:
    """The platform against a cluster, until Ctrl-C."""
    settings = replace(_settings(folder, kubeconfig or cluster, keda=keda), actors=actors)
    console = Console()
    _end_with(parent)
    try:
        asyncio.run(_interruptible(up(settings, console)))
    except (NodeError, StackError, KubeError) as error:
        console.print(f"\nThe platform is down: {error}", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("\nEverything has ended.")


def _settings(folder: Path, cluster: ClusterKind | Path, *, keda: bool) -> StackSettings:
    crds = _ROOT / "deploy" / "crds"
    keda = keda or _is_set("KEDA")
    return StackSettings(folder.absolute(), crds, cluster=cluster, keda=keda, weights=Weights.HUB)


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in _TRUE


def _end_with(parent: int | None) -> None:
    if parent is not None and not end_with_parent(parent):
        raise typer.Exit(_INTERRUPTED)


async def _interruptible(work: Coroutine[Any, Any, None]) -> None:
    """Let SIGTERM and SIGHUP end the work as Ctrl-C does: in good order."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, task.cancel)
    await task


def main() -> None:
    """Entry point."""
    app()


if __name__ == "__main__":
    main()
