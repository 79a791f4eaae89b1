"""Broker and publisher die in the middle of their work, or the broker comes back with another memory.

Each test ends the same way: the state stream says what the cluster has, and the history lacks nothing that it
does not tell.
"""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.cache_objects import widgets
from support.nats import connected, eventually, new_layout
from support.publisher_process import change
from support.publishing import (
    Cluster,
    history,
    latest,
    of,
    publishing,
    repeated,
    settles,
    skipped,
    unnamed_holes,
)

from aim_local.nats import NatsServer
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.reading import stream_state
from controller_runtime.log.publish.intake import KEPT_WHILE_AWAY
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"
OBJECTS = 40


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with NatsServer(tmp_path / "store") as running:
        yield running


@pytest.fixture
def layout() -> Layout:
    return new_layout()


async def assert_complete(bus: BusConnection, layout: Layout, cluster: Cluster) -> None:
    versions = await history(bus, layout, PART)
    assert latest(versions) == cluster.objects
    assert unnamed_holes(versions) == []
    assert skipped(versions, cluster) == []
    assert repeated(versions) == []


async def high_sequence(bus: BusConnection, layout: Layout) -> int:
    return (await stream_state(bus, layout.state_stream)).last_sequence


async def feed(publisher: Publisher, cluster: Cluster, count: int) -> None:
    for number in range(count):
        publisher.take(change(cluster, number, OBJECTS))
        if number % 10 == 0:
            await asyncio.sleep(0.002)


async def test_broker_and_publisher_are_killed_together(server: NatsServer, layout: Layout) -> None:
    count = 3000
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.publisher_process", server.url, layout.root, str(count), str(OBJECTS),
        cwd=Path(__file__).parent.parent,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with connected(server.url) as bus:
            await bus.wait_connected()

            async def busy() -> bool:
                with contextlib.suppress(Exception):
                    return await high_sequence(bus, layout) > 400
                return False

            await eventually(busy, "the burst is under way", within=60)
            victim.kill()
            await server.kill()
            await victim.wait()
            await server.start()
            cluster = Cluster()
            for number in range(count):
                change(cluster, number, OBJECTS)
            async with publishing(bus, widgets(), layout, source="second") as publisher:
                publisher.take(cluster.listing())
                await settles(bus, layout, PART, cluster, publisher)
            await assert_complete(bus, layout, cluster)
    finally:
        if victim.returncode is None:
            victim.kill()
            await victim.wait()


async def test_the_publisher_is_killed_alone_and_followed_at_once(server: NatsServer, layout: Layout) -> None:
    count = 3000
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "support.publisher_process", server.url, layout.root, str(count), str(OBJECTS),
        cwd=Path(__file__).parent.parent,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with connected(server.url) as bus:
            await bus.wait_connected()

            async def busy() -> bool:
                with contextlib.suppress(Exception):
                    return await high_sequence(bus, layout) > 400
                return False

            await eventually(busy, "the burst is under way", within=60)
            victim.kill()
            cluster = Cluster()
            for number in range(count):
                change(cluster, number, OBJECTS)
            async with publishing(bus, widgets(), layout, source="second") as publisher:
                publisher.take(cluster.listing())
                await settles(bus, layout, PART, cluster, publisher)
            await assert_complete(bus, layout, cluster)
    finally:
        if victim.returncode is None:
            victim.kill()
        await victim.wait()


async def test_the_broker_is_killed_again_and_again(server: NatsServer, layout: Layout) -> None:
    cluster = Cluster()
    async with connected(server.url) as bus:
        await bus.wait_connected()
        async with publishing(bus, widgets(), layout) as publisher:
            publisher.take(cluster.listing())
            for _ in range(3):
                async with asyncio.TaskGroup() as group:
                    group.create_task(feed(publisher, cluster, 800))
                    await asyncio.sleep(0.1)
                    await server.kill()
                    await server.start()
            await settles(bus, layout, PART, cluster, publisher)
        await assert_complete(bus, layout, cluster)


@pytest.mark.spec("FW-418")
async def test_a_publisher_keeps_its_epoch_over_a_restart(server: NatsServer, layout: Layout) -> None:
    cluster = Cluster()
    async with connected(server.url) as bus:
        await bus.wait_connected()
        async with publishing(bus, widgets(), layout) as publisher:
            publisher.take(cluster.listing())
            publisher.take(cluster.put("a"))
            await settles(bus, layout, PART, cluster, publisher)
            epoch = publisher.epoch
            await server.kill()
            await eventually(lambda: not bus.connected, "disconnected")
            publisher.take(cluster.put("a", once=True))
            await server.start()
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.epoch == epoch, "it waited, so nothing is missing"
            await server.kill()
            await eventually(lambda: not bus.connected, "disconnected")
            publisher.take(cluster.put("a", twice=1))
            publisher.take(cluster.put("a", twice=2))
            publisher.take(cluster.put("c"))
            publisher.take(cluster.delete("c"))
            await server.start()
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.epoch == epoch, "all of it waited"
            await server.kill()
            await eventually(lambda: not bus.connected, "disconnected")
            for number in range(KEPT_WHILE_AWAY):
                publisher.take(cluster.put("a", often=number))
            publisher.take(cluster.put("a", often="the last"))
            await server.start()
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.epoch == epoch, "versions were given up, and the next one says so"
            await server.kill()
            await eventually(lambda: not bus.connected, "disconnected")
            for number in range(KEPT_WHILE_AWAY):
                publisher.take(cluster.put(f"n{number}"))
            publisher.take(cluster.put("b"))
            publisher.take(cluster.delete("b"))
            await server.start()
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.epoch > epoch, "nothing is left of an object, so the epoch must say so"
        assert [version.state.gap for version in of(await history(bus, layout, PART), "a")] == [False] * 4 + [True]
        await assert_complete(bus, layout, cluster)


