"""Replay of one object's decisions while the history holds a hundred thousand events of others."""

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench.figures import Figure, median_of
from bench.site import MANAGER, Site

from aim_cli.services import services
from aim_local.keys import Key
from aim_local.nats import NatsServer
from aim_shared.bus.connection import BusConnection, BusSettings, connect
from aim_shared.bus.history import DecisionFilter, History
from aim_shared.bus.part import Key as ObjectKey
from aim_shared.bus.parts import SERVICES
from aim_shared.bus.subjects import DEFAULT_LAYOUT
from aim_shared.json import dumps
from aim_shared.replay import Replayer, Verdict

EVENTS: Final = 100_000
ROUNDS: Final = 5
_OBJECTS: Final = 1000
_IN_FLIGHT: Final = 256
_GOAL: Final = 250.0


async def measure_replay(site: Site, key: Key) -> list[Figure]:
    """The real history of one AIMService, among synthetic events. Ends the broker of the site."""
    body = dumps(site.services.present[key])
    await site.stack["nats"].stop()
    copy = site.stack.settings.folder / "history"
    await asyncio.to_thread(shutil.copytree, site.stack.settings.folder / "nats", copy)
    try:
        async with _server(copy) as bus:
            await _add_events(bus, body)
            return await _replay(History(bus), ObjectKey(key.namespace, key.name))
    finally:
        await asyncio.to_thread(shutil.rmtree, copy)


@asynccontextmanager
async def _server(store: Path) -> AsyncIterator[BusConnection]:
    """A broker on a copy of the store. It does not sync each write: only reading is measured here."""
    unsynced = f'jetstream {{ store_dir: "{store}", max_file_store: 1TB }}'
    async with (
        NatsServer(store, extra_config=unsynced) as server,
        connect(BusSettings.of_urls(server.url, MANAGER)) as bus,
    ):
        await bus.wait_connected()
        yield bus


async def _add_events(bus: BusConnection, body: bytes) -> None:
    left = iter(range(EVENTS))

    async def work() -> None:
        for number in left:
            subject = DEFAULT_LAYOUT.log(SERVICES.name, ObjectKey("bench-noise", f"service-{number % _OBJECTS}"))
            await bus.publish(subject, body, {"Nats-Msg-Id": f"noise-{number}"})

    async with asyncio.TaskGroup() as group:
        for _ in range(_IN_FLIGHT):
            group.create_task(work())


async def _replay(history: History, key: ObjectKey) -> list[Figure]:
    code = await asyncio.to_thread(services)
    wanted = DecisionFilter(part=SERVICES.name, namespace=key.namespace, name=key.name)
    spans, lists = [], []
    verdicts: Counter[Verdict] = Counter()
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        await history.decisions(wanted)
        lists.append(1000 * (time.perf_counter() - begun))
        begun = time.perf_counter()
        verdicts = Counter([one.verdict async for one in Replayer(history, code).decisions(wanted)])
        spans.append(1000 * (time.perf_counter() - begun))
    subject = f"replay among {EVENTS:,} events"
    return [
        median_of(subject, f"all {verdicts.total()} decisions of one service", spans, "ms", _GOAL),
        median_of(subject, "  of that: finding them", lists, "ms"),
        Figure(subject, "decided the same", verdicts[Verdict.SAME]),
        Figure(subject, "not decided the same", verdicts.total() - verdicts[Verdict.SAME]),
    ]
