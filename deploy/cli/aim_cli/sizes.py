"""Sizes and ages, as people read them."""

from datetime import UTC, datetime
from typing import Final

from controller_runtime import quantity

_POWERS: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi")
_STEP: Final = 1024
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def bytes_of(text: object) -> int:
    """Bytes of a quantity; 0 of what is none."""
    parsed = quantity.parse_or_none(text if isinstance(text, int | str) else None)
    return 0 if parsed is None else parsed.ceiling


def told_size(size: float) -> str:
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
