"""Decoded JSON values of any shape."""

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
