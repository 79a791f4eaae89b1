"""What the definitions of the existing Go operator admit, from `go_operator_fields.txt`, and where ours admit less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

FACTS = Path(__file__).with_name("go_operator_fields.txt")
SPECS = {
    "AIMService": ("AIMServiceSpec", "AIMServiceStatus"),
    "AIMModel": ("AIMModelSpec", "AIMModelStatus"),
    "AIMClusterModel": ("AIMModelSpec", "AIMModelStatus"),
    "AIMServiceTemplate": ("AIMServiceTemplateSpec", "AIMServiceTemplateStatus"),
    "AIMClusterServiceTemplate": ("AIMClusterServiceTemplateSpec", "AIMServiceTemplateStatus"),
    "AIMTemplateCache": ("AIMTemplateCacheSpec", "AIMTemplateCacheStatus"),
    "AIMArtifact": ("AIMArtifactSpec", "AIMArtifactStatus"),
    "AIMRuntimeConfig": ("AIMRuntimeConfigSpec", "AIMRuntimeConfigStatus"),
    "AIMClusterRuntimeConfig": ("AIMClusterRuntimeConfigSpec", "AIMRuntimeConfigStatus"),
    "AIMClusterModelSource": ("AIMClusterModelSourceSpec", "AIMClusterModelSourceStatus"),
}
LOWER_BOUNDS = ("minimum", "minLength", "minItems", "minProperties")
UPPER_BOUNDS = ("maximum", "maxLength", "maxItems", "maxProperties")
# Lists that the Go operator keeps by a key, so that a key may occur once.
KEYED = {"Condition", "EnvVar", "ResourceClaim"}
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "Duration": {"type": "string"},
    "UID": {"type": "string"},
    "Time": {"type": "string", "format": "date-time"},
    "Quantity": {"x-kubernetes-int-or-string": True, "pattern": QUANTITY},
    "JSON": {},
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One field: its type as written, whether it is required, and its limits."""

    name: str
    type: str
    required: bool
    limits: Mapping[str, Any]


@dataclass(slots=True)
class Shape:
    """A type: how many CEL rules it carries itself, and its fields."""

    rules: int = 0
    fields: list[Fact] = field(default_factory=list)


@cache
def shapes() -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    current = Shape()
    for line in FACTS.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if not line.startswith(" "):
            name, _, rest = line.partition(" ")
            current = found[name] = Shape(int(rest.removeprefix("rules=") or 0))
        else:
            current.fields.append(_fact(line.strip()))
    return found


def _fact(line: str) -> Fact:
    line, _, pattern = line.partition(" pattern=")
    name, kind, *rest = line.split(" ")
    limits: dict[str, Any] = {"pattern": pattern} if pattern else {}
    for item in rest:
        key, _, value = item.partition("=")
        limits[key] = value.split("|") if key == "enum" else int(value)
    return Fact(name.rstrip("!"), kind, name.endswith("!"), limits)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where ours admits less: the path, the keyword of the schema (`field`: it is missing), and the type there."""

    path: str
    keyword: str
    type: str


def differences(ours: Mapping[str, Any], kind: str) -> Iterator[Difference]:
    """Where the schema `ours` of a kind misses a field of the Go operator, or refuses what that admits."""
    for part, shape in zip(("spec", "status"), SPECS[kind], strict=True):
        if part in ours.get("required", ()):
            yield Difference(part, "required", shape)
        yield from _value(ours["properties"][part], shape, {"rules": _rules(shape)}, part)


def _members(ours: Mapping[str, Any], shape: str, path: str) -> Iterator[Difference]:
    theirs = shapes()[shape]
    members = ours.get("properties", {})
    for fact in theirs.fields:
        below = f"{path}.{fact.name}"
        if fact.name not in members:
            yield Difference(below, "field", fact.type)
            continue
        limits = {**fact.limits, "rules": fact.limits.get("rules", 0) + _rules(fact.type)}
        yield from _value(members[fact.name], fact.type, limits, below)
    required = {fact.name for fact in theirs.fields if fact.required}
    for name in ours.get("required", []):
        if name not in required:
            yield Difference(f"{path}.{name}", "required", shape)


def _value(ours: Mapping[str, Any], kind: str, limits: Mapping[str, Any], path: str) -> Iterator[Difference]:
    if kind.startswith("[]"):
        yield from _limits(ours, kind, {"type": "array", **limits}, path)
        if ours.get("x-kubernetes-list-type", "atomic") != "atomic" and kind[2:] not in KEYED:
            yield Difference(path, "x-kubernetes-list-type", kind)
        yield from _value(ours["items"], kind[2:], {"rules": _rules(kind[2:])}, f"{path}[]")
    elif kind.startswith("{}"):
        yield from _limits(ours, kind, {"type": "object", **limits}, path)
        yield from _value(ours["additionalProperties"], kind[2:], {"rules": _rules(kind[2:])}, f"{path}{{}}")
    elif kind in SCALARS:
        yield from _limits(ours, kind, {**SCALARS[kind], **limits}, path)
    else:
        yield from _limits(ours, kind, {"type": "object", **limits}, path)
        yield from _members(ours, kind, path)


def _rules(kind: str) -> int:
    return shapes()[kind].rules if kind in shapes() else 0


def _limits(ours: Mapping[str, Any], kind: str, theirs: Mapping[str, Any], path: str) -> Iterator[Difference]:
    for key in ("type", "format", "pattern", "x-kubernetes-int-or-string"):
        # The formats of numbers say how wide they are in Go; the API server does not check them.
        number = key == "format" and ours.get("type") == "integer"
        if key in ours and not number and ours[key] != theirs.get(key):
            yield Difference(path, key, kind)
    if "enum" in ours and not set(theirs.get("enum", ("anything",))) <= set(ours["enum"]):
        yield Difference(path, "enum", kind)
    for key in LOWER_BOUNDS:
        if key in ours and ours[key] > theirs.get(key, float("-inf")):
            yield Difference(path, key, kind)
    for key in UPPER_BOUNDS:
        if key in ours and ours[key] < theirs.get(key, float("inf")):
            yield Difference(path, key, kind)
    if len(ours.get("x-kubernetes-validations", ())) > theirs.get("rules", 0):
        yield Difference(path, "rules", kind)
