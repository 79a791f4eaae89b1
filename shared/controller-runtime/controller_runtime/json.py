"""JSON at the edges: the one alias for undecoded objects, canonical bytes, and fast decode."""

from typing import Any, TypeAlias, cast

import orjson

JsonObject: TypeAlias = dict[str, Any]
"""A decoded JSON object whose shape is not known at this place."""


def dumps(value: object) -> bytes:
    """Compact UTF-8 JSON in the given key order."""
    return orjson.dumps(value)


def canonical(value: object) -> bytes:
    """Compact UTF-8 JSON with sorted keys: equal values give equal bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def loads(data: bytes | str) -> JsonObject:
    """Decode a JSON object.

    Raises:
        ValueError: the text is not JSON, or not an object.
    """
    value = orjson.loads(data)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return cast(JsonObject, value)
