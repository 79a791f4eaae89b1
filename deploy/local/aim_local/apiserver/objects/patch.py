"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386) on decoded objects; the inputs stay unchanged."""

from collections.abc import Callable
from typing import Final

from aim_local.apiserver.objects.values import JsonValue, clone, same
from controller_runtime import JsonObject


class PatchError(Exception):
    """A patch can't be applied. `code` is the HTTP status, `reason` the Status reason."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        """Keep what the Status answer needs."""
        self.code = code
        self.reason = reason
        self.message = message
        super().__init__(message)


def _refused() -> PatchError:
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
            raise _refused()
        document = operation(document, op)
    if not isinstance(document, dict):
        raise _refused()
    return document


def _pointer(text: object) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _refused()
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(container: list[object], piece: str, *, end: bool) -> int:
    if end and piece == "-":
        return len(container)
    limit = len(container) if end else len(container) - 1
    if not piece.isdecimal() or int(piece) > limit:
        raise _refused()
    return int(piece)


def _get(document: JsonValue, path: list[str]) -> JsonValue:
    for piece in path:
        if isinstance(document, dict) and piece in document:
            document = document[piece]
        elif isinstance(document, list):
            document = document[_index(document, piece, end=False)]
        else:
            raise _refused()
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
        raise _refused()
    return document


def _take(document: JsonValue, path: list[str]) -> JsonValue:
    value = _get(document, path)
    if not path:
        raise _refused()
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
        raise _refused()
    return document


_OPERATIONS: Final[dict[str, Callable[[JsonValue, dict[str, JsonValue]], JsonValue]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
