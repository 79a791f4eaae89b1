"""Whatever happens to the broker, the cache ends up equal to the truth, and never lies about being fresh.

Every test has its own server, so that it can be killed; bounds are those of the whole recovery.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.bus_source import Source
from support.cache_feed import QUICK, DirectCluster, Fed, feeding
from support.cache_objects import widget, widgets
from support.epochs import E1, E2
from support.nats import connected, eventually, new_layout

from aim_local.nats import NatsServer
from controller_runtime import JsonObject, Key, Part, Resource
from controller_runtime.kube.reflector_state import Upsert
from controller_runtime.log.broker.address import BusApiError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.freshness import FeedSettings
from controller_runtime.log.wire.subjects import Layout

BOUND = 30.0
"""Seconds for any recovery, on a busy machine."""


@dataclass
class Rig:
    """A server, a publisher's stand-in and a cache under feed, each with its own connection."""

    server: NatsServer
    layout: Layout
    publisher: BusConnection
    source: Source
    part: Part[Resource]
    fed: Fed
    cluster: DirectCluster

    async def confirmed(self, what: str) -> None:
        """Let the publisher renew its checkpoint, as it does, until the cache is fresh and true."""

        async def renewed() -> bool:
            await self.source.mark()
            await asyncio.sleep(0.1)
            return self.fed.equals(self.source, self.part) and not self.fed.statistics.direct

        await eventually(renewed, what, within=BOUND)

    async def recovered(self, what: str) -> None:
        await eventually(lambda: self.fed.equals(self.source, self.part), what, within=BOUND)


@asynccontextmanager
async def rig(server: NatsServer, *, direct: bool = False, settings: FeedSettings = QUICK) -> AsyncIterator[Rig]:
    layout, part = new_layout(), widgets()
    async with connected(server.url, "publisher") as publisher, connected(server.url, "consumer") as consumer:
        source = Source(publisher, layout)
        cluster = DirectCluster(source)
        if server.running:
            await publisher.wait_connected()
            await consumer.wait_connected()
            await ensure_streams(publisher, layout)
        reflect = cluster.reflect if direct else None
        async with feeding(consumer, layout, [part], reflect=reflect, settings=settings) as fed:
            yield Rig(server, layout, publisher, source, part, fed, cluster)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    server = NatsServer(tmp_path)
    yield server
    await server.kill()


async def settled(rig: Rig, objects: int = 20) -> None:
    for number in range(objects):
        await rig.source.upsert(f"w{number}", spec=0)
    await rig.confirmed("synced")


async def reconnected(connection: BusConnection) -> None:
    async with asyncio.timeout(BOUND):
        await connection.wait_connected()


async def test_killed_and_restarted(server: NatsServer) -> None:
    await server.start()
    async with rig(server) as r:
        await settled(r)
        await server.kill()
        await eventually(lambda: not r.publisher.connected, "noticed")
        await server.start()
        await reconnected(r.publisher)
        await r.source.upsert("w1", spec="after")
        await r.source.delete("w2")
        await r.confirmed("equal after the restart")
        assert r.fed.statistics.projection.generations >= 2


@pytest.mark.spec("FW-019")
async def test_after_a_restart_nothing_is_fresh_before_a_new_checkpoint(server: NatsServer) -> None:
    await server.start()
    async with rig(server) as r:
        await settled(r)
        await server.kill()
        await server.start()
        await eventually(lambda: r.fed.statistics.projection.generations >= 2, "a new consumer", within=BOUND)
        await asyncio.sleep(0.3)
        assert not r.fed.cache.is_fresh(r.part), "the marker is older than the reconnect"
        await reconnected(r.publisher)
        await r.confirmed("fresh with the new marker")


@pytest.mark.spec("FW-405")
async def test_the_stream_was_made_anew(server: NatsServer) -> None:
    await server.start()
    async with rig(server) as r:
        await settled(r)
        for number in range(50):
            await r.source.upsert("w0", spec=number)
        await r.publisher.api(f"STREAM.DELETE.{r.layout.state_stream}")
        r.source.change("w1", spec="meanwhile")
        r.source.remove("w2")
        await eventually_made(r)
        await r.source.repair(epoch=E2)
        await r.confirmed("equal to the new stream, whose sequences are lower")
        await r.source.upsert("late")
        await r.recovered("live")


