"""A delivery is complete and in order, or says that it is not; and never floods its reader."""

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from support.nats import TEST_LIMITS, connected, eventually

from aim_local.nats import NatsServer
from controller_runtime import JsonObject
from controller_runtime.log.broker.address import BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection, Message, PubAck
from controller_runtime.log.broker.consumer import Delivered, Delivery, deliver, last_per_subject
from controller_runtime.log.broker.reading import DeliveryLostError
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.wire.subjects import Layout

ALL: JsonObject = {"deliver_policy": "all"}


async def fill(bus: BusConnection, layout: Layout, count: int, size: int = 10, name: str = "x") -> None:
    for first in range(0, count, 200):
        outcomes = await asyncio.gather(
            *(
                bus.publish(f"{layout.root}.log.p.n.{name}{number}", b"x" * size, {})
                for number in range(first, min(count, first + 200))
            )
        )
        assert all(isinstance(outcome, PubAck) for outcome in outcomes)


def waiting(delivery: Delivery) -> int:
    return sum(not message.status for message in delivery._arrived)


async def take(delivery: Delivery, count: int) -> list[str]:
    return [delivered.message.subject for delivered in await read(delivery, count)]


async def test_everything_arrives_in_order_and_no_more_than_a_window_ahead(bus: BusConnection, layout: Layout) -> None:
    count = 3000
    await fill(bus, layout, count)
    subjects = (f"{layout.root}.log.p.>",)
    async with deliver(bus, layout.history_stream, subjects, ALL) as delivery:
        assert delivery.pending == count
        first = await delivery.batch()
        # The reader stops; the broker must, too.
        await eventually(lambda: waiting(delivery) == 512 - len(first), "the rest of the window")
        await bus.api(f"STREAM.INFO.{layout.history_stream}")
        assert waiting(delivery) == 512 - len(first)
        found = [delivered.message.subject for delivered in first] + await take(delivery, count - len(first))
    ordered = [f"{layout.root}.log.p.n.x{number}" for number in range(count)]
    assert sorted(found) == sorted(ordered)
    assert len(found) == count


@pytest.mark.spec("FW-463")
@pytest.mark.parametrize("busy", [0.48, 0.5, 0.55, 0.7, 1.0])
async def test_a_process_that_was_busy_itself_first_reads_what_was_sent_meanwhile(
    bus: BusConnection, layout: Layout, busy: float
) -> None:
    async with deliver(bus, layout.history_stream, (f"{layout.root}.log.>",), ALL, heartbeat=0.2) as delivery:
        for _ in range(2):
            reading = asyncio.create_task(delivery.batch())
            await asyncio.sleep(0)
            time.sleep(busy)  # noqa: ASYNC251
            assert await reading == [], "a heartbeat that came long ago"


@pytest.mark.spec("FW-463")
async def test_a_process_that_is_always_late_notices_a_consumer_that_is_gone(
    bus: BusConnection, layout: Layout
) -> None:
    async def late() -> None:
        while True:
            time.sleep(0.9)  # noqa: ASYNC251
            await asyncio.sleep(0)

    delivery = Delivery(bus, layout.history_stream, heartbeat=0.2)
    # One of which nothing is heard, not even that it is gone.
    await delivery._created({"name": "nobody", "num_pending": 0}, bus.inbox())
    lateness = asyncio.create_task(late())
    try:
        with pytest.raises(DeliveryLostError, match="neither message nor heartbeat"):
            await asyncio.wait_for(delivery.batch(), 30)
    finally:
        lateness.cancel()


async def test_silence_ends_it(bus: BusConnection, layout: Layout) -> None:
    subjects = (f"{layout.root}.log.>",)
    async with deliver(bus, layout.history_stream, subjects, ALL, heartbeat=0.2) as delivery:
        assert await delivery.batch() == [], "a heartbeat"
        consumers = await bus.api(f"CONSUMER.NAMES.{layout.history_stream}")
        await bus.api(f"CONSUMER.DELETE.{layout.history_stream}.{consumers['consumers'][0]}")
        with pytest.raises(DeliveryLostError):
            await asyncio.wait_for(take(delivery, 1), 20)


@pytest.mark.parametrize(
    ("replies", "complaint"),
    [
        (("$JS.ACK.S.C.1.1.1.0.0", "$JS.ACK.S.C.1.3.3.0.0"), "messages were lost"),
        (("$JS.ACK.S.C.1.5.1.0.0", "$JS.ACK.S.C.1.4.2.0.0"), "not the same stream"),
        (("$JS.ACK.S.C.1.5.1.0.0", "$JS.ACK.S.C.1.6.1.0.0"), "not the same stream"),
        (("nonsense",), "has no position"),
    ],
)
async def test_a_gap_a_fall_and_a_stranger_end_it(bus: BusConnection, replies: tuple[str, ...], complaint: str) -> None:
    delivery = Delivery(bus, "stream", heartbeat=1)
    for reply in replies:
        await delivery._take(Message("subject", reply, {}, b""))
    with pytest.raises(DeliveryLostError, match=complaint):
        await read(delivery, len(replies))


