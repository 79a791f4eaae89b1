"""Two that publish one part, a lost Lease, writes whose outcome is not known: nothing old replaces what is newer."""

import asyncio
import gc
from typing import Any

import pytest
from support.cache_objects import widgets
from support.epochs import E1
from support.nats import connected, eventually
from support.publishing import (
    Cluster,
    agrees,
    all_states,
    history,
    publishing,
    repeated,
    settles,
    skipped,
)

from controller_runtime import Key
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.reading import delete_message, last_message
from controller_runtime.log.publish.checkpointing import CheckpointWriter
from controller_runtime.log.publish.judgement import Scope
from controller_runtime.log.publish.state import (
    InterruptedSessionError,
    PublisherSettings,
    PublisherSetup,
    SupersededError,
)
from controller_runtime.log.publish.writer import Writer
from controller_runtime.log.wire.messages import StateMessage
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"


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
    claim, seen = CheckpointWriter.claim, list[tuple[bool, int]]()

    async def look_and_claim(writer: CheckpointWriter, *args: Any) -> None:
        unreadable = await last_message(bus, layout.state_stream, broken)
        seen.append((unreadable is not None, len(await history(bus, layout, PART))))
        await claim(writer, *args)

    monkeypatch.setattr(CheckpointWriter, "claim", look_and_claim)
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
    assert seen == [(True, 0)]
    assert await last_message(bus, layout.state_stream, broken) is None
    assert len(await history(bus, layout, PART)) == 1


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
                    await eventually(lambda: second.statistics.checkpoints > 3, "the second leads")
                    await asyncio.Event().wait()

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
        # The old one must not notice the new one by its checkpoint.
        monkeypatch.setattr("controller_runtime.log.publish.checkpointing.FIRST_PAUSES", ())
        quiet = PublisherSettings(checkpoint_interval=60)
        async with publishing(bus, widgets(), layout, settings=quiet) as old:
            old.take(cluster.listing())
            old.take(cluster.put("a", number=0))
            await eventually(lambda: agrees(bus, layout, PART, cluster), "first version")
            before = cluster.listing()
            late = cluster.put("a", number=1)
            async with publishing(second_bus, widgets(), layout, source="second") as new:
                new.take(before if same_epoch else cluster.listing())
                await eventually(lambda: new.statistics.checkpoints > 0, "the new one leads")
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
    cluster, scope = Cluster(), Scope(E1, E1)
    writer = Writer(PublisherSetup(bus, "test", layout=layout), widgets(), "test")
    version = cluster.put("a").obj
    assert await writer.write(version, scope)
    held = writer.stored.pop(version.key)
    await delete_message(bus, layout.state_stream, held.sequence)
    assert await writer.write(version, scope)
    assert await agrees(bus, layout, PART, cluster)


async def test_without_the_lease_nothing_is_written(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    leads = True

    async with publishing(bus, widgets(), layout, guard=lambda: float(leads)) as publisher:
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

    async def copy_at_the_second_try(writer: Writer, message: StateMessage, sequence: int) -> int:
        await asyncio.sleep(0.01)
        failed.append(message)
        if len(failed) == 1:
            raise InterruptedSessionError("the history did not answer")
        return await copy(writer, message, sequence)

    monkeypatch.setattr(Writer, "copy_to_history", copy_at_the_second_try)
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.checkpoints > 0, "it goes on")
    assert len(await history(bus, layout, PART)) == 1


@pytest.mark.spec("FW-460", "FW-452")
async def test_of_what_the_history_lost_no_bodies_are_kept_until_their_turn_comes(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, kept = Cluster(), list[int]()
    for number in range(40):
        cluster.put(f"w{number}")
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
    await bus.api(f"STREAM.PURGE.{layout.history_stream}")
    log = Writer._log

    async def log_and_count(writer: Writer, *args: Any, **options: Any) -> bool:
        kept.append(sum(isinstance(thing, StateMessage) for thing in gc.get_objects()))
        return await log(writer, *args, **options)

    monkeypatch.setattr(Writer, "_log", log_and_count)
    gc.collect()
    before = sum(isinstance(thing, StateMessage) for thing in gc.get_objects())
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.checkpoints > 0, "confirmed")
        assert publisher.statistics.copied == 40
    assert max(kept) - before < 20
    # What was logged again is young: the next start writes nothing.
    async with publishing(bus, widgets(), layout, source="third") as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.checkpoints > 0, "confirmed")
        assert publisher.statistics.copied == 0
    assert len(await history(bus, layout, PART)) == 40
