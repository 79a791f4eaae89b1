"""A slow disk slows down and makes nobody do anything twice; a lost connection ends every wait at once."""

import asyncio
import time
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import pytest
from support.cache_objects import widgets
from support.nats import connected, eventually
from support.publishing import QUICK, Cluster, agrees, publishing
from support.slow_disk import slow_disk

from controller_runtime.log.broker.connection import BusConnection, Unknown
from controller_runtime.log.wire.subjects import Layout

PARTS, OBJECTS = 4, 40


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


@pytest.mark.spec("FW-430")
async def test_a_slow_disk_makes_nothing_happen_twice(nats_server: str, bus: BusConnection, layout: Layout) -> None:
    async with AsyncExitStack() as stack:
        disk, url = await stack.enter_async_context(slow_disk(port_of(nats_server), 0.02))
        slow = await stack.enter_async_context(connected(url))
        await slow.wait_connected()
        publishers, clusters = [], {}
        for number in range(PARTS):
            part = f"widgets{number}"
            cluster = clusters[part] = Cluster()
            for one in range(OBJECTS):
                cluster.put(f"w{one}")
            publisher = await stack.enter_async_context(publishing(slow, widgets(part), layout, settings=QUICK))
            publisher.take(cluster.listing())
            publishers.append(publisher)
        await eventually(lambda: all(one.statistics.checkpoints for one in publishers), "all is published", within=60)
        counts = [one.statistics for one in publishers]
        assert [(one.rereads, one.sessions, one.copied) for one in counts] == [(0, 1, 0)] * PARTS
        written = 2 * PARTS * OBJECTS + sum(one.checkpoints for one in counts)
        assert written <= disk.syncs <= written + PARTS, "a marker of each may be under way"
        for part, cluster in clusters.items():
            assert await agrees(bus, layout, part, cluster)


@pytest.mark.spec("FW-430")
async def test_a_lost_connection_ends_every_wait_at_once(nats_server: str, bus: BusConnection, layout: Layout) -> None:
    async with slow_disk(port_of(nats_server), 60) as (disk, url), connected(url) as slow:
        await slow.wait_connected()
        subject = f"{layout.root}.log.p.n.x"
        waiting = [asyncio.create_task(slow.publish(subject, b"", {})) for _ in range(3)]
        await eventually(lambda: len(slow._in_flight) == 3, "three publishes wait")
        began = time.monotonic()
        disk.cut()
        for outcome in await asyncio.gather(*waiting):
            assert isinstance(outcome, Unknown)
            assert "the connection was lost" in outcome.reason
        assert time.monotonic() - began < 10, "long before the answer would have been given up"
