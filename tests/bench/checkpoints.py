"""What vouching costs per checkpoint: requests, bytes, and processor time of the broker; at rest and in motion.

``PYTHONPATH=tests python -m bench.checkpoints [OBJECTS…]``. The interval is shortened so that there are many
checkpoints; what one costs does not depend on it.
"""

import asyncio
import sys
from dataclasses import dataclass
from typing import Final

from bench.usage import processor_seconds
from support.cache_objects import widgets
from support.nats import TEST_LIMITS, connected, eventually, new_layout
from support.publishing import Cluster

from aim_local.nats import NatsServer
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.state import PublisherSettings, PublisherSetup

_SECONDS: Final = 10.0
_INTERVAL: Final = 0.5
_CHANGES_PER_SECOND: Final = 50


@dataclass(frozen=True, slots=True)
class Moment:
    """Counters so far."""

    checkpoints: int
    published: int
    requests: int
    sent: int
    received: int
    broker_seconds: float


def _moment(bus: BusConnection, publisher: Publisher, pid: int) -> Moment:
    reported, client = publisher.statistics, bus._client.stats
    return Moment(
        reported.checkpoints,
        reported.published,
        client["out_msgs"],
        client["out_bytes"],
        client["in_bytes"],
        processor_seconds(pid),
    )


async def _measure(objects: int, *, moving: bool) -> None:
    cluster, layout = Cluster(), new_layout()
    for number in range(objects):
        cluster.put(f"w{number}", padding="x" * 1000)
    async with NatsServer() as server, connected(server.url) as bus:
        await bus.wait_connected()
        settings = PublisherSettings(checkpoint_interval=_INTERVAL, limits=TEST_LIMITS)
        publisher = Publisher(PublisherSetup(bus, "bench", "c", layout, settings=settings), widgets())
        publisher.take(cluster.listing())
        running = asyncio.create_task(publisher.run())
        await eventually(lambda: publisher.statistics.checkpoints >= 5, "the part is vouched for", within=60)
        before = _moment(bus, publisher, server.pid)
        for _ in range(int(_SECONDS * _CHANGES_PER_SECOND)):
            if moving:
                publisher.take(cluster.put(f"w{cluster.version % objects}", padding=str(cluster.version)))
            await asyncio.sleep(1 / _CHANGES_PER_SECOND)
        _show(objects, before, _moment(bus, publisher, server.pid), moving=moving)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _show(objects: int, before: Moment, after: Moment, *, moving: bool) -> None:
    checkpoints, published = after.checkpoints - before.checkpoints, after.published - before.published
    # A version is one request to each of two streams.
    requests = after.requests - before.requests - 2 * published
    print(
        f"{objects:8} {'moving' if moving else 'at rest':8} {checkpoints:8} {published:9} "
        f"{requests / checkpoints:10.2f} "
        f"{(after.sent - before.sent) / checkpoints:10.0f} {(after.received - before.received) / checkpoints:10.0f} "
        f"{1000 * (after.broker_seconds - before.broker_seconds) / checkpoints:10.2f}"
    )


async def main(sizes: list[int]) -> None:
    """Print one line per size and state. While versions go out, bytes and time are theirs as well."""
    print(
        f"{'objects':>8} {'':8} {'checkpoints':>8} {'published':>9} {'requests':>10} {'sent':>10} {'received':>10}",
        end="",
    )
    print(f" {'broker ms':>10}   (per marker)")
    for size in sizes:
        for moving in (False, True):
            await _measure(size, moving=moving)


if __name__ == "__main__":
    asyncio.run(main([int(size) for size in sys.argv[1:]] or [100, 5000]))
