"""How fast the embedded API server is: ``PYTHONPATH=tests .venv/bin/python -m bench.control_plane``.

It runs as a process of its own, which uses one core at most. The objects are AIMServices with 4 KB of JSON, with
schema, defaults and CEL rules. Rates are also given per second of the server's processor time, because that hardly
depends on who else uses the machine. Nothing fails by time.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
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

_PATH: Final = "/apis/aim.eai.amd.com/v1alpha1/namespaces/default/aimservices"
_SUBJECT: Final = "control plane"
_CLIENTS: Final = 8
_WATCHERS: Final = 20
_CHANGES: Final = 1_000
_WIDTH: Final = 120
"""Columns where the output goes to a file."""
_JSON: Final = {"content-type": "application/json"}
_APPLY: Final = {"content-type": "application/apply-patch+yaml"}


@dataclass(frozen=True, slots=True)
class Server:
    """The server's process and a client of it."""

    process: int
    http: aiohttp.ClientSession
    started_in: float

    def processor_seconds(self) -> float:
        """Processor time that the server has used so far."""
        return processor_seconds(self.process)

    async def send(self, method: str, path: str, body: JsonObject | None, headers: dict[str, str]) -> bytes:
        data = None if body is None else orjson.dumps(body)
        async with self.http.request(method, path, data=data, headers=headers) as response:
            answer = await response.read()
            if response.status >= 300:
                raise RuntimeError(f"{method} {path} was answered with {response.status}: {answer[:300].decode()}")
            return answer


@asynccontextmanager
async def running_server() -> AsyncIterator[Server]:
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "embedded_apiserver", "--crds", str(CRDS), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().split()[-1]
        started_in = time.monotonic() - begun
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(url, read_bufsize=2**22, connector=connector) as http:
            yield Server(process.pid, http, started_in)
    finally:
        process.terminate()
        await process.wait()


def service(number: int) -> JsonObject:
    annotations = {f"bench.example.com/{index}": "x" * 200 for index in range(18)}
    metadata = {"name": f"s{number}", "labels": {"bench": "yes"}, "annotations": annotations}
    spec = {"model": {"image": "registry.example.com/model:1.0.0"}}
    return {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService", "metadata": metadata, "spec": spec}


def _status(number: int) -> JsonObject:
    applied = service(number) | {"status": {"status": "Running", "observedGeneration": number}}
    del applied["spec"]
    applied["metadata"] = {"name": f"s{number}"}
    return applied


@dataclass(frozen=True, slots=True)
class _Rate:
    """How many per second of the clock, and per second of the server's processor time."""

    clock: float
    processor: float

    def figures(self, name: str) -> list[Figure]:
        return [Figure(_SUBJECT, name, self.clock), Figure(_SUBJECT, f"{name} of processor time", self.processor)]


@asynccontextmanager
async def _rated(server: Server, count: int, rates: list[_Rate]) -> AsyncIterator[None]:
    """Add the rate of what is done in the context."""
    clock, processor = time.monotonic(), server.processor_seconds()
    yield
    rates.append(_Rate(count / (time.monotonic() - clock), count / (server.processor_seconds() - processor)))


async def _each(numbers: range, act: Callable[[int], Awaitable[object]]) -> None:
    """Do something for each number, a few clients at a time."""
    left: Iterator[int] = iter(numbers)

    async def client() -> None:
        for number in left:
            await act(number)

    async with asyncio.TaskGroup() as clients:
        for _ in range(_CLIENTS):
            clients.create_task(client())


async def _follow(server: Server, version: str) -> None:
    """Read a watch until all changes have come."""
    seen = 0
    async with server.http.get(_PATH, params={"watch": "1", "resourceVersion": version}) as response:
        async for _ in response.content:
            seen += 1
            if seen == _CHANGES:
                return


async def _fan_out(server: Server, first: int) -> None:
    """Changes, and watchers that read all of them."""
    listed = orjson.loads(await server.send("GET", f"{_PATH}?limit=1", None, {}))
    async with asyncio.TaskGroup() as group:
        for _ in range(_WATCHERS):
            group.create_task(_follow(server, listed["metadata"]["resourceVersion"]))
        await _each(range(first, first + _CHANGES), lambda number: _apply(server, number))


async def _apply(server: Server, number: int) -> bytes:
    query = "fieldManager=bench&force=true"
    return await server.send("PATCH", f"{_PATH}/s{number}/status?{query}", _status(number), _APPLY)


async def _timed(server: Server, accept: str) -> float:
    begun = time.monotonic()
    await server.send("GET", _PATH, None, {"accept": accept})
    return time.monotonic() - begun


async def measure(objects: int) -> list[Figure]:
    """All figures of a fresh server."""
    rates: list[_Rate] = []
    async with running_server() as server:
        start = server.processor_seconds()
        async with _rated(server, objects, rates):
            await _each(range(objects), lambda number: server.send("POST", _PATH, service(number), _JSON))
        plain = await _timed(server, "application/json")
        table = await _timed(server, "application/json;as=Table;v=v1;g=meta.k8s.io")
        async with _rated(server, _CHANGES, rates):
            await _each(range(_CHANGES), lambda number: _apply(server, number))
        async with _rated(server, _WATCHERS * _CHANGES, rates):
            await _fan_out(server, _CHANGES)
    creates, applies, events = rates
    return [
        Figure(_SUBJECT, "start-up", server.started_in, "s", goal=1.0),
        Figure(_SUBJECT, "start-up, processor time", start, "s", goal=1.0),
        *creates.figures(f"creates of 4 KB, {objects}, per second"),
        *applies.figures("status applies per second"),
        *events.figures(f"events to {_WATCHERS} watchers per second, with the applies"),
        Figure(_SUBJECT, f"list of {objects}", plain, "s", goal=1.0),
        Figure(_SUBJECT, f"list of {objects} as a Table", table, "s"),
    ]


def main(objects: int = 10_000) -> None:
    """Measure, print, keep."""
    begun, on = time.monotonic(), machine()
    figures = uvloop.run(measure(objects))
    show(figures, Console(width=None if sys.stdout.isatty() else _WIDTH))
    typer.echo(f"kept in {write_results(figures, on, time.monotonic() - begun)}")


if __name__ == "__main__":
    typer.run(main)
