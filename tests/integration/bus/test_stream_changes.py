"""What another client changes of a stream is named and repaired within a heartbeat."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from structlog.testing import capture_logs
from support.cache_objects import widgets
from support.nats import TEST_LIMITS, connected, eventually, new_layout
from support.proofs import PART, filled
from support.publishing import QUICK, publishing, settles

from controller_runtime import JsonObject
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.streams import StreamMismatchError, ensure_streams
from controller_runtime.log.publish.stream_reconciler import StreamReconciler
from controller_runtime.log.wire.subjects import Layout


async def config(bus: BusConnection, stream: str) -> JsonObject:
    found: JsonObject = (await bus.api(f"STREAM.INFO.{stream}"))["config"]
    return found


async def change(bus: BusConnection, stream: str, changed: JsonObject) -> None:
    await bus.api(f"STREAM.UPDATE.{stream}", {**await config(bus, stream), **changed})


def name_of(layout: Layout, which: str) -> str:
    names = {"state": layout.state_stream, "history": layout.history_stream, "decisions": layout.decisions_stream}
    return names[which]


@asynccontextmanager
async def keeping(bus: BusConnection, layout: Layout, *, governs: bool) -> AsyncIterator[StreamReconciler]:
    reconciler = StreamReconciler(bus, TEST_LIMITS, governs=governs, layout=layout, interval=0.1)
    task = asyncio.create_task(reconciler.run())
    try:
        yield reconciler
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


CHANGES: tuple[JsonObject, ...] = (
    {"sources": [{"name": "OTHER"}]},
    {"max_msgs": 20},
    {"max_msg_size": 2000},
    {"max_msgs_per_subject": 7},
    {"discard": "new"},
    {"retention": "interest"},
    {"no_ack": True},
    {"allow_rollup_hdrs": True},
    {"allow_direct": False},
    {"max_consumers": 50},
)


@pytest.mark.spec("FW-767")
@pytest.mark.parametrize("which", ["state", "history", "decisions"])
async def test_the_governing_service_repairs_each_setting_and_names_it(
    bus: BusConnection, layout: Layout, which: str
) -> None:
    stream = name_of(layout, which)
    wanted = await config(bus, stream)
    async with keeping(bus, layout, governs=True) as reconciler:
        for changed in CHANGES:
            with capture_logs() as logs:
                await change(bus, stream, changed)

                async def repaired() -> bool:
                    return await config(bus, stream) == wanted

                await eventually(repaired, f"{changed} is repaired")
                await eventually(lambda: not reconciler.faults, "well again")
            [named] = [line for line in logs if line["event"] == "a stream was changed"]
            assert named["stream"] == stream
            assert next(iter(changed)) in named["found"]


@pytest.mark.spec("FW-767")
async def test_messages_that_another_client_would_have_republished_are_not(bus: BusConnection, layout: Layout) -> None:
    forged = {"republish": {"src": f"{layout.root}.log.>", "dest": f"{layout.root}.state.widgets.>"}}
    await change(bus, layout.history_stream, forged)
    async with keeping(bus, layout, governs=False) as other:
        await eventually(lambda: bool(other.faults), "seen by another service")
        [fault] = other.faults
        assert fault.is_breaking
        assert "republish" in fault.cause
        with pytest.raises(StreamMismatchError, match="republish"):
            await ensure_streams(bus, layout, TEST_LIMITS, governs=False)
        await ensure_streams(bus, layout, TEST_LIMITS)
        assert not (await config(bus, layout.history_stream)).get("republish")
        await ensure_streams(bus, layout, TEST_LIMITS, governs=False)
        await eventually(lambda: not other.faults, "well again")


@pytest.mark.spec("FW-767")
@pytest.mark.parametrize("which", ["state", "history", "decisions"])
@pytest.mark.parametrize("governs", [True, False])
async def test_a_sealed_stream_is_named_with_the_command_that_helps(
    bus: BusConnection, layout: Layout, which: str, *, governs: bool
) -> None:
    stream = name_of(layout, which)
    cluster = filled()
    async with publishing(bus, widgets(), layout, settings=replace(QUICK, governs=governs)) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        async with keeping(bus, layout, governs=governs) as reconciler:
            await change(bus, stream, {"sealed": True})
            await eventually(lambda: bool(reconciler.faults), "named")
            [fault] = reconciler.faults
            assert f"nats stream rm {stream} --force" in fault.remedy
            # Only what the publisher uses ends its vouching by itself; the alarm of a process ends it in each case.
            if which == "state":
                await eventually(lambda: "sealed is true" in str(publisher.statistics.interrupted_by), "withheld")
            # The command, and the service that governs.
            await bus.api(f"STREAM.DELETE.{stream}")
            async with keeping(bus, layout, governs=True):
                await eventually(lambda: not reconciler.faults, "re-created")
                publisher.take(cluster.put("another"))
                await settles(bus, layout, PART, cluster, publisher)


@pytest.mark.spec("FW-766")
async def test_a_service_that_does_not_govern_creates_and_changes_nothing(nats_server: str) -> None:
    layout, cluster = new_layout(), filled()
    async with connected(nats_server) as bus:
        await bus.wait_connected()
        async with publishing(bus, widgets(), layout, settings=replace(QUICK, governs=False)) as publisher:
            publisher.take(cluster.listing())
            await eventually(lambda: "does not exist" in str(publisher.statistics.interrupted_by), "waits")
            assert (await bus.api("STREAM.NAMES", {"subject": f"{layout.root}.>"})).get("streams") in (None, [])
            await ensure_streams(bus, layout, TEST_LIMITS)
            await settles(bus, layout, PART, cluster, publisher)
            await change(bus, layout.state_stream, {"max_msgs": 1000})
            await eventually(lambda: "max_msgs is 1000" in str(publisher.statistics.interrupted_by), "not confirmed")
            assert (await config(bus, layout.state_stream))["max_msgs"] == 1000
            await change(bus, layout.state_stream, {"max_msgs": -1})
            await settles(bus, layout, PART, cluster, publisher)


@pytest.mark.spec("FW-767")
async def test_a_publisher_of_the_governing_service_repairs_before_it_vouches_again(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = filled()
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        sessions = publisher.statistics.sessions
        await change(bus, layout.state_stream, {"max_age": 10**9, "duplicate_window": 10**9})
        await eventually(lambda: publisher.statistics.sessions > sessions, "read again")
        await settles(bus, layout, PART, cluster, publisher)
        assert (await config(bus, layout.state_stream)).get("max_age", 0) == 0


@pytest.mark.spec("FW-767")
async def test_what_breaks_nothing_is_named_and_publishing_goes_on(bus: BusConnection, layout: Layout) -> None:
    cluster = filled()
    await change(bus, layout.history_stream, {"deny_delete": True, "deny_purge": True})
    async with publishing(bus, widgets(), layout) as publisher, keeping(bus, layout, governs=True) as reconciler:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        await eventually(lambda: bool(reconciler.faults), "named")
        assert "deny_delete" in reconciler.faults[0].cause
