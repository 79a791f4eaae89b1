"""Turns among those who share something: each of them waits for the others' next one, not for all of theirs (FW-595).

A namespace that brings 10,000 objects at once waits for them itself; one that brings a single object waits for at most
one of each other namespace.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from itertools import count
from typing import Generic, TypeVar, final

T = TypeVar("T")


@final
class Turns(Generic[T]):
    """What waits, by lane; lanes take turns, within a lane goes the smallest rank, and of that who came first."""

    def __init__(self) -> None:
        # Only lanes in which something waits, in the order of their turns.
        self._lanes: dict[Hashable, list[tuple[int, int, T]]] = {}
        self._order = count()

    def add(self, lane: Hashable, item: T, rank: int = 0) -> None:
        """Let something wait; a lane in which nothing waited has its turn after all others."""
        heapq.heappush(self._lanes.setdefault(lane, []), (rank, next(self._order), item))

    def take(self, counts: Callable[[T], bool]) -> T | None:
        """The next one that counts; what does not is dropped, and costs its lane no turn."""
        while self._lanes:
            lane = next(iter(self._lanes))
            waiting = self._lanes.pop(lane)
            while waiting:
                _, _, item = heapq.heappop(waiting)
                if counts(item):
                    if waiting:
                        # Back to the end of the order.
                        self._lanes[lane] = waiting
                    return item
        return None


@final
class FairSlots:
    """A bound on what is done at once, for which lanes take turns."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: Turns[asyncio.Future[None]] = Turns()

    @asynccontextmanager
    async def slot(self, lane: Hashable) -> AsyncIterator[None]:
        """Hold one slot for the length of the block."""
        await self._acquire(lane)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, lane: Hashable) -> None:
        # A slot is free only while no task waits: a task that releases one hands it on.
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(lane, turn)
        try:
            await turn
        except asyncio.CancelledError:
            # Cancelled in the moment in which it was handed a slot: the next one gets that.
            if turn.done() and not turn.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        following = self._waiting.take(lambda turn: not turn.done())
        if following is None:
            self._free += 1
        else:
            following.set_result(None)
