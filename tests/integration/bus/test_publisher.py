"""A publisher on a broker that works: order, history, repair, markers, epochs."""

import asyncio
import weakref
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.nats import TEST_LIMITS, connected, eventually, new_layout
from support.publishing import (
    QUICK,
    Cluster,
    agrees,
    all_states,
    history,
    of,
    publishing,
    repeated,
    settles,
    skipped,
    unnamed_holes,
)
from support.world_feed import feeding
from support.world_objects import widget, widgets

from aim_shared.bus.connection import BusConnection, Message
from aim_shared.bus.envelope import StateMessage, Verb
from aim_shared.bus.epoch import Reason
from aim_shared.bus.freshness import boot_seconds
from aim_shared.bus.interruption import InterruptedSessionError
from aim_shared.bus.judgement import Scope
from aim_shared.bus.marker import decode_marker
from aim_shared.bus.marker_writer import MarkerWriter
from aim_shared.bus.outcome import PubAck
from aim_shared.bus.part import Key
from aim_shared.bus.publisher import Publisher
from aim_shared.bus.publisher_state import PublisherSettings, SupersededError
from aim_shared.bus.scoping import Scoping
from aim_shared.bus.snapshot import read_present
from aim_shared.bus.source import upsert_of
from aim_shared.bus.stored import delete_message, last_message, stream_state
from aim_shared.bus.streams import state_config
from aim_shared.bus.subjects import Layout
from aim_shared.bus.writer import Writer
from aim_shared.kube.reflector_state import Delete, Event, ListFrom, Restarted

PART = "widgets"


async def epoch_in_marker(bus: BusConnection, layout: Layout) -> str:
    found = await last_message(bus, layout.state_stream, layout.sync(PART))
    return decode_marker(found.data).epoch if found else ""


