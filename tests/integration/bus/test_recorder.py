"""Decision records reach their stream, or are told as lost; nobody waits for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.nats import connected, eventually, new_layout, room_for

from aim_local.nats import NatsServer
from aim_local.ports import free_port
from controller_runtime import Key
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.broker.consumer import last_per_subject
from controller_runtime.log.broker.reading import last_message
from controller_runtime.log.broker.streams import StreamLimits, ensure_streams
from controller_runtime.log.history.decisions import Recorder, RecorderStatistics
from controller_runtime.log.wire.subjects import Layout

UNLIMITED = StreamLimits(history_bytes=-1, decisions_bytes=-1)


def take(recorder: Recorder, count: int, body: bytes = b"{}") -> None:
    """Records about as many objects."""
    for number in range(count):
        recorder.record("aimservices", Key("ns", f"s{number}"), body, {"Nats-Msg-Id": str(number)})


async def stored(bus: BusConnection, layout: Layout) -> int:
    found = await last_per_subject(bus, layout.decisions_stream, (f"{layout.root}.decision.serving.>",))
    return len(found)


@asynccontextmanager
async def running(recorder: Recorder) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(recorder.run())
        yield
        runner.cancel()


async def fill(bus: BusConnection, layout: Layout) -> None:
    """Let versions take all the room that the broker has."""
    for number in range(1000):
        outcome = await bus.publish(layout.log("nodes", Key("", f"n{number}")), b"x" * 50_000, {})
        if not isinstance(outcome, PubAck):
            return
    raise AssertionError("there is no end of room")


@asynccontextmanager
async def full_broker(folder: Path, layout: Layout) -> AsyncIterator[BusConnection]:
    """A connection to a broker that has no room left."""
    async with NatsServer(folder, extra_config=room_for("2MB", folder)) as server, connected(server.url) as bus:
        await bus.wait_connected()
        await ensure_streams(bus, layout, UNLIMITED)
        await fill(bus, layout)
        yield bus


async def test_records_are_stored_under_their_object(bus: BusConnection, layout: Layout) -> None:
    recorder = Recorder(bus, "serving", layout=layout)
    async with running(recorder):
        take(recorder, 200)
        await eventually(lambda: recorder.statistics.recorded == 200, "recorded")
    assert recorder.statistics.lost == 0
    assert await stored(bus, layout) == 200
    subject = layout.decision("serving", "aimservices", Key("ns", "s7"))
    message = await last_message(bus, layout.decisions_stream, subject)
    assert message is not None
    assert message.headers["Nats-Msg-Id"] == "7"


@pytest.mark.spec("FW-450")
async def test_the_end_of_the_process_loses_no_record(bus: BusConnection, layout: Layout) -> None:
    recorder = Recorder(bus, "serving", layout=layout)
    with capture_logs() as logs:
        async with running(recorder):
            take(recorder, 300)
            # Some are under way when the signal comes, most still wait.
            await eventually(lambda: recorder.statistics.recorded > 0, "begun", interval=0)
        await recorder.flush(20)
    assert recorder.statistics == RecorderStatistics(waiting=0, recorded=300, lost=0)
    assert await stored(bus, layout) == 300
    assert logs == []


@pytest.mark.spec("FW-450")
async def test_what_the_end_does_lose_is_reported_in_one_line() -> None:
    async with connected(f"nats://127.0.0.1:{free_port()}") as bus:
        recorder = Recorder(bus, "serving", layout=new_layout())
        async with running(recorder):
            take(recorder, 300)
            await asyncio.sleep(0)
        with capture_logs() as logs:
            await recorder.flush(0.1)
    assert recorder.statistics == RecorderStatistics(waiting=0, recorded=0, lost=300)
    [line] = [line for line in logs if "lost" in line["event"]]
    assert line["count"] == 300


@pytest.mark.spec("FW-450")
async def test_without_a_broker_the_newest_records_are_kept_and_the_others_reported() -> None:
    server, layout = NatsServer(), new_layout()
    async with connected(server.url) as bus:
        recorder = Recorder(bus, "serving", layout=layout, buffer=10 * len(b"{}"))
        with capture_logs() as logs:
            async with running(recorder):
                await asyncio.sleep(0)
                take(recorder, 25)
                assert recorder.statistics.lost == 15
                async with server:
                    async with asyncio.timeout(60):
                        await bus.wait_connected()
                    await ensure_streams(bus, layout)
                    await eventually(lambda: recorder.statistics.recorded == 10, "written")
                    assert await last_message(
                        bus, layout.decisions_stream, layout.decision("serving", "aimservices", Key("ns", "s24"))
                    )
                    await recorder.flush(1)
    assert [line["count"] for line in logs if "lost" in line["event"]] == [15]


@pytest.mark.spec("FW-450")
async def test_a_full_disk_loses_no_record_once_there_is_room_again(tmp_path: Path) -> None:
    layout = new_layout()
    async with full_broker(tmp_path, layout) as bus:
        asked = bus.statistics.published
        recorder = Recorder(bus, "serving", layout=layout)
        async with running(recorder):
            take(recorder, 50, b"x" * 1000)
            await eventually(lambda: bus.statistics.published > asked + 2, "the broker has refused")
            assert recorder.statistics.lost == 0
            await bus.api(f"STREAM.PURGE.{layout.history_stream}")
            await eventually(lambda: recorder.statistics.recorded == 50, "written")
        assert recorder.statistics.lost == 0
        assert await stored(bus, layout) == 50


@pytest.mark.spec("FW-450")
async def test_what_a_full_disk_does_lose_is_reported_with_the_reason(tmp_path: Path) -> None:
    layout = new_layout()
    async with full_broker(tmp_path, layout) as bus:
        asked = bus.statistics.published
        recorder = Recorder(bus, "serving", layout=layout, buffer=20_000)
        with capture_logs() as logs:
            async with running(recorder):
                take(recorder, 30, b"x" * 1000)
                await eventually(lambda: bus.statistics.published > asked + 2, "the broker has refused")
            await recorder.flush(0.1)
        reported = [line for line in logs if "lost" in line["event"]]
        assert sum(line["count"] for line in reported) == recorder.statistics.lost == 30 - await stored(bus, layout)
        assert "insufficient resources" in reported[-1]["cause"]


@pytest.mark.spec("FW-450")
async def test_a_record_that_the_broker_will_never_take_is_reported_and_holds_up_no_other(
    bus: BusConnection, layout: Layout
) -> None:
    recorder = Recorder(bus, "serving", layout=layout)
    with capture_logs() as logs:
        async with running(recorder):
            recorder.record("aimservices", Key("ns", "large"), b"x" * (5 << 20), {})
            take(recorder, 20)
            await eventually(lambda: recorder.statistics.recorded == 20, "the others are written")
        await recorder.flush(1)
    assert recorder.statistics.lost == 1
    [line] = [line for line in logs if "lost" in line["event"]]
    assert (line["count"], "max_payload" in line["cause"]) == (1, True)
