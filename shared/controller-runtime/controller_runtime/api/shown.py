"""Quoting what users wrote."""

from typing import Final

_MOST: Final = 80


def shown(text: str) -> str:
    """The text in quotes, as a message can bear it: an overlong one by its beginning and its length."""
    return repr(text) if len(text) <= _MOST else f"{text[:_MOST]!r}… ({len(text)} characters)"