async def test_the_whole_store_is_lost(server: NatsServer, layout: Layout) -> None:
    cluster = Cluster()
    async with connected(server.url) as bus:
        await bus.wait_connected()
        async with publishing(bus, widgets(), layout) as publisher:
            publisher.take(cluster.listing())
            await feed(publisher, cluster, 200)
            await settles(bus, layout, PART, cluster, publisher)
            epoch = publisher.epoch
            await server.kill()
            shutil.rmtree(server.store_dir / "jetstream")
            await server.start()
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.epoch > epoch
            await feed(publisher, cluster, 100)
            await settles(bus, layout, PART, cluster, publisher)
        await assert_complete(bus, layout, cluster)


async def test_only_the_history_is_lost(server: NatsServer, layout: Layout) -> None:
    cluster = Cluster()
    async with connected(server.url) as bus:
        await bus.wait_connected()
        async with publishing(bus, widgets(), layout) as publisher:
            publisher.take(cluster.listing())
            await feed(publisher, cluster, 200)
            await settles(bus, layout, PART, cluster, publisher)
            await server.kill()
            [folder] = server.store_dir.glob(f"jetstream/*/streams/{layout.history_stream}")
            shutil.rmtree(folder)
            await server.start()
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.statistics.copied >= OBJECTS
        await assert_complete(bus, layout, cluster)


@pytest.mark.parametrize("publisher_restarts", [False, True])
async def test_the_store_is_restored_from_an_older_copy(
    server: NatsServer, layout: Layout, tmp_path: Path, *, publisher_restarts: bool
) -> None:
    cluster = Cluster()
    async with connected(server.url) as bus, contextlib.AsyncExitStack() as stack:
        await bus.wait_connected()
        publisher = await stack.enter_async_context(publishing(bus, widgets(), layout))
        publisher.take(cluster.listing())
        await feed(publisher, cluster, 100)
        await settles(bus, layout, PART, cluster, publisher)
        await server.stop()
        shutil.copytree(server.store_dir, tmp_path / "copy")
        await server.start()
        await feed(publisher, cluster, 300)
        publisher.take(cluster.delete("w1"))
        publisher.take(cluster.put("new"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
        await server.kill()
        shutil.rmtree(server.store_dir)
        shutil.copytree(tmp_path / "copy", server.store_dir)
        if publisher_restarts:
            await stack.aclose()
            publisher = await stack.enter_async_context(publishing(bus, widgets(), layout, source="second"))
            publisher.take(cluster.listing())
        await server.start()
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch > epoch
        publisher.take(cluster.put("w2"))
        await settles(bus, layout, PART, cluster, publisher)
        await assert_complete(bus, layout, cluster)


async def test_the_broker_is_absent_at_the_start(layout: Layout, tmp_path: Path) -> None:
    cluster = Cluster()
    server = NatsServer(tmp_path / "store")
    async with connected(server.url) as bus, publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for number in range(200):
            publisher.take(change(cluster, number, OBJECTS))
        publisher.take(cluster.delete("w3"))
        assert publisher.statistics.dropped == 0
        async with server:
            await settles(bus, layout, PART, cluster, publisher)
            await feed(publisher, cluster, 200)
            await settles(bus, layout, PART, cluster, publisher)
            await assert_complete(bus, layout, cluster)


async def test_a_frozen_broker_answers_late(server: NatsServer, layout: Layout) -> None:
    """Writes whose outcome is not known are looked up; none is lost, none is stored twice."""
    import os
    import signal

    cluster = Cluster()
    async with connected(server.url) as bus:
        await bus.wait_connected()
        async with publishing(bus, widgets(), layout) as publisher:
            publisher.take(cluster.listing())
            await settles(bus, layout, PART, cluster, publisher)
            async with asyncio.TaskGroup() as group:
                group.create_task(feed(publisher, cluster, 600))
                await asyncio.sleep(0.1)
                os.kill(server.pid, signal.SIGSTOP)
                await asyncio.sleep(1.5)
                os.kill(server.pid, signal.SIGCONT)
            await settles(bus, layout, PART, cluster, publisher)
        await assert_complete(bus, layout, cluster)
