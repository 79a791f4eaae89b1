"""Versions that wait to be published: in order per object, many objects at once, in bounded memory. No I/O."""

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from controller_runtime.bus.part import Key
from controller_runtime.bus.source import SourceVersion

MAX_WAITING: Final = 20_000
"""Versions that may wait; beyond, only the newest of each object is kept."""


@dataclass(slots=True)
class _Lane:
    waiting: deque[tuple[int, SourceVersion]] = field(default_factory=deque)
    busy: bool = False


class Lanes:
    """One queue per object. A version leaves its lane only when it is done, so nothing is lost in between."""

    def __init__(self, limit: int = MAX_WAITING, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._finished = 0
        self._finished_seconds = 0.0
        self._lanes: dict[Key, _Lane] = {}
        self._ready: OrderedDict[Key, None] = OrderedDict()
        self._open: dict[int, float] = {}
        self._tickets = 0
        self._dropped = 0
        self._forgotten = 0
        self._gaps: set[Key] = set()
        self._held = False

    def __len__(self) -> int:
        return len(self._open)

    def newest(self) -> dict[Key, SourceVersion]:
        """The last version under way of every object that has any."""
        return {key: lane.waiting[-1][1] for key, lane in self._lanes.items() if lane.waiting}

    def newest_of(self, key: Key) -> SourceVersion | None:
        """The last version under way of one object."""
        lane = self._lanes.get(key)
        return lane.waiting[-1][1] if lane is not None and lane.waiting else None

    def hold(self) -> None:
        """Give out nothing until `release`."""
        self._held = True

    def release(self) -> None:
        """Give out versions again."""
        self._held = False

    @property
    def dropped(self) -> int:
        """Versions that newer ones replaced before they were published."""
        return self._dropped

    @property
    def forgotten(self) -> int:
        """Objects that came and went without a trace, so that no version is left to tell that others are missing."""
        return self._forgotten

    def take_gap(self, key: Key) -> bool:
        """Whether versions of an object are missing before the one that is being worked on; that is forgotten here.

        Forgotten before the version is written and not after it, as versions behind it may be dropped meanwhile.
        """
        missing = key in self._gaps
        self._gaps.discard(key)
        return missing

    def note_gap(self, key: Key) -> None:
        """Versions are missing before the next one of an object: the one being worked on, or those before it."""
        self._gaps.add(key)

    @property
    def lag(self) -> float:
        """Seconds that the oldest version waits."""
        return next((self._clock() - since for since in self._open.values()), 0.0)

    @property
    def finished(self) -> tuple[int, float]:
        """Versions that were dealt with, and the seconds that they took from their arrival, in all."""
        return self._finished, self._finished_seconds

    @property
    def last_ticket(self) -> int:
        """Number of the latest version added."""
        return self._tickets

    def is_done(self, ticket: int) -> bool:
        """Whether every version up to that number is done."""
        return next(iter(self._open), ticket + 1) > ticket

    def add(self, version: SourceVersion, *, latest_only: bool = False) -> None:
        """Queue a version behind the object's earlier ones, or in their place."""
        lane = self._lanes.setdefault(version.key, _Lane())
        if latest_only or len(self._open) >= self._limit:
            self._shorten(lane, 1 if lane.busy else 0)
        self._tickets += 1
        self._open[self._tickets] = self._clock()
        lane.waiting.append((self._tickets, version))
        if not lane.busy:
            self._ready[version.key] = None

    def forget(self, key: Key) -> bool:
        """Drop an object's versions and the deletion that would follow them, as if it had never been.

        Returns whether it did; not so while one of them is being worked on.
        """
        lane = self._lanes.get(key)
        if lane is not None and lane.busy:
            return False
        if lane is not None:
            self._shorten(lane, 0)
            del self._lanes[key]
            self._ready.pop(key, None)
        self._dropped += 1
        self._forgotten += 1
        self._gaps.discard(key)
        return True

    def take(self) -> SourceVersion | None:
        """The next version to work on; its object is busy until `finish`."""
        while self._ready and not self._held:
            lane = self._lanes.get(self._ready.popitem(last=False)[0])
            if lane is not None and lane.waiting and not lane.busy:
                lane.busy = True
                return lane.waiting[0][1]
        return None

    def finish(self, key: Key) -> None:
        """The version taken is done."""
        lane = self._lanes[key]
        ticket, _ = lane.waiting.popleft()
        self._finished += 1
        self._finished_seconds += self._clock() - self._open.pop(ticket)
        lane.busy = False
        if lane.waiting:
            self._ready[key] = None
        else:
            del self._lanes[key]

    def put_back(self) -> None:
        """Nothing is being worked on any more; what was begun will be begun again."""
        for lane in self._lanes.values():
            lane.busy = False
        self._ready = OrderedDict.fromkeys(self._lanes)

    def collapse(self) -> None:
        """Keep only the newest version of every object."""
        for lane in self._lanes.values():
            self._shorten(lane, 0, keep_last=1)

    def _shorten(self, lane: _Lane, first: int, *, keep_last: int = 0) -> None:
        while len(lane.waiting) > first + keep_last:
            if first:
                # The one being worked on stays; what goes is what waits behind it.
                ticket, version = lane.waiting.pop()
            else:
                ticket, version = lane.waiting.popleft()
            del self._open[ticket]
            self._dropped += 1
            self._gaps.add(version.key)
