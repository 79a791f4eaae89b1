"""How much the streams keep is decided in one place, and whatever is dropped is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from support.nats import TEST_LIMITS, connected, eventually, new_layout, room_for

from aim_local.nats import NatsServer
from controller_runtime import JsonObject, Key
from controller_runtime.log.broker.connection import BusConnection, PubAck
from controller_runtime.log.broker.reading import broker_time
from controller_runtime.log.broker.retention import SHORTEST_WINDOW
from controller_runtime.log.broker.streams import StreamLimits, ensure_streams
from controller_runtime.log.history.reader import History
from controller_runtime.log.publish.stream_reconciler import StreamReconciler
from controller_runtime.log.wire.subjects import Layout

HOUR = 3600 * 10**9
SMALL = StreamLimits(history_age=3600, history_bytes=1 << 20, decisions_age=7200, decisions_bytes=1 << 19)


async def config(bus: BusConnection, stream: str) -> JsonObject:
    found: JsonObject = (await bus.api(f"STREAM.INFO.{stream}"))["config"]
    return found


@asynccontextmanager
async def keeping(
    bus: BusConnection, layout: Layout, limits: StreamLimits, *, governs: bool, window: timedelta = SHORTEST_WINDOW
) -> AsyncIterator[StreamReconciler]:
    reconciler = StreamReconciler(bus, limits, governs=governs, layout=layout, interval=0.05, window=window)
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(reconciler.run())
        yield reconciler
        runner.cancel()


@pytest.mark.spec("FW-445", "FW-448")
async def test_the_service_that_decides_applies_its_limits_to_each_stream(bus: BusConnection, layout: Layout) -> None:
    async def applied() -> bool:
        history, decisions = await config(bus, layout.history_stream), await config(bus, layout.decisions_stream)
        return (history["max_age"], history["max_bytes"], decisions["max_age"], decisions["max_bytes"]) == (
            HOUR,
            1 << 20,
            2 * HOUR,
            1 << 19,
        )

    async with keeping(bus, layout, SMALL, governs=True):
        await eventually(applied, "the limits are those of the settings")


@pytest.mark.spec("FW-448")
async def test_another_service_changes_no_limit_and_tells_once(bus: BusConnection, layout: Layout) -> None:
    with capture_logs() as logs:
        async with keeping(bus, layout, SMALL, governs=False):
            await eventually(lambda: len(logs) == 2, "told for each of the two streams")
            # A session of a publisher with those settings changes nothing either.
            await ensure_streams(bus, layout, SMALL)
            await asyncio.sleep(0.3)
    assert {line["stream"] for line in logs} == {layout.history_stream, layout.decisions_stream}
    assert len(logs) == 2, "told again"
    found = await config(bus, layout.history_stream)
    assert (found["max_age"], found["max_bytes"]) == (7 * 24 * HOUR, TEST_LIMITS.history_bytes)


@pytest.mark.spec("FW-448")
async def test_what_smaller_limits_drop_is_reported_before(bus: BusConnection, layout: Layout) -> None:
    for number in range(40):
        await bus.publish(layout.log("nodes", Key("", f"n{number}")), b"x" * 50_000, {})

    async def shrunk() -> bool:
        return int((await config(bus, layout.history_stream))["max_bytes"]) == SMALL.history_bytes

    with capture_logs() as logs:
        async with keeping(bus, layout, SMALL, governs=True):
            await eventually(shrunk, "applied")
    [reported] = [line for line in logs if "dropped" in line]
    assert reported["stream"] == layout.history_stream
    assert reported["log_level"] == "warning"
    assert "of 200" in reported["dropped"], "how much of what is stored"


@pytest.mark.spec("FW-448")
async def test_limits_that_the_broker_has_no_room_for_are_reported_and_survived(tmp_path: Path) -> None:
    layout = new_layout()
    async with NatsServer(tmp_path, extra_config=room_for("256MB", tmp_path)) as server, connected(server.url) as bus:
        await bus.wait_connected()
        await ensure_streams(bus, layout, StreamLimits(history_bytes=1 << 20, decisions_bytes=1 << 20))
        with capture_logs() as logs:
            async with keeping(bus, layout, StreamLimits(history_bytes=1 << 30, decisions_bytes=2 << 20), governs=True):
                await eventually(lambda: any("storage" in line["event"] for line in logs), "the refusal is told")

                async def applied() -> bool:
                    return int((await config(bus, layout.decisions_stream))["max_bytes"]) == 2 << 20

                await eventually(applied, "the other stream's limits are applied all the same")
                # Some more looks, each of which is refused.
                await asyncio.sleep(0.3)
        announced = [line["stream"] for line in logs if "limits of a stream" in line["event"] and "was" in line]
        assert sorted(announced) == sorted([layout.history_stream, layout.decisions_stream]), "announced once"
        assert int((await config(bus, layout.history_stream))["max_bytes"]) == 1 << 20


@pytest.mark.spec("FW-445")
async def test_decisions_can_not_push_out_versions(bus: BusConnection, layout: Layout) -> None:
    async def applied() -> bool:
        return int((await config(bus, layout.decisions_stream))["max_bytes"]) == SMALL.decisions_bytes

    async with keeping(bus, layout, SMALL, governs=True):
        await eventually(applied, "small")
    version = await bus.publish(layout.log("nodes", Key("", "n")), b"version", {})
    assert isinstance(version, PubAck)
    for number in range(50):
        await bus.publish(layout.decision("serving", "p", Key("ns", f"s{number}")), b"x" * 50_000, {})
    assert int((await bus.api(f"STREAM.INFO.{layout.history_stream}"))["state"]["messages"]) == 1
    decisions = (await bus.api(f"STREAM.INFO.{layout.decisions_stream}"))["state"]
    assert int(decisions["bytes"]) <= SMALL.decisions_bytes
    assert int(decisions["first_seq"]) > 1, "the oldest decisions gave way"


@pytest.mark.spec("FW-449", "FW-451")
async def test_what_was_dropped_shows_in_metrics_and_in_what_a_reader_is_reported(
    bus: BusConnection, layout: Layout
) -> None:
    assert await History(bus, layout).complete_since() == {}
    async with keeping(bus, layout, SMALL, governs=True) as reconciler:
        await eventually(lambda: len(reconciler.statistics) == 3, "seen")
        assert reconciler.statistics[layout.history_stream].dropped == 0
        for number in range(50):
            await bus.publish(layout.log("nodes", Key("", f"n{number}")), b"x" * 50_000, {})

        def counted() -> bool:
            seen = reconciler.statistics[layout.history_stream]
            return seen.dropped > 0 and (seen.limit_bytes, seen.messages + seen.dropped, seen.short) == (1 << 20, 50, 0)

        await eventually(counted, "counted")
        first = (await bus.api(f"STREAM.INFO.{layout.history_stream}"))["state"]["first_ts"]
    assert await History(bus, layout).complete_since() == {"versions": broker_time(first)}


@pytest.mark.spec("FW-449")
async def test_a_stream_that_size_will_cut_too_soon_is_reported_once_with_what_fills_it(
    bus: BusConnection, layout: Layout
) -> None:
    for part, service in (("nodes", ""), ("pods", ""), ("facts", "serving"), ("facts", "routing")):
        await bus.publish(layout.sync(part, service), b"{}", {})
    for number in range(20):
        await bus.publish(layout.decision("routing", "nodes", Key("", f"n{number % 4}")), b"x" * 1000, {})
        await bus.publish(layout.log("nodes" if number % 4 else "pods", Key("", f"n{number}")), b"x" * 1000, {})
    with capture_logs() as logs:
        async with keeping(bus, layout, TEST_LIMITS, governs=True, window=timedelta(milliseconds=1)) as reconciler:
            await eventually(lambda: len(reconciler.statistics) == 3, "seen")
            await bus.publish(layout.log("nodes", Key("", "n")), b"x" * 50_000, {})
            await bus.publish(layout.decision("serving", "nodes", Key("", "n")), b"x" * 50_000, {})
            await eventually(lambda: reconciler.statistics[layout.decisions_stream].short == 1, "seen")
            await eventually(lambda: reconciler.statistics[layout.history_stream].short == 1, "seen")
            looks = reconciler.statistics[layout.history_stream].reach_seconds + 0.2
            await eventually(lambda: reconciler.statistics[layout.history_stream].reach_seconds > looks, "looked again")
    warnings = [line for line in logs if "reaches its size limit" in line["event"]]
    both = {line["stream"]: line for line in warnings}
    assert (len(warnings), set(both)) == (2, {layout.history_stream, layout.decisions_stream})
    assert both[layout.decisions_stream]["most_messages"] == {"routing": 20, "serving": 1}
    reported = both[layout.history_stream]
    assert reported["most_messages"] == {"nodes": 16, "pods": 5}
    assert reported["reaches_hours"] < reported["wanted_hours"] == 168
