"""How much strangers and viewers may ask for (FW-680, FW-682). Pure; clocks are given."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

OF_AN_ADDRESS: Final = (5, 2.0)
OF_ALL: Final = (20, 0.2)
"""Refusals at once, and seconds for each after these."""
_ADDRESSES: Final = 1024
STREAMS: Final = (8, 500)
"""Of a viewer, and in all."""
READINGS: Final = (2, 4)
"""Pages that are made from the log at once, of a viewer, and in all: each may be much work for the one thread."""


@dataclass(slots=True)
class Bucket:
    """So many at once, then one every so many seconds.

    Attributes:
        full_at: when it will hold as many as it can again, if nothing is taken.
    """

    burst: int
    seconds: float
    full_at: float = 0.0

    def wait(self, now: float) -> float:
        """Seconds until there is one to take; 0 = there is."""
        return max(0.0, self.full_at - now - (self.burst - 1) * self.seconds)

    def take(self, now: float) -> None:
        """Take one, also of what is not there yet."""
        self.full_at = max(self.full_at, now) + self.seconds


@dataclass(slots=True)
class Refusals:
    """Counts tokens that nobody knew, by the address that they came from and in all."""

    clock: Callable[[], float] = time.monotonic
    _all: Bucket = field(default_factory=lambda: Bucket(*OF_ALL))
    _of: OrderedDict[str, Bucket] = field(default_factory=OrderedDict)

    def wait(self, address: str) -> float:
        """Seconds until an unknown token from there may be asked about; 0 = now."""
        now, own = self.clock(), self._of.get(address)
        return max(self._all.wait(now), 0.0 if own is None else own.wait(now))

    def add(self, address: str) -> None:
        """One was refused."""
        now = self.clock()
        self._all.take(now)
        self._of.setdefault(address, Bucket(*OF_AN_ADDRESS)).take(now)
        self._of.move_to_end(address)
        while len(self._of) > _ADDRESSES:
            self._of.popitem(last=False)


@dataclass(slots=True)
class Places:
    """What is under way, by whose it is."""

    of_a_viewer: int
    in_all: int
    _taken: Counter[Hashable] = field(default_factory=Counter)

    def take(self, who: Hashable) -> bool:
        """Take a place; whether there was one."""
        if self._taken[who] >= self.of_a_viewer or self._taken.total() >= self.in_all:
            return False
        self._taken[who] += 1
        return True

    def leave(self, who: Hashable) -> None:
        """Give it back."""
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]
