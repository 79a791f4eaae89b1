"""Moments, as people name them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from aim_cli.errors import TargetError

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
        told = repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
        raise TargetError(f"{told} is no time; write 2026-11-23T14:05:00Z, or 10m for ten minutes ago") from None
