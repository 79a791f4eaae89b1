"""Whatever is dropped before it was published, a version behind it says so."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from support.cache_objects import widgets
from support.nats import eventually

from controller_runtime import Key
from controller_runtime.log.publish.intake import Intake
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.publish.state import InterruptedSessionError
from controller_runtime.log.publish.writer import Pump, Unwritable

A = Key("ns", "a")


def version(number: int) -> SourceVersion:
    return SourceVersion.of(A, "u", str(number), b"{}", "")


class ScriptedWriter:
    """Does with each version what the test says, and remembers what was said of gaps."""

    def __init__(self) -> None:
        self.written: list[tuple[int, bool]] = []
        self.meanwhile: dict[int, Callable[[], None]] = {}
        self.known: set[int] = set()
        self.refused: set[int] = set()
        self.failing: set[int] = set()
        self.reported = False

    async def write(self, version: SourceVersion, _: Any, *, gap: bool = False) -> bool:
        number = int(version.resource_version)
        await asyncio.sleep(0)
        self.meanwhile.pop(number, lambda: None)()
        if number in self.failing:
            self.failing.remove(number)
            raise InterruptedSessionError("no answer")
        if number in self.known:
            self.reported = False
            return True
        if number in self.refused:
            return False
        self.written.append((number, gap))
        self.reported = gap
        return True

    def reports_gap(self, _: Key) -> bool:
        return self.reported


class NoScope:
    scope = None


class Rig:
    def __init__(self) -> None:
        self.intake = Intake(widgets(), lambda: True, None)
        self.writer = ScriptedWriter()

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.intake.lanes.add(version(number), latest_only=True)

    async def pump(self) -> None:
        """Publish until nothing waits."""
        pump = Pump(self.intake, cast(Any, self.writer), cast(Any, NoScope()), Unwritable(self.intake), 4)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            runner = group.create_task(pump.run(group))
            await eventually(lambda: not len(self.intake.lanes), "nothing waits")
            runner.cancel()


async def test_a_version_dropped_while_the_one_that_tells_of_a_gap_is_written_is_reported_of_too() -> None:
    rig = Rig()
    rig.add(1, 2)
    rig.writer.meanwhile[2] = lambda: rig.add(3, 4)
    await rig.pump()
    assert rig.writer.written == [(2, True), (4, True)]
    rig.add(5)
    await rig.pump()
    assert rig.writer.written[-1] == (5, False)


async def test_a_version_that_the_bus_had_already_tells_of_no_gap() -> None:
    rig = Rig()
    rig.add(1, 2)
    rig.writer.known.add(2)
    await rig.pump()
    rig.add(3)
    await rig.pump()
    assert rig.writer.written == [(3, True)]


async def test_a_gap_outlives_a_write_that_was_interrupted() -> None:
    rig = Rig()
    rig.add(1, 2)
    rig.writer.failing.add(2)
    with pytest.raises(ExceptionGroup):
        await rig.pump()
    rig.intake.lanes.put_back()
    await rig.pump()
    assert rig.writer.written == [(2, True)]


async def test_a_version_that_is_refused_leaves_a_gap() -> None:
    rig = Rig()
    rig.add(1)
    rig.writer.refused.add(1)
    await rig.pump()
    rig.add(2)
    await rig.pump()
    assert rig.writer.written == [(2, True)]
