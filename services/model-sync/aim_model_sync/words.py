"""Messages of conditions: bounded lists of what failed and why (MS-279…MS-282)."""

from collections.abc import Iterable, Sequence
from typing import Final

from aim_model_sync.outcome import SelectorOutcome, SyncOutcome

MAX_SELECTORS: Final = 10
MAX_MESSAGE: Final = 4000
"""Characters; below the 4096 of MS-280 with room for what the caller adds."""
_MAX_CAUSE: Final = 256
_MAX_NAMES: Final = 5


def selector_details(outcome: SyncOutcome) -> str:
    """The selectors that did not succeed, by index: text as written, code and cause."""
    failing = [(index, one) for index, one in enumerate(outcome.selectors) if one.code is not None]
    told = [selector_detail(index, one) for index, one in failing[:MAX_SELECTORS]]
    more = len(failing) - len(told)
    rest = ", ".join(f"[{index}] {one.text.strip()}" for index, one in failing[MAX_SELECTORS:])
    return shortened("; ".join([*told, *([f"and {more} more: {rest}"] if more else [])]))


def selector_detail(index: int, one: SelectorOutcome) -> str:
    """A selector that did not succeed: index, text as written, code and cause (MS-279)."""
    assert one.code is not None
    return f"[{index}] {one.text.strip()}: {one.code.value}: {shortened(one.message, _MAX_CAUSE)}"


def shortened(text: str, limit: int = MAX_MESSAGE) -> str:
    """The text, cut at the limit with a mark."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def some(names: Iterable[str], limit: int = _MAX_NAMES) -> str:
    """The first names and how many more there are (MS-281)."""
    listed: Sequence[str] = list(names)
    more = len(listed) - limit
    shown = ", ".join(listed[:limit])
    return f"{shown} and {more} more" if more > 0 else shown


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
