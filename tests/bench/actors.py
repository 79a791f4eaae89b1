"""Whether the simulated cluster keeps up: ``PYTHONPATH=tests .venv/bin/python -m bench.actors``.

InferenceServices are created as fast as the embedded API server takes them; each becomes a Deployment, ReplicaSet, Pod,
Service and a status, until it is ready. API server and actors are processes of their own, so that their processor time
tells what a service costs on any machine. Nothing fails by time.
"""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import orjson
import typer
import uvloop
from bench.figures import Figure, machine, write_results
from bench.surroundings import CRDS
from bench.table import show
from bench.usage import processor_seconds
from rich.console import Console

from controller_runtime import JsonObject

_PATH: Final = "/apis/serving.kserve.io/v1beta1/namespaces/default/inferenceservices"
_SUBJECT: Final = "actors"
_CLIENTS: Final = 8
_WIDTH: Final = 120
_LIMIT_SECONDS: Final = 600.0


@asynccontextmanager
async def _started(*command: str, env: dict[str, str] | None = None) -> AsyncIterator[tuple[int, str]]:
    """A process of ours and the first line that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=env
    )
    try:
        assert process.stdout is not None
        yield process.pid, (await process.stdout.readline()).decode()
    finally:
        process.terminate()
        await process.wait()


def _inference_service(number: int) -> JsonObject:
    container = {"name": "kserve-container", "image": "docker.io/amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"}
    predictor = {"containers": [container], "minReplicas": 1, "maxReplicas": 1}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": f"s{number}", "namespace": "default"},
        "spec": {"predictor": predictor},
    }


def _is_ready(obj: JsonObject) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


async def _until_ready(http: aiohttp.ClientSession, count: int) -> None:
    ready: set[str] = set()
    async with asyncio.timeout(_LIMIT_SECONDS), http.get(_PATH, params={"watch": "1"}) as response:
        async for line in response.content:
            obj = orjson.loads(line)["object"]
            if _is_ready(obj):
                ready.add(obj["metadata"]["name"])
                if len(ready) == count:
                    return


async def _create(http: aiohttp.ClientSession, count: int) -> None:
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            async with http.post(_PATH, json=_inference_service(number)) as response:
                assert response.status == 201, await response.text()

    async with asyncio.TaskGroup() as clients:
        for _ in range(_CLIENTS):
            clients.create_task(client())


async def measure(services: int) -> list[Figure]:
    """All figures of a fresh cluster."""
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder, "kubeconfig")
        env = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        async with (
            _started("embedded_apiserver", "--crds", str(CRDS), "--kubeconfig", str(kubeconfig)) as (server, line),
            _started("aim_local.actors", "--data", folder, env=env) as (actors, _),
            aiohttp.ClientSession(line.split()[-1], read_bufsize=2**22) as http,
        ):
            begun, used = time.monotonic(), [processor_seconds(one) for one in (actors, server)]
            async with asyncio.TaskGroup() as group:
                group.create_task(_until_ready(http, services))
                group.create_task(_create(http, services))
            seconds = time.monotonic() - begun
            by_actors, by_server = (
                processor_seconds(one) - before for one, before in zip((actors, server), used, strict=True)
            )
            async with http.get("/debug/requests") as answer:
                requests = orjson.loads(await answer.read())["total"]
    return [
        Figure(_SUBJECT, f"{services} InferenceServices until all are ready", seconds, "s"),
        Figure(_SUBJECT, "processor time of the actors, per service", 1000 * by_actors / services, "ms"),
        Figure(_SUBJECT, "processor time of the API server, per service", 1000 * by_server / services, "ms"),
        Figure(_SUBJECT, "requests per service, its creation included", requests / services),
    ]


def main(services: int = 1_000) -> None:
    """Measure, print, keep."""
    begun, on = time.monotonic(), machine()
    figures = uvloop.run(measure(services))
    show(figures, Console(width=None if sys.stdout.isatty() else _WIDTH))
    typer.echo(f"kept in {write_results(figures, on, time.monotonic() - begun)}")


if __name__ == "__main__":
    typer.run(main)
