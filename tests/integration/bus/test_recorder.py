"""Decision records reach their stream, or are counted as lost; nobody waits for them."""

import asyncio

from support.nats import connected, eventually, new_layout

from aim_local.nats import NatsServer
from aim_shared.bus.connection import BusConnection
from aim_shared.bus.part import Key
from aim_shared.bus.recorder import Recorder
from aim_shared.bus.snapshot import last_per_subject
from aim_shared.bus.stored import last_message
from aim_shared.bus.streams import ensure_streams
from aim_shared.bus.subjects import Layout


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
