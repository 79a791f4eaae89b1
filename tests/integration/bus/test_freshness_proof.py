"""Whatever happens to the messages between publisher and consumer, no cache counts as fresh that is not true."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from nats.aio.msg import Msg
from support.bus_source import Source
from support.cache_feed import DirectCluster, Fed, feeding
from support.cache_objects import widgets
from support.epochs import E2, E3
from support.nats import eventually
from support.proofs import PART, PATIENT, filled, following, running
from support.publishing import QUICK, Cluster, agrees, all_states, publishing, settles

from controller_runtime import Key, Part, Resource
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.reading import delete_message, last_message
from controller_runtime.log.cache.projection import PartView, Projection
from controller_runtime.log.freshness import boot_seconds
from controller_runtime.log.publish.checkpoint import Checkpoint, decode_checkpoint
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.state import PublisherSetup
from controller_runtime.log.wire.subjects import Layout


@pytest.fixture
def part() -> Part[Resource]:
    return widgets()


@asynccontextmanager
async def agreeing(bus: BusConnection, layout: Layout, part: Part[Resource]) -> AsyncIterator[tuple[Source, Fed]]:
    """A publisher by hand, with one object, and a consumer that agrees with its checkpoint."""
    source = Source(bus, layout)
    await source.upsert("a")
    await source.mark()
    async with following(bus, layout, part, cluster="c") as fed:
        await eventually(lambda: fed.equals(source, part), "fresh")
        yield source, fed


async def never_fresh_but_true(fed: Fed, part: Part[Resource], cluster: Cluster, seconds: float) -> None:
    """Watch a cache: whenever it counts as fresh, it holds what the cluster has."""
    deadline = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < deadline:
        assert not fed.cache.is_fresh(part) or fed.content(part) == cluster.objects
        await asyncio.sleep(0.005)


async def keeps(fed: Fed, part: Part[Resource], name: str, seconds: float) -> None:
    """Watch a cache: it does not lose the object."""
    deadline = asyncio.get_running_loop().time() + seconds
    while asyncio.get_running_loop().time() < deadline:
        assert fed.cache.get(part, Key("ns", name)) is not None
        await asyncio.sleep(0.005)


async def checkpoint_of(bus: BusConnection, layout: Layout) -> Checkpoint:
    found = await last_message(bus, layout.state_stream, layout.sync(PART))
    assert found is not None
    return decode_checkpoint(found.data)


async def purge(bus: BusConnection, layout: Layout, subjects: str) -> None:
    await bus.api(f"STREAM.PURGE.{layout.state_stream}", {"filter": subjects})


@pytest.mark.spec("FW-415", "FW-417")
@pytest.mark.parametrize("with_checkpoint", [True, False])
async def test_a_purge_is_repaired_and_no_consumer_believes_the_empty_stream(
    bus: BusConnection, layout: Layout, part: Part[Resource], *, with_checkpoint: bool
) -> None:
    cluster = filled()
    async with running(bus, layout, cluster) as publisher:
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
        async with following(bus, layout, part) as old:
            await eventually(lambda: old.cache.is_fresh(part), "the one that was there before")
            await purge(bus, layout, f"{layout.root}.>" if with_checkpoint else layout.state_filter(PART))
            async with following(bus, layout, part) as young:
                await never_fresh_but_true(young, part, cluster, 0.5)
                await eventually(lambda: young.cache.is_fresh(part), "the one that started after the purge")
                assert young.content(part) == cluster.objects
                assert young.statistics.projection.generations == 1
            assert old.content(part) == cluster.objects
            assert [change for change in old.changes if change.new is None] == [], "nothing seemed deleted"
        assert publisher.epoch > epoch
        assert await agrees(bus, layout, PART, cluster)


@pytest.mark.spec("FW-417")
async def test_a_purge_without_a_publisher_leaves_nobody_fresh(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    cluster = filled()
    async with running(bus, layout, cluster) as publisher:
        await settles(bus, layout, PART, cluster, publisher)
    await purge(bus, layout, layout.state_filter(PART))
    async with following(bus, layout, part) as fed:
        await eventually(lambda: fed.statistics.projection.disagreed > 1, "the marker was seen again and again")
        assert fed.statistics.projection.restaged >= 1
        assert not fed.feed.synced


@pytest.mark.spec("FW-415")
async def test_a_purge_and_a_lost_delivery_within_one_connection_empty_no_cache(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    async with agreeing(bus, layout, part) as (source, fed):
        await purge(bus, layout, f"{layout.root}.>")
        consumers = (await bus.api(f"CONSUMER.NAMES.{layout.state_stream}"))["consumers"]
        for consumer in consumers:
            await bus.api(f"CONSUMER.DELETE.{layout.state_stream}.{consumer}")
        await eventually(lambda: fed.statistics.projection.generations >= 2, "a new delivery, of nothing")
        # Several heartbeats, while the checkpoint that was believed before is young.
        await asyncio.sleep(3 * PATIENT.heartbeat)
        assert fed.content(part) == source.truth
        assert [change for change in fed.changes if change.new is None] == []
        await source.repair(epoch=E2)
        await source.mark()
        await eventually(lambda: fed.cache.epoch(part) == E2 and fed.equals(source, part), "proven again")


@pytest.mark.spec("FW-415", "FW-418")
async def test_a_snapshot_of_one_part_is_not_believed_by_a_checkpoint_of_what_was_there_before(
    bus: BusConnection, layout: Layout, part: Part[Resource], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = asyncio.Event()
    read_part = Projection._read_part

    async def read_later(projection: Projection, view: PartView) -> None:
        await may_read.wait()
        await read_part(projection, view)

    monkeypatch.setattr(Projection, "_read_part", read_later)
    async with agreeing(bus, layout, part) as (source, fed):
        source.epoch = E2
        await source.mark()
        await eventually(lambda: fed.statistics.projection.restaged == 1, "another era")
        await purge(bus, layout, layout.state_filter(PART))
        # Comes behind the checkpoint, which therefore neither agrees nor disagrees.
        await source.upsert("b")
        may_read.set()
        await keeps(fed, part, "a", 1.0)
        await source.repair(epoch=E3)
        await source.mark()
        await eventually(lambda: fed.equals(source, part), "proven")


@pytest.mark.spec("FW-419")
async def test_a_snapshot_that_was_given_up_before_it_began_can_be_made_later(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    async with agreeing(bus, layout, part) as (source, fed):
        projection = fed.feed._projection
        view = projection._parts[PART]
        # Both come in one batch: another store id, and then that the part belongs to another cluster.
        projection._restage(view, boot_seconds(), "another era")
        projection._leave_alone(view, "cluster-2")
        await eventually(lambda: PART not in projection._restaging, "nothing is under way")
        await asyncio.sleep(PATIENT.restage)
        await source.mark()
        await eventually(lambda: fed.equals(source, part), "its own publisher is back")


@pytest.mark.spec("FW-417")
async def test_a_limit_of_age_set_by_hand_is_undone_and_what_expired_comes_back(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    cluster = filled()
    async with running(bus, layout, cluster) as publisher, following(bus, layout, part) as fed:
        await settles(bus, layout, PART, cluster, publisher)
        config = (await bus.api(f"STREAM.INFO.{layout.state_stream}"))["config"]
        await bus.api(f"STREAM.UPDATE.{layout.state_stream}", {**config, "max_age": 100_000_000, "duplicate_window": 0})

        async def undone() -> bool:
            found = (await bus.api(f"STREAM.INFO.{layout.state_stream}"))["config"]
            return not found.get("max_age") and await agrees(bus, layout, PART, cluster)

        await never_fresh_but_true(fed, part, cluster, 0.5)
        await eventually(undone, "the limit is gone and the objects are back")
        await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        assert fed.content(part) == cluster.objects


@pytest.mark.spec("FW-415", "FW-417")
async def test_one_deleted_message_is_missed_by_both_sides(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    cluster = filled()
    async with running(bus, layout, cluster) as publisher:
        await settles(bus, layout, PART, cluster, publisher)
        lost = await last_message(bus, layout.state_stream, layout.state(PART, Key("ns", "w2")))
        assert lost is not None
        await delete_message(bus, layout.state_stream, lost.sequence)
        async with following(bus, layout, part) as fed:
            await never_fresh_but_true(fed, part, cluster, 0.3)
            await eventually(lambda: agrees(bus, layout, PART, cluster), "published again")
            await eventually(lambda: fed.cache.is_fresh(part), "fresh")
            assert fed.content(part) == cluster.objects


async def _lose(bus: BusConnection, layout: Layout) -> None:
    lost = await last_message(bus, layout.state_stream, layout.state(PART, Key("ns", "w2")))
    assert lost is not None
    await delete_message(bus, layout.state_stream, lost.sequence)


async def _purge_part(bus: BusConnection, layout: Layout) -> None:
    await purge(bus, layout, layout.state_filter(PART))


async def _purge_root(bus: BusConnection, layout: Layout) -> None:
    await purge(bus, layout, f"{layout.root}.>")


@pytest.mark.spec("FW-415", "FW-417")
@pytest.mark.parametrize("harm", [_lose, _purge_part, _purge_root])
async def test_what_an_administrator_takes_away_is_found_within_one_heartbeat(
    bus: BusConnection, layout: Layout, harm: Callable[[BusConnection, Layout], Awaitable[None]]
) -> None:
    """One checkpoint may be on its way; the next one is not written before the part is whole again."""
    cluster, checkpoints = filled(), 0

    async def count(_: Msg) -> None:
        nonlocal checkpoints
        checkpoints += 1

    async with running(bus, layout, cluster) as publisher:
        await settles(bus, layout, PART, cluster, publisher)
        reported = await bus._client.subscribe(layout.sync(PART), cb=count)
        await eventually(lambda: checkpoints > 1, "at rest, once in a heartbeat")
        published = publisher.statistics.published
        await harm(bus, layout)
        before = checkpoints
        await eventually(lambda: checkpoints > before + 1, "confirmed")
        assert publisher.statistics.published > published
        assert await agrees(bus, layout, PART, cluster)
        await reported.unsubscribe()


@pytest.mark.spec("FW-416")
async def test_a_lost_update_is_reported_from_a_true_part_of_the_same_size(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    source = Source(bus, layout)
    await source.upsert("a", spec=1)
    await source.mark()
    async with following(bus, layout, part, cluster="c") as fed:
        await eventually(lambda: fed.equals(source, part), "fresh")
        # The publisher believes that an update lies in the stream which nobody can read there.
        source.sequences[Key("ns", "a")] += 1
        await source.mark()
        await eventually(lambda: not fed.cache.is_fresh(part), "doubted at once")
        await eventually(lambda: fed.statistics.projection.restaged == 1, "another snapshot")
        await source.upsert("a", spec=2)
        await source.mark()
        await eventually(lambda: fed.equals(source, part), "true again")
        assert fed.statistics.projection.generations == 1


@pytest.mark.spec("FW-416", "FW-401")
async def test_a_part_that_never_agrees_is_read_from_the_api_server(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    source = Source(bus, layout)
    direct = DirectCluster(source)
    source.change("never-published")
    source.sequences[Key("ns", "never-published")] = 77
    async with feeding(bus, layout, [part], reflect=direct.reflect) as fed, asyncio.TaskGroup() as group:
        marking = group.create_task(source.keep_marking())
        await eventually(lambda: fed.statistics.direct == (PART,), "direct")
        await eventually(lambda: fed.equals(source, part), "fresh and true")
        await asyncio.sleep(1.0)
        assert fed.statistics.direct == (PART,)
        assert fed.statistics.projection.restaged < 10, "bounded"
        await source.upsert("never-published")
        await eventually(lambda: fed.statistics.direct == (), "back")
        assert fed.equals(source, part)
        marking.cancel()


@pytest.mark.spec("FW-415")
async def test_the_checkpoint_of_a_former_release_is_not_believed(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    source = Source(bus, layout)
    await source.upsert("a")
    await source.mark()
    reported = await checkpoint_of(bus, layout)
    former = replace(reported, number=99, objects=-1, fold="")
    await bus.publish(layout.sync(PART), former.body(), former.headers())
    async with following(bus, layout, part, cluster="c") as fed:
        await eventually(lambda: fed.statistics.projection.messages == 2, "seen")
        await asyncio.sleep(0.2)
        assert not fed.feed.synced
        assert fed.statistics.projection.restaged == 0
        await source.mark()
        await eventually(lambda: fed.equals(source, part), "believed")


@pytest.mark.spec("FW-418")
async def test_a_new_epoch_of_one_part_leaves_every_snapshot_alone(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    cluster = filled()
    async with running(bus, layout, cluster) as publisher, following(bus, layout, part) as fed:
        await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        for _ in range(3):
            epoch = publisher.epoch
            cluster.put("w0", again=True)
            publisher.take(cluster.listing())
            await eventually(lambda epoch=epoch: publisher.epoch > epoch, "versions were missed")  # type: ignore[misc]
            await settles(bus, layout, PART, cluster, publisher)
        await eventually(lambda: fed.cache.epoch(part) == publisher.epoch, "the world knows the epoch")
        assert fed.content(part) == cluster.objects
        statistics = fed.statistics.projection
        assert (statistics.generations, statistics.restaged) == (1, 0)


@pytest.mark.spec("FW-419")
async def test_two_clusters_under_one_root_say_so_and_harm_nothing(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    ours, theirs = filled(), Cluster(version=5000)
    theirs.put("w0", theirs=True)
    theirs.put("only-theirs")
    async with running(bus, layout, ours) as publisher, following(bus, layout, part) as fed:
        await settles(bus, layout, PART, ours, publisher)
        await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        before = await all_states(bus, layout, PART)
        async with (
            running(bus, layout, theirs, uid="cluster-2", source="second") as second,
            following(bus, layout, part, cluster="cluster-2") as stranger,
        ):
            await eventually(lambda: "--nats-root" in (second.statistics.interrupted_by or ""), "the second says so")
            await eventually(lambda: stranger.statistics.parts[0].foreign == "cluster-1", "its consumer as well")
            sessions = publisher.statistics.sessions
            await asyncio.sleep(10 * QUICK.checkpoint_interval)
            assert second.statistics.published == 0
            assert publisher.statistics.sessions == sessions, "the first was not disturbed"
            assert stranger.content(part) == {}
            assert not stranger.feed.synced
        assert await all_states(bus, layout, PART) == before
        assert fed.content(part) == ours.objects
        assert fed.cache.is_fresh(part)


@pytest.mark.spec("FW-419")
async def test_two_clusters_that_start_together_do_not_mix(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    ours, theirs = filled(), Cluster(version=5000)
    theirs.put("only-theirs")
    async with (
        running(bus, layout, ours) as first,
        running(bus, layout, theirs, uid="cluster-2", source="second") as second,
        feeding(bus, layout, [part], settings=PATIENT, cluster="cluster-1") as one,
        feeding(bus, layout, [part], settings=PATIENT, cluster="cluster-2") as two,
    ):
        await eventually(
            lambda: first.statistics.checkpoints + second.statistics.checkpoints > 3, "one of them vouches"
        )
        won = first.statistics.checkpoints > 0
        winner, fed, other = (ours, one, two) if won else (theirs, two, one)
        await eventually(lambda: fed.cache.is_fresh(part), "its consumers are fresh")
        await asyncio.sleep(5 * QUICK.checkpoint_interval)
        assert fed.content(part) == winner.objects
        assert other.content(part) == {}
        assert min(first.statistics.published, second.statistics.published) == 0
        assert await agrees(bus, layout, PART, winner)


@pytest.mark.spec("FW-419")
async def test_the_consumer_of_a_part_that_another_cluster_took_over_keeps_what_it_knew(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    ours, theirs = filled(), Cluster(version=5000)
    theirs.put("w0", theirs=True)
    async with following(bus, layout, part) as fed:
        async with running(bus, layout, ours) as publisher:
            await settles(bus, layout, PART, ours, publisher)
            await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        fed.changes.clear()
        async with running(bus, layout, theirs, uid="cluster-2", source="second") as second:
            await settles(bus, layout, PART, theirs, second)
            assert fed.statistics.parts[0].foreign == "cluster-2"
            await eventually(lambda: not fed.cache.is_fresh(part), "stale")
            assert fed.changes == []
            assert fed.content(part) == ours.objects
        ours.put("w1", later=True)
        async with running(bus, layout, ours, source="third") as publisher:
            await settles(bus, layout, PART, ours, publisher)
            await eventually(lambda: fed.cache.is_fresh(part), "its own cluster is back")
            assert fed.content(part) == ours.objects
            assert fed.statistics.parts[0].foreign == ""
            assert {change.key.name for change in fed.changes} == {"w1"}


@pytest.mark.spec("FW-419")
async def test_two_roots_on_one_server_do_not_meet(bus: BusConnection, layout: Layout, part: Part[Resource]) -> None:
    ours, theirs, elsewhere = filled(), filled(2), Layout(f"{layout.root}-b")
    theirs.put("w0", theirs=True)
    async with (
        running(bus, layout, ours) as first,
        running(bus, elsewhere, theirs, uid="cluster-2") as second,
        following(bus, layout, part) as fed,
        feeding(bus, elsewhere, [part], settings=PATIENT, cluster="cluster-2") as other,
    ):
        await settles(bus, layout, PART, ours, first)
        await settles(bus, elsewhere, PART, theirs, second)
        await eventually(lambda: fed.cache.is_fresh(part) and other.cache.is_fresh(part), "both fresh")
        assert fed.content(part) == ours.objects
        assert other.content(part) == theirs.objects
        await purge(bus, elsewhere, ">")
        await settles(bus, elsewhere, PART, theirs, second)
        assert await agrees(bus, layout, PART, ours)
        assert first.statistics.sessions == 1


@pytest.mark.spec("FW-421")
async def test_other_content_under_an_equal_version_is_repaired_after_a_restored_store(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    cluster = Cluster()
    cluster.put("a", number=1)
    cluster.put("b", number=1)
    cluster.put("c", number=1)
    async with publishing(bus, widgets(), layout) as publisher, following(bus, layout, part) as fed:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        restored = Cluster(version=cluster.version - 2, objects=dict(list(cluster.objects.items())[:1]), made=1)
        other = restored.put("b", number=2).obj
        assert other.resource_version == cluster.objects[Key("ns", "b")]["metadata"]["resourceVersion"]
        publisher.take(restored.listing(rewound=True))
        await settles(bus, layout, PART, restored, publisher)
        await eventually(lambda: fed.cache.is_fresh(part) and fed.content(part) == restored.objects, "the new content")


@pytest.mark.spec("FW-418")
async def test_an_epoch_from_the_future_holds_nobody_up(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    """A deposed leader whose clock is fast writes after its successor has read the stream."""
    cluster = filled(1)
    async with running(bus, layout, cluster) as publisher, following(bus, layout, part, cluster="") as fed:
        await settles(bus, layout, PART, cluster, publisher)
        late = Source(bus, layout, epoch="29990101T000000.000Z-00beef")
        late.truth[Key("ns", "w0")] = cluster.objects[Key("ns", "w0")]
        await late.publish(Key("ns", "w0"), cluster.objects[Key("ns", "w0")])
        publisher.take(cluster.put("w0", newer=True))
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch >= late.epoch
        await eventually(lambda: fed.cache.is_fresh(part) and fed.content(part) == cluster.objects, "the newer content")


@pytest.mark.spec("FW-485")
async def test_a_successor_believes_no_late_checkpoint_of_its_dead_predecessor(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    cluster = filled()
    async with following(bus, layout, part) as fed:
        async with running(bus, layout, cluster, source="predecessor") as predecessor:
            await settles(bus, layout, PART, cluster, predecessor)
            await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        last = await last_message(bus, layout.state_stream, layout.sync(PART))
        assert last is not None
        cluster.put("w0", changed=True)
        successor = Publisher(PublisherSetup(bus, "successor", "cluster-1", layout, settings=QUICK), widgets())
        waiting = asyncio.create_task(fed.feed.wait_confirmed({PART: successor.source}))
        await eventually(lambda: not fed.cache.is_fresh(part), "what was vouched for before counts for nothing")
        # What the dead one sent last lay in a buffer until now.
        taken = fed.statistics.projection.messages
        await bus.publish(layout.sync(PART), last.data, {})
        await eventually(lambda: fed.statistics.projection.messages > taken, "the late marker was taken")
        await never_fresh_but_true(fed, part, cluster, 0.3)
        assert not waiting.done()
        successor.take(cluster.listing())
        task = asyncio.create_task(successor.run())
        await waiting
        assert fed.content(part) == cluster.objects
        written = successor.statistics.checkpoints
        await fed.feed.wait_confirmed({PART: successor.source})
        assert successor.statistics.checkpoints == written, "its word is there already"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.spec("FW-893")
async def test_the_leader_of_another_shard_waits_for_a_word_of_the_publisher_from_after_its_beginning(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    cluster = filled()
    async with following(bus, layout, part) as fed:
        async with running(bus, layout, cluster, source="gone") as gone:
            await settles(bus, layout, PART, cluster, gone)
            await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        waiting = asyncio.create_task(fed.feed.wait_confirmed({}, [part]))
        await eventually(lambda: fed.feed.awaited == [PART], "it waits")
        assert fed.cache.is_fresh(part), "whatever else is decided goes on"
        assert not waiting.done()
        async with running(bus, layout, cluster, source="any other"):
            await waiting
        assert fed.feed.awaited == []


@pytest.mark.spec("FW-485")
async def test_a_term_that_ends_early_leaves_the_word_to_its_successor(
    bus: BusConnection, layout: Layout, part: Part[Resource]
) -> None:
    cluster = filled()
    async with running(bus, layout, cluster) as publisher, following(bus, layout, part) as fed:
        await settles(bus, layout, PART, cluster, publisher)
        await eventually(lambda: fed.cache.is_fresh(part), "fresh")
        waiting = asyncio.create_task(fed.feed.wait_confirmed({PART: "never came to it"}))
        cluster.put("w9")
        publisher.take(cluster.listing())
        await eventually(lambda: Key("ns", "w9") in fed.content(part), "told")
        written = publisher.statistics.checkpoints
        await eventually(lambda: publisher.statistics.checkpoints > written + 1, "confirmed")
        assert not waiting.done()
        assert not fed.cache.is_fresh(part)
        waiting.cancel()
        await eventually(lambda: fed.cache.is_fresh(part), "fresh again")
