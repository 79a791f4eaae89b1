"""When a failed pass is tried again: per object by backoff, over all of a namespace by a token bucket (FW-098)."""

import asyncio
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from operator import add
from typing import Final, Generic, Protocol, TypeVar

from controller_runtime.backoff import Backoff
from controller_runtime.fair import Turns

DEFAULT_BACKOFF: Final = Backoff(base=0.2, cap=1000.0, jitter=0.1)
"""Of one object."""


class TokenBucket:
    """Lets ``burst`` through at once and ``rate`` per second afterwards."""

    def __init__(self, rate: float = 10.0, burst: int = 100) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at: float | None = None

    def is_full(self, now: float) -> bool:
        """Whether all tokens are there again."""
        return self._at is None or self._tokens + (now - self._at) * self._rate >= self._burst

    def reserve(self, now: float) -> float:
        """Take a token, in advance if need be; returns the seconds until it is earned."""
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)


K = TypeVar("K")

_HURRY_SECONDS: Final = 1.0
"""Over which what is tried again early is spread."""
_NEVER: Final = float("inf")
_LANES: Final = 1000
"""Buckets above which the full ones are dropped: they say nothing that a new one would not."""


class Priority(IntEnum):
    """Smaller goes first."""

    USER = 0
    """The object itself was changed, or a retry of it."""
    DEPENDENCY = 1
    """Something it depends on was changed."""
    RESYNC = 2
    """Nothing is known to have changed."""


