"""Publishes decision records without holding up the reconciles that made them.

Records explain; they decide nothing. So nobody waits for them: they lie in a bounded buffer until the broker has
stored them, however long it has no room or no answer. Every record that was taken is either stored, or counted as lost
and told in the log: when the buffer is full, when the broker will never take it, and when the process ends first.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.errors import BusApiError, BusUnavailableError
from controller_runtime.bus.outcome import PubAck, PublishOutcome, Refused, Unknown
from controller_runtime.bus.part import Key
from controller_runtime.bus.stored import STREAM_NOT_FOUND, StoredMessage, last_message
from controller_runtime.bus.subjects import DEFAULT_LAYOUT, Layout
from controller_runtime.json import loads

_log = structlog.get_logger(__name__)

BUFFER: Final = 16 << 20
"""Bytes of records that may wait."""

_WORKERS: Final = 8
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts while the broker does not store."""
_TELL_AFTER: Final = 5.0
"""Seconds for which losses are gathered into one line of the log."""


@dataclass(frozen=True, slots=True)
class RecorderStatistics:
    """Counters for metrics.

    Attributes:
        lost: records that were taken and will never be stored.
    """

    waiting: int
    recorded: int
    lost: int


@dataclass(frozen=True, slots=True)
class _Record:
    subject: str
    body: bytes
    headers: Mapping[str, str]


class Recorder:
    """Takes decision records and publishes them in the background."""

    def __init__(
        self, connection: BusConnection, service: str, *, layout: Layout = DEFAULT_LAYOUT, buffer: int = BUFFER
    ) -> None:
        """``buffer`` is in bytes."""
        self._connection = connection
        self._service = service
        self._layout = layout
        self._waiting: deque[_Record] = deque()
        self._waiting_bytes = 0
        self._buffer = buffer
        self._arrived = asyncio.Event()
        self._busy = 0
        self._alone = 1
        self._looked_back = False
        self._recorded = 0
        self._lost = 0
        self._untold = 0
        self._cause = ""
        self._failures = 0
        self._trouble = "the broker has not answered yet"

    @property
    def statistics(self) -> RecorderStatistics:
        """A snapshot for metrics."""
        return RecorderStatistics(len(self._waiting) + self._busy, self._recorded, self._lost)

    def record(self, part: str, key: Key, body: bytes, headers: Mapping[str, str]) -> None:
        """Take a record about one object; never waits.

        Args:
            body: JSON.
            headers: among them should be ``Nats-Msg-Id``, which makes repeating harmless.
        """
        self._take(_Record(self._layout.decision(self._service, part, key), body, headers))

    def record_settings(self, digest: str, body: bytes) -> None:
        """Take the settings to which records refer by digest; counts like a record."""
        self._take(_Record(self._layout.settings(self._service, digest), body, {}))

    async def run(self) -> None:
        """Publish until cancelled. What is under way then waits for `flush`."""
        await self._arrived.wait()
        await self._begin()
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def flush(self, seconds: float) -> None:
        """Publish what still waits, for at most that long; tell what is lost. For the end of the process."""
        try:
            async with asyncio.timeout(seconds):
                if self._waiting:
                    await self._begin()
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(_WORKERS, len(self._waiting))):
                        group.create_task(self._drain())
        except TimeoutError:
            left = len(self._waiting)
            self._waiting.clear()
            self._lose(left, f"the process ends, and {self._trouble}")
        self._tell()

    # Inside

    async def _begin(self) -> None:
        """Store what everything else relies on: the settings of a predecessor, and those of the first record.

        One after the other, and nothing beside them: the last record is all that the next process looks at. If a record
        of ours were stored and we were killed, nobody would tell again what had not been stored before it (FW-533).
        """
        if not self._looked_back:
            await self._finish_predecessor()
            self._looked_back = True
        while self._recorded < self._alone and self._waiting:
            await self._step()

    async def _finish_predecessor(self) -> None:
        """Put the settings behind the last record of the service that the log holds, if they are not there.

        Whoever wrote it was killed, else it would have done so itself. Ours come next, and would hide it.
        """
        for pause in _PAUSES:
            await self._connection.wait_connected()
            try:
                left = await _left_behind(self._connection, self._layout, self._service)
            except BusUnavailableError as error:
                self._trouble = str(error)
                await asyncio.sleep(pause)
                continue
            except BusApiError as error:
                if error.code != STREAM_NOT_FOUND:
                    _log.warning(
                        "settings cannot be recorded again; they may expire before the decisions made with them",
                        error=str(error),
                    )
                return
            if left is not None:
                self._put(_Record(left.subject, left.data, {}), first=True)
                self._alone += 1
            return
        _log.warning(
            "settings cannot be recorded again; they may expire before the decisions made with them",
            error=self._trouble,
        )

    def _take(self, record: _Record) -> None:
        self._put(record)
        while self._waiting_bytes > self._buffer:
            self._pop()
            self._lose(1, f"more than {self._buffer} bytes wait, because {self._trouble}")
        self._arrived.set()

    def _put(self, record: _Record, *, first: bool = False) -> None:
        self._waiting_bytes += len(record.body)
        if first:
            self._waiting.appendleft(record)
        else:
            self._waiting.append(record)

    def _pop(self) -> _Record:
        record = self._waiting.popleft()
        self._waiting_bytes -= len(record.body)
        return record

    async def _work(self) -> None:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            await self._step()

    async def _drain(self) -> None:
        while self._waiting:
            await self._step()

    async def _step(self) -> None:
        """Try to publish one record."""
        await self._connection.wait_connected()
        if not self._waiting:
            return
        record = self._pop()
        self._busy += 1
        # Should this be interrupted, what the last attempt failed for is the better reason.
        outcome: PublishOutcome = Unknown(self._trouble if self._failures else "it was under way")
        try:
            outcome = await self._connection.publish(record.subject, record.body, record.headers)
        finally:
            self._busy -= 1
            self._settle(record, outcome)
        if self._failures:
            await asyncio.sleep(_PAUSES[min(self._failures, len(_PAUSES)) - 1])

    def _settle(self, record: _Record, outcome: PublishOutcome) -> None:
        if isinstance(outcome, PubAck):
            self._recorded += 1
            self._failures = 0
        elif isinstance(outcome, Refused):
            self._lose(1, f"the broker refuses {record.subject}: {outcome.reason}")
        else:
            # No room, no answer, or interrupted: it may even be stored; its id makes repeating harmless.
            self._failures += 1
            self._trouble = outcome.reason if isinstance(outcome, Unknown) else str(outcome)
            self._put(record, first=True)

    def _lose(self, count: int, cause: str) -> None:
        self._lost += count
        if not self._untold:
            asyncio.get_running_loop().call_later(_TELL_AFTER, self._tell)
        self._untold += count
        self._cause = cause

    def _tell(self) -> None:
        if self._untold:
            _log.warning("decision records lost", count=self._untold, cause=self._cause)
            self._untold = 0


async def _left_behind(connection: BusConnection, layout: Layout, service: str) -> StoredMessage | None:
    """The settings of the last record of a service, where that lies behind them."""
    stream = layout.decisions_stream
    last = await last_message(connection, stream, layout.decisions(service))
    digest = "" if last is None else _settings_of(last.data)
    if last is None or not digest:
        return None
    settings = await last_message(connection, stream, layout.settings(service, digest))
    return settings if settings is not None and settings.sequence < last.sequence else None


def _settings_of(body: bytes) -> str:
    """Digest of the settings to which a record refers; empty if it names none."""
    try:
        return str(loads(body).get("settings") or "")
    except ValueError:
        return ""
