"""The headers of a message, read and measured: a start reads tens of thousands of messages, each with fifteen."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

_FRAME: Final = len("NATS/1.0\r\n\r\n")
_LINE_FRAME: Final = len(": \r\n")
_BLANK: Final = " \t\n\r\v\f"


def parse_headers(raw: bytes) -> dict[str, str]:
    """Read lines of ``Name: Value``; of a repeated name the last, and nothing of a line that is none."""
    found: dict[str, str] = {}
    for line in raw.decode("utf-8", "replace").split("\r\n"):
        before, colon, after = line.partition(":")
        if colon and (name := _name(before)) is not None:
            found[name] = after.strip(_BLANK)
    return found


@lru_cache(maxsize=64)
def _name(text: str) -> str | None:
    """The name that a line begins with; ``None`` if it is none. All messages have the same few."""
    name = text.strip(_BLANK)
    return None if not name.isascii() or any(map(str.isspace, name)) else name


def encoded_size(headers: Mapping[str, str]) -> int:
    """Bytes that headers take in a message, as the broker counts them."""
    text = "".join((*headers, *headers.values()))
    size = len(text) if text.isascii() else len(text.encode())
    return _FRAME + size + _LINE_FRAME * len(headers)
