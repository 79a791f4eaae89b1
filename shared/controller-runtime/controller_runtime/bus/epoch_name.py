"""Names of epochs: a time and a nonce, so that they sort by age."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_NAME: Final = re.compile(r"(?!9)[0-9]{8}T[0-9]{6}\.[0-9]{3}Z-[0-9a-f]{6}")
"""The last thousand years are left out because something must be able to come after any epoch."""
_TIME: Final = "%Y%m%dT%H%M%S.%fZ"


def epoch_name(begun: datetime, nonce: str) -> str:
    """The name of an epoch, to the millisecond.

    Args:
        nonce: six hexadecimal digits, which tell two apart that begin in the same millisecond.
    """
    begun = begun.astimezone(UTC)
    return f"{begun:%Y%m%dT%H%M%S}.{begun.microsecond // 1000:03d}Z-{nonce}"


@lru_cache(maxsize=64)
def epoch_time(name: str) -> datetime:
    """When an epoch began, by the clock of its broker.

    Raises:
        ValueError: no publisher of ours gives such a name.
    """
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} names no epoch")
    return datetime.strptime(name.partition("-")[0], _TIME).replace(tzinfo=UTC)
