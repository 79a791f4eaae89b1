"""Records refer to settings, which therefore stay in the log for as long as any record does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from support.cache_feed import feeding
from support.cache_objects import widgets
from support.nats import eventually

from controller_runtime import JsonObject
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.history.decisions import DecisionRecord, Recorder
from controller_runtime.log.history.reader import History
from controller_runtime.log.wire.subjects import Layout
from controller_runtime.manager.context import SETTINGS_RECORDS, DecisionLog

SETTINGS: JsonObject = {"resync_interval": 77.0}


def take(decisions: DecisionLog, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        name = f"w{number}"
        record = DecisionRecord(
            id=name, service="tester", controller="c", part="widgets", namespace="ns", name=name, at=datetime.now(UTC)
        )
        decisions.record(record)


@asynccontextmanager
async def killed(
    bus: BusConnection, layout: Layout, again: float = 600.0, settings: JsonObject = SETTINGS
) -> AsyncIterator[DecisionLog]:
    """A process that records until it is killed."""
    async with feeding(bus, layout, [widgets()]) as fed:
        decisions = DecisionLog(Recorder(bus, "tester", layout=layout), fed.feed, bus, settings, again)
        task = asyncio.create_task(decisions.run())
        yield decisions
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def running(bus: BusConnection, layout: Layout, again: float = 600.0) -> AsyncIterator[DecisionLog]:
    """A process that records, until it ends in order."""
    async with killed(bus, layout, again) as decisions:
        yield decisions
    await decisions.close()


async def forget(bus: BusConnection, layout: Layout, count: int) -> None:
    """The log drops its oldest messages until so many are left, as age and size do."""
    await bus.api(f"STREAM.PURGE.{layout.decisions_stream}", {"keep": count})


@pytest.mark.spec("FW-436")
@pytest.mark.parametrize("count", [1, SETTINGS_RECORDS, SETTINGS_RECORDS + 1])
async def test_settings_outlive_the_last_record_of_a_process(bus: BusConnection, layout: Layout, count: int) -> None:
    async with running(bus, layout) as decisions:
        take(decisions, count)
    history = History(bus, layout)
    for left in range(10, 0, -1):
        await forget(bus, layout, left)
        digests = {one.record.settings for one in await history.decisions()}
        assert [await history.settings("tester", one) for one in digests] == [SETTINGS] * len(digests)


@pytest.mark.spec("FW-436")
async def test_settings_are_reported_again_behind_what_was_recorded(bus: BusConnection, layout: Layout) -> None:
    history = History(bus, layout)
    async with running(bus, layout, again=0.2) as decisions:
        take(decisions, 1)
        await eventually(lambda: decisions.statistics.recorded == 3, "settings, a record, settings")
        await forget(bus, layout, 2)
        (last,) = await history.decisions()
        assert await history.settings("tester", last.record.settings) == SETTINGS
        take(decisions, 1)
        await eventually(lambda: decisions.statistics.recorded == 5, "once for the next record")


@pytest.mark.spec("FW-436", "FW-495")
@pytest.mark.parametrize("settings", [SETTINGS, {"resync_interval": 78.0}], ids=["as before", "others"])
async def test_the_next_process_tells_the_settings_of_one_that_was_killed(
    bus: BusConnection, layout: Layout, settings: JsonObject
) -> None:
    async with killed(bus, layout) as decisions:
        take(decisions, 3)
        await eventually(lambda: decisions.statistics.recorded == 4, "settings and records")
    async with killed(bus, layout, settings=settings) as decisions:
        take(decisions, 1, first=3)
        await eventually(lambda: decisions.statistics.waiting == 0, "all is written")
    history = History(bus, layout)
    held = int((await bus.api(f"STREAM.INFO.{layout.decisions_stream}"))["state"]["messages"])
    for left in range(held, 0, -1):
        await forget(bus, layout, left)
        of_killed = [one.record for one in await history.decisions() if one.record.name != "w3"]
        if not of_killed:
            return
        assert {str(await history.settings("tester", one.settings)) for one in of_killed} == {str(SETTINGS)}
    raise AssertionError("there were none")


async def limit(bus: BusConnection, layout: Layout, room: int) -> None:
    """From now on the log has room for so many bytes more, and refuses what does not fit."""
    reported = await bus.api(f"STREAM.INFO.{layout.decisions_stream}")
    config = {**reported["config"], "discard": "new", "max_bytes": int(reported["state"]["bytes"]) + room}
    await bus.api(f"STREAM.UPDATE.{layout.decisions_stream}", config)


@pytest.mark.spec("FW-495", "FW-533")
async def test_nothing_is_reported_before_the_settings_of_one_that_was_killed(
    bus: BusConnection, layout: Layout
) -> None:
    """Else whoever is killed then hides them: the next one looks at the last record only."""
    large: JsonObject = {"resync_interval": 77.0, "words": "x" * 4096}
    async with killed(bus, layout, settings=large) as decisions:
        take(decisions, 1)
        await eventually(lambda: decisions.statistics.recorded == 2, "settings and record")
    await limit(bus, layout, 2048)
    async with killed(bus, layout, settings={"resync_interval": 78.0}) as decisions:
        take(decisions, 1, first=1)
        before = bus.statistics.published
        await eventually(lambda: bus.statistics.published >= before + 3, "the broker has refused several times")
    await limit(bus, layout, 1 << 20)
    async with killed(bus, layout, settings={"resync_interval": 79.0}) as decisions:
        take(decisions, 1, first=2)
        await eventually(lambda: decisions.statistics.waiting == 0, "all is written")
    history = History(bus, layout)
    held = int((await bus.api(f"STREAM.INFO.{layout.decisions_stream}"))["state"]["messages"])
    for left in range(held, 0, -1):
        await forget(bus, layout, left)
        of_killed = [one.record for one in await history.decisions() if one.record.name != "w2"]
        if not of_killed:
            return
        reported = [str(await history.settings("tester", one.settings)) for one in of_killed]
        assert reported == [str(large)] * len(of_killed)
    raise AssertionError("there were none")


@pytest.mark.spec("FW-495")
async def test_who_follows_one_that_ended_in_order_tells_nothing_of_it(bus: BusConnection, layout: Layout) -> None:
    async with running(bus, layout) as decisions:
        take(decisions, 3)
    async with killed(bus, layout, settings={"resync_interval": 78.0}) as decisions:
        take(decisions, 1, first=3)
        await eventually(lambda: decisions.statistics.waiting == 0, "all is written")
        assert decisions.statistics.recorded == 2


async def test_a_process_that_decided_nothing_tells_nothing(bus: BusConnection, layout: Layout) -> None:
    async with running(bus, layout, again=0.01):
        await asyncio.sleep(0.05)
    info = await bus.api(f"STREAM.INFO.{layout.decisions_stream}")
    assert info["state"]["messages"] == 0
