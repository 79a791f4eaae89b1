"""Values at and beyond the limits of every field, found in the published schemas of the platform's kinds."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

from support.controlplane import own_definitions

from aim_domain import labels
from controller_runtime import JsonObject, loads

_WHOLE: Final = (0, -1, 1, 2**31 - 1, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63), 10**30, 1.5)
_REAL: Final = (0.0, -0.0, -1.0, 1e308, -1e308, 5e-324, 10**30)
_AMOUNTS: Final = (
    "0", "-0", "+1", "-1Gi", ".5", "1.", "1Ei", "9Ei", "999Ei", "1e30", "1e400", "1e-400", "1e1.5", "1e99999999999",
    "1" + "0" * 30, "9" * 64, "9" * 65, "9" * 4301, "0." + "0" * 60 + "1", "1n", "0.1n", "", "nan", "Infinity", "1 Gi",
)  # fmt: skip
_DURATIONS: Final = (
    "0",
    "0s",
    "-1s",
    "1ns",
    "99999h",
    "100000h",
    "9" * 19 + "h",
    "9" * 5000 + "s",
    "1d",
    "1e3s",
    "1h ",
)
_TEXTS: Final = (
    "", " ", "-", ".", "/", "{", "}", "*", "null", "a" * 63, "a" * 64, "a" * 253, "a" * 254, "a" * 5000, "A_b.", "é",
    "٣", "\u0000", "a\nb", "a\tb", "𝔘" * 70, "../../etc", "a//b", "a:b:c@d", "http://[::1", "hf://", "hf:///", "s3://",
    "s3://b", "oci://x", "hf://" + "a/" * 200 + "b", "registry.example.com:99999/a:b", "a/b:" + "t" * 200,
    "(a+)+$", "a*" * 40 + "!", "^~>=<", ">=1.0 <2 || x.y", "1" * 400 + ".0.0",
    "{.spec.model.name}", "{.metadata['a",
    "/{.metadata.namespace}/{.spec.x}", "$(A)", "${A:-b}", "' OR 1=1", "2026-13-45T99:99:99Z",
)  # fmt: skip
_NAMES: Final = ("", "a", "a b", "a/b", "/", "a" * 64, "a" * 254, "é", "example.com/" + "n" * 63, "=", "a\nb", "A_.-z")


MOMENTS: Final = (
    "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59",
    "1970-01-01T00:00:00.000000001Z", "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "", "now",
)  # fmt: skip


Path: TypeAlias = tuple[str | int, ...]
Values: TypeAlias = Callable[[JsonObject], Sequence[Any]]
"""What a field with that schema is tried with."""


@dataclass(frozen=True, slots=True, repr=False)
class Field:
    """A place in an object: member names and, for items of a list, 0; `values` are what it is tried with."""

    path: Path
    values: Sequence[Any]
    needed: tuple[tuple[Path, Any], ...] = ()
    """Members that the schema demands beside it, for where they are not there."""
    parsed: bool = True
    """Whether somebody makes more of it than text."""

    def __repr__(self) -> str:
        return ".".join(map(str, self.path))

    def _repr_pretty_(self, printer: Any, _cycle: bool) -> None:
        """How hypothesis shows it: without all values."""
        printer.text(repr(self))

    def put(self, obj: JsonObject, value: object) -> JsonObject:
        """A copy of the object with the value there, as JSON can carry it: numbers beyond 64 bits are floats."""
        changed = json.loads(json.dumps(obj))
        for path, filler in self.needed:
            # A copy: what is written into it must not be there in the next object.
            _write(changed, path, deepcopy(filler), only_if_absent=True)
        _write(changed, self.path, value)
        decoded: JsonObject = loads(json.dumps(changed))
        return decoded


def _write(place: Any, path: Path, value: object, *, only_if_absent: bool = False) -> None:
    for step, following in pairwise(path):
        place = _into(place, step, [] if isinstance(following, int) else {})
    last = path[-1]
    if isinstance(place, list):
        place[:1] = [value]
    elif not (only_if_absent and last in place):
        place[last] = value


def _into(place: Any, step: str | int, empty: Any) -> Any:
    if isinstance(place, list):
        if not place or not isinstance(place[0], type(empty)):
            place[:1] = [empty]
        return place[0]
    if not isinstance(place.get(step), type(empty)):
        place[step] = empty
    return place[step]


_KEYS: Final = tuple(
    value for name, value in vars(labels).items() if name.isupper() and "/" in value and not value.endswith("/")
)
"""Labels and annotations that the platform reads or writes itself, here made by a user."""
METADATA: Final = (
    Field(("metadata", "labels"), ({"a": "v" * 63}, {"a/b": ""}, {f"k{number}": "v" for number in range(300)})),
    *(Field(("metadata", "labels", key), ("", "a", "v" * 63, "A_b.c")) for key in _KEYS),
    *(Field(("metadata", "annotations", key), _TEXTS) for key in _KEYS),
)
"""What users choose of the metadata, and only what an API server accepts: schemas of kinds say nothing about it."""


@cache
def fields_of(kind: str, member: str = "spec") -> tuple[Field, ...]:
    """All fields of the spec of a kind, or of its status, those inside maps and lists included."""
    return tuple(fields(kind, member, _examples))


def fields(kind: str, member: str, values_of: Values) -> Iterator[Field]:
    """The same fields with other values: what `values_of` makes of the schema of each."""
    schema = next(crd for crd in own_definitions() if crd["spec"]["names"]["kind"] == kind)
    found = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].get(member, {})
    yield from _fields(found, (member,), values_of)


@cache
def kinds() -> tuple[str, ...]:
    """The platform's kinds."""
    return tuple(sorted(crd["spec"]["names"]["kind"] for crd in own_definitions()))


