"""`python -m aim_local`: the demo, and the stack alone."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from aim_local.demo import DemoError, DemoSettings, demo
from aim_local.processes import end_with_parent
from aim_local.stack import StackError, StackSettings
from aim_shared.kube.errors import KubeError

_ROOT: Final = Path(__file__).parents[3]
_INTERRUPTED: Final = 130
_TRUE: Final = frozenset({"1", "true", "yes"})

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def commands() -> None:
    """The platform on one machine, for demos and tests. Never for production."""


@app.command("demo")
def run_demo(
    keep: Annotated[bool, typer.Option("--keep", help="Stay up until Ctrl-C; KEEP=1 does the same.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds from apply to the answer.")] = 120.0,
    folder: Annotated[Path, typer.Option(help="Logs, kubeconfig and data.")] = _ROOT / ".run",
    parent: Annotated[int | None, typer.Option(help="End with this process, which must be the parent.")] = None,
) -> None:
    """From an AIMService to an answer of its model; exit code 0 when it came."""
    if parent is not None and not end_with_parent(parent):
        raise typer.Exit(_INTERRUPTED)
    stays = keep or os.environ.get("KEEP", "").lower() in _TRUE
    stack = StackSettings(folder=folder.absolute(), crds=_ROOT / "deploy" / "crds")
    console = Console()
    try:
        asyncio.run(_interruptible(demo(DemoSettings(stack, timeout, stays), console)))
    except (DemoError, StackError, KubeError) as error:
        console.print(f"\nThe demo failed: {error}", highlight=False, markup=False, soft_wrap=True)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(0 if stays else _INTERRUPTED) from None


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
