"""A cache follows the state stream of a real broker."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.bus_source import TRACE, Source
from support.cache_feed import QUICK, feeding
from support.cache_objects import WIDGET, widgets
from support.epochs import E1, E2, E3
from support.nats import connected, eventually

from controller_runtime import Change, Key, Part, Resource
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.consumer import Delivered, Delivery
from controller_runtime.log.broker.reading import DeliveryLostError, stream_state
from controller_runtime.log.freshness import FeedSettings, boot_seconds
from controller_runtime.log.freshness import Source as FedFrom
from controller_runtime.log.wire.messages import Header
from controller_runtime.log.wire.subjects import FACTS_PART, Layout
from controller_runtime.log.wire.version import Position

A = Key("ns", "a")


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@pytest.fixture
def source(bus: BusConnection, layout: Layout) -> Source:
    return Source(bus, layout)


def verbs(changes: Sequence[Change[Any]]) -> list[tuple[str, str]]:
    return [(c.key.name, "created" if c.old is None else "deleted" if c.new is None else "changed") for c in changes]


@pytest.mark.spec("FW-019")
async def test_a_snapshot_and_then_what_follows(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    await source.upsert("a")
    await source.upsert("gone")
    await source.delete("gone")
    await source.mark()
    async with feeding(bus, layout, [part]) as fed:
        await asyncio.wait_for(fed.feed.wait_synced(), 60)
        assert fed.equals(source, part)
        assert verbs(fed.changes) == [("a", "created")]
        entry = fed.cache.get(part, A)
        assert entry is not None
        assert (entry.version.sequence, entry.version.epoch, entry.traceparent) == (1, E1, TRACE)
        await source.upsert("b", spec=1)
        await source.upsert("b", spec=2)
        await source.delete("a")
        await eventually(lambda: fed.equals(source, part), "the world follows")
        assert verbs(fed.changes)[1:] == [("b", "created"), ("b", "changed"), ("a", "deleted")]


@pytest.mark.spec("FW-461")
async def test_the_snapshots_of_several_parts_take_effect_one_after_the_other(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    other = widgets("others")
    for each in (source, Source(bus, layout, other.name, epoch=E2)):
        await each.upsert("a")
        await each.mark()
    seen: set[tuple[bool, bool]] = set()
    async with feeding(bus, layout, [part, other]) as fed:
        synced = asyncio.create_task(fed.feed.wait_synced())
        async with asyncio.timeout(30):
            while not synced.done():
                seen.add((fed.cache.is_synced(part), fed.cache.is_synced(other)))
                await asyncio.sleep(0)
    assert (True, False) in seen


@pytest.mark.spec("FW-019")
async def test_an_empty_part_is_synced_by_its_checkpoint_and_not_before(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    async with feeding(bus, layout, [part], settings=replace(QUICK, stale_grace=60)) as fed:
        await eventually(lambda: fed.statistics.projection.generations == 1, "the consumer stands")
        await source.upsert("a")
        await eventually(lambda: fed.statistics.projection.messages == 1, "the object arrived")
        assert not fed.feed.synced
        assert fed.cache.get(part, A) is None
        await source.mark()
        await eventually(lambda: fed.equals(source, part), "synced")


@pytest.mark.spec("FW-019")
async def test_a_part_without_new_checkpoints_goes_stale_until_the_next(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    await source.upsert("a")
    settings = replace(QUICK, checkpoint_lifetime=1.0, stale_grace=60)
    async with feeding(bus, layout, [part], settings=settings) as fed:

        async def marked() -> bool:
            await source.mark()
            return fed.cache.is_fresh(part)

        await eventually(marked, "fresh", interval=0.1)
        await eventually(lambda: not fed.cache.is_fresh(part), "stale")
        assert fed.cache.is_synced(part)
        assert fed.cache.get(part, A) is not None
        await eventually(marked, "fresh again", interval=0.1)
        assert fed.statistics.projection.generations == 1


async def test_an_old_checkpoint_does_not_sync(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    await source.upsert("a")
    await source.mark()
    async with feeding(bus, layout, [part], settings=replace(QUICK, checkpoint_lifetime=0.0)) as fed:
        await eventually(lambda: fed.statistics.projection.messages == 2, "the snapshot arrived")
        assert not fed.feed.synced


async def test_garbage_is_dropped_and_counted(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    await source.upsert("a")
    good = source.truth[A]
    headers: dict[str, str] = {
        Header.EPOCH: E1,
        Header.STORE_ID: E1,
        Header.UID: "u",
        Header.RESOURCE_VERSION: "7",
        Header.VERB: "upsert",
        Header.PREVIOUS: "0",
        Header.CE_TIME: "2026-01-01T00:00:00+00:00",
    }

    def at(name: str) -> str:
        return layout.state("widgets", Key("ns", name))

    garbage: list[tuple[str, bytes, dict[str, str]]] = [
        (at("bare"), b"{}", {}),
        (at("text"), b"not json", {**headers}),
        (at("list"), b"[]", {**headers}),
        (at("empty"), b"{}", {**headers}),
        (at("other"), b'{"metadata":{"name":"a","namespace":"ns"}}', {**headers}),
        (at("version"), b"{}", {**headers, Header.RESOURCE_VERSION: "x"}),
        (f"{layout.root}.state.widgets.too.many.tokens", b"{}", {**headers}),
        (layout.sync("widgets"), b"{}", {}),
    ]
    for number, (subject, body, message_headers) in enumerate(garbage):
        await bus.publish(subject, body, {**message_headers, Header.MESSAGE_ID: str(number)})
    async with feeding(bus, layout, [part]) as fed:
        await eventually(lambda: fed.statistics.projection.dropped == len(garbage), "all dropped")
        assert not fed.feed.synced
        await source.mark()
        await eventually(lambda: fed.equals(source, part), "the rest arrived")
        assert fed.content(part) == {A: good}


async def test_of_the_facts_only_the_own_ones_are_consumed(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    facts = Part(FACTS_PART, WIDGET)
    source = Source(bus, layout, FACTS_PART)
    await source.upsert("mine", namespace="tester")
    await source.upsert("theirs", namespace="other")
    await source.mark_facts("tester")
    async with feeding(bus, layout, [facts]) as fed:
        await eventually(lambda: fed.cache.is_fresh(facts), "synced")
        assert set(fed.content(facts)) == {Key("tester", "mine")}
        (entry,) = fed.cache.all(facts)
        version = entry.version
        assert (version.resource_version, version.sequence) == ("", 1)


async def test_a_snapshot_amid_writes_misses_nothing(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    for number in range(60):
        await source.upsert(f"w{number}")
    await source.mark()

    async def write() -> None:
        for number in range(200):
            await source.upsert(f"w{number % 70}", spec=number)

    async with asyncio.TaskGroup() as group:
        writer, marking = group.create_task(write()), group.create_task(source.keep_marking())
        async with feeding(bus, layout, [part]) as fed:
            await asyncio.wait_for(fed.feed.wait_synced(), 60)
            assert len(fed.content(part)) >= 60
            await writer
            await eventually(lambda: fed.equals(source, part) and len(source.truth) == 70, "all arrived")
        marking.cancel()


async def test_a_stream_made_later_is_found(nats_server: str, layout: Layout, part: Part[Resource]) -> None:
    from support.nats import connected

    from controller_runtime.log.broker.streams import ensure_streams

    async with connected(nats_server) as connection:
        await connection.wait_connected()
        async with feeding(connection, layout, [part], settings=replace(QUICK, stale_grace=60)) as fed:
            await eventually(lambda: fed.statistics.projection.last_failure is not None, "no stream yet")
            await ensure_streams(connection, layout)
            source = Source(connection, layout)
            await source.upsert("a")
            await source.mark()
            await eventually(lambda: fed.equals(source, part), "found")


async def test_an_own_write_that_nobody_publishes_is_undone_by_a_new_snapshot(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    # A publisher that is stuck, or an answer that was wrong: no checkpoint ever comes to that version.
    now = [0.0]
    await source.upsert("a")
    await source.mark()
    async with feeding(
        bus, layout, [part], clock=lambda: now[0], settings=replace(QUICK, checkpoint_lifetime=1e6)
    ) as fed:
        await eventually(lambda: fed.cache.is_fresh(part), "synced")
        ghost = {"metadata": {"name": "ghost", "namespace": "ns", "uid": "g", "resourceVersion": "150"}}
        fed.cache.absorb(part, ghost, now[0])
        assert fed.cache.get(part, Key("ns", "ghost")) is not None
        now[0] = 61.0
        await source.upsert("b")
        await eventually(lambda: fed.content(part).keys() == source.truth.keys(), "the ghost is gone")
        projection = fed.statistics.projection
        assert (projection.generations, projection.restaged) == (1, 1)


async def test_an_own_write_that_a_checkpoint_passes_in_silence_is_gone_again(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    # The object was removed before the publisher, which was just listing, saw it: the feed will never mention it.
    await source.upsert("a")
    await source.mark()
    async with feeding(bus, layout, [part]) as fed:
        await eventually(lambda: fed.cache.is_fresh(part), "synced")
        ghost = {"metadata": {"name": "ghost", "namespace": "ns", "uid": "g", "resourceVersion": "150"}}
        fed.cache.absorb(part, ghost, boot_seconds())
        await source.mark(complete_to="149")
        await source.upsert("b")
        await eventually(lambda: fed.cache.get(part, Key("ns", "b")) is not None, "b")
        assert fed.cache.get(part, Key("ns", "ghost")) is not None
        await source.mark(complete_to="150")
        await eventually(lambda: fed.equals(source, part), "the ghost is gone")
        assert ("ghost", "deleted") in verbs(fed.changes)
        assert fed.statistics.projection.generations == 1


async def test_a_tombstone_in_a_snapshot_ends_an_own_write(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    # The stream conflates: a new snapshot holds the deletion of an object, and never held the object.
    own = source.change("brief")
    before = str(int(own["metadata"]["resourceVersion"]) - 1)
    await source.publish_deletion(Key("ns", "brief"), source.remove("brief"))
    await source.mark(complete_to=before)
    async with feeding(bus, layout, [part]) as fed:
        fed.cache.mark(part, epoch=E1, store_id=E1)
        fed.cache.absorb(part, own, boot_seconds())
        await eventually(lambda: fed.equals(source, part), "gone")
        assert verbs(fed.changes) == [("brief", "deleted")]


@pytest.mark.spec("FW-418")
async def test_a_new_era_makes_a_new_snapshot_of_its_part_alone(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    other = Source(bus, layout, "others", epoch=E3)
    for number in range(50):
        await other.upsert(f"o{number}")
    await other.mark()
    await source.upsert("a", spec=1)
    await source.mark()
    async with feeding(bus, layout, [part, widgets(other.part)]) as fed:
        await eventually(lambda: fed.feed.synced, "synced")
        before = fed.statistics.projection.messages
        source.rewind(5)
        source.epoch = E2
        await source.upsert("a", spec=0)
        await source.mark()
        await eventually(lambda: fed.statistics.projection.restaged == 1, "a new snapshot")
        await eventually(lambda: fed.equals(source, part), "the older content of the new epoch is taken")
        assert fed.cache.epoch(part) == E2
        projection = fed.statistics.projection
        assert projection.generations == 1
        assert projection.messages - before < 10, "a version and a marker, twice, and nothing of the other part"


@pytest.mark.spec("FW-435")
async def test_the_cache_knows_how_far_it_is_with_each_part(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    async def last() -> int:
        return (await stream_state(bus, layout.state_stream)).last_sequence

    await source.upsert("a", spec=1)
    await source.mark()
    async with feeding(bus, layout, [part]) as fed:

        def reached(epoch: str, sequence: int) -> bool:
            return fed.cache.position().parts == {"widgets": Position(epoch, sequence, 1)}

        end = await last()
        await eventually(lambda: reached(E1, end), "as far as the snapshot")
        end = await source.upsert("a", spec=2)
        await eventually(lambda: reached(E1, end), "as far as what followed")
        source.epoch = E2
        await source.upsert("a", spec=0)
        await source.mark()
        end = await last()
        await eventually(lambda: reached(E2, end), "as far as the snapshot of the part alone")
        assert fed.statistics.projection.restaged == 1


async def test_two_parts_are_synced_each_by_its_own_checkpoint(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    gadgets = widgets("gadgets")
    await source.upsert("a")
    await Source(bus, layout, "gadgets").upsert("g")
    await source.mark()
    async with feeding(bus, layout, [part, gadgets], settings=replace(QUICK, stale_grace=60)) as fed:
        await eventually(lambda: fed.equals(source, part), "the first")
        assert not fed.cache.is_synced(gadgets)
        assert not fed.feed.synced
        statuses = {status.part: status for status in fed.statistics.parts}
        assert statuses["widgets"].source is FedFrom.BUS
        assert statuses["widgets"].age is not None
        assert statuses["gadgets"].age is None


async def test_a_snapshot_that_does_not_arrive_is_asked_for_again_with_pauses(
    bus: BusConnection, layout: Layout, part: Part[Resource], source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(_: Delivery) -> list[Delivered]:
        raise DeliveryLostError("the broker does not move on")

    monkeypatch.setattr(Delivery, "batch", lost)
    await source.upsert("a")
    began = time.monotonic()
    async with feeding(bus, layout, [part], settings=replace(QUICK, retry=0.2)) as fed:
        await eventually(lambda: fed.statistics.projection.generations >= 4, "made again")
    assert time.monotonic() - began >= 0.6


@pytest.mark.spec("FW-425")
async def test_large_objects_arrive_in_the_first_snapshot_and_the_connection_stays_up(
    nats_server: str, bus: BusConnection, layout: Layout, part: Part[Resource], source: Source
) -> None:
    source.history = False
    for first in range(0, 600, 50):
        await asyncio.gather(*(source.upsert(f"w{n}", spec="x" * 180_000) for n in range(first, first + 50)))
    for number in range(3):
        await source.upsert(f"huge{number}", spec="x" * 1_500_000)
    await source.mark()
    async with connected(nats_server, "reader") as reader:
        await reader.wait_connected()
        async with feeding(reader, layout, [part], settings=FeedSettings()) as fed:
            await asyncio.wait_for(fed.feed.wait_synced(), 60)
            assert fed.cache.count(part) == 603
            assert fed.statistics.projection.generations == 1
        assert reader.session == 1
