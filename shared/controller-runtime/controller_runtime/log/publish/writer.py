"""Puts versions onto the log: into the state stream with a fence, then into the history, both acknowledged."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, assert_never

import structlog

from controller_runtime.backoff import Backoff
from controller_runtime.log.broker.connection import MessageRefusal, PubAck, PublishOutcome, Unknown, WrongSequence
from controller_runtime.log.broker.reading import StoredMessage, delete_message, last_message
from controller_runtime.log.publish.checkpoint import NEVER_READ, HistoryRange, Holdings, Place
from controller_runtime.log.publish.epoch import Scoping
from controller_runtime.log.publish.intake import Intake
from controller_runtime.log.publish.judgement import Scope, StoredVersion, Verdict, judge
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.publish.state import InterruptedSessionError, PublisherSetup, interrupting
from controller_runtime.log.wire.messages import (
    EnvelopeError,
    Header,
    Logged,
    LogMessage,
    StateMessage,
    decode_state,
    digest_of,
    message_id,
    unknown_trace,
)
from controller_runtime.log.wire.part import Key, Part
from controller_runtime.telemetry import tracing

_log = structlog.get_logger(__name__)

_ATTEMPTS: Final = 3
_PAUSE: Final = Backoff(base=0.2)
"""Seconds before the first repetition; the next ones take twice as long each."""


@dataclass(slots=True)
class WriteCounts:
    """Counters of a writer."""

    published: int = 0
    """Versions in both streams."""
    stale: int = 0
    """Versions not written because a newer one was there."""
    refused: int = 0
    """Versions that the broker will never take."""
    rereads: int = 0
    """Times the outcome had to be looked up."""
    copied: int = 0
    """Present versions that the history lacked."""


class Writer:
    """Writes versions of one part. Calls for different objects may overlap, for one object they must not.

    Args:
        source: name of the publisher.
    """

    def __init__(self, setup: PublisherSetup, part: Part[Any], source: str) -> None:
        self._connection = setup.connection
        self._layout = setup.layout
        self._guard = setup.guard
        self._part = part
        self._source = source
        self.stored = Holdings()
        self.counts = WriteCounts()
        self.high_sequence = 0
        self._last_logged = Place()
        self._unlogged = False

    async def write(self, version: SourceVersion, scope: Scope, *, gap: bool = False) -> bool:
        """Put a version onto the bus, unless it or a newer one is there.

        Args:
            gap: versions before it were not kept.

        Returns whether the bus knows the version or a newer one; not so if the broker will never take it.

        Raises:
            InterruptedSessionError: the outcome is not known.
        """
        body, digest, attempt, unknown, began = version.body, version.digest, 0, 0, time.time()
        while self._is_due(version, scope):
            held = self.stored.get(version.key)
            repeats = not gap and held is not None and held.is_repeated_by(version, digest, scope)
            message = replace(self._message(version, body, scope, held, attempt), gap=gap, repeats=repeats)
            subject = self._layout.state(self._part.name, version.key)
            outcome = await self._publish(subject, body, message.headers(), expected=held.sequence if held else 0)
            match outcome:
                case PubAck(sequence, duplicate=False):
                    await self._stored_now(message, sequence)
                    self._log_beginning(version, subject, began)
                    return True
                case PubAck():
                    # The id was stored once. If the message is gone since, only another id will bring it back.
                    attempt += 1
                    await self._resolve(version.key)
                case WrongSequence():
                    await self._resolve(version.key)
                case Unknown(reason):
                    await self._resolve(version.key)
                    unknown += 1
                    if unknown == _ATTEMPTS:
                        raise InterruptedSessionError(f"{self._part.name} {version.key}: {reason}")
                    await asyncio.sleep(_PAUSE.nominal(unknown + 1))
                case MessageRefusal():
                    self._log_refused(version.key, outcome)
                    return False
                case _:
                    assert_never(outcome)
        return True

    def _is_due(self, version: SourceVersion, scope: Scope) -> bool:
        """Whether the bus knows neither the version nor a newer one.

        Raises:
            InterruptedSessionError: another process owns the part now.
        """
        held = self.stored.get(version.key)
        verdict = judge(version, held, scope)
        if verdict is Verdict.STALE:
            self.counts.stale += 1
            if held is not None and held.epoch > scope.epoch:
                # A publisher that lost the part wrote after this session had read it; only a newer epoch than
                # its own can be put over that.
                raise InterruptedSessionError(f"{self._part.name} {version.key}: epoch {held.epoch} appeared")
        return verdict is Verdict.PUBLISH

    def _log_beginning(self, version: SourceVersion, subject: str, began: float) -> None:
        """The publisher exports the root of a trace that no writer of the object began (FW-571)."""
        if version.begins:
            kind = self._part.kind
            about = tracing.about_object(kind.kind, version.key.namespace, version.key.name, version.uid)
            sent = tracing.messaging("send", subject)
            tracing.root_span(f"apply {kind.kind}", version.traceparent, began, {**about, **sent})

    def _log_refused(self, key: Key, outcome: MessageRefusal) -> None:
        self.counts.refused += 1
        _log.error(
            "message broker rejected an object; consumers keep its previous version. "
            "If it is too large, raise max_payload of the broker",
            part=self._part.name,
            object=str(key),
            code=outcome.code,
            reason=outcome.reason,
        )

    def reports_gap(self, key: Key) -> bool:
        """Whether what the stream holds of an object says that versions before it are missing."""
        held = self.stored.get(key)
        return held is not None and held.gap

    def _message(
        self, version: SourceVersion, body: bytes, scope: Scope, held: StoredVersion | None, attempt: int
    ) -> StateMessage:
        # Facts have no version of their own; predecessor and content identify one.
        identity = version.resource_version or f"{held.sequence if held else 0}-{digest_of(body, '').hex()}"
        return StateMessage(
            part=self._part.name,
            key=version.key,
            verb=version.verb,
            epoch=scope.epoch,
            store_id=scope.comparable_since,
            uid=version.uid,
            resource_version=version.resource_version,
            previous=held.logged if held else 0,
            body=body,
            traceparent=version.traceparent or unknown_trace(version.uid),
            time=datetime.now(UTC),
            source=self._source,
            id=message_id(scope.epoch, version.uid, identity, version.verb, attempt),
        )

    async def _resolve(self, key: Key) -> None:
        """Look up the outcome of a write: the message in question lies in the stream, or another process's does."""
        self.counts.rereads += 1
        await self.look_up(key)

    async def look_up(self, key: Key) -> None:
        """Take again what the stream holds of an object, and log it if the history lacks it.

        Its writer may have come no further, and what the history had of it may be too old to be kept. What cannot be
        read is no version: it is removed, so that it is published again, and does not get into the history (FW-496).

        Raises:
            InterruptedSessionError: no answer.
        """
        with interrupting():
            message = await last_message(
                self._connection, self._layout.state_stream, self._layout.state(self._part.name, key)
            )
        self.stored.pop(key, None)
        if message is None:
            return
        state = self.read(key, message)
        if state is None or not _has_object(state):
            await self.remove(message.sequence)
            return
        logged = await self.copy_to_history(state, message.sequence)
        # Only now: what is in `stored` is in the history.
        self.stored[key] = StoredVersion.of(state, message.sequence, message.stored, logged)

    def read(self, key: Key, message: StoredMessage) -> StateMessage | None:
        """What a message of the state stream says; ``None`` if it is unreadable. Its body is not looked at."""
        self.high_sequence = max(self.high_sequence, message.sequence)
        try:
            return decode_state(self._part.name, key, message.headers, message.data)
        except EnvelopeError as error:
            _log.warning("state stream holds an unreadable message", error=str(error))
            return None

    async def remove(self, sequence: int) -> None:
        """Remove an unreadable message, so that it can be replaced."""
        self._check_lease()
        with interrupting():
            await delete_message(self._connection, self._layout.state_stream, sequence)

    async def _stored_now(self, message: StateMessage, sequence: int) -> None:
        self.high_sequence = max(self.high_sequence, sequence)
        if not message.repeats:
            await self._log(message, sequence)
        self.stored[message.key] = StoredVersion.of(message, sequence)
        self.counts.published += 1

    async def copy_to_history(self, message: StateMessage, sequence: int) -> int:
        """Log a present version that may be missing there; the one thing a crash can leave undone.

        Also behind later ones, and rather twice than not at all: the history is to hold every version, and who reads
        it sorts them (`chained`).

        Returns the sequence under which the history has what it says.

        Raises:
            InterruptedSessionError: no answer.
        """
        logged = await self._place_in_history(message, sequence)
        if logged is not None:
            return logged
        if await self._log(message, sequence) and await self._place_in_history(message, sequence) is None:
            # The broker remembers the id of a message that is gone since, and that of an earlier copy.
            await self._log(message, sequence, suffix=f"/{secrets.token_hex(4)}")
        self.counts.copied += 1
        return sequence

    def begin_log(self, last: Place) -> None:
        """The history was looked at, and of what was found there this is the last version."""
        self._last_logged, self._unlogged = last, False

    def note_logged(self, place: Place) -> None:
        """A version lies in the history."""
        self._last_logged = max(self._last_logged, place)

    def logged_since(self, history_range: HistoryRange) -> HistoryRange:
        """What was seen of the history, with what was logged since; nothing if the history has refused a version."""
        return NEVER_READ if self._unlogged else history_range.upto(self._last_logged)

    async def _place_in_history(self, message: StateMessage, sequence: int) -> int | None:
        subject = self._layout.log(self._part.name, message.key)
        with interrupting():
            last = await last_message(self._connection, self._layout.history_stream, subject)
        if last is None:
            return None
        logged = Logged.of(last.headers)
        found = logged.holds(message, sequence)
        if found is not None:
            self.note_logged(Place(last.sequence, logged.id))
        return found

    async def _log(self, message: StateMessage, sequence: int, suffix: str = "") -> bool:
        """Write a version to the history; whether the broker took it for a repetition."""
        subject = self._layout.log(message.part, message.key)
        headers = LogMessage(message, sequence).headers()
        headers[Header.MESSAGE_ID] += suffix
        for attempt in range(_ATTEMPTS):
            outcome = await self._publish(subject, message.body, headers)
            if isinstance(outcome, PubAck):
                self.note_logged(Place(outcome.sequence, message.id))
                return outcome.duplicate
            if isinstance(outcome, MessageRefusal):
                # Some bytes of headers more than in the state stream; the next version's predecessor shows the hole.
                _log.error(
                    "version is too large for the history and missing there; raise max_payload of the broker",
                    subject=subject,
                    cause=outcome.reason,
                )
                self._unlogged = True
                return False
            # Not known: the id makes repeating harmless.
            await asyncio.sleep(_PAUSE.nominal(attempt + 1))
        raise InterruptedSessionError(f"{subject}: {outcome}")

    async def _publish(
        self, subject: str, body: bytes, headers: Mapping[str, str], *, expected: int | None = None
    ) -> PublishOutcome:
        async with self._connection.writes:
            # Asked last: the Lease may have run out while this waited for its turn.
            self._check_lease()
            return await self._connection.publish(subject, body, headers, expected=expected)

    def _check_lease(self) -> None:
        if self._guard() <= 0:
            raise InterruptedSessionError("the Lease was not renewed in time; another replica may lead")


def _has_object(message: StateMessage) -> bool:
    try:
        message.object()
    except EnvelopeError as error:
        _log.warning("state stream holds an unreadable message", error=str(error))
        return False
    return True


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
        gap, written, reported = self._lanes.take_gap(version.key), True, False
        try:
            written = await self._writer.write(version, self._scoping.scope, gap=gap)
            # What was not written because the bus has it already need not tell of the gap.
            reported = written and self._writer.reports_gap(version.key)
        finally:
            if not written or (gap and not reported):
                self._lanes.note_gap(version.key)
        return written
