"""`python -m embedded_apiserver`: the embedded API server as a process, until SIGTERM or SIGINT."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from embedded_apiserver.controlplane import EXTERNAL_CRDS, ControlPlane


async def _serve(port: int, kubeconfig: Path | None, crds: list[Path]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    control_plane = ControlPlane(port)
    control_plane.install_crds([EXTERNAL_CRDS, *crds])
    async with control_plane:
        if kubeconfig is not None:
            await asyncio.to_thread(_put, kubeconfig, control_plane.kubeconfig())
        typer.echo(f"ready: {control_plane.url}")
        await stop.wait()


def _put(path: Path, text: str) -> None:
    """Make the file appear at once and whole: clients read it as soon as it is there."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def main(
    port: Annotated[int, typer.Option(help="TCP port on 127.0.0.1; 0 takes a free one.")] = 0,
    kubeconfig: Annotated[Path | None, typer.Option(help="Write a kubeconfig to this file.")] = None,
    crds: Annotated[
        list[Path] | None,
        typer.Option(help="CRD file or folder beside those of KServe, KEDA, Gateway API; may be repeated."),
    ] = None,
) -> None:
    """Serve the Kubernetes API from memory. Never for production."""
    uvloop.run(_serve(port, kubeconfig, crds or []))


if __name__ == "__main__":
    typer.run(main)
