"""When a failed pass is tried again: per object by backoff, over all of a namespace by a token bucket (FW-098)."""

from typing import Final

from controller_runtime.backoff import Backoff

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
