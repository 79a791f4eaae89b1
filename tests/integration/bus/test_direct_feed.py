"""A part is fed from the API server while the bus cannot, silently, and goes back when the bus is fresh."""

import asyncio
from dataclasses import replace

import pytest
from support.bus_source import Source
from support.cache_feed import QUICK, DirectCluster, Fed, feeding
from support.cache_objects import WIDGET, widget, widgets
from support.nats import TEST_LIMITS, connected, eventually

from aim_local.nats import NatsServer
from controller_runtime import Key, Part, Resource
from controller_runtime.kube.reflector_state import Bookmark, Delete, ListFrom, Restarted, Upsert
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.freshness import Source as FedFrom
from controller_runtime.log.wire.subjects import FACTS_PART, Layout

ABSENT = "nats://127.0.0.1:1"
A = Key("ns", "a")
BRIEF = replace(QUICK, checkpoint_lifetime=1.0, stale_grace=2.0)
"""The change-over comes soon after the last checkpoint, and not before the first one, on a busy machine either."""


async def synced_by_the_bus(fed: Fed, source: Source, part: Part[Resource]) -> None:
    """Let the publisher renew its checkpoint, as it does, until the consumer believes it; from then on it is gone."""

    async def believed() -> bool:
        await source.mark()
        return fed.equals(source, part) and fed.statistics.direct == ()

    await eventually(believed, "synced by the bus", interval=0.1)


async def taken_back(fed: Fed, source: Source, part: Part[Resource], complete_to: str | None = None) -> None:
    """Let the publisher renew its checkpoint, which counts for a second only, until the bus feeds the part again."""

    async def back() -> bool:
        await source.mark(complete_to=complete_to)
        return fed.equals(source, part) and fed.statistics.direct == ()

    await eventually(back, "the way back", interval=0.1)


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def source(bus: BusConnection, layout: Layout) -> Source:
    return Source(bus, layout)


@pytest.fixture
def cluster(source: Source) -> DirectCluster:
    return DirectCluster(source)


@pytest.mark.spec("FW-400", "FW-401")
async def test_without_a_broker_at_start_the_api_server_is_asked_at_once(
    layout: Layout, part: Part[Resource], source: Source, cluster: DirectCluster
) -> None:
    source.change("a")
    # Whatever else could make the feed change over takes longer than the test may.
    settings = replace(QUICK, outage_grace=600, stale_grace=600)
    async with (
        connected(ABSENT) as nowhere,
        feeding(nowhere, layout, [part], reflect=cluster.reflect, settings=settings) as fed,
    ):
        await asyncio.wait_for(fed.feed.wait_synced(), 60)
        assert fed.equals(source, part)
        (status,) = fed.statistics.parts
        assert (status.source, status.fresh) == (FedFrom.DIRECT, True)
        changed = source.change("a", spec=1)
        cluster.emit(Upsert(changed, source.resource_version))
        await eventually(lambda: fed.equals(source, part), "a change")
        gone = source.remove("a")
        cluster.emit(Delete(gone, source.resource_version))
        await eventually(lambda: fed.equals(source, part), "a deletion")
        assert fed.content(part) == {}


@pytest.mark.spec("FW-403")
async def test_with_direct_watch_switched_off_the_part_stays_unsynced(layout: Layout, part: Part[Resource]) -> None:
    async with connected(ABSENT) as nowhere, feeding(nowhere, layout, [part], reflect=None) as fed:
        await asyncio.sleep(2 * QUICK.start_grace)
        assert not fed.feed.synced
        assert not fed.cache.is_fresh(part)


