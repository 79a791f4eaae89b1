"""`python -m bench.slow_disk [objects] [seconds per sync]`: what publishers do twice because the disk is slow (FW-430).

Versions of four parts at once, each written to two streams, over a broker whose confirmations come one at a time.
"""

import asyncio
import sys
import time
from contextlib import AsyncExitStack
from typing import Final

from rich.console import Console
from rich.table import Table
from support.cache_objects import widgets
from support.nats import TEST_LIMITS, connected, eventually
from support.publishing import Cluster, publishing
from support.slow_disk import slow_disk

from aim_local.nats import NatsServer
from controller_runtime.log.publish.state import PublisherSettings
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

_PARTS: Final = 4
_PATIENCE: Final = 300.0


async def main(objects: int, seconds: float) -> None:
    """Publish, and print the counts."""
    settings = PublisherSettings(checkpoint_interval=2.0, limits=TEST_LIMITS)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(NatsServer())
        disk, url = await stack.enter_async_context(slow_disk(server.port, seconds))
        bus = await stack.enter_async_context(connected(url))
        await bus.wait_connected()
        began = time.monotonic()
        publishers = []
        for number in range(_PARTS):
            publisher = await stack.enter_async_context(
                publishing(bus, widgets(f"widgets{number}"), DEFAULT_LAYOUT, settings=settings)
            )
            cluster = Cluster()
            for one in range(objects // _PARTS):
                cluster.put(f"w{one}")
            publisher.take(cluster.listing())
            publishers.append(publisher)
        await eventually(lambda: all(one.statistics.checkpoints > 0 for one in publishers), "published", _PATIENCE, 0.2)
        took = time.monotonic() - began
        counts = [one.statistics for one in publishers]
        table = Table("objects", "per sync", "complete after", "re-reads", "sessions", "syncs", "at least", box=None)
        table.add_row(
            str(objects),
            f"{seconds * 1000:g} ms",
            f"{took:.1f} s",
            str(sum(one.rereads for one in counts)),
            str(sum(one.sessions for one in counts)),
            str(disk.syncs),
            str(2 * objects),
        )
        Console().print(table)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if sys.argv[1:] else 1000, float(sys.argv[2]) if sys.argv[2:] else 0.02))
