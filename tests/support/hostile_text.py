"""Text that readers may take long for, as large as the schema of a field lets it be."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from support.bad_values import METADATA, Field, fields, plain

from aim_domain.bounds import MAX_ENTRIES, MAX_STRING
from controller_runtime import JsonObject

_OBJECT: Final = 1 << 20
"""Bytes that one field gets at most: etcd takes objects of 1.5 MiB."""
_ANNOTATION: Final = 200_000
"""The API server takes 256 KiB of annotations."""
PUMPS: Final = (
    "a", " ", "*a", "{.a[", "{.a}", "-1:", "{", "1", ".", "/", "../", "'", '"', "\\", "(a+)+", "é", "\n", "a,", "=,", "://",
    "%2e", "$(A)", "@a:", ">=1 ", "[", "<a>", "aws credentials not found ",
)  # fmt: skip
"""What repeats; "a" is the harmless one that the others are compared with."""
_STARTS: Final = ("", "a", "a/", "/", "hf://a/b", "s3://", "oci://a/b:", "1h")


def hostile_fields(kind: str, member: str) -> Iterator[Field]:
    """Every string, list and map of a kind; `values` has one for each of `PUMPS`, or those that its pattern takes."""
    return (field for field in fields(kind, member, _values) if field.values)


def _text(pump: str, longest: int, start: str = "", end: str = "!") -> str:
    """As long as allowed; the usual end fits nothing before it."""
    return (start + pump * (longest // len(pump)))[: longest - len(end)] + end


class _Pumped(Sequence[Any]):
    """A value for each of `PUMPS`, made when it is looked at: each has up to a megabyte, and few are tried."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make

    def __len__(self) -> int:
        return len(PUMPS)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._make(pump) for pump in PUMPS[index]]
        return self._make(PUMPS[index])


def _texts_of(longest: int) -> Sequence[Any]:
    return _Pumped(lambda pump: _text(pump, longest))


HOSTILE_METADATA: Final = (
    Field(("metadata", "labels"), _Pumped(lambda pump: {f"a{number}/{pump * 63}"[:80]: "" for number in range(1000)})),
    *(
        replace(one, values=_texts_of(63 if "labels" in one.path else _ANNOTATION))
        for one in METADATA
        if len(one.path) > 2
    ),
)
"""Labels and annotations that the platform reads, and many that it only carries."""


def _values(node: JsonObject) -> Sequence[Any]:
    if node.get("type") == "array":
        return _Pumped(lambda pump: _many(node, pump))
    if isinstance(node.get("additionalProperties"), dict):
        return _Pumped(lambda pump: _map(node, pump))
    if node.get("x-kubernetes-preserve-unknown-fields"):
        return _Pumped(lambda pump: {pump * 63: [{pump: _text(pump, MAX_STRING)}] * 100})
    if not _takes_text(node):
        return ()
    longest = node.get("maxLength", MAX_STRING)
    if "pattern" not in node:
        return _Pumped(lambda pump: _text(pump, longest))
    return _matching(node["pattern"], longest)


@cache
def _matching(pattern: str, longest: int) -> tuple[str, ...]:
    every = (_text(pump, longest, start, end) for pump in PUMPS for start in _STARTS for end in ("!", "", "a"))
    return tuple(dict.fromkeys(text for text in every if re.search(pattern, text)))


def _takes_text(node: JsonObject) -> bool:
    return node.get("type") == "string" and "enum" not in node and node.get("format") != "date-time"


def _many(node: JsonObject, pump: str) -> list[Any]:
    count = node.get("maxItems", MAX_ENTRIES)
    return [_filled(node["items"], pump, number, _OBJECT // count) for number in range(count)]


def _map(node: JsonObject, pump: str) -> dict[str, Any]:
    count, inner = node.get("maxProperties", MAX_ENTRIES), node["additionalProperties"]
    keys = ((f"{number}" + pump * 63)[:63] for number in range(count))
    return {key: _filled(inner, pump, number, _OBJECT // count) for number, key in enumerate(keys)}


def _filled(node: JsonObject, pump: str, number: int, room: int) -> Any:
    """An entry of a list or map: what the schema demands, and text where it takes any."""
    if _takes_text(node) and "pattern" not in node:
        return f"{number}{_text(pump, max(min(node.get('maxLength', MAX_STRING), room), 8) - 4)}"
    if "properties" in node:
        members = {name: plain(node["properties"][name]) for name in node.get("required", ())}
        texts = {
            name: _filled(member, pump, number, room // len(node["properties"]))
            for name, member in node["properties"].items()
            if _takes_text(member) and "pattern" not in member and member.get("maxLength", MAX_STRING) >= 8
        }
        return members | texts
    return plain(node)