@pytest.mark.spec("FW-401")
async def test_a_part_whose_publisher_is_gone_is_fed_directly_and_goes_back(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source, cluster: DirectCluster
) -> None:
    await source.upsert("a")
    await source.upsert("b")
    async with feeding(bus, layout, [part], reflect=cluster.reflect, settings=BRIEF) as fed:
        await synced_by_the_bus(fed, source, part)
        changes = len(fed.changes)
        await eventually(lambda: fed.statistics.direct == ("widgets",), "the change-over")
        await eventually(lambda: fed.equals(source, part), "fresh")
        assert len(fed.changes) == changes, "what did not change causes no change"
        # The publisher comes back, and has something to publish that the direct feed has told already.
        changed = source.change("a", spec=1)
        cluster.emit(Upsert(changed, source.resource_version))
        await eventually(lambda: fed.equals(source, part), "the direct feed tells")
        assert len(fed.changes) == changes + 1
        await source.publish(A, changed)
        await taken_back(fed, source, part)
        await eventually(lambda: cluster.open == 0, "the watch is closed")
        assert len(fed.changes) == changes + 1, "the way back is silent"
        await source.upsert("c")
        await eventually(lambda: fed.equals(source, part), "live again")


@pytest.mark.spec("FW-401", "FW-408")
async def test_the_way_back_keeps_what_is_not_published_yet(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source, cluster: DirectCluster
) -> None:
    await source.upsert("a")
    await source.mark()
    async with feeding(bus, layout, [part], reflect=cluster.reflect, settings=BRIEF) as fed:
        await eventually(lambda: fed.statistics.direct == ("widgets",), "the change-over")
        await eventually(lambda: fed.equals(source, part), "fed directly")
        published = source.resource_version
        new = source.change("new")
        cluster.emit(Upsert(new, source.resource_version))
        await eventually(lambda: fed.equals(source, part), "the direct feed tells")
        changes = len(fed.changes)
        await taken_back(fed, source, part, published)
        await source.publish(Key("ns", "new"), new)
        await source.upsert("last")
        await eventually(lambda: fed.equals(source, part), "live again")
        assert len(fed.changes) == changes + 1


@pytest.mark.spec("FW-019", "FW-401")
async def test_a_part_whose_list_does_not_come_is_stale(layout: Layout, part: Part[Resource]) -> None:
    async with NatsServer() as server, connected(server.url) as bus:
        await bus.wait_connected()
        await ensure_streams(bus, layout, TEST_LIMITS)
        source = Source(bus, layout)
        cluster = DirectCluster(source)
        await source.upsert("a")
        await source.mark()
        # The checkpoint outlives the change-over by far, which the outage alone brings about.
        settings = replace(QUICK, checkpoint_lifetime=60, stale_grace=600)
        async with feeding(bus, layout, [part], reflect=cluster.reflect, settings=settings) as fed:
            await eventually(lambda: fed.equals(source, part), "synced by the bus")
            cluster.reachable.clear()
            await server.kill()
            await eventually(lambda: cluster.open == 1, "the change-over")
            assert not fed.cache.is_fresh(part)
            assert fed.cache.is_synced(part), "what is known stays usable"
            cluster.reachable.set()
            await eventually(lambda: fed.equals(source, part), "the list came")


@pytest.mark.spec("FW-401")
async def test_only_the_stale_part_changes_over(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source, cluster: DirectCluster
) -> None:
    gadgets = widgets("gadgets")
    other = Source(bus, layout, "gadgets")
    await other.upsert("g")
    now, settings = [0.0], replace(QUICK, checkpoint_lifetime=600)
    async with asyncio.TaskGroup() as group:
        marking = group.create_task(other.keep_marking())
        source.change("a")
        async with feeding(
            bus, layout, [part, gadgets], reflect=cluster.reflect, settings=settings, clock=lambda: now[0]
        ) as fed:
            # However long that takes, the grace begins to pass afterwards.
            await eventually(lambda: fed.equals(other, gadgets), "synced by the bus")
            now[0] += 2 * settings.stale_grace
            fed.feed.wakeup()
            await asyncio.wait_for(fed.feed.wait_synced(), 60)
            assert fed.statistics.direct == ("widgets",)
            assert fed.equals(source, part)
            assert fed.equals(other, gadgets)
        marking.cancel()