async def eventually_made(r: Rig) -> None:
    """Make the streams; right after a deletion the server may refuse once."""

    async def made() -> bool:
        try:
            await ensure_streams(r.publisher, r.layout)
        except BusApiError:
            return False
        return True

    await eventually(made, "the stream", within=BOUND)


@pytest.mark.spec("FW-405")
async def test_the_store_was_restored_from_an_older_copy(server: NatsServer, tmp_path: Path) -> None:
    copy = tmp_path.parent / f"{tmp_path.name}-copy"
    await server.start()
    async with rig(server) as r:
        await settled(r)
        await server.stop()
        shutil.copytree(tmp_path, copy)
        await server.start()
        await reconnected(r.publisher)
        await r.source.upsert("w1", spec="lost by the restore")
        await r.source.upsert("new")
        await r.source.delete("w2")
        await r.confirmed("equal before the restore")
        await server.kill()
        shutil.rmtree(tmp_path)
        shutil.move(copy, tmp_path)
        await server.start()
        await reconnected(r.publisher)
        await eventually(lambda: not r.fed.cache.is_fresh(r.part), "known not to be fresh", within=BOUND)
        assert r.fed.content(r.part) == r.source.truth, "nothing old was taken over"
        await r.source.repair(epoch=E2)
        await r.source.publish_deletion(*gone("w2"))
        await r.confirmed("equal after the repair")


def gone(name: str) -> tuple[Key, JsonObject]:
    return Key("ns", name), widget(name, "widgets-3", 900)


async def test_checkpoints_amid_concurrent_writes(server: NatsServer) -> None:
    await server.start()
    async with rig(server) as r, asyncio.TaskGroup() as group:
        marking = group.create_task(r.source.keep_marking(0.05))
        for number in range(300):
            await r.source.upsert(f"w{number % 40}", spec=number)
            if number % 7 == 3:
                await r.source.delete(f"w{number % 40}")
            if number == 150:
                # A consumer of its own must see everything although its snapshot is made amid the writes.
                await server.kill()
                await server.start()
                await reconnected(r.publisher)
        await r.recovered("equal")
        marking.cancel()


@pytest.mark.spec("FW-400", "FW-401")
async def test_absent_from_the_start_and_appearing_later(server: NatsServer) -> None:
    async with rig(server, direct=True) as r:
        r.source.change("a")
        await r.recovered("fed directly")
        assert r.fed.statistics.direct == ("widgets",)
        changes = len(r.fed.changes)
        await server.start()
        await reconnected(r.publisher)
        await ensure_streams(r.publisher, r.layout)
        await r.source.repair(epoch=E1)
        await r.confirmed("the bus takes over")
        assert len(r.fed.changes) == changes, "silently"
        await r.source.upsert("b")
        await r.recovered("live")


@pytest.mark.spec("FW-400", "FW-401", "FW-402")
async def test_going_away_later_and_coming_back(server: NatsServer) -> None:
    await server.start()
    async with rig(server, direct=True) as r:
        await settled(r)
        changes = len(r.fed.changes)
        await server.kill()
        await eventually(lambda: r.fed.statistics.direct == ("widgets",), "the change-over", within=BOUND)
        await r.recovered("fed directly")
        assert len(r.fed.changes) == changes, "silently"
        changed = r.source.change("w5", spec="by the API server")
        r.cluster.emit(Upsert(changed, r.source.resource_version))
        await r.recovered("a change while the broker is away")
        await server.start()
        await reconnected(r.publisher)
        r.source.epoch = E2
        await r.source.publish(Key("ns", "w5"), changed)
        await r.confirmed("the way back")
        assert len(r.fed.changes) == changes + 1


async def test_an_outage_shorter_than_the_grace_needs_no_change_over(server: NatsServer) -> None:
    await server.start()
    # Longer than any recovery here may take.
    settings = replace(QUICK, outage_grace=4 * BOUND, stale_grace=4 * BOUND)
    async with rig(server, direct=True, settings=settings) as r:
        await settled(r)
        await server.kill()
        await server.start()
        await reconnected(r.publisher)
        await r.confirmed("equal")
        assert r.cluster.opened == 0
