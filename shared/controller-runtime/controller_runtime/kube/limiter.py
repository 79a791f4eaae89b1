"""The one bound on how many calls a process has in flight."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True)
class LimiterStatistics:
    """A moment of a limiter: its bound, calls in flight, calls that wait for a slot."""

    limit: int
    in_flight: int
    waiting: int


@final
class Limiter:
    """Admits a bounded number of calls at once, first come, first served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._slots = asyncio.Semaphore(limit)
        self._in_flight = 0
        self._waiting = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold one slot for the length of the block."""
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._slots.release()

    def statistics(self) -> LimiterStatistics:
        """Current numbers."""
        return LimiterStatistics(self._limit, self._in_flight, self._waiting)
