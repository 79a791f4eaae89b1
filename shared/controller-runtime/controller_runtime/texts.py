"""Texts of others: how long they may be, and how they are quoted."""

from typing import Final


def shortened(text: str, most: int) -> str:
    """A text of at most that many characters, and how many more there were."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


_MOST: Final = 80


def quoted(text: str) -> str:
    """The text in quotes, as a message can bear it: an overlong one by its beginning and its length."""
    return repr(text) if len(text) <= _MOST else f"{text[:_MOST]!r}… ({len(text)} characters)"
