"""`python -m bench.snapshots`: how a cache takes in snapshots of many, and of large, objects (FW-425).

A generation is a consumer made; one is what a snapshot needs. A session is a connection; a second one means that the
broker cut the first.
"""

import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table
from support.bus_source import Source
from support.cache_feed import feeding
from support.cache_objects import widgets
from support.nats import TEST_LIMITS

from aim_local.nats import NatsServer
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.freshness import FeedSettings
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

SIZES: Final = ((10_000, 2_000), (10_000, 10_000), (600, 180_000), (2_000, 250_000), (300, 1_500_000))
"""Objects and bytes of each."""

_PATIENCE: Final = 60.0
_IN_FLIGHT: Final = 32


@dataclass(frozen=True, slots=True)
class Taken:
    """What one snapshot cost; ``seconds`` is ``None`` if it never was complete."""

    seconds: float | None
    processor: float
    generations: int
    sessions: int


async def measure_snapshot(count: int, size: int) -> Taken:
    """Fill the state stream of a broker of its own, and feed a cache from it."""
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        # What is measured is reading, so that writes need not be synced.
        unsynced = f'jetstream {{ store_dir: "{folder}", max_file_store: 1TB }}'
        async with NatsServer(Path(folder), extra_config=unsynced) as server:
            settings = BusSettings.of_urls(server.url, "bench")
            async with connect(replace(settings, request_timeout=30.0)) as writer, connect(settings) as reader:
                await writer.wait_connected()
                await reader.wait_connected()
                source = await _fill(writer, count, size)
                marking = asyncio.create_task(source.keep_marking(1.0))
                try:
                    return await _read(reader, count)
                finally:
                    marking.cancel()


async def _fill(bus: BusConnection, count: int, size: int) -> Source:
    await ensure_streams(bus, DEFAULT_LAYOUT, TEST_LIMITS)
    source = Source(bus, DEFAULT_LAYOUT)
    source.history = False
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await source.upsert(f"w{number}", spec="x" * size)

    await asyncio.gather(*(work() for _ in range(_IN_FLIGHT)))
    return source


async def _read(bus: BusConnection, count: int) -> Taken:
    part = widgets()
    began, processor = time.monotonic(), time.process_time()
    async with feeding(bus, DEFAULT_LAYOUT, [part], settings=FeedSettings()) as fed:
        seconds = None
        try:
            async with asyncio.timeout(_PATIENCE):
                await fed.feed.wait_synced()
            assert fed.cache.count(part) == count
            seconds = time.monotonic() - began
        except TimeoutError:
            pass
        return Taken(seconds, time.process_time() - processor, fed.statistics.projection.generations, bus.session)


def main() -> None:
    """Print one row for each size; sizes can be given as ``count×bytes``."""
    table = Table("objects", "bytes each", "complete after", "processor time", "generations", "sessions", box=None)
    chosen = [tuple(map(int, text.split("x"))) for text in sys.argv[1:]] or SIZES
    for count, size in chosen:
        taken = asyncio.run(measure_snapshot(count, size))
        after = "never" if taken.seconds is None else f"{taken.seconds:.2f} s"
        table.add_row(
            str(count), str(size), after, f"{taken.processor:.2f} s", str(taken.generations), str(taken.sessions)
        )
    Console().print(table)


if __name__ == "__main__":
    main()