async def test_a_heartbeat_that_tells_of_more_than_arrived_ends_it(bus: BusConnection) -> None:
    delivery = Delivery(bus, "stream", heartbeat=1)
    await delivery._created({"name": "consumer", "num_pending": 2}, bus.inbox())
    await delivery._take(Message("subject", "$JS.ACK.S.C.1.1.1.0.0", {}, b""))
    await delivery._take(Message("subject", "", {"Status": "100", "Nats-Last-Consumer": "1"}, b""))
    assert len(await delivery.batch()) == 1
    await delivery._take(Message("subject", "", {"Status": "100", "Nats-Last-Consumer": "2"}, b""))
    with pytest.raises(DeliveryLostError, match="delivered 2 messages, 1 arrived"):
        await read(delivery, 1)


async def test_the_consumer_is_gone_when_the_reader_is(bus: BusConnection, layout: Layout) -> None:
    async with deliver(bus, layout.history_stream, (f"{layout.root}.log.>",), ALL):
        assert len((await bus.api(f"CONSUMER.NAMES.{layout.history_stream}"))["consumers"]) == 1

    async def gone() -> bool:
        return not (await bus.api(f"CONSUMER.NAMES.{layout.history_stream}")).get("consumers")

    await eventually(gone, "the consumer is removed")


async def test_reading_ends_although_what_lay_ready_is_removed_before_its_turn(
    bus: BusConnection, layout: Layout
) -> None:
    await fill(bus, layout, 3000)
    subjects = (f"{layout.root}.log.p.>",)
    async with deliver(bus, layout.history_stream, subjects, ALL, heartbeat=0.2) as delivery, asyncio.timeout(60):
        ready = delivery.ready()
        await anext(ready)
        await bus.api(f"STREAM.PURGE.{layout.history_stream}")
        left = [delivered async for delivered in ready]
    assert len(left) < 2999


async def read(delivery: Delivery, count: int) -> list[Delivered]:
    found: list[Delivered] = []
    while len(found) < count:
        found += await delivery.batch()
    return found


def windows_of(monkeypatch: pytest.MonkeyPatch, bus: BusConnection, size: int) -> None:
    monkeypatch.setattr("controller_runtime.log.broker.consumer._WINDOW_BYTES", size)
    monkeypatch.setattr(type(bus), "max_payload", 1)


async def store(bus: BusConnection, layout: Layout, name: str, size: int) -> None:
    assert isinstance(await bus.publish(f"{layout.root}.log.p.n.{name}", b"x" * size, {}), PubAck)


@pytest.mark.spec("FW-425")
async def test_a_window_is_bounded_in_bytes(bus: BusConnection, layout: Layout) -> None:
    await fill(bus, layout, 60, size=300_000)
    async with deliver(bus, layout.history_stream, (f"{layout.root}.log.p.>",), ALL) as delivery:
        # Eight MiB hold 27 of them; no more come before the reader took these.
        await eventually(lambda: len(delivery._arrived) >= 27, "the first window")
        await bus.api(f"STREAM.INFO.{layout.history_stream}")
        assert sum(len(message.data) for message in delivery._arrived) <= 8 << 20
        assert len(await take(delivery, 60)) == 60


@pytest.mark.spec("FW-493")
async def test_little_of_what_arrived_is_taken_in_at_a_time(bus: BusConnection, layout: Layout) -> None:
    await fill(bus, layout, 20, size=300_000)
    await fill(bus, layout, 200, size=4_000, name="y")
    subjects, found = (f"{layout.root}.log.p.>",), list[list[int]]()
    async with deliver(bus, layout.history_stream, subjects, ALL) as delivery:
        while sum(map(len, found)) < 220:
            await eventually(lambda: waiting(delivery) > 0, "something to take in")
            found.append([len(delivered.message.data) for delivered in await delivery.batch()])
    assert all(len(sizes) <= 1 or sum(sizes[:-1]) <= 128 << 10 for sizes in found)


@pytest.mark.spec("FW-493")
async def test_others_get_their_turn_while_what_lies_ready_is_read(bus: BusConnection, layout: Layout) -> None:
    await fill(bus, layout, 256, size=4_000)
    turns, taken = 0, list[tuple[int, int]]()

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    neighbour = asyncio.create_task(others())
    async with deliver(bus, layout.history_stream, (f"{layout.root}.log.p.>",), ALL) as delivery:
        await eventually(lambda: waiting(delivery) == 256, "everything lies ready")
        async for delivered in delivery.ready():
            taken.append((turns, delivered.message.size))
    neighbour.cancel()
    in_one_turn = Counter[int]()
    for turn, size in taken:
        in_one_turn[turn] += size
    assert max(in_one_turn.values()) <= (128 << 10) + 5_000


