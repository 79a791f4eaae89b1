"""One session of a publisher: read what the stream holds, compare with Kubernetes, publish and vouch."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

from controller_runtime.bus.envelope import Logged, StateMessage
from controller_runtime.bus.epoch import Reason
from controller_runtime.bus.interruption import InterruptedSessionError, interrupting
from controller_runtime.bus.judgement import Stored, differences, is_ahead
from controller_runtime.bus.logbook import NEVER_READ, Logbook
from controller_runtime.bus.part import Key
from controller_runtime.bus.publisher_context import PublisherContext
from controller_runtime.bus.publisher_state import Phase, SupersededError
from controller_runtime.bus.pump import Pump
from controller_runtime.bus.snapshot import read_logged, read_present
from controller_runtime.bus.source import SourceVersion
from controller_runtime.bus.stored import StoredMessage, stream_state
from controller_runtime.bus.streams import StreamMismatchError, ensure_streams
from controller_runtime.bus.tasks import within
from controller_runtime.bus.vouching import CompareDueError, Vouching
from controller_runtime.kube.reflector_state import ListFrom

T = TypeVar("T")

_LOOK_UPS: Final = 8
"""Objects that are looked up at the same time, each with its body."""


@dataclass(slots=True)
class Comparisons:
    """What comparing brought, over all sessions.

    Attributes:
        last: repairs of the last comparison.
        repaired: repairs in all.
        forgotten_seen: objects that had been forgotten when the last comparison was made.
        logbook: what the last one saw of the history; nothing while what it found there was not dealt with.
    """

    last: int = 0
    repaired: int = 0
    forgotten_seen: int = 0
    logbook: Logbook = NEVER_READ


@dataclass(slots=True)
class _Found:
    """What reading the streams brought, besides what the writer has to know.

    Attributes:
        unreadable: sequences of messages of the state stream that nobody can read.
        unlogged: objects whose present version the history may lack. Their bodies are fetched when their turn comes:
            a history that was lost lacks everything.
        told: what was found, where somebody has to be told.
        logbook: what was seen of the history.
    """

    logbook: Logbook
    unreadable: list[int] = field(default_factory=list)
    unlogged: list[Key] = field(default_factory=list)
    told: list[StateMessage] = field(default_factory=list)


class _Present(NamedTuple):
    """A present version that was not found in the history yet; see `Link`."""

    key: Key
    sequence: int
    id: str
    epoch: str
    previous: int
    repeats: bool


class Session:
    """Publishes until something makes the stream doubtful; `run` it once."""

    def __init__(self, context: PublisherContext, comparisons: Comparisons) -> None:
        self._context = context
        self._comparisons = comparisons
        self._foreign = 0
        self._pump = Pump(
            context.intake, context.writer, context.scoping, context.unwritable, context.settings.concurrency
        )
        self.phase = Phase.LOADING

    async def run(self, connection_session: int) -> InterruptedSessionError:
        """Publish; returns why that can not go on.

        Raises:
            SupersededError: another process publishes the part.
        """
        superseded: SupersededError | None = None
        interrupted = InterruptedSessionError("cancelled")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_lost(connection_session))
                await self._load(connection_session)
                self.phase = Phase.LIVE
                vouching = Vouching(self._context, self._pump, self._foreign)
                regular = vouching.vouch_forever(), vouching.sweep_forever(), self._compare_in_time()
                for duty in (*regular, self._until_doubted()):
                    group.create_task(duty)
                await self._pump.run(group)
        except* SupersededError as errors:
            superseded = _first(errors, SupersededError)
        except* InterruptedSessionError as errors:
            interrupted = _first(errors, InterruptedSessionError)
        self.phase = Phase.WAITING
        self._context.intake.lanes.put_back()
        if superseded is not None:
            raise superseded
        return interrupted

    async def _until_lost(self, connection_session: int) -> None:
        await self._context.connection.wait_lost(connection_session)
        raise InterruptedSessionError("the connection to the message broker was lost")

    async def _until_doubted(self) -> None:
        await self._context.intake.doubted.wait()
        raise InterruptedSessionError("a consumer of this process was told something else than was published")

    async def _compare_in_time(self) -> None:
        intake = self._context.intake
        interval = self._context.settings.compare_interval * random.uniform(0.8, 1.2)
        if not await within(interval, intake.relisted.wait()) and intake.can_relist:
            intake.relist(ListFrom.FLOOR)
            await intake.relisted.wait()
        raise CompareDueError("time to compare")

    # Beginning

    async def _load(self, connection_session: int) -> None:
        context, scoping, writer = self._context, self._context.scoping, self._context.writer
        # Whoever doubts the stream from now on may have seen what this reading misses.
        context.intake.doubted.clear()
        with interrupting():
            try:
                await ensure_streams(context.connection, context.layout, context.settings.limits)
            except StreamMismatchError as error:
                # Whoever can cure it need not restart anything afterwards; consumers read the API server meanwhile.
                raise InterruptedSessionError(str(error)) from error
            before = await stream_state(context.connection, context.layout.state_stream)
            marker = await context.markers.read(before.now)
            found = await self._read_streams(connection_session, before.created)
            # Asked again: what somebody else wrote while this read must not look as if the stream's end fell.
            state = await stream_state(context.connection, context.layout.state_stream)
            if state.created != before.created:
                raise InterruptedSessionError(f"stream {context.layout.state_stream} was made anew while it was read")
        self._tell(found)
        while not context.intake.source.lists:
            await context.intake.relisted.wait()
        fresh = await scoping.choose(state, marker, writer.stored.values(), writer.high_sequence)
        writer.high_sequence = state.last_sequence
        if not context.markers.is_own(marker):
            with interrupting():
                await context.markers.claim(scoping.scope, state.created, state.last_sequence)
        with interrupting():
            await self._mend(found)
        self._comparisons.logbook = found.logbook
        self._compare(fresh=fresh)

    async def _read_streams(self, connection_session: int, state_created: str) -> _Found:
        """Take note of what the streams hold; nothing is written, as the part may be somebody else's.

        In place: what is as it was known stays the same object. Until the reading comes to its end, what is known may
        be partly old; whatever ends it before, the next session believes none of it and reads the history as well.
        """
        context, stored = self._context, self._context.writer.stored
        layout, part = context.layout, context.part.name
        everything = layout.log_filter(part, context.service)
        history = await stream_state(context.connection, layout.history_stream, everything)
        logbook, self._comparisons.logbook = self._comparisons.logbook, NEVER_READ
        counts = logbook.counts(connection_session, history) and context.scoping.stream_created == state_created
        found, unlogged, seen = _Found(logbook), dict[str, _Present](), set[Key]()

        def take(key: Key, message: StoredMessage) -> None:
            state = context.writer.read(key, message)
            if state is None:
                found.unreadable.append(message.sequence)
                seen.discard(key)
                return
            seen.add(key)
            before = stored.get(key)
            if not counts or before is None or not before.is_message(state, message.sequence):
                stored[key] = Stored.of(state, message.sequence, message.stored)
                place = state.id, state.epoch, state.previous, state.repeats
                unlogged[layout.log(part, key)] = _Present(key, message.sequence, *place)
            elif before.stored is None:
                stored[key] = replace(before, stored=message.stored)
            if context.loaded is not None:
                found.told.append(state)

        # Of what is known the headers tell that it is still there; what is not is fetched when it is looked up.
        known = counts and context.loaded is None
        self._foreign = await read_present(context.connection, layout, part, context.service, take, headers_only=known)
        stored.keep(seen)
        if not counts:
            # The broker takes into memory what it looks through: everything only where nearly everything is wanted.
            wanted = (everything,) if 2 * len(unlogged) > history.messages else tuple(unlogged)
            oldest = await self._read_history(wanted, unlogged, history.last_sequence + 1)
            found.logbook = Logbook(connection_session, history.created, history.deleted, oldest, history.last_sequence)
        found.logbook = found.logbook.at(history)
        found.unlogged += [one.key for one in unlogged.values()]
        return found

    async def _read_history(self, subjects: Sequence[str], unlogged: dict[str, _Present], oldest: int) -> int:
        """Take out what the history has; returns where its oldest of that lies. What was logged since `read_present`
        is left, and looked up before it is copied."""
        context, stored = self._context, self._context.writer.stored

        def take(subject: str, sequence: int, logged: Logged) -> None:
            nonlocal oldest
            present = unlogged.get(subject)
            at = None if present is None else logged.holds(present, present.sequence)
            if present is not None and at is not None:
                del unlogged[subject]
                held = stored[present.key]
                if held.logged != at:
                    stored[present.key] = replace(held, logged=at)
                oldest = min(oldest, sequence)

        await read_logged(context.connection, context.layout, subjects, take)
        return oldest

    def _tell(self, found: _Found) -> None:
        """Hand on what was found, now that the reading came to its end: half of one counts for nothing."""
        if self._context.loaded is not None:
            self._context.loaded(found.told)

    async def _mend(self, found: _Found) -> None:
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
        forgotten = intake.lanes.forgotten != self._comparisons.forgotten_seen
        self._comparisons.forgotten_seen = intake.lanes.forgotten
        missed = bool(found) or forgotten or intake.continuity.is_broken(stored)
        intake.continuity.compared()
        if missed and not fresh:
            scoping.begin(Reason.VERSIONS_MISSED)
        self._comparisons.last = len(found)
        self._comparisons.repaired += len(found)
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
