"""JSON patch (RFC 6902), JSON merge patch (RFC 7386) and strategic merge patch on decoded objects."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from controller_runtime import JsonObject
from embedded_apiserver.objects.schema import Schema
from embedded_apiserver.objects.schema_node import ListType, Node
from embedded_apiserver.objects.values import JsonValue, clone, same


class PatchError(Exception):
    """A patch can't be applied. `code` is the HTTP status, `reason` the Status reason."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        """Keep what the Status answer needs."""
        self.code = code
        self.reason = reason
        self.message = message
        super().__init__(message)


def _refusal() -> PatchError:
    # The real server keeps to itself which operation failed.
    return PatchError(422, "Invalid", "the server rejected our request due to an error in our request")


def _malformed(detail: str) -> PatchError:
    return PatchError(400, "BadRequest", f"error decoding patch: {detail}")


def _go_name(value: object) -> str:
    """How the real decoder names the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    names = {dict: "object", list: "array", str: "string", int: "number", float: "number"}
    return names.get(type(value), "null")


def merge_patch(obj: JsonObject, patch: object) -> JsonObject:
    """RFC 7386: members of the patch replace, null removes, objects merge.

    Raises:
        PatchError: the patch is not an object (400).
    """
    if not isinstance(patch, dict):
        raise _malformed(f"json: cannot unmarshal {_go_name(patch)} into Go value of type map[string]interface {{}}")
    return _merge(obj, patch)


def _merge(target: object, patch: dict[str, object]) -> JsonObject:
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge(result.get(key), value)
        else:
            result[key] = clone(value)
    return result


def json_patch(obj: JsonObject, ops: object) -> JsonObject:
    """Apply RFC 6902 operations in order, all or nothing.

    Raises:
        PatchError: no list of objects (400); an operation that does not fit, or a failed `test` (422).
    """
    if not isinstance(ops, list):
        raise _malformed(f"json: cannot unmarshal {_go_name(ops)} into Go value of type []handlers.jsonPatchOp")
    document: JsonValue = clone(obj)
    for op in ops:
        if not isinstance(op, dict):
            raise _malformed(f"json: cannot unmarshal {_go_name(op)} into Go value of type handlers.jsonPatchOp")
        operation = _OPERATIONS.get(op.get("op", ""))
        if operation is None or "path" not in op:
            raise _refusal()
        document = operation(document, op)
    if not isinstance(document, dict):
        raise _refusal()
    return document


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _refusal()
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(container: list[object], piece: str, *, end: bool) -> int:
    if end and piece == "-":
        return len(container)
    limit = len(container) if end else len(container) - 1
    if not piece.isdecimal() or int(piece) > limit:
        raise _refusal()
    return int(piece)


def _get(document: JsonValue, path: list[str]) -> JsonValue:
    for piece in path:
        if isinstance(document, dict) and piece in document:
            document = document[piece]
        elif isinstance(document, list):
            document = document[_index(document, piece, end=False)]
        else:
            raise _refusal()
    return document


def _put(document: JsonValue, path: list[str], value: JsonValue) -> JsonValue:
    if not path:
        return value
    parent = _get(document, path[:-1])
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif isinstance(parent, list):
        parent.insert(_index(parent, path[-1], end=True), value)
    else:
        raise _refusal()
    return document


def _take(document: JsonValue, path: list[str]) -> JsonValue:
    value = _get(document, path)
    if not path:
        raise _refusal()
    parent = _get(document, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return value


def _value(op: dict[str, JsonValue]) -> JsonValue:
    return clone(op.get("value"))


def _add(document: JsonValue, op: dict[str, JsonValue]) -> JsonValue:
    return _put(document, _pointer(op["path"]), _value(op))


def _remove(document: JsonValue, op: dict[str, JsonValue]) -> JsonValue:
    _take(document, _pointer(op["path"]))
    return document


def _replace(document: JsonValue, op: dict[str, JsonValue]) -> JsonValue:
    path = _pointer(op["path"])
    # Like the real server's library: a member that is not there yet is made, an index must exist.
    if path and isinstance(_get(document, path[:-1]), list):
        _take(document, path)
    return _put(document, path, _value(op))


def _move(document: JsonValue, op: dict[str, JsonValue]) -> JsonValue:
    return _put(document, _pointer(op["path"]), _take(document, _pointer(op.get("from"))))


def _copy(document: JsonValue, op: dict[str, JsonValue]) -> JsonValue:
    return _put(document, _pointer(op["path"]), clone(_get(document, _pointer(op.get("from")))))


def _test(document: JsonValue, op: dict[str, JsonValue]) -> JsonValue:
    path = _pointer(op["path"])
    parent = _get(document, path[:-1])
    # What is absent is equal to null.
    found = parent.get(path[-1]) if path and isinstance(parent, dict) else _get(document, path)
    if not same(found, _value(op)):
        raise _refusal()
    return document


_OPERATIONS: Final[dict[str, Callable[[JsonValue, dict[str, JsonValue]], JsonValue]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


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
