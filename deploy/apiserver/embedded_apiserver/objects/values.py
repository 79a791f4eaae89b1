"""Decoded JSON values of any shape."""

from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar, cast

JsonValue: TypeAlias = Any
"""Object, list, string, number, boolean or null: what these modules walk over without a model."""

_T = TypeVar("_T")


def clone(value: _T) -> _T:
    """A deep copy of plain JSON, several times faster than `copy.deepcopy`."""
    return cast(_T, _clone(value))


def _clone(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _clone(item) if isinstance(item, dict | list) else item for key, item in value.items()}
    if isinstance(value, list):
        return [_clone(item) if isinstance(item, dict | list) else item for item in value]
    return value


def same(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON, which unlike Python keeps `true` and `1` apart."""
    return left is right or (left == right and _alike(left, right))


def _alike(left: JsonValue, right: JsonValue) -> bool:
    """Whether equal values have their booleans at the same places."""
    pairs: Iterable[tuple[JsonValue, JsonValue]]
    if isinstance(left, dict):
        pairs = ((value, right[key]) for key, value in left.items())
    elif isinstance(left, list):
        pairs = zip(left, right, strict=True)
    else:
        return isinstance(left, bool) == isinstance(right, bool)
    # Most values are strings or shared with the other side: looking into those would cost most of the time.
    return all(one is other or isinstance(one, str) or _alike(one, other) for one, other in pairs)
