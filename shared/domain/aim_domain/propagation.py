"""Which labels of a parent its children get (RC-090…RC-098)."""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from aim_domain import labels
from aim_domain.api.runtime_config import LabelPropagation

_CLASS: Final = re.compile(r"\[(\^?)((?:\\.|[^\]\\])+)\]")


def propagated_labels(parent: Mapping[str, str], settings: LabelPropagation | None) -> dict[str, str]:
    """Labels to put on a child, sorted by key; keys that the builder sets itself win over them (RC-093, FW-220)."""
    patterns = settings.match if settings is not None and settings.enabled else ()
    return {key: value for key, value in sorted(parent.items()) if is_propagated(key, patterns)}


def is_propagated(key: str, patterns: Iterable[str]) -> bool:
    """Whether a key is one of our own, or matches a pattern."""
    return key.startswith(labels.PREFIX) or any(matches(pattern, key) for pattern in patterns)


def matches(pattern: str, key: str) -> bool:
    """Whether a pattern matches the complete key; an invalid pattern matches nothing (RC-095, RC-098)."""
    compiled = compile_pattern(pattern)
    return compiled is not None and compiled.fullmatch(key) is not None


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str] | None:
    """The pattern as a regular expression, ``None`` when it is invalid (RC-072 reports it)."""
    parts: list[str] = []
    position = 0
    while position < len(pattern):
        part, length = _next(pattern, position)
        if part is None:
            return None
        parts.append(part)
        position += length
    try:
        return re.compile("".join(parts))
    except re.error:
        return None


def _next(pattern: str, position: int) -> tuple[str | None, int]:
    character = pattern[position]
    if character == "*":
        return "[^/]*", 1
    if character == "?":
        return "[^/]", 1
    if character == "\\":
        escaped = pattern[position + 1 : position + 2]
        return (re.escape(escaped), 2) if escaped else (None, 1)
    if character == "[":
        found = _CLASS.match(pattern, position)
        return (f"[{found[1]}{found[2]}]", found.end() - position) if found else (None, 1)
    return re.escape(character), 1