@pytest.mark.spec("FW-402")
async def test_facts_stay_in_memory(layout: Layout) -> None:
    facts = Part(FACTS_PART, WIDGET)
    async with connected(ABSENT) as nowhere, feeding(nowhere, layout, [facts]) as fed:
        await eventually(lambda: fed.cache.is_fresh(facts), "an empty part that no other process knows")
        fed.cache.absorb(facts, {"metadata": {"name": "f", "namespace": "tester"}, "outcome": 1}, 0.0)
        fed.cache.absorb(facts, {"metadata": {"name": "f", "namespace": "tester"}, "outcome": 2}, 0.0)
        (entry,) = fed.cache.all(facts)
        assert entry.raw["outcome"] == 2


@pytest.mark.spec("FW-401", "FW-019")
async def test_a_list_that_is_behind_is_held_back_until_the_watch_caught_up(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source, cluster: DirectCluster
) -> None:
    await source.upsert("a")
    stale = cluster.truth()
    await source.upsert("b")
    cluster.listed = stale
    settings = replace(BRIEF, catch_up=600)
    async with feeding(bus, layout, [part], reflect=cluster.reflect, settings=settings) as fed:
        await synced_by_the_bus(fed, source, part)
        await eventually(
            lambda: cluster.open == 1 and cluster.watches[0].reported == 1, "the change-over, and the list"
        )
        changes = len(fed.changes)
        cluster.emit(Upsert(source.truth[Key("ns", "b")], source.resource_version))
        await eventually(lambda: fed.equals(source, part), "caught up")
        assert len(fed.changes) == changes


@pytest.mark.spec("FW-408")
async def test_a_list_that_stays_behind_is_not_followed_before_the_store_was_asked(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source, cluster: DirectCluster
) -> None:
    await source.upsert("a")
    stale = cluster.truth()
    await source.upsert("b")
    async with feeding(bus, layout, [part], reflect=cluster.reflect, settings=BRIEF) as fed:
        await synced_by_the_bus(fed, source, part)
        cluster.listed = stale
        await eventually(lambda: cluster.open == 1 and cluster.watches[0].reported == 1, "the change-over")
        cluster.listed = None
        changes = len(fed.changes)
        await eventually(lambda: cluster.watches[0].asked == [ListFrom.STORE], "the store is asked")
        await eventually(lambda: fed.equals(source, part), "the store's list is taken")
        assert len(fed.changes) == changes


@pytest.mark.spec("FW-408")
async def test_a_server_that_went_back_in_time_is_followed(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source, cluster: DirectCluster
) -> None:
    await source.upsert("a", spec=1)
    await source.upsert("b")
    restored = Restarted((widget("a", source.truth[A]["metadata"]["uid"], 7, spec=0),), "9")
    cluster.listed = restored
    async with feeding(bus, layout, [part], reflect=cluster.reflect, settings=BRIEF) as fed:
        await synced_by_the_bus(fed, source, part)
        await eventually(lambda: fed.cache.is_fresh(part) and len(fed.content(part)) == 1, "the restored content")
        assert fed.content(part)[A]["spec"] == 0
        cluster.emit(Bookmark("10"))
        again = Restarted((widget("a", "other", 3),), "4", rewound=True)
        cluster.emit(again)
        await eventually(lambda: fed.content(part)[A]["metadata"]["uid"] == "other", "restored once more")


async def test_changes_while_the_list_is_awaited_are_not_lost(
    layout: Layout, part: Part[Resource], source: Source, cluster: DirectCluster
) -> None:
    cluster.reachable.clear()
    source.change("a")
    async with connected(ABSENT) as nowhere, feeding(nowhere, layout, [part], reflect=cluster.reflect) as fed:
        await eventually(lambda: cluster.open == 1, "waiting for the list")
        assert not fed.feed.synced
        cluster.reachable.set()
        await asyncio.wait_for(fed.feed.wait_synced(), 60)
        assert fed.equals(source, part)
