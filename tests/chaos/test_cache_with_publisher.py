"""The real publisher at one end and a cache at the other, with everything that happens to a broker between them."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.cache_feed import QUICK, Fed, Watched, feeding
from support.cache_objects import widgets
from support.nats import connected, eventually, new_layout
from support.publishing import QUICK as QUICK_PUBLISHER
from support.publishing import Cluster, publishing

from aim_local.nats import NatsServer
from controller_runtime import Part, Resource
from controller_runtime.kube.reflector_state import Event
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.source import SourceVersion

BOUND = 30.0


@dataclass
class Rig:
    """One cluster, watched by a publisher and, when the bus fails, by the cache's own feed."""

    server: NatsServer
    cluster: Cluster
    publisher: Publisher
    fed: Fed
    part: Part[Resource]
    watches: list[Watched] = field(default_factory=list)

    def tell(self, event: Event[SourceVersion]) -> None:
        """Something happened in the cluster."""
        self.publisher.take(event)
        for watch in self.watches:
            watch.put(event)

    @asynccontextmanager
    async def reflect(self, _: Part[Any]) -> AsyncIterator[Watched]:
        watch = Watched(self.cluster.listing)
        watch.put(self.cluster.listing())
        self.watches.append(watch)
        try:
            yield watch
        finally:
            self.watches.remove(watch)

    def true(self) -> bool:
        return self.fed.cache.is_fresh(self.part) and self.fed.content(self.part) == self.cluster.objects

    async def recovered(self, what: str) -> None:
        """The cache is true, fresh, and fed by the bus."""
        await eventually(lambda: self.true() and not self.fed.statistics.direct, what, within=BOUND)

    def churn(self, count: int, randomness: random.Random) -> None:
        """Some creations, changes and deletions."""
        for number in range(count):
            name = f"w{randomness.randrange(30)}"
            existing = {key.name for key in self.cluster.objects}
            if name in existing and randomness.random() < 0.3:
                self.tell(self.cluster.delete(name))
            else:
                self.tell(self.cluster.put(name, number=number))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    server, layout, part, cluster = NatsServer(tmp_path / "store"), new_layout(), widgets(), Cluster()
    server.store_dir.mkdir()
    await server.start()
    rig: Rig | None = None

    @asynccontextmanager
    async def reflect(of: Part[Any]) -> AsyncIterator[Watched]:
        assert rig is not None
        async with rig.reflect(of) as events:
            yield events

    try:
        async with (
            connected(server.url, "publisher") as ours,
            connected(server.url, "consumer") as theirs,
            publishing(ours, part, layout, settings=QUICK_PUBLISHER) as publisher,
            feeding(theirs, layout, [part], reflect=reflect, settings=QUICK) as fed,
        ):
            rig = Rig(server, cluster, publisher, fed, part)
            publisher.take(cluster.listing())
            yield rig
    finally:
        await server.kill()


async def kill_and_restart(rig: Rig) -> None:
    await rig.server.kill()
    rig.churn(20, random.Random(1))
    await rig.server.start()


async def long_outage(rig: Rig) -> None:
    await rig.server.kill()
    await eventually(lambda: bool(rig.fed.statistics.direct), "the change-over", within=BOUND)
    rig.churn(20, random.Random(2))
    await eventually(rig.true, "true while the broker is away", within=BOUND)
    await rig.server.start()


async def empty_the_store(rig: Rig) -> None:
    await rig.server.kill()
    await asyncio.to_thread(shutil.rmtree, rig.server.store_dir / "jetstream")
    rig.churn(20, random.Random(3))
    await rig.server.start()


async def restore_an_older_copy(rig: Rig) -> None:
    copy = rig.server.store_dir.parent / "copy"
    await rig.server.stop()
    await asyncio.to_thread(shutil.copytree, rig.server.store_dir, copy)
    await rig.server.start()
    rig.churn(30, random.Random(4))
    await rig.recovered("true after the copy was made")
    await rig.server.kill()
    await asyncio.to_thread(shutil.rmtree, rig.server.store_dir)
    await asyncio.to_thread(shutil.move, copy, rig.server.store_dir)
    await rig.server.start()


@pytest.mark.spec("FW-016", "FW-401", "FW-405")
@pytest.mark.parametrize("disaster", [kill_and_restart, long_outage, empty_the_store, restore_an_older_copy])
async def test_the_cache_ends_up_true(rig: Rig, disaster: Callable[[Rig], Awaitable[None]]) -> None:
    randomness = random.Random(7)
    rig.churn(60, randomness)
    await rig.recovered("true at first")
    await disaster(rig)
    rig.churn(60, randomness)
    await rig.recovered("true after the disaster")
    rig.churn(10, randomness)
    await rig.recovered("live")
