"""Kubernetes' CEL extension functions that the engine lacks, bridged to Python."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final
from urllib.parse import parse_qs, urlsplit

from aim_local.apiserver.objects.patterns import go_pattern
from aim_local.apiserver.objects.values import JsonValue


def _is_url(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and (parts.netloc or parts.path.startswith("/"))) or text.startswith("/")


def _url(text: str) -> str:
    if not _is_url(text):
        raise ValueError(f"URL parse error during conversion from string: {text}")
    return text


def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= stop <= len(text):
        raise ValueError(f"index out of range: {start}")
    return text[start:stop]


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, limit)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    pieces = limit - 1 if limit > 0 else -1
    return text.split(separator, pieces) if separator else list(text)


def _index_of(within: JsonValue, part: JsonValue, start: int = 0) -> int:
    if isinstance(within, str):
        return within.find(part, start)
    return within.index(part) if part in within else -1


def _last_index_of(within: JsonValue, part: JsonValue) -> int:
    if isinstance(within, str):
        return within.rfind(part)
    return max((index for index, item in enumerate(within) if item == part), default=-1)


def _find(text: str, pattern: str) -> str:
    found = go_pattern(pattern).search(text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group() for match in re.finditer(go_pattern(pattern), text)]
    return found if limit < 0 else found[:limit]


def _ascii(change: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: "".join(change(char) if char.isascii() else char for char in text)


def _is_sorted(items: Sequence[JsonValue]) -> bool:
    return all(left <= right for left, right in pairwise(items))


FUNCTIONS: Final[dict[str, Callable[..., object]]] = {
    "charAt": lambda text, index: text[index : index + 1],
    "find": _find,
    "findAll": _find_all,
    "getEscapedPath": lambda url: urlsplit(url).path,
    "getHost": lambda url: urlsplit(url).netloc.rpartition("@")[2],
    "getHostname": lambda url: urlsplit(url).hostname or "",
    "getPort": lambda url: str(urlsplit(url).port or ""),
    "getQuery": lambda url: parse_qs(urlsplit(url).query, keep_blank_values=True),
    "getScheme": lambda url: urlsplit(url).scheme,
    "indexOf": _index_of,
    "isSorted": _is_sorted,
    "isURL": _is_url,
    "join": lambda items, separator="": separator.join(items),
    "lastIndexOf": _last_index_of,
    "lowerAscii": _ascii(str.lower),
    "replace": _replace,
    "split": _split,
    "substring": _substring,
    "sum": sum,
    "trim": str.strip,
    "upperAscii": _ascii(str.upper),
    "url": _url,
}
"""By name; for a method call the receiver is the first argument."""

NATIVE: Final = frozenset(
    {
        "bool", "bytes", "contains", "double", "duration", "dyn", "endsWith", "getDate", "getDayOfMonth",
        "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth",
        "getSeconds", "int", "matches", "max", "min", "size", "startsWith", "string", "timestamp", "type", "uint",
    }
)  # fmt: skip
"""Functions of the engine itself; its macros are no functions."""

VARIABLES: Final = frozenset(
    {"self", "oldSelf", "bool", "bytes", "double", "int", "list", "map", "null_type", "string", "type", "uint"}
)
"""What a rule may name: the two values, and the types."""
