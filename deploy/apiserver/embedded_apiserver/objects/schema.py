"""`Schema`: one compiled structural schema with pruning, defaulting and validation in the real server's wording."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final, Self

from controller_runtime import JsonObject, canonical
from embedded_apiserver.objects.errors import FieldError, FieldErrorKind
from embedded_apiserver.objects.schema_node import MISSING, ListType, Node, compile_node
from embedded_apiserver.objects.upstream import object_meta
from embedded_apiserver.objects.values import clone, same

_Errors = list[FieldError]


def _is_integer(value: object) -> bool:
    if isinstance(value, int):
        # The real decoder makes a float of what 64 bits cannot hold, and floats are integers only while they are exact.
        return not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63
    return isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53


_TYPE_CHECKS: Final[dict[str, Callable[[object], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_TYPE_NAMES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}
_DATE_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(\.\d+)?([Zz]|[+-]\d{2}:?\d{2})", re.ASCII)


def validate(node: Node, value: object, old: object, path: str, errors: _Errors) -> None:
    """Append all violations of `value` below `path`; what equals `old` was accepted before and passes."""
    if old is not None and same(value, old):
        return
    if value is None and node.nullable:
        return
    if not _check_type(node, value, path, errors):
        return
    if node.constrained:
        _check_constraints(node, value, path, errors)
    if isinstance(value, dict):
        _validate_members(node, value, old if isinstance(old, dict) else {}, path, errors)
    elif isinstance(value, list):
        _validate_items(node, value, old if isinstance(old, list) else [], path, errors)


def _check_type(node: Node, value: object, path: str, errors: _Errors) -> bool:
    if node.int_or_string:
        expected = "integer,string"
        if isinstance(value, str) or _is_integer(value):
            return True
    else:
        expected = node.type
        if not expected or _TYPE_CHECKS[expected](value):
            return True
    name = _TYPE_NAMES.get(type(value), "object")
    detail = f'{path} in body must be of type {expected}: "{name}"'
    errors.append(FieldError(path, FieldErrorKind.TYPE_INVALID, detail, name))
    return False


def _validate_members(node: Node, value: dict[str, object], old: dict[str, object], path: str, errors: _Errors) -> None:
    prefix = f"{path}." if path else ""
    properties, additional = node.properties, node.additional
    for key, member in value.items():
        child = properties.get(key, additional)
        if child is not None:
            validate(child, member, old.get(key), prefix + key, errors)
    for name in node.required:
        if name not in value:
            errors.append(FieldError(prefix + name, FieldErrorKind.REQUIRED))


def _validate_items(node: Node, value: list[object], old: list[object], path: str, errors: _Errors) -> None:
    if node.list_type is not ListType.ATOMIC:
        _check_duplicates(node, value, path, errors)
    if node.items is None:
        return
    former = _by_key(node, old)
    for index, item in enumerate(value):
        before = former.get(_item_key(node, item)) if former else None
        validate(node.items, item, before, f"{path}[{index}]", errors)


def _by_key(node: Node, old: list[object]) -> dict[bytes, object]:
    # Only items of list-maps have an identity that tells which former item they are.
    return {_item_key(node, item): item for item in old} if node.list_type is ListType.MAP else {}


def _item_key(node: Node, item: object) -> bytes:
    if node.list_type is ListType.MAP and isinstance(item, dict):
        return canonical(_map_key(node, item))
    return canonical(item)


def _map_key(node: Node, item: dict[str, object]) -> dict[str, object]:
    return {key: item[key] for key in node.list_keys if key in item}


def _check_duplicates(node: Node, value: list[object], path: str, errors: _Errors) -> None:
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        key = _item_key(node, item)
        if key in seen:
            shown = _map_key(node, item) if node.list_keys and isinstance(item, dict) else item
            errors.append(FieldError(f"{path}[{index}]", FieldErrorKind.DUPLICATE, "", shown))
        seen.add(key)


def _check_constraints(node: Node, value: object, path: str, errors: _Errors) -> None:
    if node.enum and value not in node.enum:
        supported = ", ".join(f'"{choice}"' for choice in node.enum)
        errors.append(FieldError(path, FieldErrorKind.NOT_SUPPORTED, f"supported values: {supported}", value))
    if isinstance(value, str):
        _check_string(node, value, path, errors)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(node, value, path, errors)
    elif isinstance(value, list):
        _check_size(node.min_items, node.max_items, len(value), what="items", path=path, errors=errors)
    elif isinstance(value, dict):
        _check_size(node.min_properties, node.max_properties, len(value), what="properties", path=path, errors=errors)
    _check_alternatives(node, value, path, errors)


def _invalid(path: str, value: object, detail: str) -> FieldError:
    return FieldError(path, FieldErrorKind.INVALID, f"{path} in body {detail}", value)


def _check_string(node: Node, value: str, path: str, errors: _Errors) -> None:
    if node.max_length is not None and len(value) > node.max_length:
        detail = f"may not be more than {node.max_length} bytes"
        errors.append(FieldError(path, FieldErrorKind.TOO_LONG, detail, value))
    if node.min_length is not None and len(value) < node.min_length:
        errors.append(_invalid(path, value, f"should be at least {node.min_length} chars long"))
    if node.pattern is not None and not node.pattern.search(value):
        errors.append(_invalid(path, value, f"should match '{node.pattern_text}'"))
    if node.format == "date-time" and not is_date_time(value):
        detail = f'{path} in body must be of type date-time: "{value}"'
        errors.append(FieldError(path, FieldErrorKind.TYPE_INVALID, detail, value))


def is_date_time(text: str) -> bool:
    """Whether the text is an RFC 3339 time."""
    if not _DATE_TIME.fullmatch(text):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


def _check_number(node: Node, value: float, path: str, errors: _Errors) -> None:
    low, high = node.minimum, node.maximum
    if low is not None and (value < low or (node.exclusive_minimum and value == low)):
        relation = "greater than" if node.exclusive_minimum else "greater than or equal to"
        errors.append(_invalid(path, value, f"should be {relation} {low}"))
    if high is not None and (value > high or (node.exclusive_maximum and value == high)):
        relation = "less than" if node.exclusive_maximum else "less than or equal to"
        errors.append(_invalid(path, value, f"should be {relation} {high}"))
    if node.multiple_of is not None and value % node.multiple_of:
        errors.append(_invalid(path, value, f"should be a multiple of {node.multiple_of}"))
    if node.fits_int32 and not -(2**31) <= value < 2**31:
        errors.append(_invalid(path, value, f"must be of type int32: {value}"))


def _check_size(low: int | None, high: int | None, size: int, *, what: str, path: str, errors: _Errors) -> None:
    if low is not None and size < low:
        errors.append(_invalid(path, size, f"should have at least {low} {what}"))
    if high is not None and size > high:
        detail = f"must have at most {high} items"
        errors.append(FieldError(path, FieldErrorKind.TOO_MANY, detail, size))


def _matches(node: Node, value: object, path: str) -> bool:
    found: _Errors = []
    validate(node, value, None, path, found)
    return not found


def _check_alternatives(node: Node, value: object, path: str, errors: _Errors) -> None:
    for part in node.all_of:
        validate(part, value, None, path, errors)
    if node.any_of and not any(_matches(part, value, path) for part in node.any_of):
        errors.append(_unmatched(path, "must validate at least one schema (anyOf)"))
    if node.one_of and (fitting := sum(_matches(part, value, path) for part in node.one_of)) != 1:
        found = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
        errors.append(_unmatched(path, f"must validate one and only one schema (oneOf). {found}"))
    if node.negated is not None and _matches(node.negated, value, path):
        errors.append(_unmatched(path, "must not validate the schema (not)"))


def _unmatched(path: str, detail: str) -> FieldError:
    # The real server's validator loses the path here and names it in the text.
    return FieldError("", FieldErrorKind.INVALID, f'"{path}" {detail}', "")


def prune(node: Node, value: object, path: str, dropped: list[str]) -> None:
    """Remove members that the schema does not name, and append their paths to `dropped`."""
    if isinstance(value, dict):
        prefix = f"{path}." if path else ""
        for key in list(value):
            child = node.child(key)
            if child is not None:
                member = value[key]
                if isinstance(member, dict | list):
                    prune(child, member, prefix + key, dropped)
            elif not node.knows(key):
                del value[key]
                dropped.append(prefix + key)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                prune(node.items, item, f"{path}[{index}]", dropped)


def apply_defaults(node: Node, value: object) -> None:
    """Fill in defaults where the parent exists, and drop nulls of members that are not nullable."""
    if isinstance(value, dict):
        _default_members(node, value)
    elif isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if item is None and not node.items.nullable and node.items.default is not MISSING:
                value[index] = clone(node.items.default)
            apply_defaults(node.items, value[index])


def _default_members(node: Node, value: dict[str, object]) -> None:
    for key in [key for key, member in value.items() if member is None]:
        child = node.child(key)
        if child is not None and not child.nullable:
            del value[key]
    for key, default in node.defaults:
        if key not in value:
            value[key] = clone(default)
    for key, member in value.items():
        if isinstance(member, dict | list):
            child = node.child(key)
            if child is not None:
                apply_defaults(child, member)


@dataclass(frozen=True)
class Schema:
    """The schema of one version of one kind.

    Attributes:
        openapi: the source with the standard ObjectMeta put in, fit for publishing.
        builtin: numbers have to fit their formats, as Go decodes them into types that narrow.
        conditional: fills in, after the plain defaults, those that depend on other fields.
    """

    openapi: JsonObject
    builtin: bool = False
    conditional: Callable[[JsonObject], None] | None = None

    @classmethod
    def compile(cls, openapi_v3: Mapping[str, Any]) -> Self:
        """Compile the `openAPIV3Schema` of a definition.

        Raises:
            ValueError: a pattern or a list type in the schema is malformed.
        """
        schema = cls(with_object_meta(openapi_v3))
        schema.root  # noqa: B018 - compiled now, so that it is refused together with its definition
        return schema

    @cached_property
    def root(self) -> Node:
        """The compiled form. Of the built-in kinds most processes meet a few only, so it is made when it is needed."""
        root = compile_node(self.openapi, builtin=self.builtin)
        root.embedded = True
        return root

    def prune(self, obj: JsonObject) -> list[str]:
        """Remove in place what the schema does not name; returns the removed paths."""
        dropped: list[str] = []
        prune(self.root, obj, "", dropped)
        return dropped

    def default(self, obj: JsonObject) -> None:
        """Fill in defaults in place where the parent exists; null stands for absent unless nullable."""
        apply_defaults(self.root, obj)
        if self.conditional is not None:
            self.conditional(obj)

    def validate(self, obj: JsonObject, old: JsonObject | None = None) -> list[FieldError]:
        """All violations. What is unchanged since `old` is not reported again (validation ratcheting)."""
        errors: list[FieldError] = []
        validate(self.root, obj, old, "", errors)
        return errors


def with_object_meta(openapi_v3: Mapping[str, Any]) -> JsonObject:
    """The schema with `apiVersion`, `kind` and a full `metadata`; own limits on the name are kept."""
    result = dict(openapi_v3)
    result.setdefault("type", "object")
    properties = dict(result.get("properties", {}))
    meta = clone(object_meta())
    for name, limits in properties.get("metadata", {}).get("properties", {}).items():
        meta["properties"].setdefault(name, {}).update(limits)
    properties["metadata"] = meta
    properties.setdefault("apiVersion", {"type": "string"})
    properties.setdefault("kind", {"type": "string"})
    result["properties"] = properties
    return result
