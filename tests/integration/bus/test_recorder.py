"""Decision records reach their stream, or are counted as lost; nobody waits for them."""

import asyncio
from datetime import UTC, datetime

import pytest
from support.nats import connected, eventually, new_layout

from aim_local.nats import NatsServer
from aim_shared.bus.connection import BusConnection
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.feed import WorldFeed
from aim_shared.bus.history import History
from aim_shared.bus.part import Key
from aim_shared.bus.recorder import Recorder
from aim_shared.bus.snapshot import last_per_subject
from aim_shared.bus.stored import last_message
from aim_shared.bus.streams import ensure_streams
from aim_shared.bus.subjects import Layout
from aim_shared.bus.world import World
from aim_shared.runtime.decisions import SETTINGS_EVERY, DecisionLog


async def test_records_are_stored_under_their_object(bus: BusConnection, layout: Layout) -> None:
    recorder = Recorder(bus, "serving", layout=layout)
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(recorder.run())
        for number in range(200):
            recorder.record("aimservices", Key("ns", f"s{number}"), b"{}", {"Nats-Msg-Id": str(number)})
        await eventually(lambda: recorder.statistics.recorded == 200, "recorded")
        runner.cancel()
    assert recorder.statistics.lost == 0
    found = await last_per_subject(bus, layout.decisions_stream, (f"{layout.root}.decision.serving.>",))
    assert len(found) == 200
    subject = layout.decision("serving", "aimservices", Key("ns", "s7"))
    message = await last_message(bus, layout.decisions_stream, subject)
    assert message is not None
    assert message.headers["Nats-Msg-Id"] == "7"


async def test_without_a_broker_the_newest_records_are_kept_and_the_others_counted() -> None:
    server, layout = NatsServer(), new_layout()
    async with connected(server.url) as bus:
        recorder = Recorder(bus, "serving", layout=layout, buffer=10)
        async with asyncio.TaskGroup() as group:
            runner = group.create_task(recorder.run())
            await asyncio.sleep(0)
            for number in range(25):
                recorder.record("p", Key("ns", f"s{number}"), b"{}", {})
            assert recorder.statistics.lost == 15
            async with server:
                async with asyncio.timeout(10):
                    await bus.wait_connected()
                await ensure_streams(bus, layout)
                await eventually(lambda: recorder.statistics.waiting == 0, "written")
                assert recorder.statistics.recorded + recorder.statistics.lost == 25
                runner.cancel()


@pytest.mark.spec("FW-436")
async def test_the_settings_of_records_are_found_by_digest(bus: BusConnection, layout: Layout) -> None:
    recorder, history = Recorder(bus, "serving", layout=layout), History(bus, layout)
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(recorder.run())
        recorder.record_settings("abc", b'{"resync_interval": 7.0}')
        await eventually(lambda: recorder.statistics.recorded == 1, "recorded")
        runner.cancel()
    assert await history.settings("serving", "abc") == {"resync_interval": 7.0}
    assert await history.settings("serving", "abd") is None
    assert await history.settings("routing", "abc") is None
    assert await history.decisions() == []


@pytest.mark.spec("FW-436")
async def test_every_record_names_settings_that_are_told_again_and_again(bus: BusConnection, layout: Layout) -> None:
    recorder, history = Recorder(bus, "serving", layout=layout), History(bus, layout)
    feed = WorldFeed(World([]), bus, "serving", lambda _: None, None, layout=layout)
    decisions = DecisionLog(recorder, feed, bus, {"resync_interval": 7.0})
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(decisions.run())
        for number in range(SETTINGS_EVERY + 1):
            at = datetime(2026, 1, 1, tzinfo=UTC)
            decisions.record(
                DecisionRecord(id=str(number), service="serving", controller="c", part="p", name="n", at=at)
            )
        await eventually(lambda: recorder.statistics.recorded == SETTINGS_EVERY + 3, "recorded")
        runner.cancel()
    (digest,) = {one.record.settings for one in await history.decisions()}
    assert await history.settings("serving", digest) == {"resync_interval": 7.0}
