"""How far back a stream reaches: now, at the present pace, and after other limits. Pure."""

from collections import deque
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller_runtime.json import JsonObject
from controller_runtime.log.broker.reading import broker_clock, broker_time

_NANOSECONDS: Final = 1_000_000_000


_WINDOW: Final = timedelta(hours=1)
"""Over which the pace is taken; a burst of minutes tells nothing about a week."""


SHORTEST_WINDOW: Final = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Contents:
    """What a stream holds.

    Attributes:
        size: bytes, as the broker counts them.
        first, last: sequences; what the stream once held before the first is gone.
        oldest: the broker's time of the first message; ``None`` if there is none.
        now: the broker's clock.
    """

    messages: int
    size: int
    first: int
    last: int
    oldest: datetime | None
    now: datetime

    @classmethod
    def of(cls, info: JsonObject) -> "Contents":
        """Read an answer to ``STREAM.INFO``."""
        state = info["state"]
        messages = int(state["messages"])
        oldest = broker_time(state["first_ts"]) if messages else None
        return cls(
            messages,
            int(state["bytes"]),
            int(state["first_seq"]),
            int(state["last_seq"]),
            oldest,
            broker_clock(info),
        )

    @property
    def complete_since(self) -> datetime | None:
        """From when on everything is kept; ``None`` if nothing was ever dropped.

        The oldest messages go first, whatever they are about; so what came later is all there.
        """
        if self.first <= 1:
            return None
        return self.oldest or self.now


class Pace:
    """How fast a stream grows, from looks at it; nothing is said before they span ``shortest``."""

    def __init__(self, shortest: timedelta = SHORTEST_WINDOW) -> None:
        self._shortest = shortest
        # Looks come with every heartbeat; one a minute tells as much of an hour.
        self._spacing = shortest / 15
        self._looks: deque[tuple[datetime, int]] = deque()

    def observe(self, held: Contents) -> float | None:
        """Bytes per second over the last hour; ``None`` until that is known."""
        if self._looks and held.last < self._looks[-1][1]:
            # Sequences only fall when the stream was recreated; what was seen before was another one's.
            self._looks.clear()
        if not self._looks or held.now - self._looks[-1][0] >= self._spacing:
            self._looks.append((held.now, held.last))
        while held.now - self._looks[0][0] > _WINDOW:
            self._looks.popleft()
        begun, before = self._looks[0]
        if held.now - begun < self._shortest or not held.messages:
            return None
        # What was dropped meanwhile hides what came; sequences count both.
        return (held.last - before) / (held.now - begun).total_seconds() * held.size / held.messages


def shortfall(limits: JsonObject, pace: float | None) -> timedelta | None:
    """How far back a stream will reach at its pace, if size cuts it before age does; ``None`` if it does not."""
    size, age = int(limits["max_bytes"]), _age(limits)
    if size <= 0 or not age or pace is None or pace <= 0:
        return None
    reach = timedelta(seconds=size / pace)
    return reach if reach < age else None


def dropped_by(wanted: JsonObject, held: Contents) -> str | None:
    """What a stream loses when it gets other limits, in words; ``None`` if it loses nothing."""
    losses = []
    size, age = int(wanted["max_bytes"]), _age(wanted)
    if 0 < size < held.size:
        losses.append(f"the oldest {held.size - size} of {held.size} bytes")
    if age and held.oldest is not None and held.oldest < held.now - age:
        losses.append(f"everything from {held.oldest:%Y-%m-%d %H:%M} to {held.now - age:%Y-%m-%d %H:%M}")
    return " and ".join(losses) or None


def _age(limits: JsonObject) -> timedelta:
    return timedelta(seconds=int(limits["max_age"]) / _NANOSECONDS)
