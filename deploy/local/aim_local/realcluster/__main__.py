"""`python -m aim_local.realcluster`: a real control plane that stays up until Ctrl-C."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Annotated, Final

import typer

from aim_local.assets import AssetError, find_toolset
from aim_local.realcluster.cluster import RealCluster
from aim_local.realcluster.settings import CONTROLLERS, ClusterSettings
from aim_local.supervision.process import StackError
from controller_runtime import KubeError

_ROOT: Final = Path(__file__).parents[4]

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def run(
    folder: Annotated[Path, typer.Option(help="State, logs and kubeconfigs.")] = _ROOT / ".run" / "real-cluster",
    controllers: Annotated[
        str, typer.Option(help="Of the controller manager, with commas between; without any it does not run.")
    ] = ",".join(CONTROLLERS),
    scheduler: Annotated[bool, typer.Option(help="The scheduler.")] = True,
    kserve: Annotated[bool, typer.Option(help="KServe's controller and webhooks.")] = True,
    keda: Annotated[bool, typer.Option(help="KEDA's operator; `make kube-assets KEDA=1` builds it.")] = False,
) -> None:
    """Start a real control plane and keep it up."""
    wanted = tuple(filter(None, controllers.split(",")))
    settings = ClusterSettings(folder.absolute(), controllers=wanted, scheduler=scheduler, kserve=kserve, keda=keda)
    try:
        asyncio.run(_stay(settings))
    except (AssetError, StackError, KubeError) as error:
        typer.echo(f"real cluster: {error}", err=True)
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError):
        typer.echo("stopped")


async def _stay(settings: ClusterSettings) -> None:
    task = asyncio.current_task()
    assert task is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, task.cancel)
    begun = loop.time()
    async with RealCluster(settings, find_toolset()) as cluster:
        typer.echo(_summary(cluster, loop.time() - begun))
        await cluster.guard()


def _summary(cluster: RealCluster, seconds: float) -> str:
    rows = [
        f"  {one.name:<24} pid {one.pid:<8} {one.start_seconds:5.1f} s  {one.url or '-':<26} {one.log}"
        for one in cluster.processes
    ]
    return "\n".join(
        (
            f"up in {seconds:.1f} s at {cluster.url}",
            f"export KUBECONFIG={cluster.kubeconfig}",
            *rows,
            f"requests: {cluster.settings.audit_log}",
            f"stop with Ctrl-C or `kill {os.getpid()}`",
        )
    )


if __name__ == "__main__":
    app()
