"""How much of the history a publisher reads when it compares: none of what it has seen there."""

import gc
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from support.cache_objects import widgets
from support.nats import eventually
from support.publishing import Cluster, history, of, publishing, remove_from_history, settles

from controller_runtime import Key
from controller_runtime.log.broker.address import BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.consumer import Present, read_present
from controller_runtime.log.broker.reading import StoredMessage, delete_message, last_message, stream_state
from controller_runtime.log.publish.publisher import Publisher
from controller_runtime.log.publish.session import Session
from controller_runtime.log.publish.state import InterruptedSessionError
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"


async def compares(publisher: Publisher) -> None:
    """Let a publisher read the stream again, and wait until it has confirmed what it found."""
    sessions, checkpoints = publisher.statistics.sessions, publisher.statistics.checkpoints
    publisher.reread()
    await eventually(lambda: publisher.statistics.sessions > sessions, "another session")
    await eventually(lambda: publisher.statistics.checkpoints > checkpoints, "confirmed")


@pytest.mark.spec("FW-489")
async def test_what_was_found_in_the_history_or_logged_is_not_read_again(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]]
) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in ("a", "b", "c"):
            publisher.take(cluster.put(name))
        publisher.take(cluster.delete("b"))
        await settles(bus, layout, PART, cluster, publisher)
        for _ in range(3):
            await compares(publisher)
            publisher.take(cluster.put("c", changed=str(_)))
            await settles(bus, layout, PART, cluster, publisher)
        assert readings == []
        assert publisher.statistics.copied == 0
    versions = await history(bus, layout, PART)
    assert [len(of(versions, name)) for name in "abc"] == [1, 2, 4]


@pytest.mark.spec("FW-489")
async def test_what_the_history_lost_is_missed_at_the_next_comparison(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]]
) -> None:
    cluster = Cluster()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in ("a", "b", "c"):
            publisher.take(cluster.put(name))
        await settles(bus, layout, PART, cluster, publisher)
        await remove_from_history(bus, layout, PART, "b")
        await compares(publisher)
        assert (len(readings), publisher.statistics.copied) == (1, 1), "from the middle"
        await compares(publisher)
        assert (len(readings), publisher.statistics.copied) == (1, 1)
        await bus.api(f"STREAM.PURGE.{layout.history_stream}")
        await compares(publisher)
        assert (len(readings), publisher.statistics.copied) == (2, 4), "all of it"
        await remove_from_history(bus, layout, PART, "a")
        await compares(publisher)
        assert publisher.statistics.copied == 5, "its beginning"
    versions = await history(bus, layout, PART)
    assert [len(of(versions, name)) for name in "abc"] == [1, 1, 1]


@pytest.mark.spec("FW-499")
async def test_a_sequence_that_is_given_out_again_does_not_stand_for_the_former_object(
    bus: BusConnection, layout: Layout
) -> None:
    cluster, stream = Cluster(), layout.state_stream
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in ("a", "b"):
            publisher.take(cluster.put(name))
        await settles(bus, layout, PART, cluster, publisher)
        former, other = [await last_message(bus, stream, layout.state(PART, Key("ns", name))) for name in "ab"]
        assert former is not None
        assert other is not None
        config = (await bus.api(f"STREAM.INFO.{stream}"))["config"]
        await bus.api(f"STREAM.DELETE.{stream}")
        await bus.api(f"STREAM.CREATE.{stream}", config)
        # What a session that has not noticed yet would write, just where the other object lay.
        while (await stream_state(bus, stream)).last_sequence < former.sequence - 1:
            await bus.publish(layout.state("others", Key("ns", "x")), b"{}", {})
        await bus.publish(layout.state(PART, Key("ns", "b")), other.data, dict(other.headers))
        await settles(bus, layout, PART, cluster, publisher)


@pytest.mark.spec("FW-489")
async def test_of_a_history_of_what_is_gone_only_what_is_there_is_read(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]]
) -> None:
    cluster, there = Cluster(), ("w0", "w7")
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for number in range(10):
            publisher.take(cluster.put(f"w{number}"))
        await settles(bus, layout, PART, cluster, publisher)
    for key in [key for key in cluster.objects if key.name not in there]:
        # As after the sweep of its tombstone.
        gone = await last_message(bus, layout.state_stream, layout.state(PART, key))
        assert gone is not None
        await delete_message(bus, layout.state_stream, gone.sequence)
        del cluster.objects[key]
    await remove_from_history(bus, layout, PART, "w7")
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.statistics.copied == 1
    assert sorted(readings[-1]) == [layout.log(PART, Key("ns", name)) for name in there]
    for number in (1, 2, 3, 4, 5, 6, 8, 9):
        await bus.api(f"STREAM.PURGE.{layout.history_stream}", {"filter": layout.log(PART, Key("ns", f"w{number}"))})
    async with publishing(bus, widgets(), layout, source="third") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
    assert readings[-1] == (layout.log_filter(PART),), "nearly all of it is wanted"
    assert [len(of(await history(bus, layout, PART), name)) for name in there] == [1, 1]


