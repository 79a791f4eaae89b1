"""Typed operations on objects: their field set, merge, comparison and removal of fields, all driven by a schema.

A node of None is a value that the schema says nothing about: its objects are granular, its lists atomic.
"""

from dataclasses import dataclass, field

from embedded_apiserver.objects.managedfields import (
    MEMBER,
    FieldSet,
    Path,
    Trie,
    key_element,
    single_key_element,
    trie,
    value_element,
)
from embedded_apiserver.objects.schema_node import MISSING, ListType, Node
from embedded_apiserver.objects.values import JsonValue, same


def is_atomic(node: Node | None, value: object) -> bool:
    """Whether the value has one owner as a whole."""
    if isinstance(value, dict):
        return node is not None and (node.atomic_map or node.int_or_string)
    if isinstance(value, list):
        return node is None or node.list_type is ListType.ATOMIC
    return True


def item_element(node: Node, item: object) -> str | None:
    """The path element of a list item; None when it lacks a key that has no default."""
    if node.list_type is ListType.SET:
        return value_element(item)
    if not isinstance(item, dict):
        return None
    if len(node.list_keys) == 1 and isinstance(only := item.get(node.list_keys[0]), str):
        return single_key_element(node.list_keys[0], only)
    keys: dict[str, object] = {}
    for name in node.list_keys:
        if name in item:
            keys[name] = item[name]
        else:
            child = node.items.properties.get(name) if node.items else None
            if child is None or child.default is MISSING:
                return None
            keys[name] = child.default
    return key_element(keys)


def items_by_element(node: Node, items: list[JsonValue]) -> dict[str, JsonValue]:
    """List items by their path element, in order; of duplicates the first."""
    result: dict[str, JsonValue] = {}
    for item in items:
        element = item_element(node, item)
        if element is not None:
            result.setdefault(element, item)
    return result


def to_fieldset(node: Node | None, value: object) -> FieldSet:
    """The paths that an applied object claims: leaves, map entries and list items, but not plain structs."""
    paths: set[Path] = set()
    _claim(node, value, (), paths)
    return frozenset(paths)


def _claim(node: Node | None, value: object, path: Path, paths: set[Path]) -> None:
    if is_atomic(node, value):
        paths.add(path)
    elif isinstance(value, dict):
        properties = node.properties if node else {}
        for key, member in value.items():
            below = (*path, f"f:{key}")
            if isinstance(member, dict | list):
                _claim(node.child(key) if node else None, member, below, paths)
                if key not in properties or member == {}:
                    paths.add(below)
            else:
                paths.add(below)
    elif isinstance(value, list) and node is not None:
        for element, item in items_by_element(node, value).items():
            paths.add((*path, element))
            if isinstance(item, dict | list):
                _claim(node.items, item, (*path, element), paths)


def merge(node: Node | None, live: JsonValue, config: JsonValue) -> JsonValue:
    """The live value with the configuration laid over it; nothing is removed."""
    if live is None or type(live) is not type(config) or is_atomic(node, config):
        return config
    if isinstance(config, dict):
        result = dict(live)
        for key, member in config.items():
            result[key] = merge(node.child(key) if node else None, live.get(key), member)
        return result
    assert node is not None
    return _merge_items(node, items_by_element(node, live), items_by_element(node, config))


def _merge_items(node: Node, live: dict[str, JsonValue], config: dict[str, JsonValue]) -> list[JsonValue]:
    """Items in the order of the configuration; live-only items keep their place between shared ones."""
    result: list[JsonValue] = []
    left, right = list(live), list(config)
    shared = [element for element in right if element in live]
    while left or right:
        if left and left[0] not in config:
            result.append(live[left.pop(0)])
        elif left and (not shared or left[0] != shared[0]):
            left.pop(0)
        elif right:
            element = right.pop(0)
            result.append(merge(node.items, live.get(element), config[element]))
            if shared and element == shared[0]:
                shared.pop(0)
                if left and left[0] == element:
                    left.pop(0)
        else:
            left.pop(0)
    return result


@dataclass(slots=True)
class Comparison:
    """What differs between two objects, containers included where they came or went."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    @property
    def changed(self) -> set[Path]:
        """Fields whose values the new object brought."""
        return self.added | self.modified


def compare(node: Node | None, old: object, new: object) -> Comparison:
    """Compare two values of one schema."""
    result = Comparison()
    _compare(node, old, new, (), result)
    return result


def _compare(node: Node | None, old: JsonValue, new: JsonValue, path: Path, result: Comparison) -> None:
    if same(old, new):
        return
    if type(old) is not type(new) or is_atomic(node, new):
        result.modified.add(path)
        return
    if isinstance(new, dict):
        for key in {**old, **new}:
            child = node.child(key) if node else None
            _compare_member(child, old.get(key), new.get(key), (*path, f"f:{key}"), result)
    else:
        assert node is not None
        before, after = items_by_element(node, old), items_by_element(node, new)
        for element in {**before, **after}:
            _compare_member(node.items, before.get(element), after.get(element), (*path, element), result)


def _compare_member(node: Node | None, old: JsonValue, new: JsonValue, path: Path, result: Comparison) -> None:
    if old is None and new is not None:
        _all_paths(node, new, path, result.added)
    elif new is None and old is not None:
        _all_paths(node, old, path, result.removed)
    elif old is not new:
        _compare(node, old, new, path, result)


def _all_paths(node: Node | None, value: JsonValue, path: Path, paths: set[Path]) -> None:
    """Every path of a value, containers included."""
    paths.add(path)
    if is_atomic(node, value):
        return
    if isinstance(value, dict):
        for key, member in value.items():
            _all_paths(node.child(key) if node else None, member, (*path, f"f:{key}"), paths)
    elif isinstance(value, list) and node is not None:
        for element, item in items_by_element(node, value).items():
            _all_paths(node.items, item, (*path, element), paths)


def ensure_named(node: Node | None, paths: FieldSet) -> FieldSet:
    """The set with every struct member on the way to one of its paths."""
    result = set(paths)
    nodes: dict[Path, Node | None] = {(): node}
    for path in paths:
        for length in range(1, len(path)):
            prefix = path[:length]
            if prefix in nodes:
                continue
            parent, element = nodes[prefix[:-1]], prefix[-1]
            nodes[prefix] = _descend(parent, element)
            if parent is not None and element.startswith("f:") and element[2:] in parent.properties:
                result.add(prefix)
    return frozenset(result)


def _descend(node: Node | None, element: str) -> Node | None:
    if node is None:
        return None
    return node.child(element[2:]) if element.startswith("f:") else node.items


def remove(node: Node | None, value: JsonValue, paths: FieldSet) -> JsonValue:
    """The value without these paths and all below them; a container that this empties goes, too."""
    return _remove(node, value, trie(paths)) if paths else value


def _remove(node: Node | None, value: JsonValue, doomed: Trie) -> JsonValue:
    if is_atomic(node, value):
        return value
    if isinstance(value, dict):
        result: dict[str, JsonValue] = {}
        for key, member in value.items():
            below = doomed.get(f"f:{key}")
            _keep(result, key, node.child(key) if node else None, member, below)
        return result
    assert node is not None
    kept: dict[str, JsonValue] = {}
    for element, item in items_by_element(node, value).items():
        _keep(kept, element, node.items, item, doomed.get(element))
    return list(kept.values())


def _keep(result: dict[str, JsonValue], name: str, node: Node | None, value: JsonValue, doomed: Trie | None) -> None:
    if doomed is None:
        result[name] = value
    elif MEMBER not in doomed:
        rest = _remove(node, value, doomed)
        if rest or not value:
            result[name] = rest
