"""How long deletions stay in the state stream."""

import asyncio
from datetime import timedelta

import pytest
from support.cache_objects import widgets
from support.nats import eventually
from support.publishing import (
    Cluster,
    all_states,
    history,
    publishing,
    settles,
    unnamed_holes,
)

from controller_runtime import Key
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.reading import StoredMessage, message_at
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.state import PublisherSettings
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"


async def test_old_tombstones_are_swept_and_a_recreation_survives(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    settings = PublisherSettings(checkpoint_interval=0.1, sweep_interval=0.001, tombstone_age=timedelta(0))
    async with publishing(bus, widgets(), layout, settings=settings) as publisher:
        publisher.take(cluster.listing())
        for _ in range(30):
            for name in "abc":
                publisher.take(cluster.put(name))
                publisher.take(cluster.delete(name))
            await asyncio.sleep(0.01)
        for name in "ab":
            publisher.take(cluster.put(name))
        await settles(bus, layout, PART, cluster, publisher)

        async def swept() -> bool:
            return set(await all_states(bus, layout, PART)) == {Key("ns", "a"), Key("ns", "b")}

        await eventually(swept, "tombstone removed")
        assert publisher.statistics.swept > 0
        assert publisher.statistics.sessions == 1, publisher.statistics.interrupted_by
    versions = await history(bus, layout, PART)
    assert len(versions) == 30 * 6 + 2
    assert unnamed_holes(versions) == []


@pytest.mark.spec("FW-407")
async def test_a_sweep_asks_before_each_removal_whether_it_still_may(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    settings = PublisherSettings(checkpoint_interval=0.1, sweep_interval=0.5, tombstone_age=timedelta(0))
    running: list[Publisher] = []

    def until_the_first() -> float:
        return float(not any(one.statistics.swept for one in running))

    async with publishing(bus, widgets(), layout, settings=settings, guard=until_the_first) as publisher:
        running.append(publisher)
        publisher.take(cluster.listing())
        for name in "abc":
            publisher.take(cluster.put(name))
            publisher.take(cluster.delete(name))
        await eventually(lambda: publisher.statistics.swept > 0, "a tombstone is removed")
        await eventually(lambda: publisher.statistics.phase == "waiting", "the guard refuses a marker")
        assert publisher.statistics.swept == 1


async def test_young_tombstones_stay(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    settings = PublisherSettings(checkpoint_interval=0.05, sweep_interval=0.02)
    async with publishing(bus, widgets(), layout, settings=settings) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        publisher.take(cluster.delete("a"))
        await settles(bus, layout, PART, cluster, publisher)
        await eventually(lambda: publisher.statistics.checkpoints > 6, "time passes")
    assert (await all_states(bus, layout, PART))[Key("ns", "a")].deleted


@pytest.mark.spec("FW-462")
async def test_a_sweep_looks_no_further_than_the_first_tombstone_that_is_too_young(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, asked = Cluster(), list[int]()

    async def note(connection: BusConnection, stream: str, sequence: int) -> StoredMessage | None:
        asked.append(sequence)
        return await message_at(connection, stream, sequence)

    settings = PublisherSettings(checkpoint_interval=0.1, sweep_interval=0.02, compare_interval=3600.0)
    async with publishing(bus, widgets(), layout, settings=settings) as publisher:
        publisher.take(cluster.listing())
        for number in range(20):
            publisher.take(cluster.put(f"w{number}"))
            publisher.take(cluster.delete(f"w{number}"))
        await settles(bus, layout, PART, cluster, publisher)
        monkeypatch.setattr("controller_runtime.log.publish.state.message_at", note)
        await eventually(lambda: len(asked) >= 5, "some sweeps")
    assert len(set(asked)) == 1


@pytest.mark.spec("FW-462")
async def test_of_many_tombstones_the_oldest_go_sooner(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    settings = PublisherSettings(checkpoint_interval=0.1, sweep_interval=0.05, tombstones=3, crowded_age=timedelta(0))
    async with publishing(bus, widgets(), layout, settings=settings) as publisher:
        publisher.take(cluster.listing())
        for number in range(20):
            publisher.take(cluster.put(f"w{number}"))
            publisher.take(cluster.delete(f"w{number}"))
        await eventually(lambda: publisher.statistics.swept == 17, "all but three are swept")
        checkpoints = publisher.statistics.checkpoints
        await eventually(lambda: publisher.statistics.checkpoints > checkpoints + 2, "time passes")
    left = await all_states(bus, layout, PART)
    assert set(left) == {Key("ns", f"w{number}") for number in (17, 18, 19)}
