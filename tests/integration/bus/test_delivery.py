"""A delivery is complete and in order, or says that it is not; and never floods its reader."""

import asyncio

import pytest
from support.nats import eventually

from aim_shared.bus.connection import BusConnection, Message
from aim_shared.bus.delivery import Delivery, DeliveryLostError, deliver
from aim_shared.bus.outcome import PubAck
from aim_shared.bus.subjects import Layout
from aim_shared.json import JsonObject

ALL: JsonObject = {"deliver_policy": "all"}


async def fill(bus: BusConnection, layout: Layout, count: int, size: int = 10) -> None:
    for first in range(0, count, 200):
        outcomes = await asyncio.gather(
            *(
                bus.publish(f"{layout.root}.log.p.n.x{number}", b"x" * size, {})
                for number in range(first, min(count, first + 200))
            )
        )
        assert all(isinstance(outcome, PubAck) for outcome in outcomes)


async def take(delivery: Delivery, count: int) -> list[str]:
    found: list[str] = []
    while len(found) < count:
        found += [delivered.message.subject for delivered in await delivery.batch()]
    return found


async def test_everything_arrives_in_order_and_no_more_than_a_window_ahead(bus: BusConnection, layout: Layout) -> None:
    count = 3000
    await fill(bus, layout, count)
    subjects = (f"{layout.root}.log.p.>",)
    async with deliver(bus, layout.history_stream, subjects, ALL) as delivery:
        assert delivery.pending == count
        first = await delivery.batch()
        # The reader stops; the broker must, too.
        await eventually(lambda: len(delivery._arrived) > 0, "a window ahead")
        await asyncio.sleep(0.3)
        assert len(delivery._arrived) <= 512
        found = [delivered.message.subject for delivered in first] + await take(delivery, count - len(first))
    ordered = [f"{layout.root}.log.p.n.x{number}" for number in range(count)]
    assert sorted(found) == sorted(ordered)
    assert len(found) == count


async def test_silence_ends_it(bus: BusConnection, layout: Layout) -> None:
    subjects = (f"{layout.root}.log.>",)
    async with deliver(bus, layout.history_stream, subjects, ALL, heartbeat=0.2) as delivery:
        assert await delivery.batch() == [], "a heartbeat"
        consumers = await bus.api(f"CONSUMER.NAMES.{layout.history_stream}")
        await bus.api(f"CONSUMER.DELETE.{layout.history_stream}.{consumers['consumers'][0]}")
        with pytest.raises(DeliveryLostError):
            await asyncio.wait_for(take(delivery, 1), 5)


@pytest.mark.parametrize(
    ("replies", "complaint"),
    [
        (("$JS.ACK.S.C.1.1.1.0.0", "$JS.ACK.S.C.1.3.3.0.0"), "messages were lost"),
        (("$JS.ACK.S.C.1.5.1.0.0", "$JS.ACK.S.C.1.4.2.0.0"), "not the same stream"),
        (("nonsense",), "tells no position"),
    ],
)
async def test_a_gap_a_fall_and_a_stranger_end_it(bus: BusConnection, replies: tuple[str, ...], complaint: str) -> None:
    delivery = Delivery(bus, "stream", heartbeat=1)
    for reply in replies:
        await delivery._take(Message("subject", reply, {}, b""))
    with pytest.raises(DeliveryLostError, match=complaint):
        await delivery.batch()


async def test_a_heartbeat_that_tells_of_more_than_arrived_ends_it(bus: BusConnection) -> None:
    delivery = Delivery(bus, "stream", heartbeat=1)
    await delivery._take(Message("subject", "$JS.ACK.S.C.1.1.1.0.0", {}, b""))
    await delivery._take(Message("subject", "", {"Status": "100", "Nats-Last-Consumer": "1"}, b""))
    assert len(await delivery.batch()) == 1
    await delivery._take(Message("subject", "", {"Status": "100", "Nats-Last-Consumer": "2"}, b""))
    with pytest.raises(DeliveryLostError, match="delivered 2 messages, 1 arrived"):
        await delivery.batch()


async def test_the_consumer_is_gone_when_the_reader_is(bus: BusConnection, layout: Layout) -> None:
    async with deliver(bus, layout.history_stream, (f"{layout.root}.log.>",), ALL):
        assert len((await bus.api(f"CONSUMER.NAMES.{layout.history_stream}"))["consumers"]) == 1

    async def gone() -> bool:
        return not (await bus.api(f"CONSUMER.NAMES.{layout.history_stream}")).get("consumers")

    await eventually(gone, "the consumer is removed", within=5)


async def test_reading_ends_although_what_lay_ready_is_removed_before_its_turn(
    bus: BusConnection, layout: Layout
) -> None:
    await fill(bus, layout, 3000)
    subjects = (f"{layout.root}.log.p.>",)
    async with deliver(bus, layout.history_stream, subjects, ALL, heartbeat=0.2) as delivery, asyncio.timeout(10):
        ready = delivery.ready()
        await anext(ready)
        await bus.api(f"STREAM.PURGE.{layout.history_stream}")
        left = [delivered async for delivered in ready]
    assert len(left) < 2999
