"""P1: from a change on the Kubernetes watch to the entry of a reconcile in another service, at a steady rate."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.event_probe import NAME, PASSES
from bench.figures import Figure, quantile
from bench.site import MANAGER, Site

from aim_domain import kinds, labels
from aim_domain.parts import CUSTOM_PROFILES
from aim_local.actors.runtime import Informer
from aim_local.stack import Supervised
from aim_local.stack.programs import Addresses
from aim_local.supervision.probes import http_probe
from aim_local.supervision.process import Program
from controller_runtime import JsonObject, Key
from controller_runtime.log.broker.connection import BusSettings, connect
from controller_runtime.log.history.reader import History

RATE: Final = 100
"""Events per second."""
SECONDS: Final = 10
_OBJECTS: Final = 100
_WARM_UP: Final = 100
_NAMESPACE: Final = "bench-events"
_GOALS: Final = {0.5: 3.0, 0.99: 20.0}
_LEAST_SHARE: Final = 0.99
"""Share of the events that must have been seen by everybody before the figures are taken."""
_PATIENCE: Final = 30.0
_TESTS: Final = Path(__file__).parents[1]


async def measure_event_path(site: Site) -> list[Figure]:
    """Changes at fixed times, whatever the answers; each object changes once a second, so that none is coalesced."""
    passes = site.stack.settings.folder / "passes"
    await site.namespace(_NAMESPACE)
    seen: dict[str, int] = {}
    async with _probe(site, passes), _watching(site, seen):
        await _send(site, _WARM_UP)
        await site.settled()
        seen.clear()
        await _send(site, RATE * SECONDS)
        entered = await _until_entered(passes, seen)
        await site.settled()
    sent = await _sent(site)
    return [
        *_figures("watch → reconcile", seen, entered),
        *_figures("  of that: publisher sends → reconcile", {one: sent[one] for one in seen if one in sent}, entered),
        Figure("event path", "events compared", len(seen.keys() & entered.keys())),
    ]


def _figures(name: str, begun: dict[str, int], entered: dict[str, int]) -> Iterable[Figure]:
    spans = [(entered[version] - at) / 1e6 for version, at in begun.items() if version in entered]
    whole = not name.startswith(" ")
    for share, goal in _GOALS.items():
        title = f"{name} p{share * 100:g}"
        yield Figure("event path", title, quantile(spans, share), "ms", goal if whole else None)


async def _send(site: Site, count: int) -> None:
    begun = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, begun + number / RATE - time.monotonic()))
            group.create_task(site.client.apply(kinds.CONFIG_MAP, _body(number), MANAGER))


def _body(number: int) -> JsonObject:
    metadata = {
        "name": f"profile-{number % _OBJECTS}",
        "namespace": _NAMESPACE,
        "labels": {labels.COMPONENT: labels.COMPONENT_CUSTOM_PROFILE},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"at": str(time.monotonic_ns())}}


@asynccontextmanager
async def _watching(site: Site, seen: dict[str, int]) -> AsyncIterator[None]:
    """Notes when each version came on a watch of our own, with the same client that publishers use."""
    informer = Informer(site.client, CUSTOM_PROFILES.kind, label_selector=CUSTOM_PROFILES.label_selector)

    def on_change(key: Key, obj: JsonObject) -> None:
        if key.namespace == _NAMESPACE:
            seen[str(obj["metadata"]["resourceVersion"])] = time.time_ns()

    informer.listen(on_change)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(informer.run())
        await informer.synced.wait()
        yield
        following.cancel()


@asynccontextmanager
async def _probe(site: Site, passes: Path) -> AsyncIterator[None]:
    """The probing service, as a process like the others."""
    port = Addresses.choose(()).gateway
    address = f"127.0.0.1:{port}"
    own = {
        "AIM_HEALTH_PROBE_BIND_ADDRESS": address,
        "AIM_METRICS_BIND_ADDRESS": address,
        "AIM_METRICS_SECURE": "false",
        "AIM_POD_NAME": "bench-probe-0",
        # A real API server lets no service take a Lease of another name.
        "KUBECONFIG": str(site.stack.kubeconfig),
        "PYTHONPATH": os.pathsep.join([str(_TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]),
        PASSES: str(passes),
    }
    program = Program(
        NAME,
        (sys.executable, "-m", "bench.event_probe"),
        {**site.stack["serving"].program.env, **own},
        http_probe(f"http://{address}/readyz"),
    )
    log = site.stack.settings.folder / "logs" / f"{NAME}.log"
    process = Supervised(program, log, start_timeout=_PATIENCE, stop_patience=5)
    await process.start()
    try:
        yield
    finally:
        await process.stop()


async def _until_entered(passes: Path, seen: dict[str, int]) -> dict[str, int]:
    """When the reconcile was entered with each version.

    Raises:
        TimeoutError: too few of the versions arrived.
    """
    async with asyncio.timeout(_PATIENCE):
        while True:
            lines = (await asyncio.to_thread(passes.read_text, "ascii")).splitlines()
            entered = {version: int(at) for version, _, at in (line.partition(" ") for line in lines) if at}
            enough = _LEAST_SHARE * RATE * SECONDS
            if len(seen) >= enough and len(seen.keys() & entered.keys()) >= enough:
                return entered
            await asyncio.sleep(0.1)


async def _sent(site: Site) -> dict[str, int]:
    """When the publisher sent each version, to the millisecond, from the history."""
    async with connect(BusSettings.of_urls(site.stack.nats_url, MANAGER)) as bus:
        await bus.wait_connected()
        history = History(bus)
        found: dict[str, int] = {}
        for number in range(_OBJECTS):
            key = Key(_NAMESPACE, f"profile-{number}")
            for version in await history.versions(CUSTOM_PROFILES.name, key):
                found[version.state.resource_version] = int(version.state.time.timestamp() * 1e9)
        return found
