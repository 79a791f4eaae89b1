"""Strategic merge patch: lists merge by key where the schema says so, with `$` directives."""

from collections.abc import Iterable
from typing import Any, Final

from aim_local.apiserver.objects.patch import PatchError
from aim_local.apiserver.objects.schema import Schema
from aim_local.apiserver.objects.schema_node import ListType, Node
from aim_local.apiserver.objects.values import JsonValue, clone
from controller_runtime import JsonObject

_PATCH: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_PRIMITIVE: Final = "$deleteFromPrimitiveList/"


def strategic_merge(obj: JsonObject, patch: object, schema: Schema | None) -> JsonObject:
    """The object with the patch applied; without a schema all lists are replaced.

    Raises:
        PatchError: the patch is no object, an element lacks its merge key, or a directive is unknown (400).
    """
    if not isinstance(patch, dict):
        raise _bad("a strategic merge patch must be a JSON object")
    return _merge_object(obj, patch, schema.root if schema else None)


def _bad(detail: str) -> PatchError:
    return PatchError(400, "BadRequest", f"error decoding patch: {detail}")


def _merge_object(target: JsonObject, patch: dict[str, JsonValue], node: Node | None) -> JsonObject:
    match patch.get(_PATCH, "merge"):
        case "replace":
            return {key: clone(value) for key, value in patch.items() if key != _PATCH}
        case "delete":
            return {}
        case "merge":
            pass
        case other:
            raise _bad(f"unknown $patch directive {other!r}: use merge, replace or delete")
    result = dict(target)
    if _RETAIN in patch:
        retained = set(patch[_RETAIN])
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith(_DELETE_PRIMITIVE):
            name = key.removeprefix(_DELETE_PRIMITIVE)
            result[name] = [item for item in result.get(name) or [] if item not in value]
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_member(result, key, value, node.child(key) if node else None)
    for key, order in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            if isinstance(result.get(name), list):
                result[name] = _ordered(result[name], order, node.child(name) if node else None)
    return result


def _merge_member(result: JsonObject, key: str, value: JsonValue, node: Node | None) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        former = result.get(key)
        if value.get(_PATCH) == "delete":
            result.pop(key, None)
            return
        replaced = node is not None and "replace" in node.patch_strategies
        result[key] = _merge_object(former if isinstance(former, dict) and not replaced else {}, value, node)
    elif isinstance(value, list) and node is not None and merges(node):
        result[key] = _merge_list(result.get(key) or [], value, node, key)
    else:
        result[key] = clone(value)


def merges(node: Node) -> bool:
    """Whether patches merge into a list of this schema instead of replacing it."""
    return "merge" in node.patch_strategies


def _merge_key(node: Node) -> str:
    return node.patch_key or (node.list_keys[0] if node.list_type is ListType.MAP else "")


def _merge_list(target: list[JsonValue], patch: list[JsonValue], node: Node, name: str) -> list[JsonValue]:
    key = _merge_key(node)
    if not key:
        return target + [item for item in patch if item not in target]
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patch):
        return [clone(item) for item in patch if item.get(_PATCH) != "replace"]
    result = list(target)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise _bad(f"map: {item!r} in {name} does not contain declared merge key: {key}")
        _merge_element(result, item, key, node)
    return result


def _merge_element(result: list[JsonValue], item: dict[str, JsonValue], key: str, node: Node) -> None:
    matching = [
        index for index, former in enumerate(result) if isinstance(former, dict) and former.get(key) == item[key]
    ]
    if item.get(_PATCH) == "delete":
        result[:] = [former for index, former in enumerate(result) if index not in matching]
    elif matching:
        result[matching[0]] = _merge_object(result[matching[0]], item, node.items)
    else:
        result.append(_merge_object({}, item, node.items))


def _ordered(items: list[JsonValue], order: Iterable[Any], node: Node | None) -> list[JsonValue]:
    key = _merge_key(node) if node else ""

    def identity(item: JsonValue) -> JsonValue:
        return item.get(key) if key and isinstance(item, dict) else item

    wanted = [identity(item) for item in order]
    listed = sorted((item for item in items if identity(item) in wanted), key=lambda item: wanted.index(identity(item)))
    # Elements that the order does not name stay in front of the element they preceded.
    result: list[JsonValue] = []
    for item in items:
        if identity(item) in wanted:
            result.append(listed.pop(0))
        else:
            result.append(item)
    return result