class TimerHandle(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Time and timers; every asyncio event loop is one."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle: ...


@dataclass(frozen=True, slots=True)
class TakenKey(Generic[K]):
    """A key in the hands of a worker.

    Attributes:
        waited: seconds between becoming ready and being taken.
        attempt: consecutive failures so far.
    """

    key: K
    priority: Priority
    waited: float
    attempt: int


DURATIONS: Final = tuple(float(f"1e{power}") for power in range(-8, 4))
"""Bounds of waits and passes in seconds, those of controller-runtime, whose dashboards draw quantiles of them."""


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """State now and sums since start, for metrics (FW-284)."""

    depth: int
    processing: int
    delayed: int
    adds: int
    retries: int
    taken: int
    queue_seconds: float
    work_seconds: float
    unfinished_seconds: float
    longest_running_seconds: float
    oldest_seconds: float
    """Age of the key that has waited longest."""
    waits: tuple[int, ...] = ()
    """How many waits were as long as each of `DURATIONS` and longer than the one before; last those beyond."""
    works: tuple[int, ...] = ()
    """The same of passes."""

    def together(self, other: "QueueStatistics") -> "QueueStatistics":
        """Those of two shards."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        return QueueStatistics(
            **sums,
            longest_running_seconds=max(self.longest_running_seconds, other.longest_running_seconds),
            oldest_seconds=max(self.oldest_seconds, other.oldest_seconds),
            waits=tuple(map(add, self.waits, other.waits)),
            works=tuple(map(add, self.works, other.works)),
        )


_SUMS: Final = (
    "depth", "processing", "delayed", "adds", "retries", "taken", "queue_seconds", "work_seconds", "unfinished_seconds",
)  # fmt: skip


@dataclass(slots=True)
class _Waiting:
    """A dirty key."""

    priority: Priority
    since: float


@dataclass(slots=True)
class _Timer(Generic[K]):
    """The earliest of a key's timers; a later one would bring nothing new."""

    when: float
    handle: TimerHandle
    priority: Priority
    hurried: bool = False
    """Whether its turn in the token bucket is taken already."""


class QueueClosedError(Exception):
    """The queue was shut down; there is no more work."""


@dataclass(slots=True)
class _Sums:
    adds: int = 0
    retries: int = 0
    taken: int = 0
    queue_seconds: float = 0.0
    work_seconds: float = 0.0
    waits: list[int] = field(default_factory=lambda: [0] * (len(DURATIONS) + 1))
    works: list[int] = field(default_factory=lambda: [0] * (len(DURATIONS) + 1))


@dataclass(slots=True)
class _Ready(Generic[K]):
    """The dirty keys. Entries of those that were promoted or forgotten stay and are skipped.

    What a user did goes before what a dependency did within a lane only: one who changes 10,000 objects must not keep
    another one's waiting for what has become of its children. That nothing is known to have changed comes after both.
    """

    lane: Callable[[K], Hashable]
    changed: Turns[tuple[Priority, K]] = field(default_factory=Turns)
    resync: Turns[tuple[Priority, K]] = field(default_factory=Turns)

    def push(self, priority: Priority, key: K) -> None:
        waiting = self.resync if priority is Priority.RESYNC else self.changed
        waiting.add(self.lane(key), (priority, key), priority)

    def take(self, counts: Callable[[tuple[Priority, K]], bool]) -> K | None:
        found = self.changed.take(counts) or self.resync.take(counts)
        return None if found is None else found[1]


class WorkQueue(Generic[K]):
    """See the module. All calls come from one event loop; only `get` waits."""

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        backoff: Backoff = DEFAULT_BACKOFF,
        rate: Callable[[], TokenBucket] = TokenBucket,
        randomness: random.Random | None = None,
        lane: Callable[[K], Hashable] = lambda _key: "",
    ) -> None:
        """The clock is by default that of the running loop.

        Args:
            rate: of the retries of each lane.
            lane: whose key it is. Lanes take turns, and none waits for the retries of another (FW-595).
        """
        self._clock: Clock = clock or asyncio.get_running_loop()
        self._backoff = backoff
        self._rates: defaultdict[Hashable, TokenBucket] = defaultdict(rate)
        self._random = randomness or random.Random()
        self._dirty: dict[K, _Waiting] = {}
        self._processing: dict[K, float] = {}
        self._timers: dict[K, _Timer[K]] = {}
        self._failures: dict[K, int] = {}
        self._held: dict[K, float] = {}
        self._lane = lane
        self._ready: _Ready[K] = _Ready(lane)
        self._wakeup = asyncio.Event()
        self._sums = _Sums()
        self._closed = False

    def add(self, key: K, priority: Priority = Priority.USER) -> None:
        """Ask for a pass as soon as possible; an earlier request for the same key is joined."""
        if self._closed or self._hold_back(key, priority):
            return
        self._sums.adds += 1
        waiting = self._dirty.get(key)
        if waiting is None:
            self._dirty[key] = _Waiting(priority, self._clock.time())
        elif priority < waiting.priority:
            waiting.priority = priority
        else:
            return
        if key not in self._processing:
            self._ready.push(priority, key)
            self._wakeup.set()

    def add_after(self, key: K, delay: float, priority: Priority = Priority.DEPENDENCY) -> None:
        """Ask for a pass in ``delay`` seconds, unless one begins before; of several timers the earliest counts."""
        if delay <= 0:
            self.add(key, priority)
            return
        when = self._clock.time() + delay
        timer = self._timers.get(key)
        if self._closed or (timer is not None and timer.when <= when):
            return
        if timer is not None:
            timer.handle.cancel()
        handle = self._clock.call_at(when, lambda: self._fire(key))
        self._timers[key] = _Timer(when, handle, priority)

    def retry(
        self, key: K, *, within: float | None = None, at_least: float | None = None, most: float | None = None
    ) -> float:
        """Ask for a pass after the key's backoff (FW-098); returns the delay in seconds.

        Args:
            within: upper bound of the delay (FW-068).
            at_least: no pass before, regardless of who asks for one: a server demanded it. At most the longest backoff.
            most: longest backoff of this failure; the rate of the lane counts beyond it.
        """
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self._sums.retries += 1
        backoff = min(self._backoff.delay(failures + 1, self._random), _NEVER if most is None else most)
        delay = max(backoff, self._reserve(key))
        delay = min(delay, _NEVER if within is None else within)
        if at_least is not None:
            hold = min(at_least, self._backoff.cap)
            delay = max(delay, hold)
            self._held[key] = self._clock.time() + hold
            waiting = self._dirty.pop(key, None)
            if waiting is not None:
                self.add(key, waiting.priority)
        self.add_after(key, delay, Priority.USER)
        return delay

    def hurry(self, key: K) -> None:
        """Ask for a pass of a key whose last one, or the one under way, lacked what is there now (FW-484).

        What failed has its turn in the token bucket, because what is back just now is what many failed for; its
        failures go on counting, and who asked for patience gets it.
        """
        if key in self._processing or key not in self._failures:
            self.add(key, Priority.DEPENDENCY)
            return
        now, timer = self._clock.time(), self._timers.get(key)
        if timer is None or timer.hurried or timer.when <= now + _HURRY_SECONDS or self._held.get(key, now) > now:
            return
        self.add_after(key, max(self._random.uniform(0, _HURRY_SECONDS), self._reserve(key)), Priority.USER)
        self._timers[key].hurried = True

    def succeeded(self, key: K) -> None:
        """Reset the key's backoff for its next failure."""
        self._failures.pop(key, None)

    def forget(self, key: K) -> None:
        """Drop timers, failures and requests of a key whose object is gone; a worker that has it finishes."""
        self._failures.pop(key, None)
        self._held.pop(key, None)
        self._dirty.pop(key, None)
        self._cancel_timer(key)

    async def get(self) -> TakenKey[K]:
        """Wait for the most urgent key.

        Raises:
            QueueClosedError: after `close`.
        """
        while not self._closed:
            taken = self._take()
            if taken is not None:
                return taken
            self._wakeup.clear()
            await self._wakeup.wait()
        raise QueueClosedError

    def done(self, key: K) -> None:
        """Give back a key; if it was added meanwhile, it is ready again."""
        started = self._processing.pop(key)
        worked = self._clock.time() - started
        self._sums.work_seconds += worked
        self._sums.works[bisect_left(DURATIONS, worked)] += 1
        waiting = self._dirty.get(key)
        if waiting is not None:
            self._ready.push(waiting.priority, key)
            self._wakeup.set()

    def close(self) -> None:
        """End all `get` calls and timers."""
        self._closed = True
        for timer in self._timers.values():
            timer.handle.cancel()
        self._timers.clear()
        self._wakeup.set()

    @property
    def statistics(self) -> QueueStatistics:
        now = self._clock.time()
        running = [now - started for started in self._processing.values()]
        return QueueStatistics(
            depth=len(self._dirty),
            processing=len(running),
            delayed=len(self._timers),
            adds=self._sums.adds,
            retries=self._sums.retries,
            taken=self._sums.taken,
            queue_seconds=self._sums.queue_seconds,
            work_seconds=self._sums.work_seconds,
            unfinished_seconds=sum(running),
            longest_running_seconds=max(running, default=0.0),
            # Keys are added where they begin to wait, so the first waits longest.
            oldest_seconds=next((now - waiting.since for waiting in self._dirty.values()), 0.0),
            waits=tuple(self._sums.waits),
            works=tuple(self._sums.works),
        )

    def _reserve(self, key: K) -> float:
        """Seconds until the retries of the key's lane let another one through."""
        now = self._clock.time()
        if len(self._rates) > _LANES:
            busy = ((lane, bucket) for lane, bucket in self._rates.items() if not bucket.is_full(now))
            self._rates = defaultdict(self._rates.default_factory, busy)
        return self._rates[self._lane(key)].reserve(now)

    def _hold_back(self, key: K, priority: Priority) -> bool:
        """Whether it is too early for a pass of the key; its turn comes by a timer then."""
        until = self._held.get(key)
        if until is None:
            return False
        now = self._clock.time()
        if until <= now:
            del self._held[key]
            return False
        self.add_after(key, until - now, priority)
        return True

    def _take(self) -> TakenKey[K] | None:
        key = self._ready.take(self._is_ready)
        if key is None:
            return None
        waiting = self._dirty.pop(key)
        # The pass that begins decides when to look again (FW-097).
        self._cancel_timer(key)
        now = self._clock.time()
        self._processing[key] = now
        self._sums.taken += 1
        self._sums.queue_seconds += now - waiting.since
        self._sums.waits[bisect_left(DURATIONS, now - waiting.since)] += 1
        return TakenKey(key, waiting.priority, now - waiting.since, self._failures.get(key, 0))

    def _is_ready(self, entry: tuple[Priority, K]) -> bool:
        priority, key = entry
        waiting = self._dirty.get(key)
        return waiting is not None and key not in self._processing and waiting.priority is priority

    def _cancel_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.handle.cancel()

    def _fire(self, key: K) -> None:
        timer = self._timers.pop(key)
        self.add(key, timer.priority)
