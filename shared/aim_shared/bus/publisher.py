"""Publishes one part: every version the watch gives, in order per object, and repairs whatever the streams lost.

The publisher lives in *sessions*. Each begins with reading what the stream holds, copying into the history what a
crash may have left out of it, comparing with Kubernetes, and only then writing the part's marker. A lost connection,
a doubtful outcome, a new list and the time for a comparison all lead to the next session: there is one way to become
sure, and it is always the same.
"""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from itertools import chain, repeat
from typing import Any, Final, TypeVar

import structlog

from aim_shared.bus.connection import BusConnection, raise_if_cancelled
from aim_shared.bus.continuity import Continuity
from aim_shared.bus.envelope import StateMessage, digest_of
from aim_shared.bus.epoch import Reason, Sight, continued, reason_for_new, started
from aim_shared.bus.freshness import boot_seconds
from aim_shared.bus.interruption import InterruptedSessionError, interrupting
from aim_shared.bus.judgement import Scope, differences, is_ahead, newest_version
from aim_shared.bus.lanes import Lanes
from aim_shared.bus.marker import Marker
from aim_shared.bus.marker_writer import MarkerWriter
from aim_shared.bus.part import Key, Part
from aim_shared.bus.publisher_state import (
    DEFAULT_SETTINGS,
    Phase,
    PublisherSettings,
    PublisherStatistics,
    SupersededError,
)
from aim_shared.bus.snapshot import read_present
from aim_shared.bus.source import Source, SourceVersion, key_of
from aim_shared.bus.stored import StreamState, stream_state
from aim_shared.bus.streams import StreamMismatchError, ensure_streams
from aim_shared.bus.subjects import DEFAULT_LAYOUT, Layout
from aim_shared.bus.sweep import sweep, tombstones
from aim_shared.bus.tasks import apart
from aim_shared.bus.writer import Writer, is_logged
from aim_shared.kube.reflector_state import Delete, Event, ListFrom, Restarted, Upsert

log = structlog.get_logger(__name__)
T = TypeVar("T")

_BACKOFF: Final = (0.1, 5.0)
_FIRST_PAUSES: Final = (0.5, 1.0, 2.0)
"""Between the first markers of a session: consumers that reconnect a moment later than this process believe only
markers written since, and should not have to wait a whole interval for one."""
_LEASE_POLL: Final = 0.25


class _CompareDueError(InterruptedSessionError):
    """The session ends because it is time to compare again."""


def _always() -> bool:
    return True


