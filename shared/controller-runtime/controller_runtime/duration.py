"""Go-style durations such as `2h30m`, `1.5s` or `500ms` (MS-028, RT-131). Days are not a unit."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from controller_runtime.texts import quoted

NANOSECONDS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
UNSIGNED_PATTERN: Final = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(h|ms|us|µs|ns|m|s))+)$"
"""Pattern of the CRD schema for a duration without sign (CC-111)."""

_PART: Final = re.compile(r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<unit>ns|us|µs|μs|ms|s|m|h)")
_LARGEST: Final = (1 << 63) - 1
LONGEST_TEXT: Final = 64
"""Characters of a duration; more say nothing more, and the cost of reading digits grows with their square."""


class DurationError(ValueError):
    """A text that is no duration; the message quotes it."""


def parse_nanoseconds(text: str) -> int:
    """Length in nanoseconds; what is finer is cut off.

    Raises:
        DurationError: the text is no duration, or too long for 64 bits.
    """
    if len(text) > LONGEST_TEXT:
        raise DurationError(f"{quoted(text)} is too long; a duration has at most {LONGEST_TEXT} characters")
    negative, body = text.startswith("-"), text.removeprefix("-" if text.startswith("-") else "+")
    if body == "0":
        return 0
    total, position = 0, 0
    while position < len(body):
        match = _PART.match(body, position)
        if match is None or not (match["whole"] or match["fraction"]):
            break
        total += _nanoseconds(match["whole"], match["fraction"] or "", NANOSECONDS[match["unit"]])
        position = match.end()
    if not body or position < len(body):
        raise DurationError(f"{text!r} is not a duration; expected numbers with units, such as 2h30m or 500ms")
    if total > _LARGEST:
        raise DurationError(f"{text!r} is too long; the longest duration is about 292 years")
    return -total if negative else total


def _nanoseconds(whole: str, fraction: str, unit: int) -> int:
    return int(whole or 0) * unit + (int(fraction) * unit // 10 ** len(fraction) if fraction else 0)


def parse_seconds(text: str) -> float:
    """Length in seconds.

    Raises:
        DurationError: as `parse_nanoseconds`.
    """
    return parse_nanoseconds(text) / 1_000_000_000


def parse_timedelta(text: str) -> timedelta:
    """Length as a timedelta; what is finer than a microsecond is cut off.

    Raises:
        DurationError: as `parse_nanoseconds`.
    """
    nanoseconds = parse_nanoseconds(text)
    return timedelta(microseconds=abs(nanoseconds) // 1000) * (-1 if nanoseconds < 0 else 1)