async def test_every_version_is_kept_in_order_and_the_last_one_is_present(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for number in range(20):
            publisher.take(cluster.put("a", number=number))
            publisher.take(cluster.put("b", number=number))
        await settles(bus, layout, PART, cluster, publisher)
    versions = await history(bus, layout, PART)
    for name in "ab":
        assert [version.state.json()["spec"]["number"] for version in of(versions, name)] == list(range(20))  # type: ignore[index]  # no tombstone
    assert unnamed_holes(versions) == []
    assert len({version.state.epoch for version in versions}) == 1


async def test_a_deletion_is_a_tombstone_and_a_recreation_a_new_object(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        publisher.take(cluster.delete("a"))
        publisher.take(cluster.put("a"))
        publisher.take(cluster.put("b"))
        publisher.take(cluster.delete("b"))
        await settles(bus, layout, PART, cluster, publisher)
    versions = await history(bus, layout, PART)
    assert [version.state.verb for version in of(versions, "a")] == [Verb.UPSERT, Verb.DELETE, Verb.UPSERT]
    assert len({version.state.uid for version in of(versions, "a")}) == 2
    states = await all_states(bus, layout, PART)
    assert states[Key("ns", "b")].deleted
    assert unnamed_holes(versions) == []


async def test_noise_is_dropped(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        change = cluster.put("a")
        metadata = change.obj["metadata"]
        clean = {**change.obj, "metadata": dict(metadata)}
        metadata["managedFields"] = [{"manager": "kubectl"}]
        metadata["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
        publisher.take(change)
        await eventually(lambda: publisher.statistics.published == 1, "published")
    states = await all_states(bus, layout, PART)
    assert states[Key("ns", "a")].json() == clean


async def test_the_first_list_is_compared_with_what_the_stream_holds(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in ("kept", "changed", "gone"):
            publisher.take(cluster.put(name))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    cluster.put("changed", now=True)
    cluster.delete("gone")
    cluster.put("new")
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.statistics.repaired == 3
        assert publisher.epoch > epoch, "versions may be missing in between, so the history must say so"
    versions = await history(bus, layout, PART)
    assert len(of(versions, "kept")) == 1
    assert unnamed_holes(versions) == []


async def test_a_restart_without_changes_continues_the_epoch(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        publisher.take(cluster.put("a", changed=True))
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch == epoch
        assert publisher.statistics.repaired == 0
    assert len(await history(bus, layout, PART)) == 2


async def test_a_marker_comes_only_after_the_comparison(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    for number in range(50):
        cluster.put(f"w{number}")
    async with publishing(bus, widgets(), layout) as publisher:
        await eventually(lambda: publisher.statistics.phase == "loading", "loading")
        assert await last_message(bus, layout.state_stream, layout.sync(PART)) is None
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.markers > 0, "marker")
        assert await agrees(bus, layout, PART, cluster)
        found = await last_message(bus, layout.state_stream, layout.sync(PART))
        assert found is not None
        assert decode_marker(found.data).resource_version == str(cluster.version)


async def test_a_marker_vouches_only_for_what_lies_before_it(
    bus: BusConnection, nats_server: str, layout: Layout
) -> None:
    """Everything that the cluster had at the marker's version was sent before the marker, amid concurrent writes."""
    cluster, sent, broken = Cluster(), dict[str, int](), list[str]()

    async def look(message: Message) -> None:
        if message.subject == layout.sync(PART):
            version = int(decode_marker(message.data).resource_version)
            for name, past in cluster.past.items():
                due = max((int(rv) for rv in past if int(rv) <= version), default=0)
                if sent.get(name, 0) < due:
                    broken.append(f"{name} at {sent.get(name, 0)} instead of {due}")
        else:
            sent[layout.parse_state(message.subject)[1].name] = int(message.headers["Aim-Rv"])

    async with connected(nats_server, "observer") as observer:
        await observer.wait_connected()
        await observer.subscribe(f"{layout.root}.state.>", look)
        await observer.subscribe(layout.sync(PART), look)
        # An answer on the same connection means that the broker knows of the subscriptions.
        await stream_state(observer, layout.state_stream)
        settings = PublisherSettings(marker_interval=0.005, concurrency=4)
        async with publishing(bus, widgets(), layout, settings=settings) as publisher:
            publisher.take(cluster.listing())
            for number in range(600):
                publisher.take(cluster.put(f"w{number % 60}", number=number))
                if number % 30 == 0:
                    await asyncio.sleep(0.01)
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.statistics.markers >= 2
    assert broken == []
    assert len(await history(bus, layout, PART)) == 600


async def test_a_lost_message_is_repaired_by_the_next_comparison(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
        stored = await last_message(bus, layout.state_stream, layout.state(PART, Key("ns", "a")))
        assert stored is not None
        await delete_message(bus, layout.state_stream, stored.sequence)
        publisher.compare()
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch > epoch
        assert await epoch_in_marker(bus, layout) == publisher.epoch


async def test_comparing_asks_the_reflector_for_a_list(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    asked = asyncio.Event()
    settings = PublisherSettings(marker_interval=0.1, compare_interval=0.3)
    async with publishing(bus, widgets(), layout, settings=settings, relist=lambda _: asked.set()) as publisher:
        publisher.take(cluster.listing())
        await eventually(asked.is_set, "asked")
        cluster.put("a")
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)


async def test_what_vanished_between_lists_is_deleted_even_if_it_waits_to_be_published(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        change = cluster.put("a")
        publisher.take(change)
        gone = cluster.delete("a")
        publisher.take(Delete(gone.obj, gone.resource_version, synthetic=True))
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        await eventually(lambda: agrees(bus, layout, PART, cluster), "gone")
    assert (await all_states(bus, layout, PART))[Key("ns", "a")].deleted


async def test_an_unreadable_message_is_replaced(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    await bus.publish(layout.state(PART, Key("ns", "a")), b"garbage", {})
    await bus.publish(layout.state(PART, Key("ns", "b")), b"garbage", {"Aim-Verb": "upsert"})
    await bus.publish(layout.sync(PART), b"garbage", {})
    cluster.put("a")
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)


@pytest.mark.spec("FW-419")
async def test_nothing_is_removed_or_copied_before_the_part_is_claimed(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, broken = Cluster(), layout.state(PART, Key("ns", "broken"))
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
    await bus.api(f"STREAM.PURGE.{layout.history_stream}")
    await bus.publish(broken, b"garbage", {})
    claim, seen = MarkerWriter.claim, list[tuple[bool, int]]()

    async def look_and_claim(writer: MarkerWriter, *args: Any) -> None:
        unreadable = await last_message(bus, layout.state_stream, broken)
        seen.append((unreadable is not None, len(await history(bus, layout, PART))))
        await claim(writer, *args)

    monkeypatch.setattr(MarkerWriter, "claim", look_and_claim)
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
    assert seen == [(True, 0)]
    assert await last_message(bus, layout.state_stream, broken) is None
    assert len(await history(bus, layout, PART)) == 1


async def test_what_somebody_writes_while_the_stream_is_read_is_no_fall_of_its_end(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, reasons, written = Cluster(), list[Reason](), list[bool]()
    begin = Scoping.begin

    def note(scoping: Scoping, reason: Reason) -> None:
        reasons.append(reason)
        begin(scoping, reason)

    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        scope = Scope(publisher.epoch, publisher.epoch)

        async def read_late(*args: Any) -> Any:
            if not written:
                late = cluster.put("late")
                publisher.take(late)
                former = Writer(bus, widgets(), layout, "former", lambda: True)
                written.append(await former.write(upsert_of(widgets(), late.obj), scope))
            return await read_present(*args)

        monkeypatch.setattr("aim_shared.bus.session.read_present", read_late)
        monkeypatch.setattr(Scoping, "begin", note)
        publisher.compare()
        await eventually(lambda: written == [True], "read again")
        await settles(bus, layout, PART, cluster, publisher)
    assert reasons == []


async def test_an_older_list_is_waited_for_before_it_counts_as_a_restored_cluster(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    stale = cluster.listing()
    change = cluster.put("a", newer=True)
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    async with publishing(
        bus, widgets(), layout, source="third", settings=PublisherSettings(marker_interval=0.1)
    ) as publisher:
        publisher.take(stale)
        await eventually(lambda: publisher.statistics.phase == "loading", "loading")
        publisher.take(change)
        await settles(bus, layout, PART, cluster, publisher)
        versions = await history(bus, layout, PART)
        assert [v.state.resource_version for v in versions] == sorted(v.state.resource_version for v in versions)
    assert epoch


async def test_a_restored_cluster_begins_an_epoch_in_which_older_versions_count(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a", number=1))
        for number in range(5):
            publisher.take(cluster.put("a", number=number))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
        restored = Cluster(version=50)
        restored.put("a", restored=True)
        publisher.take(restored.listing(rewound=True))
        await settles(bus, layout, PART, restored, publisher)
        assert publisher.epoch > epoch
        publisher.take(restored.put("a", restored=2))
        await settles(bus, layout, PART, restored, publisher)


async def test_another_cluster_behind_the_same_broker_begins_an_epoch(bus: BusConnection, layout: Layout) -> None:
    cluster, other = Cluster(), Cluster(version=10)
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
    other.put("b")
    publisher = Publisher(bus, widgets(), source="second", cluster="cluster-2", layout=layout, settings=QUICK)
    publisher.take(other.listing())
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(publisher.run())
        await settles(bus, layout, PART, other, publisher)
        assert publisher.epoch > epoch
        runner.cancel()


async def test_a_second_publisher_is_noticed_by_the_first(bus: BusConnection, nats_server: str, layout: Layout) -> None:
    cluster = Cluster()
    cluster.put("a")
    async with connected(nats_server, "other") as second_bus:
        await second_bus.wait_connected()

        async def first() -> None:
            async with publishing(bus, widgets(), layout) as publisher:
                publisher.take(cluster.listing())
                await settles(bus, layout, PART, cluster, publisher)
                async with publishing(second_bus, widgets(), layout, source="second") as second:
                    second.take(cluster.listing())
                    await eventually(lambda: second.statistics.markers > 3, "the second leads")
                    await asyncio.sleep(5)

        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.timeout(60):
                await first()
        assert raised.group_contains(SupersededError, match="stop publishing")


@pytest.mark.parametrize("same_epoch", [True, False])
async def test_an_old_leaders_late_write_never_replaces_a_newer_version(
    bus: BusConnection, nats_server: str, layout: Layout, monkeypatch: pytest.MonkeyPatch, *, same_epoch: bool
) -> None:
    """The old leader still has a version in its hands when the new one has published newer ones."""
    cluster = Cluster()
    async with connected(nats_server, "other") as second_bus:
        await second_bus.wait_connected()
        # The old one must not notice the new one by its marker.
        monkeypatch.setattr("aim_shared.bus.vouching.FIRST_PAUSES", ())
        quiet = PublisherSettings(marker_interval=60)
        async with publishing(bus, widgets(), layout, settings=quiet) as old:
            old.take(cluster.listing())
            old.take(cluster.put("a", number=0))
            await eventually(lambda: agrees(bus, layout, PART, cluster), "first version")
            before = cluster.listing()
            late = cluster.put("a", number=1)
            async with publishing(second_bus, widgets(), layout, source="second") as new:
                new.take(before if same_epoch else cluster.listing())
                await eventually(lambda: new.statistics.markers > 0, "the new one leads")
                new.take(late)
                new.take(cluster.put("a", number=2))
                await settles(bus, layout, PART, cluster, new)
                assert (old.epoch == new.epoch) is same_epoch
                old.take(late)
                await eventually(lambda: old.statistics.stale == 1, "the late write was refused")
                assert await agrees(bus, layout, PART, cluster)
    versions = await history(bus, layout, PART)
    assert repeated(versions) == []
    assert skipped(versions, cluster) == []


async def test_a_message_that_vanishes_within_the_brokers_window_is_written_anew(
    bus: BusConnection, layout: Layout
) -> None:
    """The broker acknowledges an id it knows, without storing anything."""
    cluster, scope = Cluster(), Scope("e1", "e1")
    writer = Writer(bus, widgets(), layout, "test", lambda: True)
    version = upsert_of(widgets(), cluster.put("a").obj)
    assert await writer.write(version, scope)
    held = writer.stored.pop(version.key)
    await delete_message(bus, layout.state_stream, held.sequence)
    assert await writer.write(version, scope)
    assert await agrees(bus, layout, PART, cluster)


async def test_without_the_lease_nothing_is_written(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    leads = True

    def may_write() -> bool:
        return leads

    async with publishing(bus, widgets(), layout, may_write=may_write) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
        leads = False
        before = await all_states(bus, layout, PART)
        publisher.take(cluster.put("a", later=True))
        await eventually(lambda: publisher.statistics.phase == "waiting", "waiting")
        assert await all_states(bus, layout, PART) == before
        leads = True
        await settles(bus, layout, PART, cluster, publisher)


async def test_old_tombstones_are_swept_and_a_recreation_survives(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    settings = PublisherSettings(marker_interval=0.1, sweep_interval=0.05, tombstone_age=timedelta(0))
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
    versions = await history(bus, layout, PART)
    assert len(versions) == 30 * 6 + 2
    assert unnamed_holes(versions) == []


async def test_young_tombstones_stay(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    settings = PublisherSettings(marker_interval=0.05, sweep_interval=0.02)
    async with publishing(bus, widgets(), layout, settings=settings) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        publisher.take(cluster.delete("a"))
        await settles(bus, layout, PART, cluster, publisher)
        await eventually(lambda: publisher.statistics.markers > 6, "time passes")
    assert (await all_states(bus, layout, PART))[Key("ns", "a")].deleted


@pytest.mark.spec("FW-462")
async def test_of_many_tombstones_the_oldest_go_sooner(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    settings = PublisherSettings(marker_interval=0.1, sweep_interval=0.05, tombstones=3, crowded_age=timedelta(0))
    async with publishing(bus, widgets(), layout, settings=settings) as publisher:
        publisher.take(cluster.listing())
        for number in range(20):
            publisher.take(cluster.put(f"w{number}"))
            publisher.take(cluster.delete(f"w{number}"))
        await eventually(lambda: publisher.statistics.swept == 17, "all but three are swept")
        markers = publisher.statistics.markers
        await eventually(lambda: publisher.statistics.markers > markers + 2, "time passes")
    left = await all_states(bus, layout, PART)
    assert set(left) == {Key("ns", f"w{number}") for number in (17, 18, 19)}


async def test_an_object_too_large_for_the_broker_holds_nobody_up(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("big", text="x"))
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
        publisher.take(cluster.put("big", text="x" * (5 << 20)))
        publisher.take(cluster.put("small"))
        await eventually(lambda: publisher.statistics.refused == 1, "refused")
        await eventually(lambda: "ns/big" in (publisher.statistics.interrupted_by or ""), "named")
        markers = publisher.statistics.markers
        await eventually(lambda: publisher.statistics.published == 2, "the other one is published")
        await asyncio.sleep(3 * QUICK.marker_interval)
        assert publisher.statistics.markers == markers
        publisher.take(cluster.put("big", text="y"))
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch == epoch
    versions = await history(bus, layout, PART)
    assert [version.state.gap for version in of(versions, "big")] == [False, True]
    assert unnamed_holes(versions) == []


async def test_what_a_crash_left_out_of_the_history_is_copied(bus: BusConnection, layout: Layout) -> None:
    """A version in the state stream whose second write never happened."""
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
    logged = await last_message(bus, layout.history_stream, layout.log(PART, Key("ns", "a")))
    assert logged is not None
    await delete_message(bus, layout.history_stream, logged.sequence)
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.statistics.copied == 1
    versions = await history(bus, layout, PART)
    assert [version.state.resource_version for version in versions] == ["101"]


async def test_a_history_that_does_not_answer_in_time_ends_the_session_and_not_the_publisher(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, failed = Cluster(), list[StateMessage]()
    cluster.put("a")
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
    await bus.api(f"STREAM.PURGE.{layout.history_stream}")
    copy = Writer.copy_to_history

    async def copy_at_the_second_try(writer: Writer, message: StateMessage, sequence: int) -> None:
        await asyncio.sleep(0.01)
        failed.append(message)
        if len(failed) == 1:
            raise InterruptedSessionError("the history did not answer")
        await copy(writer, message, sequence)

    monkeypatch.setattr(Writer, "copy_to_history", copy_at_the_second_try)
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.markers > 0, "it goes on")
    assert len(await history(bus, layout, PART)) == 1


@pytest.mark.spec("FW-019")
async def test_the_marker_waits_for_a_list_when_the_watch_falls_silent(bus: BusConnection, layout: Layout) -> None:
    cluster, asked = Cluster(), asyncio.Event()
    settings = replace(QUICK, marker_interval=0.05, watch_silence=0.5)
    async with publishing(bus, widgets(), layout, settings=settings, relist=lambda _: asked.set()) as publisher:
        publisher.take(cluster.listing())
        for _ in range(8):
            await asyncio.sleep(0.1)
            publisher.take(cluster.bookmark())
        assert publisher.statistics.markers > 3
        assert not asked.is_set()
        await asyncio.wait_for(asked.wait(), 60)
        markers = publisher.statistics.markers
        await asyncio.sleep(0.3)
        assert publisher.statistics.markers == markers
        assert "silent" in (publisher.statistics.interrupted_by or "")
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.markers > markers, "the list proves that the server answers")
        assert publisher.statistics.interrupted_by is None


async def test_a_broker_out_of_storage_is_asked_again_until_it_has_some(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        config = (await bus.api(f"STREAM.INFO.{layout.state_stream}"))["config"]
        full = {**config, "max_bytes": 4096, "discard": "new"}
        await bus.api(f"STREAM.UPDATE.{layout.state_stream}", full)
        publisher.take(cluster.put("a", text="x" * 8192))
        await eventually(lambda: publisher.statistics.rereads > 1, "asked again")
        assert publisher.statistics.refused == 0
        await bus.api(f"STREAM.UPDATE.{layout.state_stream}", config)
        await settles(bus, layout, PART, cluster, publisher)


async def test_foreign_subjects_stop_nobody(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    cluster.put("a")
    subjects = (f"{layout.root}.state.{PART}.ns.a.b", f"{layout.root}.state.{PART}.ns.%61")
    for subject in subjects:
        assert isinstance(await bus.publish(subject, b"poison", {}), PubAck)
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.markers > 0, "vouched for")
        vouched = publisher.statistics.markers
        publisher.compare()
        await eventually(
            lambda: publisher.statistics.sessions > 1 and publisher.statistics.markers > vouched, "compared again"
        )
        assert publisher.statistics.differences == 0
        stored = await last_message(bus, layout.state_stream, layout.state(PART, Key("ns", "a")))
        assert stored is not None
        assert stored.data != b"poison"


async def test_a_stream_of_another_nature_is_waited_out(nats_server: str) -> None:
    layout, cluster = new_layout(), Cluster()
    cluster.put("a")
    async with connected(nats_server) as bus:
        await bus.wait_connected()
        wrong = {**state_config(layout, TEST_LIMITS), "storage": "memory"}
        await bus.api(f"STREAM.CREATE.{layout.state_stream}", wrong)
        async with publishing(bus, widgets(), layout) as publisher:
            publisher.take(cluster.listing())
            await eventually(lambda: "storage" in (publisher.statistics.interrupted_by or ""), "named")
            await bus.api(f"STREAM.DELETE.{layout.state_stream}")
            await settles(bus, layout, PART, cluster, publisher)
            assert publisher.statistics.interrupted_by is None


@pytest.mark.spec("FW-406", "FW-408")
async def test_a_change_amid_a_comparison_begins_no_epoch_and_undoes_no_own_write(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = Cluster()
    cluster.put("a", number=1)
    async with publishing(bus, widgets(), layout) as publisher, feeding(bus, layout, [widgets()]) as fed:
        part = fed.world.parts[0]
        publisher.take(cluster.listing())
        await eventually(lambda: fed.world.is_fresh(part), "fresh")
        epoch, generations = publisher.epoch, fed.statistics.projection.generations
        for number in range(2, 5):
            publisher.take(cluster.listing())
            await asyncio.sleep(0.002)
            user, own = cluster.put("a", number=number), cluster.put("a", own=number)
            fed.world.absorb(part, own.obj, boot_seconds())
            fed.changes.clear()
            publisher.take(user)
            publisher.take(own)
            await settles(bus, layout, PART, cluster, publisher)
            assert fed.changes == []
        assert publisher.statistics.sessions >= 4
        assert publisher.epoch == epoch
        assert fed.statistics.projection.generations == generations
    assert skipped(await history(bus, layout, PART), cluster) == []


@pytest.mark.spec("FW-408")
async def test_versions_compare_across_an_epoch_before_its_marker_is_seen(bus: BusConnection, layout: Layout) -> None:
    """A world that knows an own write does not go back over it when a new epoch brings what came before."""
    cluster = Cluster()
    cluster.put("a", number=1)
    async with publishing(bus, widgets(), layout) as publisher, feeding(bus, layout, [widgets()]) as fed:
        part = fed.world.parts[0]
        publisher.take(cluster.listing())
        await eventually(lambda: fed.world.is_fresh(part), "fresh")
        epoch = publisher.epoch
        cluster.put("a", number=2)
        publisher.take(cluster.listing())
        own = cluster.put("a", number=3)
        fed.world.absorb(part, own.obj, boot_seconds())
        fed.changes.clear()
        await eventually(lambda: publisher.epoch > epoch, "a version was missed")
        publisher.take(own)
        await settles(bus, layout, PART, cluster, publisher)
        assert fed.changes == []


@pytest.mark.spec("FW-408")
async def test_a_lagging_cache_is_no_restored_store(bus: BusConnection, layout: Layout) -> None:
    """Only a list from the store itself tells that the cluster went back; until then nobody vouches for the part."""
    cluster, asked = Cluster(), list[ListFrom]()
    cluster.put("a", number=1)
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        epoch = publisher.epoch
        stale = cluster.listing()
        publisher.take(cluster.put("a", number=2))
        publisher.take(cluster.put("b"))
        await settles(bus, layout, PART, cluster, publisher)
    async with publishing(bus, widgets(), layout, source="second", relist=asked.append) as publisher:
        publisher.take(stale)
        await eventually(lambda: bool(asked), "the store is asked")
        publisher.take(stale)
        await asyncio.sleep(2 * QUICK.list_grace)
        assert publisher.statistics.markers == 0
        assert await agrees(bus, layout, PART, cluster)
        publisher.take(replace(cluster.listing(), from_store=True))
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch == epoch
        assert set(asked) == {ListFrom.STORE}
        asked.clear()
        restored = Cluster(version=10)
        restored.put("a", restored=True)
    async with publishing(bus, widgets(), layout, source="third", relist=asked.append) as publisher:
        publisher.take(restored.listing())
        await eventually(lambda: bool(asked), "the store is asked")
        publisher.take(replace(restored.listing(), from_store=True))
        await settles(bus, layout, PART, restored, publisher)
        assert publisher.epoch > epoch


class _Listed(dict[str, Any]):
    """An object that tells when nobody holds it any more."""


@pytest.mark.spec("FW-459")
async def test_a_list_is_let_go_when_it_was_taken(bus: BusConnection, layout: Layout) -> None:
    """The next event may be a minute away, and a list is ten times what is kept of it."""
    taken, listed = asyncio.Event(), _Listed(widget("a"))
    held = weakref.ref(listed)

    async def events(given: list[Event]) -> AsyncIterator[Event]:
        while given:
            yield given.pop()
        taken.set()
        await asyncio.Event().wait()

    given: list[Event] = [Restarted((listed,), "1")]
    del listed
    consuming = asyncio.create_task(Publisher(bus, widgets(), source="s", layout=layout).consume(events(given)))
    await taken.wait()
    assert held() is None
    consuming.cancel()