def _fields(
    node: JsonObject, path: Path, values_of: Values, needed: tuple[tuple[Path, Any], ...] = ()
) -> Iterator[Field]:
    text = node.get("type") == "string" and not (node.get("pattern") or "enum" in node)
    yield Field(path, values_of(node), needed, parsed=not text)
    if "properties" in node:
        members = node["properties"]
        beside = tuple(((*path, name), plain(members[name])) for name in node.get("required", ()) if name in members)
        for name, member in members.items():
            yield from _fields(member, (*path, name), values_of, (*needed, *beside))
    elif node.get("type") == "array":
        yield from _fields(node["items"], (*path, 0), values_of, needed)
    elif isinstance(node.get("additionalProperties"), dict):
        yield from _fields(node["additionalProperties"], (*path, "key"), values_of, needed)


def plain(node: JsonObject) -> Any:
    """Something that the schema takes."""
    if node.get("x-kubernetes-int-or-string"):
        return "1"
    match node.get("type"):
        case "integer" | "number":
            return max(1, node.get("minimum", 1))
        case "boolean":
            return True
        case "string" if "enum" in node:
            return node["enum"][0]
        case "string" if node.get("format") == "date-time":
            return "2026-01-01T00:00:00Z"
        case "string":
            return next(text for text in _PLAIN if re.search(node.get("pattern", ""), text))
        case "array":
            return [plain(node["items"])] * node.get("minItems", 0)
        case "object":
            return {name: plain(node["properties"][name]) for name in node.get("required", ())}
    return "a"


_PLAIN: Final = ("a", "a/b", "/a", "hf://a/b", "1h", "1", "http://a")


def _examples(node: JsonObject) -> tuple[Any, ...]:
    if "properties" in node:
        return ({},)
    if node.get("type") == "array":
        item = plain(node["items"])
        return ([], [item, item], [item] * 300)
    if isinstance(node.get("additionalProperties"), dict):
        inner = plain(node["additionalProperties"])
        return ({f"k{number}": inner for number in range(300)}, *({name: inner} for name in _NAMES))
    if node.get("x-kubernetes-int-or-string"):
        return (*_AMOUNTS, *_WHOLE)
    limits = tuple(node[name] + step for name in ("minimum", "maximum") if name in node for step in (-1, 0, 1))
    if node.get("format") == "date-time":
        return MOMENTS
    match node.get("type"):
        case "integer":
            return (*limits, *_WHOLE)
        case "number":
            return (*limits, *_REAL)
        case "boolean":
            return (True, False)
        case "string" if "enum" in node:
            return (*node["enum"], "", "no such", "a" * 254)
        case "string":
            lengths = tuple("x" * (node["maxLength"] + step) for step in (0, 1) if "maxLength" in node)
            return (*lengths, *_TEXTS, *_DURATIONS, *_AMOUNTS)
    return ({}, {"a": {"b": [None]}}, {"é" * 300: 10**30}, {"a": "\u0000"}, "", 0, None, [])