@pytest.mark.spec("FW-425")
async def test_a_window_that_is_full_to_the_byte_is_followed_by_the_next(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The broker does not tell the end of such a window.
    await fill(bus, layout, 30, size=20_000)
    subjects = (f"{layout.root}.log.p.>",)
    async with deliver(bus, layout.history_stream, subjects, ALL) as delivery:
        sizes = [delivered.message.size for delivered in await read(delivery, 30)]
    windows_of(monkeypatch, bus, sum(sizes[:20]))
    # Without the next request, the broker would only tell once this one has expired: after three heartbeats.
    async with (
        deliver(bus, layout.history_stream, subjects, ALL, heartbeat=120) as delivery,
        asyncio.timeout(60),
    ):
        assert [delivered.message.size for delivered in await read(delivery, 30)] == sizes


@pytest.mark.spec("FW-425")
async def test_a_message_larger_than_a_window_makes_the_window_grow(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store(bus, layout, "small", 10)
    await store(bus, layout, "large", 1_500_000)
    async with deliver(bus, layout.history_stream, (f"{layout.root}.log.p.>",), ALL) as delivery:
        found = await read(delivery, 2)
    assert [len(delivered.message.data) for delivered in found] == [10, 1_500_000]
    windows_of(monkeypatch, bus, 200_000)
    async with deliver(bus, layout.history_stream, (f"{layout.root}.log.p.>",), ALL) as delivery, asyncio.timeout(60):
        found = await read(delivery, 2)
    assert [len(delivered.message.data) for delivered in found] == [10, 1_500_000]


@pytest.mark.spec("FW-425")
async def test_a_window_into_which_something_fitted_does_not_grow(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker ends a window with the same words when what comes next does not fit beside others, or never will."""
    await fill(bus, layout, 12, size=100_000)
    windows_of(monkeypatch, bus, 280_000)
    async with deliver(bus, layout.history_stream, (f"{layout.root}.log.p.>",), ALL) as delivery, asyncio.timeout(60):
        # Two fit, and leave so much room that only the broker's words bring the next window.
        assert len(await read(delivery, 12)) == 12
        assert delivery._window == 280_000


@pytest.mark.spec("FW-425")
async def test_only_a_few_deliveries_of_a_connection_are_open_at_a_time(bus: BusConnection, layout: Layout) -> None:
    await fill(bus, layout, 10)
    subjects = (f"{layout.root}.log.p.>",)
    async with AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(deliver(bus, layout.history_stream, subjects, ALL))
        fifth = asyncio.create_task(last_per_subject(bus, layout.history_stream, subjects))
        await bus.api(f"STREAM.INFO.{layout.history_stream}")
        consumers = await bus.api(f"CONSUMER.NAMES.{layout.history_stream}")
        assert len(consumers["consumers"]) == 4
    async with asyncio.timeout(60):
        assert len(await fifth) == 10


@pytest.mark.spec("FW-492")
async def test_a_broker_lost_between_the_requests_that_open_a_delivery_is_an_unavailable_broker(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a caller who begins a session is prepared for; a delivery that was never there cannot be lost."""
    async with NatsServer() as server, connected(server.url) as connection:
        session = await connection.wait_connected()
        await ensure_streams(connection, layout, TEST_LIMITS)
        ask = connection.api

        async def api(name: str, request: JsonObject | None = None) -> JsonObject:
            answer = await ask(name, request)
            if name.startswith("CONSUMER.CREATE"):
                await server.kill()
                await connection.wait_lost(session)
            return answer

        monkeypatch.setattr(connection, "api", api)
        async with asyncio.timeout(60):
            with pytest.raises(BusUnavailableError):
                async with deliver(connection, layout.history_stream, (f"{layout.root}.log.p.>",), ALL):
                    pytest.fail("the delivery was opened")


async def unheard_of(bus: BusConnection, layout: Layout, heartbeat: float) -> Delivery:
    """A delivery that asks for a consumer before the broker knows of it, as happens in a cluster of brokers."""
    delivery = Delivery(bus, layout.history_stream, heartbeat)
    inbox = bus.inbox()
    await bus.subscribe(f"{inbox}.*", delivery._take)
    await delivery._created({"name": "newcomer", "num_pending": 1}, inbox)
    return delivery


@pytest.mark.spec("FW-582")
async def test_a_consumer_that_is_not_known_yet_is_asked_again(bus: BusConnection, layout: Layout) -> None:
    await fill(bus, layout, 1)
    delivery = await unheard_of(bus, layout, 1.0)
    reading = asyncio.create_task(read(delivery, 1))
    await eventually(lambda: delivery._requests > 1, "it asked again")
    config = {"ack_policy": "none", "durable_name": "newcomer", "mem_storage": True, "num_replicas": 1}
    request = {"stream_name": layout.history_stream, "config": config}
    await bus.api(f"CONSUMER.DURABLE.CREATE.{layout.history_stream}.newcomer", request)
    [found] = await reading
    assert found.message.subject == f"{layout.root}.log.p.n.x0"


@pytest.mark.spec("FW-582")
async def test_a_consumer_that_stays_unknown_is_lost(bus: BusConnection, layout: Layout) -> None:
    delivery = await unheard_of(bus, layout, 5.0)
    with pytest.raises(DeliveryLostError, match="503"):
        await read(delivery, 1)
