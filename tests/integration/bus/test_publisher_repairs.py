"""What a publisher makes of streams that are not as it left them, or that do not take what it writes."""

import asyncio

import pytest
from support.cache_objects import widgets
from support.nats import TEST_LIMITS, connected, eventually, new_layout
from support.publishing import (
    QUICK,
    Cluster,
    agrees,
    all_states,
    history,
    of,
    publishing,
    settles,
    unnamed_holes,
)

from controller_runtime import Key
from controller_runtime.kube.reflector_state import Delete
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.broker.reading import delete_message, last_message
from controller_runtime.log.broker.streams import state_config
from controller_runtime.log.publish.checkpoint import decode_checkpoint
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"


async def epoch_in_checkpoint(bus: BusConnection, layout: Layout) -> str:
    found = await last_message(bus, layout.state_stream, layout.sync(PART))
    return decode_checkpoint(found.data).epoch if found else ""


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
        publisher.reread()
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch > epoch
        assert await epoch_in_checkpoint(bus, layout) == publisher.epoch


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


@pytest.mark.spec("FW-496")
async def test_an_object_that_nobody_can_read_is_replaced_and_never_logged(bus: BusConnection, layout: Layout) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a"))
        await settles(bus, layout, PART, cluster, publisher)
    subject = layout.state(PART, Key("ns", "a"))
    stored = await last_message(bus, layout.state_stream, subject)
    assert stored is not None
    for body in (b"garbage", b"{}", stored.data.replace(b'"name":"a"', b'"name":"b"')):
        said = {name: value for name, value in stored.headers.items() if not name.startswith("Nats-")}
        assert isinstance(await bus.publish(subject, body, {**said, "ce-id": body.hex()}), PubAck)
        async with publishing(bus, widgets(), layout) as publisher:
            publisher.take(cluster.listing())
            await eventually(lambda: publisher.statistics.checkpoints > 0, "confirmed")
            await settles(bus, layout, PART, cluster, publisher)
    assert (await all_states(bus, layout, PART))[Key("ns", "a")].object() is not None
    for version in await history(bus, layout, PART):
        version.state.object()


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
        checkpoints = publisher.statistics.checkpoints
        await eventually(lambda: publisher.statistics.published == 2, "the other one is published")
        await asyncio.sleep(3 * QUICK.checkpoint_interval)
        assert publisher.statistics.checkpoints == checkpoints
        publisher.take(cluster.put("big", text="y"))
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch == epoch
    versions = await history(bus, layout, PART)
    assert [version.state.gap for version in of(versions, "big")] == [False, True]
    assert unnamed_holes(versions) == []


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
        await eventually(lambda: publisher.statistics.checkpoints > 0, "confirmed")
        confirmed = publisher.statistics.checkpoints
        publisher.reread()
        await eventually(
            lambda: publisher.statistics.sessions > 1 and publisher.statistics.checkpoints > confirmed, "compared again"
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
