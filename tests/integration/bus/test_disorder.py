"""What doubled, reordered and lost messages cost a consumer of a real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import pytest
from matrix.bus_frames import Frame, Meddler
from matrix.bus_proxy import BusProxy
from support.bus_source import Source
from support.cache_feed import QUICK, Fed, feeding
from support.cache_objects import widgets
from support.nats import connected, eventually

from aim_local.ports import HOST, free_port
from controller_runtime import Part, Resource
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.consumer import last_per_subject
from controller_runtime.log.freshness import FeedSettings, boot_seconds
from controller_runtime.log.wire.subjects import Layout

PATIENT = replace(QUICK, heartbeat=2.0, checkpoint_lifetime=60.0, stale_grace=60.0, stream_check=60.0)
COUNT = 100


@dataclass
class Swapping:
    """Delivers two of two, twice, before one of two."""

    struck: int = 0
    idle_seconds: float = 60.0
    _held: list[Frame] = field(default_factory=list)

    def take(self, frame: Frame) -> list[Frame]:
        if not self._held:
            self._held.append(frame)
            return []
        self.struck += 1
        return [frame, frame, self._held.pop()]

    def idle(self) -> list[Frame]:
        return []


@dataclass
class Losing:
    """Loses one of so many messages, until it is told to stop."""

    of: int
    struck: int = 0
    idle_seconds: float = 60.0
    stopped: bool = False
    _seen: int = 0

    def take(self, frame: Frame) -> list[Frame]:
        self._seen += 1
        if self.stopped or self._seen % self.of:
            return [frame]
        self.struck += 1
        return []

    def idle(self) -> list[Frame]:
        return []


@dataclass
class Overtaking:
    """Delivers one by one, the first one last."""

    of: int
    struck: int = 0
    idle_seconds: float = 0.02
    _held: list[Frame] = field(default_factory=list)

    def take(self, frame: Frame) -> list[Frame]:
        self.struck += 1
        self._held.append(frame)
        return []

    def idle(self) -> list[Frame]:
        if self.struck < self.of or not self._held:
            return []
        return [self._held.pop(1 if len(self._held) > 1 else 0)]


@asynccontextmanager
async def meddled(
    nats_server: str, layout: Layout, part: Part[Resource], meddler: Meddler, settings: FeedSettings
) -> AsyncIterator[Fed]:
    """A cache that is fed through a proxy; the meddler begins when it is synced."""
    port = free_port()
    making: list[Meddler] = []
    proxy = BusProxy(port, urlsplit(nats_server).port or 0, (f"{layout.root}.state.", f"{layout.root}.sync."))
    proxy.meddle(lambda: Relay(making))
    async with (
        proxy,
        connected(f"nats://{HOST}:{port}", "reader") as reader,
        feeding(reader, layout, [part], settings=settings) as fed,
    ):
        await asyncio.wait_for(fed.feed.wait_synced(), 60)
        making.append(meddler)
        yield fed


@dataclass
class Relay:
    """Passes everything on until a meddler is there."""

    meddlers: list[Meddler]
    struck: int = 0
    idle_seconds: float = 60.0

    def take(self, frame: Frame) -> list[Frame]:
        return self.meddlers[0].take(frame) if self.meddlers else [frame]

    def idle(self) -> list[Frame]:
        return []


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
async def source(bus: BusConnection, layout: Layout) -> Source:
    """A publisher with an object. It vouches only between publications, as a publisher does."""
    source = Source(bus, layout)
    await source.upsert("a")
    await source.mark()
    return source


async def follows(fed: Fed, source: Source, part: Part[Resource]) -> None:
    async def equal() -> bool:
        await source.mark()
        return fed.equals(source, part)

    await eventually(equal, "the world follows", interval=0.1)


@pytest.mark.spec("FW-540")
async def test_any_number_of_doubled_and_reordered_messages_costs_no_snapshot(
    nats_server: str, layout: Layout, part: Part[Resource], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long this process takes over it.
    monkeypatch.setattr("controller_runtime.log.broker.consumer._OVERTAKEN_SECONDS", 60.0)
    swapping = Swapping()
    async with meddled(nats_server, layout, part, swapping, PATIENT) as fed:
        for number in range(COUNT):
            await source.upsert(f"w{number % 7}", spec=number)
        await follows(fed, source, part)
        counted = fed.statistics.projection
    assert swapping.struck >= COUNT / 2
    assert (counted.generations, counted.restaged) == (1, 0)


@pytest.mark.spec("FW-540")
async def test_a_snapshot_waits_for_what_was_overtaken(
    nats_server: str, layout: Layout, part: Part[Resource], source: Source
) -> None:
    for number in range(9):
        await source.upsert(f"w{number}")
    port = free_port()
    proxy = BusProxy(port, urlsplit(nats_server).port or 0, (f"{layout.root}.state.",))
    proxy.meddle(lambda: Overtaking(10))
    async with proxy, connected(f"nats://{HOST}:{port}", "reader") as reader:
        await reader.wait_connected()
        found = await last_per_subject(reader, layout.state_stream, (layout.state_filter(part.name),))
    assert [one.subject.rpartition(".")[2] for one in found] == ["a", *(f"w{number}" for number in range(9))]


@pytest.mark.spec("FW-540")
async def test_what_stays_away_costs_a_snapshot(
    nats_server: str, layout: Layout, part: Part[Resource], source: Source
) -> None:
    losing = Losing(of=2)
    async with meddled(nats_server, layout, part, losing, PATIENT) as fed:
        await source.upsert("w", spec=1)
        while not losing.struck:
            await source.mark()
        losing.stopped = True
        await source.upsert("w", spec=2)
        await follows(fed, source, part)
        assert fed.statistics.projection.generations > 1


@pytest.mark.spec("FW-541")
async def test_losses_do_not_outrun_the_snapshots_that_heal_them(
    nats_server: str, layout: Layout, part: Part[Resource], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controller_runtime.log.broker.consumer._OVERTAKEN_SECONDS", 0.0)
    # Most snapshots (of eight messages) arrive, and then something is lost at once.
    losing, settings = Losing(of=20), replace(PATIENT, retry=2.0)
    async with meddled(nats_server, layout, part, losing, settings) as fed:
        began = boot_seconds()
        number = 0
        while losing.struck < 3:
            number += 1
            await source.upsert(f"w{number % 7}", spec=number)
        losing.stopped = True
        # One may begin at once, because the first one is old; each other one a pause later.
        assert fed.statistics.projection.generations <= 2 + (boot_seconds() - began) / settings.retry
        await follows(fed, source, part)
        assert fed.statistics.projection.generations > 1
