"""Small readings of decoded objects: values at a path, times, ages."""

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "<unknown>"
"""What a Table shows for a time that is not known."""


def dig(obj: object, path: str) -> object:
    """The value at a dotted path, None if absent."""
    for step in path.split("."):
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def timestamp(now: float) -> str:
    """RFC 3339 in whole seconds, as metav1.Time is written."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def age(timestamp: object, now: float) -> str:
    """The time since an RFC 3339 timestamp as kubectl words it (`5s`, `3m20s`, `4h`, `12d`)."""
    if not isinstance(timestamp, str):
        return UNKNOWN
    try:
        seconds = int(now - datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return UNKNOWN
    return duration(max(seconds, 0))


def duration(seconds: int) -> str:
    """A duration with at most two units."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    return f"{days}d{hours % 24}h" if days < 8 and hours % 24 else f"{days}d"
