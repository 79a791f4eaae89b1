"""Sets of field paths and their FieldsV1 form.

A path is a tuple of elements in the FieldsV1 encoding (`f:spec`, `k:{"type":"Ready"}`, `v:"x"`), so that a field set
is a plain frozenset and union, difference and intersection are those of Python.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from controller_runtime import JsonObject, canonical, dumps, loads

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[Path]
Trie: TypeAlias = dict[str, Any]

EMPTY: Final[FieldSet] = frozenset()
MEMBER: Final = "."
"""Marks in a trie that the path up to here belongs to the set."""


@lru_cache(maxsize=4096)
def single_key_element(name: str, value: str) -> str:
    """The element of a list-map item with one key, a text, as nearly all have."""
    return key_element({name: value})


def key_element(keys: dict[str, object]) -> str:
    """The element of a list-map item."""
    return f"k:{canonical(keys).decode()}"


def value_element(value: object) -> str:
    """The element of a set item."""
    return f"v:{canonical(value).decode()}"


def trie(paths: Iterable[Path]) -> Trie:
    """The paths as nested objects, members marked."""
    root: Trie = {}
    for path in paths:
        node = root
        for element in path:
            node = node.setdefault(element, {})
        node[MEMBER] = {}
    return root


def encode(paths: Iterable[Path]) -> JsonObject:
    """FieldsV1: as the trie, but a leaf is `{}`; keys are sorted."""
    root: Trie = {}
    leaf: Trie = {}
    previous: Path = ()
    for path in sorted(paths):
        if previous and path[: len(previous)] == previous:
            # A sorted path comes right before those below it: only then is it no leaf.
            leaf[MEMBER] = {}
        leaf = root
        for element in path:
            leaf = leaf.setdefault(element, {})
        previous = path
    return root


def decode(fields: object) -> FieldSet:
    """The paths of a FieldsV1 object.

    Raises:
        ValueError: the object is not FieldsV1.
    """
    paths: set[Path] = set()
    _collect(fields, (), paths)
    return frozenset(paths)


def _collect(node: object, path: Path, paths: set[Path]) -> None:
    if not isinstance(node, dict):
        raise ValueError(f"fieldsV1 has {node!r} at {render(path)}: expected an object")
    if not node and path:
        paths.add(path)
    for element, child in node.items():
        if element == MEMBER:
            if path:
                paths.add(path)
        elif element[:2] in _RENDERERS:
            _collect(child, (*path, element), paths)
        else:
            raise ValueError(f"fieldsV1 has the element {element!r}: expected f:, k:, v: or i:")


def _render_keys(text: str) -> str:
    pairs = ",".join(f"{name}={dumps(value).decode()}" for name, value in loads(text).items())
    return f"[{pairs}]"


_RENDERERS: Final[dict[str, Callable[[str], str]]] = {
    "f:": lambda text: f".{text}",
    "k:": _render_keys,
    "v:": lambda text: f"[={text}]",
    "i:": lambda text: f"[{text}]",
}


def render(path: Path) -> str:
    """The path as messages show it: `.spec.containers[name="x"].image`."""
    return "".join(_RENDERERS[element[:2]](element[2:]) for element in path)
