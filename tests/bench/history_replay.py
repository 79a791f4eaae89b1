"""Replay of one object's decisions while the history holds a hundred thousand events of others.

``PYTHONPATH=tests .venv/bin/python -m bench.history_replay [STORE]``: the log of one whole run, or of that store.
"""

import asyncio
import shutil
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog
import uvloop
from bench.figures import Figure, median_of
from bench.site import MANAGER, Site
from bench.table import show
from rich.console import Console
from support.whole_run import logged_run

from aim_cli.services import services
from aim_domain.parts import SERVICES
from aim_local.nats import NatsServer
from controller_runtime import Key, dumps, loads
from controller_runtime.log.broker.connection import BusConnection, BusSettings, PubAck, connect
from controller_runtime.log.history.reader import DecisionFilter, History
from controller_runtime.log.wire.messages import LogMessage, StateMessage, message_id
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT
from controller_runtime.replay import Replayer, Verdict

EVENTS: Final = 100_000
ROUNDS: Final = 5
_OBJECTS: Final = 1000
_IN_FLIGHT: Final = 250
_NAMESPACE: Final = "bench-noise"
_GOAL: Final = 250.0
_STANDALONE: Final = Key("whole", "chat")
"""The AIMService of the whole run that is replayed."""


async def measure_replay(site: Site, key: Key) -> list[Figure]:
    """The real history of one AIMService, among synthetic events. Ends the broker of the site."""
    await site.stack["nats"].stop()
    copy = site.stack.settings.folder / "history"
    await asyncio.to_thread(shutil.copytree, site.stack.settings.folder / "nats", copy)
    try:
        return await _measure(copy, key)
    finally:
        await asyncio.to_thread(shutil.rmtree, copy)


async def _measure(store: Path, key: Key) -> list[Figure]:
    async with _server(store) as bus:
        await _add_events(bus, key)
        return await _replay(bus, key)


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


async def _add_events(bus: BusConnection, key: Key) -> None:
    """Versions of other AIMServices, published as a publisher does."""
    model = (await History(bus).versions(SERVICES.name, key))[-1].state

    async def work(objects: range) -> None:
        # The versions of one object one after the other, as they name each other.
        last = dict.fromkeys(objects, 0)
        for number in range(EVENTS // _OBJECTS):
            for one in objects:
                last[one] = await _publish(bus, _event(model, one, number, last[one]))

    async with asyncio.TaskGroup() as group:
        for first in range(0, _OBJECTS, _OBJECTS // _IN_FLIGHT):
            group.create_task(work(range(first, first + _OBJECTS // _IN_FLIGHT)))


def _event(model: StateMessage, one: int, number: int, previous: int) -> StateMessage:
    key, uid, version = Key(_NAMESPACE, f"service-{one}"), f"noise-{one}", str(10**9 + number)
    body = loads(model.body)
    body["metadata"] |= {"namespace": key.namespace, "name": key.name, "uid": uid, "resourceVersion": version}
    return replace(
        model,
        key=key,
        uid=uid,
        resource_version=version,
        previous=previous,
        body=dumps(body),
        time=datetime.now(UTC),
        id=message_id(model.epoch, uid, version, model.verb),
    )


async def _publish(bus: BusConnection, state: StateMessage) -> int:
    stored = await bus.publish(DEFAULT_LAYOUT.state(state.part, state.key), state.body, state.headers())
    assert isinstance(stored, PubAck)
    log = LogMessage(state, stored.sequence)
    assert isinstance(await bus.publish(DEFAULT_LAYOUT.log(state.part, state.key), state.body, log.headers()), PubAck)
    return stored.sequence


async def _replay(bus: BusConnection, key: Key) -> list[Figure]:
    code = await asyncio.to_thread(services)
    history = History(bus)
    wanted = DecisionFilter(part=SERVICES.name, namespace=key.namespace, name=key.name)
    spans, lists, work = [], [], []
    read: Counter[str] = Counter()
    verdicts: Counter[Verdict] = Counter()

    async def replay() -> Counter[Verdict]:
        return Counter([one.verdict async for one in Replayer(history, code).decisions(wanted)])

    for _ in range(ROUNDS):
        begun = time.perf_counter()
        await history.decisions(wanted)
        lists.append(1000 * (time.perf_counter() - begun))
        before, begun, busy = dict(bus._client.stats), time.perf_counter(), time.process_time()
        verdicts = await replay()
        spans.append(1000 * (time.perf_counter() - begun))
        work.append(1000 * (time.process_time() - busy))
        read = Counter({name: count - before[name] for name, count in bus._client.stats.items()})
    tracemalloc.start()
    await replay()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    subject = f"replay among {EVENTS:,} events"
    return [
        median_of(subject, f"all {verdicts.total()} decisions of one service", spans, "ms", _GOAL),
        median_of(subject, "  of that: finding them", lists, "ms"),
        median_of(subject, "processor time", work, "ms"),
        Figure(subject, "messages read", read["in_msgs"]),
        Figure(subject, "  of together", read["in_bytes"] / 2**20, "MiB"),
        Figure(subject, "memory at the most", peak / 2**20, "MiB"),
        Figure(subject, "decided the same", verdicts[Verdict.SAME]),
        Figure(subject, "not decided the same", verdicts.total() - verdicts[Verdict.SAME]),
    ]


async def _standalone(store: Path | None) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        copy = Path(folder, "copy")
        run = store or await logged_run(Path(folder))
        # The configuration is of a server that has ended; another one is made for the copy.
        leave = shutil.ignore_patterns("nats.conf")
        await asyncio.to_thread(shutil.copytree, run, copy, ignore=leave)
        return await _measure(copy, _STANDALONE)


def main() -> None:
    """Measure and print."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    show(uvloop.run(_standalone(Path(sys.argv[1]) if sys.argv[1:] else None)), Console(width=120))


if __name__ == "__main__":
    main()
