"""When is what a cache holds fresh, and where should a part be fed from: decisions without I/O (FW-019, FW-401)."""

import time
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

_BOOT_CLOCK: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Source(StrEnum):
    """Where a part of a cache is fed from."""

    BUS = "bus"
    DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class FeedSettings:
    """Times, in seconds.

    Attributes:
        heartbeat: of the consumer; two and a half of them missed make a new one.
        checkpoint_lifetime: how long a sync checkpoint keeps a part fresh, three of its renewals (FW-019).
        start_grace: how long a connection may take at start before the API server is asked: "at once".
        outage_grace: how long the connection may be down.
        stale_grace: how long a part may be stale while the connection stands.
        catch_up: how long a first list from the API server's cache may lag behind what is known already.
        stream_check: how often the stream's identity is verified.
        retry: pause after a consumer could not be made; least time between two snapshots of everything.
        restage: least time between two snapshots of one part alone.
        watch_silence: how long the watch of a directly fed part may bring nothing, not even a bookmark (which come
            every minute), before the part is stale and a list is asked for.
    """

    heartbeat: float = 2.0
    checkpoint_lifetime: float = 30.0
    start_grace: float = 1.0
    outage_grace: float = 15.0
    stale_grace: float = 30.0
    catch_up: float = 10.0
    stream_check: float = 10.0
    retry: float = 0.5
    restage: float = 10.0
    watch_silence: float = 75.0


@dataclass(frozen=True, slots=True)
class Link:
    """The connection to the broker, as far as it matters here.

    Attributes:
        up: whether it stands.
        since: clock at which it came or went; at first, when the process started.
        ever: whether it ever stood.
    """

    up: bool
    since: float
    ever: bool


def boot_seconds() -> float:
    """A clock that never jumps and also counts while the machine sleeps."""
    return time.clock_gettime(_BOOT_CLOCK)


class BrokerClock:
    """The broker's clock, as seen from here.

    Every time that the broker tells was true before it arrived, so the highest difference ever seen is the best
    estimate, wrong by no more than one delivery.
    """

    def __init__(self) -> None:
        self._offset = float("-inf")

    def observe(self, reported: datetime, now: float) -> None:
        """Take a time that the broker just stated."""
        self._offset = max(self._offset, reported.timestamp() - now)

    def age(self, reported: datetime, now: float) -> float:
        """How many seconds ago, by the broker's clock, that time was."""
        return max(0.0, now + self._offset - reported.timestamp())

    def reset(self) -> None:
        """Forget: another server may answer with another clock."""
        self._offset = float("-inf")


def direct_at(link: Link, stale_since: float | None, settings: FeedSettings, *, foreign: bool = False) -> float | None:
    """When a part that the bus feeds should be fed directly; ``None`` while all is well.

    Args:
        stale_since: since when the part is not fresh; ``None`` if it is. A connection that comes and goes does not
            begin it again: only a part that is fresh does.
        foreign: another cluster publishes the part; there is nothing to wait for.
    """
    due = []
    if not link.up:
        due.append(link.since + (settings.outage_grace if link.ever else settings.start_grace))
    if stale_since is not None:
        due.append(stale_since + (settings.start_grace if foreign else settings.stale_grace))
    return min(due, default=None)
