"""Small builders for OpenAPI v3 schemas of built-in kinds."""

from typing import Final

from aim_local.apiserver.objects.values import JsonValue
from aim_shared.json import JsonObject

STRING: Final[JsonObject] = {"type": "string"}
BOOL: Final[JsonObject] = {"type": "boolean"}
INT32: Final[JsonObject] = {"type": "integer", "format": "int32"}
INT64: Final[JsonObject] = {"type": "integer", "format": "int64"}
TIME: Final[JsonObject] = {"type": "string", "nullable": True}
INT_OR_STRING: Final[JsonObject] = {"x-kubernetes-int-or-string": True}
STRING_MAP: Final[JsonObject] = {"type": "object", "additionalProperties": STRING}
QUANTITIES: Final[JsonObject] = {"type": "object", "additionalProperties": INT_OR_STRING}
STRINGS: Final[JsonObject] = {"type": "array", "items": STRING, "x-kubernetes-list-type": "atomic"}
ANY_OBJECT: Final[JsonObject] = {"type": "object"}


def default(schema: JsonObject, value: JsonValue) -> JsonObject:
    """The schema with a default."""
    return {**schema, "default": value}


def choice(*values: str) -> JsonObject:
    """A string of a closed set."""
    return {"type": "string", "enum": list(values)}


def record(*required: str, **properties: JsonObject) -> JsonObject:
    """An object with these members; others are kept as they are."""
    schema: JsonObject = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def atomic(schema: JsonObject) -> JsonObject:
    """The object with a single owner."""
    return {**schema, "x-kubernetes-map-type": "atomic"}


def listing(items: JsonObject) -> JsonObject:
    """A list that is replaced as a whole."""
    return {"type": "array", "items": items, "x-kubernetes-list-type": "atomic"}


def keyed(items: JsonObject, *keys: str, patch_key: str | None = None) -> JsonObject:
    """A list-map by these keys, which strategic merge patches merge by the first one, or by `patch_key`."""
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "x-kubernetes-patch-merge-key": patch_key or keys[0],
        "x-kubernetes-patch-strategy": "merge",
    }


def set_of(items: JsonObject) -> JsonObject:
    """A list of distinct values that merges."""
    return {
        "type": "array",
        "items": items,
        "x-kubernetes-list-type": "set",
        "x-kubernetes-patch-strategy": "merge",
    }


def conditions() -> JsonObject:
    """A status' condition list, by type."""
    return keyed(
        record(
            "type", "status", type=STRING, status=STRING, reason=STRING, message=STRING, lastTransitionTime=TIME,
            observedGeneration=INT64,
        ),
        "type",
    )  # fmt: skip


LABEL_SELECTOR: Final = atomic(
    record(
        matchLabels=STRING_MAP,
        matchExpressions=listing(record("key", "operator", key=STRING, operator=STRING, values=STRINGS)),
    )
)
LOCAL_REFERENCE: Final = atomic(record(name=default(STRING, "")))
OBJECT_REFERENCE: Final = atomic(
    record(
        apiVersion=STRING, fieldPath=STRING, kind=STRING, name=STRING, namespace=STRING, resourceVersion=STRING,
        uid=STRING,
    )
)  # fmt: skip
