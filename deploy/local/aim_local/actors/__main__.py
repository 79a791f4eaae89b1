"""`python -m aim_local.actors`: simulated parts of a cluster and inference engine as a process, until a signal."""

import asyncio
import dataclasses
import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from aim_local.actors.cluster import SimulatedCluster
from aim_local.actors.failures import failure_api
from aim_local.actors.settings import ActorSettings, UnknownActorError, Weights, parse_actors
from aim_local.engine import Backends, engine
from aim_local.hub import local_hub
from controller_runtime import KubeClient, TransportSettings, __version__, load_connection
from controller_runtime.telemetry import configure_logs


async def _serve(settings: ActorSettings, engine_port: int, failure_port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    backends = Backends()
    connection = await load_connection()
    # The actors stand for many clients, so one client's usual bound would make the cluster slow.
    transport = TransportSettings(concurrency=100)
    async with AsyncExitStack() as stack:
        client = KubeClient(connection, service="local-actors", version=__version__, settings=transport)
        await stack.enter_async_context(client)
        if settings.weights is Weights.HUB:
            settings = dataclasses.replace(settings, hub_url=await stack.enter_async_context(local_hub()))
        cluster = SimulatedCluster(client, settings, backends)
        await stack.enter_async_context(cluster.running())
        failures = await stack.enter_async_context(failure_api(cluster.failures, failure_port))
        url = await stack.enter_async_context(engine(backends, engine_port))
        typer.echo(f"ready: engine on {url}, failures on {failures}/failures")
        await stop.wait()


def main(
    *,
    data: Annotated[Path, typer.Option(help="Folder for what volumes hold.")],
    actors: Annotated[
        str,
        typer.Option(help="Parts to play, separated by commas; `hardware` are those that a real control plane lacks."),
    ] = "all",
    engine_port: Annotated[int, typer.Option(help="TCP port of the engine on 127.0.0.1; 0 takes a free one.")] = 0,
    failure_port: Annotated[
        int, typer.Option(help="TCP port of the failure API on 127.0.0.1; 0 takes a free one.")
    ] = 0,
    kubelet_port: Annotated[int, typer.Option(help="TCP port of the kubelets on 127.0.0.1; 0 takes a free one.")] = 0,
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes.")] = 1,
    gpus: Annotated[int, typer.Option(min=0, help="Accelerators of each node.")] = 8,
    delay: Annotated[float, typer.Option(help="Seconds that each step of a real component takes.")] = 0.02,
    retry_delay: Annotated[float, typer.Option(help="Seconds before a pull, container or Job is retried.")] = 0.5,
    weights: Annotated[
        Weights,
        typer.Option(help="What downloads bring: made-up data, models of a local Hub or of the real one, or nothing."),
    ] = Weights.SIMULATED,
    runtime: Annotated[
        str, typer.Option(help="JSON list: program that runs the containers of downloads, given the pod.")
    ] = "[]",
) -> None:
    """Play parts of a cluster against the API server of KUBECONFIG."""
    configure_logs("info", "json", "local-actors")
    try:
        chosen = parse_actors(actors)
    except UnknownActorError as error:
        raise typer.BadParameter(str(error), param_hint="--actors") from error
    settings = ActorSettings(
        data.absolute(),
        delay=delay,
        retry_delay=retry_delay,
        node_count=nodes,
        gpus=gpus,
        actors=chosen,
        kubelet_port=kubelet_port,
        weights=weights,
        runtime=tuple(json.loads(runtime)),
    )
    uvloop.run(_serve(settings, engine_port, failure_port))


if __name__ == "__main__":
    typer.run(main)