@pytest.mark.spec("FW-489")
async def test_what_could_not_be_copied_is_missed_again(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that ends before it has mended what it found leaves nothing for the next one to rely on."""
    cluster, broken = Cluster(), list[int]()
    cluster.put("a")
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
    await bus.api(f"STREAM.PURGE.{layout.history_stream}")
    mend = Session._mend

    async def mend_at_the_second_try(session: Session, found: Any) -> None:
        broken.append(1)
        if len(broken) == 1:
            raise InterruptedSessionError("before anything was copied")
        await mend(session, found)

    monkeypatch.setattr(Session, "_mend", mend_at_the_second_try)
    async with publishing(bus, widgets(), layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.statistics.copied == 1
    assert len(await history(bus, layout, PART)) == 1
    assert len(readings) == 2


@pytest.mark.spec("FW-499")
async def test_a_comparison_keeps_what_it_knows_and_reads_no_bodies(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, bodies = Cluster(), list[bytes]()

    async def read_and_note(
        bus: BusConnection, of: Layout, part: str, service: str, take: Present, *, headers_only: bool
    ) -> int:
        def note(key: Key, message: StoredMessage) -> None:
            bodies.append(message.data)
            take(key, message)

        return await read_present(bus, of, part, service, note, headers_only=headers_only)

    monkeypatch.setattr("controller_runtime.log.publish.session.read_present", read_and_note)
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in ("a", "b", "c"):
            publisher.take(cluster.put(name))
        publisher.take(cluster.delete("b"))
        await settles(bus, layout, PART, cluster, publisher)
        # The first one learns when the broker stored what was published.
        await compares(publisher)
        known = publisher._context.writer.stored
        before = dict(known)
        bodies.clear()
        await compares(publisher)
        assert publisher._context.writer.stored is known
        assert known.keys() == before.keys()
        assert all(known[key] is one for key, one in before.items())
        assert bodies == [b"", b"", b""]


@pytest.mark.spec("FW-499")
async def test_comparisons_leave_nothing_behind(bus: BusConnection, layout: Layout) -> None:
    cluster, objects = Cluster(), 300
    for number in range(objects):
        cluster.put(f"w{number}", number=number)
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        for _ in range(3):
            await compares(publisher)
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(10):
            await compares(publisher)
        gc.collect()
        # Far less than one block for each object of each comparison; up to a hundred timers that were cancelled, of
        # three blocks each, wait in the event loop until it clears them away.
        assert sys.getallocatedblocks() - before < 3 * objects


@pytest.mark.spec("FW-499")
async def test_of_a_reading_that_broke_off_nothing_is_believed(
    bus: BusConnection, layout: Layout, readings: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took note of some messages, and not yet of what is missing."""
    cluster, broken = Cluster(), list[str]()

    async def read_in_part(
        bus: BusConnection, of: Layout, part: str, service: str, take: Present, *, headers_only: bool
    ) -> int:
        def first_alone(key: Key, message: StoredMessage) -> None:
            take(key, message)
            if not readings and not broken:
                broken.append(key.name)
                raise BusUnavailableError("the broker fell silent")

        return await read_present(bus, of, part, service, first_alone, headers_only=headers_only)

    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        for name in ("a", "b", "c"):
            publisher.take(cluster.put(name))
        await settles(bus, layout, PART, cluster, publisher)
        missing = await last_message(bus, layout.state_stream, layout.state(PART, Key("ns", "c")))
        assert missing is not None
        await delete_message(bus, layout.state_stream, missing.sequence)
        monkeypatch.setattr("controller_runtime.log.publish.session.read_present", read_in_part)
        publisher.reread()
        await eventually(lambda: bool(broken), "broke off")
        await settles(bus, layout, PART, cluster, publisher)
        assert len(readings) == 1, "the history was read as well"
    versions = await history(bus, layout, PART)
    assert [len(of(versions, name)) for name in "abc"] == [1, 1, 2]
