"""Publishes what waits: in order per object, many objects at once, as long as a session lasts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from controller_runtime.bus.intake import Intake
from controller_runtime.bus.part import Key
from controller_runtime.bus.scoping import Scoping
from controller_runtime.bus.source import SourceVersion
from controller_runtime.bus.writer import Writer


class Unwritable:
    """Versions that the broker has refused for good."""

    def __init__(self, intake: Intake) -> None:
        self._present = intake.source
        self._versions: dict[Key, str] = {}

    def __contains__(self, key: Key) -> bool:
        """Whether it is the present version of an object that was refused."""
        present = self._present.present.get(key)
        return present is not None and self._versions.get(key) == present.resource_version

    def note(self, version: SourceVersion, *, written: bool) -> None:
        """Remember how the writing of a version went."""
        if written:
            self._versions.pop(version.key, None)
        else:
            self._versions[version.key] = version.resource_version

    @property
    def names(self) -> str:
        """The objects concerned, in words; empty if there are none."""
        return ", ".join(sorted(str(key) for key in self._versions if key in self))


class Pump:
    """Keeps as many workers as there is work for.

    Attributes:
        published: set after each version that was dealt with.
    """

    def __init__(
        self, intake: Intake, writer: Writer, scoping: Scoping, unwritable: Unwritable, concurrency: int
    ) -> None:
        self._intake = intake
        self._lanes = intake.lanes
        self._writer = writer
        self._scoping = scoping
        self._unwritable = unwritable
        self._concurrency = concurrency
        self._workers = 0
        self._finished = asyncio.Event()
        self.published = asyncio.Event()

    async def run(self, group: asyncio.TaskGroup) -> None:
        """Publish until cancelled, by workers in the given group."""
        while True:
            while self._workers < self._concurrency and (version := self._lanes.take()) is not None:
                self._workers += 1
                group.create_task(self._work(version))
            self._intake.arrived.clear()
            await self._intake.arrived.wait()

    @asynccontextmanager
    async def still(self) -> AsyncIterator[None]:
        """Publish all that waits now, then let nothing else begin for as long as the body takes.

        While nothing is under way, what the writer knows the stream to hold is exactly what lies in it.
        """
        ticket = self._lanes.last_ticket
        await self._until(lambda: self._lanes.is_done(ticket))
        self._lanes.hold()
        try:
            await self._until(lambda: not self._workers)
            yield
        finally:
            self._intake.release()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._finished.clear()
            await self._finished.wait()

    async def _work(self, version: SourceVersion | None) -> None:
        lanes = self._lanes
        while version is not None:
            written = await self._write(version)
            lanes.finish(version.key)
            self._unwritable.note(version, written=written)
            self.published.set()
            self._finished.set()
            version = lanes.take()
        self._workers -= 1
        self._finished.set()
        self._intake.arrived.set()

    async def _write(self, version: SourceVersion) -> bool:
        gap, written, told = self._lanes.take_gap(version.key), True, False
        try:
            written = await self._writer.write(version, self._scoping.scope, gap=gap)
            # What was not written because the bus has it already need not tell of the gap.
            told = written and self._writer.tells_of_gap(version.key)
        finally:
            if not written or (gap and not told):
                self._lanes.note_gap(version.key)
        return written
