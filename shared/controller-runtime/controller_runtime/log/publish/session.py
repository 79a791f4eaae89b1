"""One session of a publisher: read what the stream holds, compare with Kubernetes, publish and checkpoint."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeVar

import structlog

from controller_runtime.kube.reflector_state import ListFrom
from controller_runtime.log.broker.consumer import read_logged, read_present
from controller_runtime.log.broker.reading import StoredMessage, StreamState, message_at, stream_state
from controller_runtime.log.broker.streams import StreamMismatchError, ensure_streams
from controller_runtime.log.publish.checkpoint import NEVER_READ, Checkpoint, HistoryRange, Place
from controller_runtime.log.publish.checkpointing import Checkpointer, CompareDueError, PublisherContext
from controller_runtime.log.publish.epoch import Reason
from controller_runtime.log.publish.judgement import StoredVersion, differences, is_ahead
from controller_runtime.log.publish.missed import MissedVersions
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.publish.state import InterruptedSessionError, Phase, SupersededError, interrupting
from controller_runtime.log.publish.writer import Pump
from controller_runtime.log.wire.messages import Logged, StateMessage
from controller_runtime.log.wire.part import Key
from controller_runtime.tasks import within


@dataclass(slots=True)
class StreamContents:
    """What reading the streams brought, besides what the writer has to know.

    Attributes:
        unreadable: sequences of messages of the state stream that are unreadable.
        unlogged: objects whose present version the history may lack. Their bodies are fetched when their turn comes:
            a history that was lost lacks everything.
        reported: what was found and has to be reported.
        foreign: messages under the subjects of the part that no publisher wrote.
        history_range: what was seen of the history.
    """

    history_range: HistoryRange
    unreadable: list[int] = field(default_factory=list)
    unlogged: list[Key] = field(default_factory=list)
    reported: list[StateMessage] = field(default_factory=list)
    foreign: int = 0


class _Present(NamedTuple):
    """A present version that was not found in the history yet; see `Link`."""

    key: Key
    sequence: int
    id: str
    epoch: str
    previous: int
    repeats: bool


async def read_streams(
    context: PublisherContext, connection_session: int, state_created: str, checkpoint: Checkpoint | None
) -> StreamContents:
    """Take note of what the streams hold; nothing is written, as the part may belong to another process.

    In place: what is as it was known stays the same object. Until the reading comes to its end, what is known may
    be partly old; whatever ends it before, the next session believes none of it and reads the history as well.

    Args:
        state_created: when the state stream was made.
        checkpoint: the part's, as it was before this reading.
    """
    stored, progress, writer = context.writer.stored, context.progress, context.writer
    connection, layout, part = context.setup.connection, context.setup.layout, context.part.name
    everything = layout.log_filter(part, context.service)
    history = await stream_state(connection, layout.history_stream, everything)
    history_range, progress.history_range = writer.logged_since(progress.history_range), NEVER_READ
    counts = context.scoping.stream_created == state_created and await _is_there(context, history_range, history)
    found, unlogged, seen = StreamContents(history_range), dict[str, _Present](), set[Key]()

    def take(key: Key, message: StoredMessage) -> None:
        state = writer.read(key, message)
        if state is None:
            found.unreadable.append(message.sequence)
            seen.discard(key)
            return
        seen.add(key)
        before = stored.get(key)
        if not counts or before is None or not before.is_message(state, message.sequence):
            stored[key] = StoredVersion.of(state, message.sequence, message.stored)
            place = state.id, state.epoch, state.previous, state.repeats
            unlogged[layout.log(part, key)] = _Present(key, message.sequence, *place)
        elif before.stored is None:
            stored[key] = replace(before, stored=message.stored)
        if context.loaded is not None:
            found.reported.append(state)

    # Of what is known the headers tell that it is still there; what is not is fetched when it is looked up.
    known = counts and progress.read_in == connection_session and context.loaded is None
    found.foreign = await read_present(connection, layout, part, context.service, take, headers_only=known)
    stored.keep(seen)
    if not counts:
        found.history_range = await _reported_by(checkpoint, context, state_created, history) or HistoryRange.of(
            history
        )
        writer.begin_log(found.history_range.place)
        if found.history_range.last:
            # Under which sequence it has what only repeats, no checkpoint tells.
            unlogged = {subject: one for subject, one in unlogged.items() if one.repeats}
        oldest = await _read_history(context, everything, unlogged, history)
        found.history_range = replace(found.history_range, oldest=min(found.history_range.oldest, oldest))
    progress.read_in = connection_session
    found.unlogged += [one.key for one in unlogged.values()]
    return found


async def _read_history(
    context: PublisherContext, everything: str, unlogged: dict[str, _Present], history: StreamState
) -> int:
    """Take out what the history has; returns where its oldest of that lies. What was logged since `read_present`
    is left, and looked up before it is copied.

    Args:
        everything: the subjects of the part.
        history: as it was before.
    """
    writer, oldest = context.writer, history.last_sequence + 1
    # The broker takes into memory what it looks through: everything only where nearly everything is wanted.
    subjects = (everything,) if 2 * len(unlogged) > history.messages else tuple(unlogged)

    def take(subject: str, sequence: int, logged: Logged) -> None:
        nonlocal oldest
        present = unlogged.get(subject)
        at = None if present is None else logged.holds(present, present.sequence)
        if present is not None and at is not None:
            del unlogged[subject]
            writer.note_logged(Place(sequence, logged.id))
            held = writer.stored[present.key]
            if held.logged != at:
                writer.stored[present.key] = replace(held, logged=at)
            oldest = min(oldest, sequence)

    await read_logged(context.setup.connection, context.setup.layout, subjects, take)
    return oldest


async def _reported_by(
    checkpoint: Checkpoint | None, context: PublisherContext, state_created: str, history: StreamState
) -> HistoryRange | None:
    """Where the history has all that was found, if the last publisher knew just that, and it is there yet (FW-505)."""
    stored = context.writer.stored
    if checkpoint is None or checkpoint.stream_created != state_created or checkpoint.proof != stored.proof:
        return None
    reported, nothing_since = (
        checkpoint.history,
        all(one.sequence <= checkpoint.state_sequence for one in stored.values()),
    )
    if not nothing_since or not await _is_there(context, reported, history):
        return None
    return reported


async def _is_there(context: PublisherContext, history_range: HistoryRange, history: StreamState) -> bool:
    """Whether the history still has what was seen in it then."""
    if not history_range.counts(history):
        return False
    if not history_range.last:
        return True
    last = await message_at(context.setup.connection, context.setup.layout.history_stream, history_range.last)
    return last is not None and Logged.of(last.headers).id == history_range.id


T = TypeVar("T")

_log = structlog.get_logger(__name__)

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
                checkpointer = Checkpointer(context, pump, foreign)
                regular = checkpointer.checkpoint_forever(), checkpointer.sweep_forever(), self._compare_in_time()
                for duty in (*regular, self._until_contradicted()):
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

    async def _until_contradicted(self) -> None:
        await self._context.intake.contradicted.wait()
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
        # A doubt about the stream from now on may concern what this reading misses.
        context.intake.contradicted.clear()
        with interrupting():
            try:
                await ensure_streams(connection, layout, settings.limits, governs=settings.governs)
            except StreamMismatchError as error:
                # Its cure needs no restart afterwards; consumers read the API server meanwhile.
                raise InterruptedSessionError(str(error)) from error
            before = await stream_state(connection, layout.state_stream)
            checkpoint = await context.checkpoints.read(before.now)
            found = await read_streams(context, connection_session, before.created, checkpoint)
            # Asked again: what another process wrote during this reading must not look as if the stream's end fell.
            state = await stream_state(connection, layout.state_stream)
            if state.created != before.created:
                raise InterruptedSessionError(f"stream {layout.state_stream} was recreated while it was read")
        # Only now that the reading came to its end: half of one counts for nothing.
        if context.loaded is not None:
            context.loaded(found.reported)
        while not context.intake.source.lists:
            await context.intake.relisted.wait()
        fresh = await scoping.choose(state, checkpoint, writer.stored.values(), writer.high_sequence)
        writer.high_sequence = state.last_sequence
        if found.unlogged or found.unreadable or not context.checkpoints.is_own(checkpoint):
            # Also over a checkpoint of its own, which confirms a history that lacks something.
            with interrupting():
                await context.checkpoints.claim(scoping.scope, state.created, state.last_sequence)
        with interrupting():
            await self._mend(found)
        context.progress.history_range = found.history_range
        self._compare(await self._read_missed(checkpoint) if not fresh else None, fresh=fresh)
        return found.foreign

    async def _mend(self, found: StreamContents) -> None:
        writer = self._context.writer
        for sequence in found.unreadable:
            await writer.remove(sequence)
        await _in_parallel(_LOOK_UPS, writer.look_up, found.unlogged)

    # Comparing

    async def _read_missed(self, checkpoint: Checkpoint | None) -> MissedVersions | None:
        """The versions that came between a checkpoint and the list, of objects of which the stream lacks any."""
        context, intake = self._context, self._context.intake
        if context.changes is None or checkpoint is None or not checkpoint.resource_version:
            return None
        keys = self._behind()
        # Neither what the stream lost after it was published, nor what said nothing new then (FW-446), comes after it.
        listed = (intake.in_list(key) for key in keys)
        if not keys or any(one and int(one[1]) <= int(checkpoint.resource_version) for one in listed):
            return None
        missed = MissedVersions(context.part, intake, context.writer.stored)
        await missed.read(context.changes, checkpoint.resource_version, keys)
        return missed

    def _behind(self) -> set[Key]:
        """Objects of which the stream lacks versions."""
        missing = self._context.intake.continuity.missing(self._context.writer.stored)
        return {one.key for one in self._find_differences()} | missing

    def _fill(self, missed: MissedVersions) -> None:
        """Queue the versions before the list, so that nothing is missing before those that came after it."""
        intake, count = self._context.intake, 0
        for key, versions in missed.versions():
            intake.lanes.put_first(key, versions)
            intake.continuity.forget(key)
            count += len(versions)
        _log.info("publishing versions that the last publisher did not", part=self._context.part.name, count=count)

    def _compare(self, missed: MissedVersions | None, *, fresh: bool) -> None:
        """Queue what the stream lacks, in a new epoch if versions may be missing before it."""
        intake, scoping, stored = self._context.intake, self._context.scoping, self._context.writer.stored
        # A list that comes from now on needs another comparison.
        intake.relisted.clear()
        if not fresh and is_ahead(stored, intake.source.present, scoping.scope):
            # The watch has caught up with the stream, so Kubernetes itself went back.
            scoping.begin(Reason.VERSION_FELL)
            fresh = True
        if missed is not None and not fresh and missed.is_whole(self._behind()):
            self._fill(missed)
        found = self._find_differences()
        # Where one is left to say so, versions that were not kept need no epoch (FW-418).
        forgotten = intake.lanes.forgotten != self._context.progress.forgotten_seen
        self._context.progress.forgotten_seen = intake.lanes.forgotten
        lacks = bool(found) or forgotten or intake.continuity.is_broken(stored)
        intake.continuity.compared()
        if lacks and not fresh:
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
