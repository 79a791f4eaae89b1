"""When a failed pass is tried again: per object by backoff, over all objects by a token bucket (FW-098)."""

import random
from dataclasses import dataclass
from typing import Final

_MAX_EXPONENT: Final = 40


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff of one object, in seconds.

    Attributes:
        jitter: share by which a delay varies up and down.
    """

    initial: float = 0.2
    maximum: float = 1000.0
    jitter: float = 0.1

    def delay(self, failures: int, randomness: random.Random) -> float:
        """Delay after that many earlier failures."""
        exact = min(self.initial * 2.0 ** min(failures, _MAX_EXPONENT), self.maximum)
        return exact * randomness.uniform(1 - self.jitter, 1 + self.jitter)


class TokenBucket:
    """Lets ``burst`` through at once and ``rate`` per second afterwards."""

    def __init__(self, rate: float = 10.0, burst: int = 100) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at: float | None = None

    def reserve(self, now: float) -> float:
        """Take a token, in advance if need be; returns the seconds until it is earned."""
        if self._at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)
