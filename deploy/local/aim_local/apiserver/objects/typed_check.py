"""The strict typing of an applied configuration, worded as the real server words it."""

from collections.abc import Callable
from typing import Final

from aim_local.apiserver.objects.fieldset import Path, render
from aim_local.apiserver.objects.schema_node import ListType, Node
from aim_local.apiserver.objects.typed import item_element


class TypedPatchError(Exception):
    """An applied configuration does not fit the schema; the server answers HTTP 500."""

    def __init__(self, errors: list[str]) -> None:
        """One text per misfit, each with its path."""
        self.errors = tuple(errors)
        super().__init__(errors[0] if len(errors) == 1 else "\n".join(["errors:", *(f"  {text}" for text in errors)]))

    def status_message(self, named: str, api_version: str, kind: str) -> str:
        """The message of the Status answer; `named` is namespace/name as the configuration gives them."""
        return f"failed to create typed patch object ({named}; {api_version}, Kind={kind}): {self}"


def check_typed(node: Node, config: object) -> None:
    """Check a configuration before it is merged.

    Raises:
        TypedPatchError: an undeclared field, a value of another type, a list item without its key, or twice.
    """
    errors: list[str] = []
    _check(node, config, (), errors)
    if errors:
        raise TypedPatchError(errors)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SCALARS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "string": (lambda value: isinstance(value, str), "string"),
    "boolean": (lambda value: isinstance(value, bool), "boolean"),
    "integer": (_number, "numeric (int or float)"),
    "number": (_number, "numeric (int or float)"),
}


_NUMERIC: Final = frozenset({"integer", "number"})
_GO_TYPES: Final = {str: "string", bool: "bool", list: "[]interface {}", dict: "map[string]interface {}"}
"""How the real server's message names what is no number."""


def _check(node: Node | None, value: object, path: Path, errors: list[str]) -> None:
    if node is None or value is None or node.int_or_string:
        return
    if node.type in _SCALARS:
        fits, expected = _SCALARS[node.type]
        if not fits(value):
            shown = _GO_TYPES.get(type(value), "") if node.type in _NUMERIC else _shown(value)
            errors.append(f"{render(path)}: expected {expected}, got {shown or _shown(value)}")
    elif node.type == "object":
        _check_object(node, value, path, errors)
    elif node.type == "array":
        _check_list(node, value, path, errors)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "map"
    return "list" if isinstance(value, list) else f"&value.valueUnstructured{{Value:{value!r}}}"


def _check_object(node: Node, value: object, path: Path, errors: list[str]) -> None:
    if not isinstance(value, dict):
        errors.append(f"{render(path)}: expected map, got {_shown(value)}")
        return
    for key, member in value.items():
        below = (*path, f"f:{key}")
        child = node.child(key)
        if child is not None:
            _check(child, member, below, errors)
        elif not node.knows(key):
            errors.append(f"{render(below)}: field not declared in schema")


def _check_list(node: Node, value: object, path: Path, errors: list[str]) -> None:
    if not isinstance(value, list):
        errors.append(f"{render(path)}: expected list, got {_shown(value)}")
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = f"i:{index}"
        if node.list_type is not ListType.ATOMIC:
            identity = item_element(node, item)
            if identity is None:
                errors.append(f"{render(path)}: element {index}: {_missing_key(node, item)}")
                continue
            if identity in seen:
                errors.append(f"{render(path)}: duplicate entries for key {render((identity,))}")
            seen.add(identity)
            element = identity
        _check(node.items, item, (*path, element), errors)


def _missing_key(node: Node, item: object) -> str:
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    keys = " ".join(f'"{key}"' for key in node.list_keys)
    return (
        f"associative list with keys has an element that omits all key fields [{keys}] "
        "(and doesn't have default values for any key fields)"
    )
