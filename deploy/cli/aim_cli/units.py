"""Sizes, ages and moments, as people write and read them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from aim_cli.errors import TargetError
from controller_runtime import quantity

_AGO: Final = re.compile(r"(\d+)([smhd])")
_LONGEST: Final = 60
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def moment(text: str, now: datetime) -> datetime:
    """A time with or without a zone (then UTC), or how long ago, as ``10m`` or ``2h``; in UTC.

    Raises:
        TargetError: it is neither.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        if ago is not None:
            return now - timedelta(seconds=int(ago[1]) * _SECONDS[ago[2]])
        found = datetime.fromisoformat(text.strip())
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        reported = repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
        raise TargetError(f"{reported} is no time; write 2026-11-23T14:05:00Z, or 10m for ten minutes ago") from None


_POWERS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_STEP: Final = 1024
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def bytes_of(text: object) -> int:
    """Bytes of a quantity; 0 of what is none."""
    parsed = quantity.parse_or_none(text if isinstance(text, int | str) else None)
    return 0 if parsed is None else parsed.ceiling


def format_size(size: float) -> str:
    """Bytes with a binary prefix."""
    power = 0
    while size >= _STEP and power < len(_POWERS) - 1:
        size, power = size / _STEP, power + 1
    return f"{size:.1f}".removesuffix(".0") + _POWERS[power]


def age(since: str, now: datetime) -> str:
    """How long ago, in the largest unit; empty of nothing."""
    if not since:
        return ""
    moment = datetime.fromisoformat(since)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = max(0, int((now - moment).total_seconds()))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size}{unit}"
