"""Pruning of unknown fields and defaulting, in place, over compiled nodes."""

from aim_local.apiserver.objects.schema_node import MISSING, Node
from aim_local.apiserver.objects.values import clone


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
