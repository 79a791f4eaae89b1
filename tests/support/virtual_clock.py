"""A clock that a test moves by hand."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count


@dataclass
class _Timer:
    callback: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class VirtualClock:
    """Time in seconds; `advance` runs the timers that become due, in order."""

    now: float = 0.0
    _timers: list[tuple[float, int, _Timer]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=count)

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], object], /) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self._timers and self._timers[0][0] <= end:
            self.now, _, timer = heapq.heappop(self._timers)
            if not timer.cancelled:
                timer.callback()
        self.now = end
