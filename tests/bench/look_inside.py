"""How long `aim` takes to answer about one AIMService among many: ``python -m bench.look_inside 1000 10000 1000000``.

So many AIMServices run; so many more lie in the cluster, in a hundred namespaces, and so many events of those in the
log, half of them versions, half decisions. Each command is a process of its own, as a person starts it.
"""

import asyncio
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import nats
import typer
import uvloop
from bench.figures import Figure, median_of
from bench.site import Site, service_body, site
from bench.table import show
from nats.aio.client import Client
from rich.console import Console

from aim_domain import kinds, services
from aim_domain.parts import SERVICES
from aim_local.nats import NatsServer
from controller_runtime import Key, dumps
from controller_runtime.log.history.decisions import DecisionRecord
from controller_runtime.log.wire.messages import LogMessage, StateMessage, Verb, message_id
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

_NAMESPACE: Final = "bench-inside"
_SHOWN: Final = Key(_NAMESPACE, "s0")
_NAMESPACES: Final = 100
_ROUNDS: Final = 5
_PATIENCE: Final = 300.0
_FLUSH_EVERY: Final = 2000
_PIECE: Final = 500
_EPOCH: Final = "noise"
_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "aim --help": ("--help",),
    "aim why": ("why", "aimservice", str(_SHOWN)),
    "aim timeline": ("timeline", "aimservice", str(_SHOWN)),
    "aim timeline --trace": ("timeline", "aimservice", str(_SHOWN), "--trace"),
    "aim timeline --trace --since": ("timeline", "aimservice", str(_SHOWN), "--trace", "--since", "0s"),
    "aim replay of one object": ("replay", "aimservice", str(_SHOWN)),
}


def _others(count: int) -> Iterator[Key]:
    return (Key(f"bench-other-{number % _NAMESPACES}", f"other-{number}") for number in range(count))


async def _run_services(place: Site, count: int) -> None:
    await place.namespace(_NAMESPACE)
    keys = [Key(_NAMESPACE, f"s{number}") for number in range(count)]
    await place.create(kinds.AIM_SERVICE, map(service_body, keys))
    await place.services.until_seen(keys, _PATIENCE)
    await place.settled(_PATIENCE)


async def _lay_objects(place: Site, count: int) -> None:
    for number in range(_NAMESPACES):
        await place.namespace(f"bench-other-{number}")
    keys = list(_others(count))
    for first in range(0, count, _PIECE):
        await place.create(kinds.AIM_SERVICE, map(service_body, keys[first : first + _PIECE]))


def _version(key: Key, number: int) -> tuple[str, bytes, dict[str, str]]:
    metadata = {"name": key.name, "namespace": key.namespace, "uid": key.name, "resourceVersion": str(number)}
    body = dumps({"kind": "AIMService", "metadata": metadata})
    state = StateMessage(
        part=SERVICES.name,
        key=key,
        verb=Verb.UPSERT,
        epoch=_EPOCH,
        store_id=_EPOCH,
        uid=key.name,
        resource_version=str(number),
        previous=0,
        body=body,
        traceparent="",
        time=datetime.now(UTC),
        source="bench",
        id=message_id(_EPOCH, key.name, str(number), Verb.UPSERT),
    )
    return DEFAULT_LAYOUT.log(SERVICES.name, key), body, LogMessage(state, number).headers()


def _decision(key: Key, number: int) -> tuple[str, bytes, dict[str, str]]:
    record = DecisionRecord(
        id=f"{key} {number}",
        service="serving",
        controller="service",
        part=SERVICES.name,
        namespace=key.namespace,
        name=key.name,
        at=datetime.now(UTC),
        traceparent=f"00-{number:032x}-{1:016x}-01",
    )
    return DEFAULT_LAYOUT.decision("serving", SERVICES.name, key), record.to_json(), {}


async def _add_events(url: str, objects: int, events: int) -> None:
    """Publish without waiting for each answer, and count afterwards."""
    keys = list(_others(objects))
    client = await nats.connect(url)
    before = await _messages(client)
    for number in range(1, events + 1):
        # Each object has versions and decisions.
        key, make = keys[number // 2 % objects], _version if number % 2 else _decision
        subject, body, headers = make(key, number)
        await client.publish(subject, body, headers=headers)
        if number % _FLUSH_EVERY == 0:
            await client.flush(timeout=60)
    while (added := await _messages(client) - before) < events:
        typer.echo(f"{added} of {events} events are stored")
        await asyncio.sleep(1)
    await client.close()


async def _messages(client: Client) -> int:
    infos = [await client.jetstream().stream_info(name) for name in ("AIM_HISTORY", "AIM_DECISIONS")]
    return sum(one.state.messages for one in infos)


async def _seconds(words: tuple[str, ...], env: Mapping[str, str]) -> float:
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_cli", *words, env=env, stdout=asyncio.subprocess.DEVNULL
    )
    code = await process.wait()
    # A machine that is too slow for the burst leaves decisions that nobody can take again; that takes as long.
    # Of what was since this moment the log may hold nothing.
    assert code in (0, 1, 2, 3), f"aim {' '.join(words)} ended with {code}"
    return time.perf_counter() - begun


async def _figures(title: str, env: Mapping[str, str]) -> list[Figure]:
    found = []
    for name, words in _COMMANDS.items():
        spans = [1000 * await _seconds(words, env) for _ in range(_ROUNDS)]
        found.append(median_of(title, name, spans, "ms"))
    return found


async def measure(running: int, objects: int, events: int) -> list[Figure]:
    """Alone first, then among all the others."""
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with site(Path(folder, "platform")) as place:
            await _run_services(place, running)
            env = {**os.environ, "KUBECONFIG": str(place.stack.kubeconfig), "AIM_NATS_URL": place.stack.nats_url}
            found = await _figures(f"{running} services", env)
            every = await _seconds(("replay", "--all"), env)
            found.append(Figure(f"{running} services", "aim replay --all", every, "s"))
            for name in (*services.SERVICES, "nats"):
                await place.stack[name].stop()
            copy = Path(folder, "log")
            leave = shutil.ignore_patterns("nats.conf")
            await asyncio.to_thread(shutil.copytree, place.stack.settings.folder / "nats", copy, ignore=leave)
            await _lay_objects(place, objects)
            unsynced = f'jetstream {{ store_dir: "{copy}", max_file_store: 1TB }}'
            async with NatsServer(copy, extra_config=unsynced) as server:
                await _add_events(server.url, objects, events)
                title = f"among {objects:,} more and {events:,} events"
                return found + await _figures(title, {**env, "AIM_NATS_URL": server.url})


def main(
    running: Annotated[int, typer.Argument(help="AIMServices that run.")] = 1000,
    objects: Annotated[int, typer.Argument(help="AIMServices beside them.")] = 10_000,
    events: Annotated[int, typer.Argument(help="Events of these in the log.")] = 1_000_000,
) -> None:
    """Measure and print."""
    show(uvloop.run(measure(running, objects, events)), Console(width=None if sys.stdout.isatty() else 120))


if __name__ == "__main__":
    typer.run(main)
