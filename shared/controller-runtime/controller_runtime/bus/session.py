"""One session of a publisher: read what the stream holds, compare with Kubernetes, publish and vouch."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from controller_runtime.bus.epoch import Reason
from controller_runtime.bus.interruption import InterruptedSessionError, interrupting
from controller_runtime.bus.judgement import differences, is_ahead
from controller_runtime.bus.part import Key
from controller_runtime.bus.publisher_context import PublisherContext
from controller_runtime.bus.publisher_state import Phase, SupersededError
from controller_runtime.bus.pump import Pump
from controller_runtime.bus.reading import Found, read_streams
from controller_runtime.bus.source import SourceVersion
from controller_runtime.bus.stored import stream_state
from controller_runtime.bus.streams import StreamMismatchError, ensure_streams
from controller_runtime.bus.tasks import within
from controller_runtime.bus.vouching import CompareDueError, Vouching
from controller_runtime.kube.reflector_state import ListFrom

T = TypeVar("T")

_LOOK_UPS: Final = 8
"""Objects that are looked up at the same time, each with its body."""


class Session:
    """Publishes until something makes the stream doubtful; `run` it once. It keeps nothing: see `Progress`."""

    def __init__(self, context: PublisherContext) -> None:
        self._context: Final = context

    async def run(self, connection_session: int) -> InterruptedSessionError:
        """Publish; returns why that cannot go on.

        Raises:
            SupersededError: another process publishes the part.
        """
        context, progress = self._context, self._context.progress
        progress.phase = Phase.LOADING
        superseded: SupersededError | None = None
        interrupted = InterruptedSessionError("cancelled")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_lost(connection_session))
                group.create_task(self._until_alarmed())
                foreign = await self._load(connection_session)
                progress.phase = Phase.LIVE
                concurrency = context.setup.settings.concurrency
                pump = Pump(context.intake, context.writer, context.scoping, context.unwritable, concurrency)
                vouching = Vouching(context, pump, foreign)
                regular = vouching.vouch_forever(), vouching.sweep_forever(), self._compare_in_time()
                for duty in (*regular, self._until_doubted()):
                    group.create_task(duty)
                await pump.run(group)
        except* SupersededError as errors:
            superseded = _first(errors, SupersededError)
        except* InterruptedSessionError as errors:
            interrupted = _first(errors, InterruptedSessionError)
        progress.phase = Phase.WAITING
        context.intake.lanes.put_back()
        if superseded is not None:
            raise superseded
        return interrupted

    async def _until_lost(self, connection_session: int) -> None:
        await self._context.setup.connection.wait_lost(connection_session)
        raise InterruptedSessionError("the connection to the message broker was lost")

    async def _until_alarmed(self) -> None:
        raise InterruptedSessionError(await self._context.setup.alarm.wait())

    async def _until_doubted(self) -> None:
        await self._context.intake.doubted.wait()
        raise InterruptedSessionError("a consumer of this process received something other than was published")

    async def _compare_in_time(self) -> None:
        intake = self._context.intake
        interval = self._context.setup.settings.compare_interval * random.uniform(0.8, 1.2)
        if not await within(interval, intake.relisted.wait()) and intake.can_relist:
            intake.relist(ListFrom.FLOOR)
            await intake.relisted.wait()
        raise CompareDueError("time to compare")

    # Beginning

    async def _load(self, connection_session: int) -> int:
        """Become sure of what the stream holds; returns how many messages there no publisher wrote."""
        context, scoping, writer = self._context, self._context.scoping, self._context.writer
        connection, layout, settings = context.setup.connection, context.setup.layout, context.setup.settings
        # Whoever doubts the stream from now on may have seen what this reading misses.
        context.intake.doubted.clear()
        with interrupting():
            try:
                await ensure_streams(connection, layout, settings.limits, governs=settings.governs)
            except StreamMismatchError as error:
                # Whoever can cure it need not restart anything afterwards; consumers read the API server meanwhile.
                raise InterruptedSessionError(str(error)) from error
            before = await stream_state(connection, layout.state_stream)
            marker = await context.markers.read(before.now)
            found = await read_streams(context, connection_session, before.created, marker)
            # Asked again: what somebody else wrote while this read must not look as if the stream's end fell.
            state = await stream_state(connection, layout.state_stream)
            if state.created != before.created:
                raise InterruptedSessionError(f"stream {layout.state_stream} was recreated while it was read")
        # Only now that the reading came to its end: half of one counts for nothing.
        if context.loaded is not None:
            context.loaded(found.told)
        while not context.intake.source.lists:
            await context.intake.relisted.wait()
        fresh = await scoping.choose(state, marker, writer.stored.values(), writer.high_sequence)
        writer.high_sequence = state.last_sequence
        if found.unlogged or found.unreadable or not context.markers.is_own(marker):
            # Also over a marker of its own, which vouches for a history that lacks something.
            with interrupting():
                await context.markers.claim(scoping.scope, state.created, state.last_sequence)
        with interrupting():
            await self._mend(found)
        context.progress.logbook = found.logbook
        self._compare(fresh=fresh)
        return found.foreign

    async def _mend(self, found: Found) -> None:
        writer = self._context.writer
        for sequence in found.unreadable:
            await writer.remove(sequence)
        await _in_parallel(_LOOK_UPS, writer.look_up, found.unlogged)

    # Comparing

    def _compare(self, *, fresh: bool) -> None:
        """Queue what the stream lacks, in a new epoch if versions may be missing before it."""
        intake, scoping, stored = self._context.intake, self._context.scoping, self._context.writer.stored
        # A list that comes from now on needs another comparison.
        intake.relisted.clear()
        if not fresh and is_ahead(stored, intake.source.present, scoping.scope):
            # The watch has caught up with the stream, so Kubernetes itself went back.
            scoping.begin(Reason.VERSION_FELL)
            fresh = True
        found = self._find_differences()
        # Where one is left to say so, versions that were not kept need no epoch (FW-418).
        forgotten = intake.lanes.forgotten != self._context.progress.forgotten_seen
        self._context.progress.forgotten_seen = intake.lanes.forgotten
        missed = bool(found) or forgotten or intake.continuity.is_broken(stored)
        intake.continuity.compared()
        if missed and not fresh:
            scoping.begin(Reason.VERSIONS_MISSED)
        self._context.progress.differences = len(found)
        self._context.progress.repaired += len(found)
        for version in found:
            intake.lanes.add(version)
        intake.release()

    def _find_differences(self) -> list[SourceVersion]:
        context, source, scope = self._context, self._context.intake.source, self._context.scoping.scope
        found = differences(
            source.present,
            context.writer.stored,
            pending=context.intake.lanes.newest(),
            version=source.version,
            scope=scope,
        )
        return [version for version in found if version.deleted or not self._is_settled(version)]

    def _is_settled(self, version: SourceVersion) -> bool:
        """Whether a difference need not be published: the broker refuses the object, or it says nothing new."""
        context = self._context
        held = context.writer.stored.get(version.key)
        says_the_same = held is not None and (held.uid, held.digest) == (version.uid, version.digest)
        return version.key in context.unwritable or (context.part.read_only and says_the_same)


async def _in_parallel(limit: int, work: Callable[[Key], Awaitable[None]], keys: Iterable[Key]) -> None:
    remaining = iter(keys)

    async def worker() -> None:
        for key in remaining:
            await work(key)

    async with asyncio.TaskGroup() as group:
        for _ in range(limit):
            group.create_task(worker())


def _first(group: BaseExceptionGroup[Any], kind: type[T]) -> T:
    for error in group.exceptions:
        if isinstance(error, kind):
            return error
        if isinstance(error, BaseExceptionGroup):
            return _first(error, kind)
    raise AssertionError("an exception group without the exception it was caught for")
