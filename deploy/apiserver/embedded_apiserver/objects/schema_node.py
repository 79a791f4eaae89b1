"""The compiled form of a structural schema, one slotted node per position, with Go (RE2) patterns as Python ones."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

from controller_runtime import JsonObject

_POSIX: Final = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\t\n\v\f\r ",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:word:]": r"\w",
}
_TOKEN: Final = re.compile(r"\\.|\[:\w+:\]|.", re.DOTALL)


@lru_cache(maxsize=1024)
def go_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a Go pattern; `search` on the result is Go's `MatchString`.

    Raises:
        re.error: the pattern is malformed.
    """
    out: list[str] = []
    opened = -1
    for piece in _TOKEN.findall(pattern):
        if piece == r"\z":
            out.append(r"\Z")
        elif opened >= 0:
            out.append(_POSIX.get(piece, piece))
            # A bracket that comes first in a class is a member of it.
            if piece == "]" and out[opened:-1] not in (["["], ["[", "^"]):
                opened = -1
        elif piece == "$":
            # Python's `$` also matches before a final newline, Go's does not.
            out.append(r"\Z")
        else:
            out.append(piece)
            opened = len(out) - 1 if piece == "[" else -1
    return re.compile("".join(out), re.ASCII)


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING
"""Stands for "no default", which is not the same as a default of null."""

Default: TypeAlias = Any


class ListType(Enum):
    """`x-kubernetes-list-type`: how a list merges and who owns its parts."""

    ATOMIC = "atomic"
    SET = "set"
    MAP = "map"


@dataclass(slots=True, eq=False)
class Node:
    """One position of a schema. Sizes count characters, items or properties.

    `fits_int32` is for built-in kinds, whose Go types are that narrow; of custom resources the real server takes any 64
    bits, whatever the format says.
    """

    type: str = ""
    format: str = ""
    fits_int32: bool = False
    properties: "dict[str, Node]" = field(default_factory=dict)
    required: tuple[str, ...] = ()
    additional: "Node | None" = None
    items: "Node | None" = None
    nullable: bool = False
    preserve: bool = False
    embedded: bool = False
    int_or_string: bool = False
    default: Default = MISSING
    enum: tuple[object, ...] = ()
    pattern: re.Pattern[str] | None = None
    pattern_text: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    list_type: ListType = ListType.ATOMIC
    list_keys: tuple[str, ...] = ()
    atomic_map: bool = False
    patch_strategies: frozenset[str] = frozenset()
    patch_key: str = ""
    all_of: "tuple[Node, ...]" = ()
    any_of: "tuple[Node, ...]" = ()
    one_of: "tuple[Node, ...]" = ()
    negated: "Node | None" = None
    defaults: tuple[tuple[str, Default], ...] = ()
    constrained: bool = False

    def child(self, key: str) -> "Node | None":
        """The node of one object member; None where the schema says nothing about it."""
        return self.properties.get(key, self.additional)

    def knows(self, key: str) -> bool:
        """Whether the schema keeps a member of this name."""
        return (
            self.preserve
            or self.additional is not None
            or key in self.properties
            or (self.embedded and key in EMBEDDED_FIELDS)
        )


EMBEDDED_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})

_PLAIN: Final = {
    "type": "type",
    "format": "format",
    "nullable": "nullable",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_items",
    "maxItems": "max_items",
    "minProperties": "min_properties",
    "maxProperties": "max_properties",
    "x-kubernetes-int-or-string": "int_or_string",
    "x-kubernetes-preserve-unknown-fields": "preserve",
    "x-kubernetes-embedded-resource": "embedded",
    "x-kubernetes-patch-merge-key": "patch_key",
}
_CONSTRAINTS: Final = (
    "minimum", "maximum", "multiple_of", "min_length", "max_length", "min_items", "max_items", "min_properties",
    "max_properties", "pattern", "negated",
)  # fmt: skip


def compile_node(source: Mapping[str, Any], *, builtin: bool = False) -> Node:
    """Compile one OpenAPI v3 schema and all below it.

    Args:
        source: the schema as in a CRD's `openAPIV3Schema`.
        builtin: numbers have to fit their formats.

    Raises:
        ValueError: a pattern or a list type is malformed.
    """
    node = Node(**{attribute: source[name] for name, attribute in _PLAIN.items() if name in source})
    node.fits_int32 = builtin and node.format == "int32"
    node.required = tuple(source.get("required", ()))
    node.enum = tuple(source.get("enum", ()))
    node.default = source.get("default", MISSING)
    if "pattern" in source:
        node.pattern_text = source["pattern"]
        node.pattern = _pattern(node.pattern_text)
    _compile_structure(node, source, builtin)
    _compile_merge_hints(node, source)
    _compile_alternatives(node, source)
    node.constrained = bool(
        node.enum
        or node.format
        or node.all_of
        or node.any_of
        or node.one_of
        or any(getattr(node, name) is not None for name in _CONSTRAINTS)
    )
    return node


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return go_pattern(text)
    except re.error as error:
        raise ValueError(f"the pattern {text!r} is malformed ({error}): correct it in the schema") from error


def _compile_structure(node: Node, source: Mapping[str, Any], builtin: bool) -> None:
    node.properties = {
        name: compile_node(child, builtin=builtin) for name, child in source.get("properties", {}).items()
    }
    node.defaults = tuple(
        (name, child.default) for name, child in node.properties.items() if child.default is not MISSING
    )
    additional = source.get("additionalProperties")
    if isinstance(additional, Mapping):
        node.additional = compile_node(additional, builtin=builtin)
    elif additional is True:
        node.preserve = True
    if isinstance(source.get("items"), Mapping):
        node.items = compile_node(source["items"], builtin=builtin)


def _compile_merge_hints(node: Node, source: Mapping[str, Any]) -> None:
    node.list_type = ListType(source.get("x-kubernetes-list-type", "atomic"))
    node.list_keys = tuple(source.get("x-kubernetes-list-map-keys", ()))
    node.atomic_map = source.get("x-kubernetes-map-type") == "atomic"
    strategies = source.get("x-kubernetes-patch-strategy", "")
    node.patch_strategies = frozenset(filter(None, strategies.split(",")))


def _compile_alternatives(node: Node, source: Mapping[str, Any]) -> None:
    if node.int_or_string:
        # The customary anyOf of integer and string repeats what the extension says.
        source = {name: value for name, value in source.items() if name != "anyOf"}
    node.all_of = tuple(compile_node(part) for part in source.get("allOf", ()) if not _is_int_or_string(part))
    node.any_of = tuple(compile_node(part) for part in source.get("anyOf", ()))
    node.one_of = tuple(compile_node(part) for part in source.get("oneOf", ()))
    if "not" in source:
        node.negated = compile_node(source["not"])


def _is_int_or_string(part: JsonObject) -> bool:
    return [choice.get("type") for choice in part.get("anyOf", ())] == ["integer", "string"]