class Publisher:
    """Publishes one part while this process leads.

    Feed it with `take` (or `consume`) from the moment the watch starts, connected or not, and let `run` work.

    Args:
        source: name of this process.
        cluster: UID of kube-system; empty if it is not to be checked.
        service: for facts, which service's.
        may_write: asked before every write: was the Lease renewed within 10 s?
        relist: asks the reflector for a list, which comes as `Restarted`.
        loaded: told of every message found in the stream when a session begins.
    """

    def __init__(
        self,
        connection: BusConnection,
        part: Part[Any],
        *,
        source: str,
        cluster: str = "",
        service: str = "",
        layout: Layout = DEFAULT_LAYOUT,
        may_write: Callable[[], bool] = _always,
        relist: Callable[[ListFrom], None] | None = None,
        loaded: Callable[[StateMessage], None] | None = None,
        settings: PublisherSettings = DEFAULT_SETTINGS,
    ) -> None:
        self._connection = connection
        self._part = part
        self._cluster = cluster
        self._service = service
        self._layout = layout
        self._may_write = may_write
        self._relist = relist
        self._loaded = loaded
        self._settings = settings
        self._source = Source(part)
        self._lanes = Lanes()
        self._continuity = Continuity()
        # Two processes of one name, or two terms of one process, must be able to tell each other apart.
        source = f"{source}/{secrets.token_hex(4)}"
        self._writer = Writer(connection, part, layout, source, may_write)
        self._markers = MarkerWriter(connection, layout, part.name, service=service, source=source, may_write=may_write)
        self._scope: Scope | None = None
        self._stream_created = ""
        self._phase = Phase.WAITING
        self._workers = 0
        self._sessions = self._swept = self._repaired = self._differences = 0
        self._dropped_seen = self._rewinds_seen = 0
        self._content_compared = False
        self._unwritable: dict[Key, str] = {}
        self._interrupted_by: str | None = None
        self._heard_at = boot_seconds()
        self._arrived = asyncio.Event()
        self._finished = asyncio.Event()
        self._relisted = asyncio.Event()
        self._moved = asyncio.Event()

    # What others see

    @property
    def statistics(self) -> PublisherStatistics:
        """A snapshot for metrics."""
        counts = self._writer.counts
        return PublisherStatistics(
            self._phase,
            self.epoch,
            len(self._source.present),
            len(self._lanes),
            counts.published,
            self._lanes.dropped,
            counts.stale,
            counts.refused,
            counts.rereads,
            counts.copied,
            self._sessions,
            self._differences,
            self._repaired,
            self._markers.written,
            self._swept,
            self._interrupted_by,
        )

    @property
    def epoch(self) -> str:
        """The present epoch; empty before the first session."""
        return self._scope.epoch if self._scope else ""

    # What comes in

    def take(self, event: Event) -> None:
        """Take in an event of the reflector; never waits."""
        before = self._source.present.get(key_of(event.obj)) if isinstance(event, Upsert | Delete) else None
        version = self._source.take(event)
        self._heard_at = boot_seconds()
        if isinstance(event, Restarted):
            # What follows may follow upon a version that the list folded; the comparison tells, and then it goes out.
            self._lanes.hold()
            self._continuity.listed()
            self._relisted.set()
        self._moved.set()
        if version is not None:
            self._continuity.changed(version.key, before, self._lanes.newest_of(version.key))
            self._enqueue(version)

    async def consume(self, events: AsyncIterator[Event]) -> None:
        """Take in everything that a reflector tells."""
        async for event in events:
            self.take(event)

    def restart_empty(self) -> None:
        """Begin without a list, for what Kubernetes does not know (facts)."""
        self.take(Restarted((), ""))

    def assume(self, version: SourceVersion) -> None:
        """The stream's own word for what Kubernetes does not know."""
        self._source.put(version)

    def knows(self, key: Key) -> bool:
        """Whether an object exists, as far as this process knows."""
        return key in self._source.present

    def put(self, version: SourceVersion) -> None:
        """Publish a version that no watch brought."""
        self._enqueue(self._source.put(version))

    def remove(self, key: Key, uid: str) -> None:
        """Publish a deletion that no watch brought."""
        self._enqueue(self._source.remove(key, uid, ""))

    def compare(self) -> None:
        """Ask for a comparison with Kubernetes as soon as possible."""
        if self._relist is not None:
            self._relist(ListFrom.FLOOR)
        else:
            self._relisted.set()

    def _enqueue(self, version: SourceVersion) -> None:
        # Without a broker only the newest version of an object is kept; that others are missing becomes an epoch.
        self._lanes.add(version, latest_only=not self._connection.connected)
        self._arrived.set()

    # Sessions

    async def run(self) -> None:
        """Publish until cancelled.

        Raises:
            SupersededError: another process publishes the part.
        """
        failures = 0
        while True:
            await self._wait_for_lease()
            session = await self._connection.wait_connected()
            markers = self._markers.written
            outcome = await apart(self._session(session))
            # A task group that fails and is cancelled at the same time reports the failure alone.
            raise_if_cancelled()
            if isinstance(outcome, _CompareDueError):
                failures = 0
                continue
            self._phase = Phase.WAITING
            if not self._connection.connected:
                self._lanes.collapse()
            news, self._interrupted_by = str(outcome) != self._interrupted_by, str(outcome)
            vouched = self._markers.written > markers
            failures = 0 if vouched or not self._connection.connected else failures + 1
            if news:
                log.warning("Publishing was interrupted; going on soon", part=self._part.name, cause=str(outcome))
            low, high = _BACKOFF
            await asyncio.sleep(random.uniform(low, min(high, low * 2 ** min(failures, 8))))

    async def _wait_for_lease(self) -> None:
        while not self._may_write():
            # Somebody else may have led meanwhile, and rightly so.
            self._markers.forget()
            await asyncio.sleep(_LEASE_POLL)

    async def _session(self, session: int) -> InterruptedSessionError:
        self._sessions += 1
        superseded: SupersededError | None = None
        interrupted = InterruptedSessionError("cancelled")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._until_lost(session))
                await self._load()
                self._phase = Phase.LIVE
                for duty in (self._mark_forever(), self._sweep_forever(), self._compare_in_time()):
                    group.create_task(duty)
                await self._pump(group)
        except* SupersededError as errors:
            superseded = _first(errors, SupersededError)
        except* InterruptedSessionError as errors:
            interrupted = _first(errors, InterruptedSessionError)
        self._lanes.put_back()
        self._workers = 0
        if superseded is not None:
            self._phase = Phase.WAITING
            raise superseded
        return interrupted

    async def _until_lost(self, session: int) -> None:
        await self._connection.wait_lost(session)
        raise InterruptedSessionError("the connection to the message broker was lost")

    async def _compare_in_time(self) -> None:
        interval = self._settings.compare_interval * random.uniform(0.8, 1.2)
        if not await _within(interval, self._relisted.wait()) and self._relist is not None:
            self._relist(ListFrom.FLOOR)
            await self._relisted.wait()
        raise _CompareDueError("time to compare")

    # Beginning of a session

    async def _load(self) -> None:
        self._phase = Phase.LOADING
        with interrupting():
            try:
                await ensure_streams(self._connection, self._layout, self._settings.limits)
            except StreamMismatchError as error:
                # Whoever can cure it need not restart anything afterwards; consumers read the API server meanwhile.
                raise InterruptedSessionError(str(error)) from error
            state = await stream_state(self._connection, self._layout.state_stream)
            marker = await self._markers.read()
            await self._read_streams()
        await self._wait_listed()
        self._scope, fresh = await self._choose_scope(state, marker)
        self._compare(state.now, fresh=fresh)

    async def _read_streams(self) -> None:
        held = await read_present(self._connection, self._layout, self._part.name, self._service)
        self._writer.stored.clear()
        unlogged: list[tuple[StateMessage, int]] = []
        for found in held:
            adopted = await self._writer.adopt(found.key, found.message)
            if adopted is None:
                continue
            stored, state = adopted
            if self._loaded is not None:
                self._loaded(state)
            if not is_logged(found.logged, state.id, stored.sequence):
                unlogged.append((state, stored.sequence))
        await _in_parallel(self._settings.concurrency, self._writer.copy_to_history, unlogged)

    async def _wait_listed(self) -> None:
        while not self._source.lists:
            await self._relisted.wait()

    async def _choose_scope(self, state: StreamState, marker: Marker | None) -> tuple[Scope, bool]:
        """The epoch to publish in, and whether it is a new one."""
        stored = self._writer.stored.values()
        since = max(marker.comparable_since if marker else "", self._scope.comparable_since if self._scope else "")
        floor = max(newest_version(stored, since), int(marker.resource_version or 0) if marker else 0)
        changed = bool(marker and self._cluster and marker.cluster and marker.cluster != self._cluster)
        sight = Sight(
            marker=marker,
            created=state.created,
            last_sequence=state.last_sequence,
            high_sequence=self._writer.high_sequence if self._stream_created == state.created else 0,
            known_created=self._stream_created,
            cluster=self._cluster,
            version_fell=await self._fell_below(0 if changed else floor),
            newest_stored_epoch=max((held.epoch for held in stored), default=""),
        )
        reason = reason_for_new(sight)
        scope = continued(sight, self._scope)
        if reason is not None:
            scope = self._begin(scope, reason, state.now)
        self._stream_created = state.created
        self._writer.high_sequence = state.last_sequence
        return scope, reason is not None

    async def _fell_below(self, floor: int) -> bool:
        """Whether the cluster's store went back, behind a version or behind what the watch had shown."""
        fell = self._source.rewinds != self._rewinds_seen or not await self._caught_up(floor)
        fell = fell or self._source.rewinds != self._rewinds_seen
        self._rewinds_seen = self._source.rewinds
        return fell

    async def _caught_up(self, floor: int) -> bool:
        """Whether the watch has reached a version, however long it takes to be sure.

        A server's cache may lag behind for any time; only the store itself tells that the cluster went back.
        """
        if not self._source.version:
            return True
        if await _within(self._settings.list_grace, self._moves_until(lambda: self._is_at(floor))):
            return True
        if self._relist is None:
            return False
        log.warning("The list is older than what is known; asking the store itself", part=self._part.name)
        seen = self._source.store_lists
        self._relist(ListFrom.STORE)
        await self._moves_until(lambda: self._is_at(floor) or self._source.store_lists > seen)
        return self._is_at(floor)

    def _is_at(self, version: int) -> bool:
        return int(self._source.version) >= version

    async def _moves_until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._moved.clear()
            await self._moved.wait()

    def _begin(self, scope: Scope, reason: Reason, now: datetime) -> Scope:
        new = started(scope, reason, now, secrets.token_hex(3))
        log.info("A new epoch begins", part=self._part.name, epoch=new.epoch, reason=reason.value)
        return new

    def _compare(self, now: datetime, *, fresh: bool) -> None:
        """Queue what the stream lacks, in a new epoch if versions may be missing before it."""
        assert self._scope is not None
        # A list that comes from now on needs another comparison.
        self._relisted.clear()
        if not fresh and is_ahead(self._writer.stored, self._source.present, self._scope):
            # The watch has caught up with the stream, so Kubernetes itself went back.
            self._scope, fresh = self._begin(self._scope, Reason.VERSION_FELL, now), True
        found = self._find_differences(self._scope)
        dropped = self._lanes.dropped != self._dropped_seen
        self._dropped_seen = self._lanes.dropped
        missed = bool(found) or dropped or self._continuity.is_broken(self._writer.stored)
        self._continuity.compared()
        if missed and not fresh:
            self._scope = self._begin(self._scope, Reason.VERSIONS_MISSED, now)
        self._differences = len(found)
        self._repaired += len(found)
        for version in found:
            self._lanes.add(version)
        self._lanes.release()
        self._arrived.set()

    def _find_differences(self, scope: Scope) -> list[SourceVersion]:
        # Content under an equal version differs only when another release trims otherwise: look once.
        by_content = not self._content_compared or not self._source.version
        self._content_compared = True
        found = differences(
            self._source.present,
            self._writer.stored,
            pending=self._lanes.newest(),
            version=self._source.version,
            scope=scope,
            digest=_digest if by_content else None,
        )
        return [version for version in found if version.deleted or not self._is_settled(version)]

    def _is_settled(self, version: SourceVersion) -> bool:
        """Whether a difference need not be published: the broker refuses the object, or it says nothing new."""
        held = self._writer.stored.get(version.key)
        says_the_same = held is not None and (held.uid, held.digest) == (version.uid, _digest(version))
        return self._is_unwritable(version.key) or (self._part.read_only and says_the_same)

    # Publishing

    async def _pump(self, group: asyncio.TaskGroup) -> None:
        """Keep as many workers as there is work for."""
        while True:
            while self._workers < self._settings.concurrency and (version := self._lanes.take()) is not None:
                self._workers += 1
                group.create_task(self._work(version))
            self._arrived.clear()
            await self._arrived.wait()

    async def _work(self, version: SourceVersion | None) -> None:
        while version is not None:
            assert self._scope is not None
            if self._lanes.dropped != self._dropped_seen:
                self._note_gap()
            written = await self._writer.write(version, self._scope)
            self._lanes.finish(version.key)
            if written:
                self._unwritable.pop(version.key, None)
            else:
                self._unwritable[version.key] = version.resource_version
                self._note_gap()
            self._finished.set()
            version = self._lanes.take()
        self._workers -= 1
        self._arrived.set()

    def _is_unwritable(self, key: Key) -> bool:
        """Whether the broker has refused the present version of an object for good."""
        present = self._source.present.get(key)
        return present is not None and self._unwritable.get(key) == present.resource_version

    def _note_gap(self) -> None:
        """What follows belongs to another epoch, so that the history shows that something is missing."""
        assert self._scope is not None
        self._dropped_seen = self._lanes.dropped
        self._scope = self._begin(self._scope, Reason.VERSIONS_MISSED, datetime.now(UTC))

    async def _settled(self) -> None:
        """Wait until everything that is under way now is acknowledged."""
        ticket = self._lanes.last_ticket
        while not self._lanes.is_done(ticket):
            self._finished.clear()
            await self._finished.wait()

    # Regular duties

    async def _mark_forever(self) -> None:
        regular = self._settings.marker_interval
        for pause in chain(_FIRST_PAUSES, repeat(regular)):
            if self._relisted.is_set():
                raise _CompareDueError("a list has to be compared before anybody vouches for it")
            version = self._source.version
            await self._settled()
            doubt = self._doubt()
            if doubt is None:
                await self._mark(version)
            else:
                self._interrupted_by = doubt
            await asyncio.sleep(min(pause, regular))

    def _doubt(self) -> str | None:
        """Why this process can not vouch for the part although all it could publish is; ``None`` if it can."""
        # A fact that nobody else can read is gathered again by whoever leads next.
        if not self._source.version:
            return None
        if refused := [str(key) for key in self._unwritable if self._is_unwritable(key)]:
            return f"the broker refuses {', '.join(sorted(refused))}: too large for its max_payload"
        silence = boot_seconds() - self._heard_at
        if silence < self._settings.watch_silence:
            return None
        # A quiet kind is no broken watch: some servers send no bookmarks before its first change. A list tells.
        self.compare()
        return f"the watch has been silent for {silence:.0f} s; waiting for a new list"

    async def _mark(self, version: str) -> None:
        """Vouch for everything up to a version."""
        assert self._scope is not None
        with interrupting():
            sequence = await self._markers.write(
                self._scope, self._cluster, version, self._stream_created, self._writer.high_sequence
            )
        self._writer.high_sequence = max(self._writer.high_sequence, sequence)
        self._interrupted_by = None

    async def _sweep_forever(self) -> None:
        stream = self._layout.state_stream
        while True:
            if candidates := tombstones(self._writer.stored):
                with interrupting():
                    now = (await stream_state(self._connection, stream)).now
                    age = self._settings.tombstone_age
                    gone = await sweep(
                        self._connection, stream, candidates, now=now, age=age, may_write=self._may_write
                    )
                self._swept += len(gone)
                for key, held in gone:
                    if self._writer.stored.get(key) == held:
                        del self._writer.stored[key]
            await asyncio.sleep(self._settings.sweep_interval * random.uniform(0.8, 1.2))


def _digest(version: SourceVersion) -> bytes:
    return digest_of(version.body, version.resource_version)


async def _within(seconds: float, waiting: Awaitable[object]) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return False
    return True


async def _in_parallel(
    limit: int, work: Callable[[StateMessage, int], Awaitable[None]], items: list[tuple[StateMessage, int]]
) -> None:
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(*item)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(limit, len(items))):
            group.create_task(worker())


def _first(group: BaseExceptionGroup[Any], kind: type[T]) -> T:
    for error in group.exceptions:
        if isinstance(error, kind):
            return error
        if isinstance(error, BaseExceptionGroup):
            return _first(error, kind)
    raise AssertionError("an exception group without the exception it was caught for")
