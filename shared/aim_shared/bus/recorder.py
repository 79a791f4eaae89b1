"""Publishes decision records without holding up the reconciles that made them.

Records explain; they decide nothing. So they wait in a bounded buffer, the oldest give way, and what is lost is
counted instead of awaited.
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from aim_shared.bus.connection import BusConnection
from aim_shared.bus.outcome import PubAck, Refused
from aim_shared.bus.part import Key
from aim_shared.bus.subjects import DEFAULT_LAYOUT, Layout

log = structlog.get_logger(__name__)

BUFFER: Final = 2000
"""Records that may wait."""

_ATTEMPTS: Final = 3
_WORKERS: Final = 8


@dataclass(frozen=True, slots=True)
class RecorderStatistics:
    """Counters for metrics.

    Attributes:
        lost: records that gave way, or that the broker did not confirm.
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
        self._connection = connection
        self._service = service
        self._layout = layout
        self._waiting: deque[_Record] = deque()
        self._buffer = buffer
        self._arrived = asyncio.Event()
        self._busy = 0
        self._recorded = 0
        self._lost = 0

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
        if len(self._waiting) >= self._buffer:
            self._waiting.popleft()
            self._lost += 1
        self._waiting.append(_Record(self._layout.decision(self._service, part, key), body, headers))
        self._arrived.set()

    def record_settings(self, digest: str, body: bytes) -> None:
        """Take the settings to which records refer by digest; counts like a record."""
        self._waiting.append(_Record(self._layout.settings(self._service, digest), body, {}))
        self._arrived.set()

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            await self._connection.wait_connected()
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            record = self._waiting.popleft()
            self._busy += 1
            try:
                await self._publish(record)
            finally:
                self._busy -= 1

    async def _publish(self, record: _Record) -> None:
        for _ in range(_ATTEMPTS):
            await self._connection.wait_connected()
            outcome = await self._connection.publish(record.subject, record.body, record.headers)
            if isinstance(outcome, PubAck):
                self._recorded += 1
                return
            if isinstance(outcome, Refused):
                break
        self._lost += 1
        log.warning("A decision record was lost", subject=record.subject, cause=str(outcome))
