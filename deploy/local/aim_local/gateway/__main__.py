"""`python -m aim_local.gateway`: the local gateway as a process, until SIGTERM or SIGINT."""

import asyncio
import signal
from typing import Annotated

import typer
import uvloop

from aim_local.gateway.server import gateway
from controller_runtime import KubeClient, __version__, load_connection
from controller_runtime.telemetry import configure_logs


async def _serve(port: int, engine_url: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    connection = await load_connection()
    async with (
        KubeClient(connection, service="local-gateway", version=__version__) as client,
        gateway(client, engine_url, port) as url,
    ):
        typer.echo(f"ready: {url}")
        await stop.wait()


def main(
    engine_url: Annotated[str, typer.Option(help="Base URL of the inference engine.")],
    port: Annotated[int, typer.Option(help="TCP port on 127.0.0.1; 0 takes a free one.")] = 0,
) -> None:
    """Follow the accepted HTTPRoutes of the cluster of KUBECONFIG."""
    configure_logs("info", "json", "local-gateway")
    uvloop.run(_serve(port, engine_url))


if __name__ == "__main__":
    typer.run(main)
