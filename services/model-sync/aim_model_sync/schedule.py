"""When a source is synced (MS-028…MS-032, MS-243…MS-257).

Pure: what looks random is derived from the source, so that a replay decides the same.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from controller_runtime import DurationError, parse_seconds

DEFAULT_INTERVAL: Final = 3600.0
"""Seconds between syncs when nothing, or zero, is set (MS-020, MS-030)."""
SHORTEST_INTERVAL: Final = 1.0
"""Statuses know whole seconds, so nothing faster can be distinguished."""
RECOMMENDED_INTERVAL: Final = 900.0
"""Shorter intervals are honoured, but warned about (MS-032)."""
BACKOFF_FIRST: Final = 30.0
BACKOFF_MAX: Final = 900.0
BACKOFF_JITTER: Final = 0.1
PERIODIC_JITTER: Final = 0.1
PERIODIC_JITTER_MAX: Final = 60.0
OVERDUE_AFTER: Final = 60.0
"""A sync that late was not due while this service was running (MS-249)."""
OVERDUE_SPREAD: Final = 30.0
SECRET_CHECK_INTERVAL: Final = 60.0
"""Seconds between two looks at the pull secrets of a source that was refused (FW-096)."""
SECRET_DEBOUNCE: Final = 5.0
"""Seconds from noticing a changed Secret to the sync it causes (MS-247)."""
DEADLINE_MIN: Final = 60.0

_DIGEST_SPACE: Final = 1 << 64


class InvalidIntervalError(ValueError):
    """The interval is negative or no duration (MS-031)."""


@dataclass(frozen=True, slots=True)
class LastSync:
    """The sync that ended last.

    Attributes:
        attempts: consecutive syncs up to this one that left something to retry soon; 0 = it was clean.
        retry_after: seconds during which a registry does not want to be asked again.
    """

    finished: datetime
    generation: int
    attempts: int = 0
    retry_after: float | None = None


def interval_seconds(text: str) -> float:
    """The sync interval.

    Raises:
        InvalidIntervalError: quoting the text.
    """
    if not text:
        return DEFAULT_INTERVAL
    try:
        seconds = parse_seconds(text)
    except DurationError as error:
        raise InvalidIntervalError(f"spec.syncInterval: {error}; write for example 30m or 1h") from error
    if seconds < 0:
        raise InvalidIntervalError(f"spec.syncInterval {text!r} is negative; write for example 30m or 1h")
    return max(seconds, SHORTEST_INTERVAL) if seconds else DEFAULT_INTERVAL


def sync_deadline(limit: float, interval: float) -> float:
    """Seconds that one sync may take (MS-149)."""
    return max(min(limit, interval), DEADLINE_MIN)


def fraction(*seed: object) -> float:
    """A number from 0 to below 1 that is spread like a random one, but the same for the same seed."""
    digest = hashlib.sha256("|".join(map(str, seed)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / _DIGEST_SPACE


def next_sync(last: LastSync, interval: float, uid: str) -> datetime:
    """When the next sync of an unchanged spec is due (MS-244, MS-250, MS-254, MS-255, MS-257)."""
    share = fraction(uid, last.finished.isoformat())
    if last.attempts:
        return last.finished + timedelta(seconds=max(_backoff(last.attempts, interval, share), last.retry_after or 0.0))
    return last.finished + timedelta(seconds=interval + min(interval * PERIODIC_JITTER, PERIODIC_JITTER_MAX) * share)


def _backoff(attempts: int, interval: float, share: float) -> float:
    ceiling = min(interval, BACKOFF_MAX)
    # The exponent is bounded because powers of two outgrow floats long before a source outlives its outage.
    delay = min(BACKOFF_FIRST * 2.0 ** min(attempts - 1, 16), ceiling)
    return delay * (1 - BACKOFF_JITTER + 2 * BACKOFF_JITTER * share)


def start_of_overdue(due: datetime, now: datetime, uid: str) -> datetime | None:
    """When a sync that is due shall start: now (``None``), or spread out after a standstill (MS-249)."""
    if (now - due).total_seconds() <= OVERDUE_AFTER:
        return None
    return now + timedelta(seconds=OVERDUE_SPREAD * fraction(uid, due.isoformat()))
