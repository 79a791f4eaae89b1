"""What churn leaves in the embedded API server: ``PYTHONPATH=tests .venv/bin/python -m bench.control_plane_churn``.

Objects of five kinds come, change and go, 60 at a time, with Events about each change; at the end all but the
Events is deleted. The counts of what is kept are the same on any machine; a server that does not tell them (before
``/debug/store``) is shown by its memory alone.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import orjson
import typer
import uvloop
from bench.control_plane import Server, running_server, service
from bench.figures import Figure, machine, write_results
from bench.table import show
from bench.usage import MIB
from rich.console import Console

from controller_runtime import JsonObject

_SUBJECT: Final = "control plane, churn"
_ALIVE: Final = 60
_CHANGES: Final = 8
_CORE: Final = "/api/v1/namespaces/default"
_PATHS: Final = (
    "/apis/aim.eai.amd.com/v1alpha1/namespaces/default/aimservices",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    *(f"{_CORE}/{plural}" for plural in ("configmaps", "secrets", "serviceaccounts")),
)
_EVENTS: Final = f"{_CORE}/events"
_JSON: Final = {"content-type": "application/json"}
_MERGE: Final = {"content-type": "application/merge-patch+json"}
_WIDTH: Final = 120


def _body(path: str, number: int) -> JsonObject:
    body = service(number)
    return body if path.endswith("aimservices") else {"metadata": body["metadata"]}


def _event(path: str, number: int, change: int) -> JsonObject:
    about = {"kind": path.rpartition("/")[2], "namespace": "default", "name": f"s{number}"}
    return {
        "metadata": {"generateName": f"s{number}."},
        "involvedObject": about,
        "reason": "Changed",
        "message": f"change {change}: " + "x" * 300,
        "type": "Normal",
        "source": {"component": "bench"},
    }


async def _life(server: Server, path: str, number: int) -> None:
    """One object, from its creation to its deletion."""
    await server.send("POST", path, _body(path, number), _JSON)
    for change in range(_CHANGES):
        await server.send("PATCH", f"{path}/s{number}", {"metadata": {"labels": {"change": str(change)}}}, _MERGE)
        await server.send("POST", _EVENTS, _event(path, number, change), _JSON)
    await server.send("DELETE", f"{path}/s{number}", None, {})


@asynccontextmanager
async def _watched(server: Server) -> AsyncIterator[None]:
    """Somebody watches each kind, so that lines are encoded and sent."""

    async def follow(path: str) -> None:
        async with server.http.get(path, params={"watch": "1"}, timeout=aiohttp.ClientTimeout(None)) as response:
            async for _ in response.content.iter_any():
                pass

    async with asyncio.TaskGroup() as group:
        watches = [group.create_task(follow(path)) for path in (*_PATHS, _EVENTS)]
        yield
        for watch in watches:
            watch.cancel()


async def measure(lives: int) -> list[Figure]:
    """All figures of a fresh server."""
    async with running_server() as server, _watched(server):
        begin, started = _resident(server), server.processor_seconds()
        left: Iterator[tuple[str, int]] = iter([(path, number) for number in range(lives) for path in _PATHS])

        async def client() -> None:
            for path, number in left:
                await _life(server, path, number)

        async with asyncio.TaskGroup() as clients:
            for _ in range(_ALIVE):
                clients.create_task(client())
        writes = lives * len(_PATHS) * (2 + 2 * _CHANGES)
        return [
            Figure(_SUBJECT, "writes", writes),
            Figure(_SUBJECT, "processor time per write", 1000 * (server.processor_seconds() - started) / writes, "ms"),
            Figure(_SUBJECT, "resident at the start", begin, "MiB"),
            Figure(_SUBJECT, "resident with everything deleted", _resident(server), "MiB", goal=300),
            *await _kept(server),
        ]


async def _kept(server: Server) -> list[Figure]:
    try:
        kept = orjson.loads(await server.send("GET", "/debug/store", None, {})).values()
    except RuntimeError:
        return []
    return [
        Figure(_SUBJECT, "events kept", sum(one["events"] for one in kept)),
        Figure(_SUBJECT, "former versions kept", sum(one["event_bytes"] for one in kept) / MIB, "MiB", goal=32),
        Figure(_SUBJECT, "objects kept", sum(one["objects"] for one in kept)),
        Figure(_SUBJECT, "their JSON", sum(one["object_bytes"] for one in kept) / MIB, "MiB"),
    ]


def _resident(server: Server) -> float:
    fields = Path(f"/proc/{server.process}/status").read_text(encoding="ascii").split("VmRSS:")[1].split()
    return int(fields[0]) / 1024


def main(lives: int = 500) -> None:
    """Measure, print, keep."""
    begun, on = time.monotonic(), machine()
    figures = uvloop.run(measure(lives))
    show(figures, Console(width=None if sys.stdout.isatty() else _WIDTH))
    typer.echo(f"kept in {write_results(figures, on, time.monotonic() - begun)}")


if __name__ == "__main__":
    typer.run(main)
