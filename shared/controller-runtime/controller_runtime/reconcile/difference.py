"""Whether a write would change anything (FW-011, FW-013, FW-205, FW-409)."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from controller_runtime import annotation_keys, quantity
from controller_runtime.json import JsonObject, canonical

_UNCOUNTED: Final = frozenset({annotation_keys.APPLIED_HASH, annotation_keys.TRACEPARENT})
"""Annotations that never make a difference (FW-205, FW-409)."""

_QUANTITY_MAPS: Final = frozenset({"requests", "limits", "capacity", "allocatable"})
_QUANTITY_MEMBERS: Final = frozenset({"storage", "size", "sizeLimit", "minVram", "divisor", "averageValue"})


def applied_hash(body: JsonObject) -> str:
    """Hash of which members a desired object has, without the hash and trace annotations; their values do not count.

    A changed value shows in the comparison. Were it in the hash, too, a change of scale would roll all pods of an
    InferenceService: KServe copies its annotations to them.
    """
    return hashlib.sha256(canonical(_members(_comparable(body)))).hexdigest()[:32]


def _members(value: object) -> object:
    """A value reduced to its structure; what is empty is as good as absent."""
    if isinstance(value, dict):
        members = {key: _members(member) for key, member in value.items() if member not in (None, {}, [])}
        return {key: member for key, member in members.items() if member != {}}
    return [_members(item) for item in value] if isinstance(value, list | tuple) else ""


def needs_apply(desired: JsonObject, live: JsonObject | None) -> bool:
    """Whether a child has to be applied (FW-409): absent, hash absent or different, or no longer a subset.

    Equality would differ for ever, because others add defaults; a subset alone misses members that were removed.
    """
    if live is None:
        return True
    stored_hash = (live["metadata"].get("annotations") or {}).get(annotation_keys.APPLIED_HASH)
    return stored_hash != applied_hash(desired) or not is_subset(_comparable(desired), live)


def _comparable(desired: JsonObject) -> JsonObject:
    metadata = {key: value for key, value in desired["metadata"].items() if key != "annotations"}
    annotations = desired["metadata"].get("annotations") or {}
    metadata["annotations"] = {key: value for key, value in annotations.items() if key not in _UNCOUNTED}
    return {**desired, "metadata": metadata}


def is_subset(desired: object, live: object, path: tuple[str, ...] = ()) -> bool:
    """Maps by key, lists by index and equal length, owner references by UID, quantities by value (FW-409)."""
    if desired is None or (not desired and live is None and isinstance(desired, dict | list)):
        # Servers drop empty collections of built-in kinds; counting that as a difference would apply for ever.
        return True
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(
            is_subset(value, live.get(key), (*path, key)) for key, value in desired.items()
        )
    if isinstance(desired, list | tuple):
        return _is_list_subset(desired, live, path)
    return desired == live or (_is_quantity(path) and _same_quantity(desired, live))


FieldPath: TypeAlias = tuple[str | int, ...]
"""Members and indexes from the root of an object to one of its fields."""


def differing(desired: JsonObject, live: JsonObject) -> Iterator[tuple[FieldPath, object]]:
    """The fields for which `is_subset` fails, as deep as both sides have the same shape, with the desired value.

    Stamps that never make a difference are left out (FW-205).
    """
    yield from _differing(_comparable(desired), live, (), ())


def _differing(
    desired: object, live: object, at: FieldPath, path: tuple[str, ...]
) -> Iterator[tuple[FieldPath, object]]:
    if is_subset(desired, live, path):
        return
    if isinstance(desired, dict) and isinstance(live, dict):
        for name, value in desired.items():
            yield from _differing(value, live.get(name), (*at, name), (*path, name))
    elif isinstance(desired, list | tuple) and isinstance(live, list) and _is_by_index(desired, live, path):
        for index, (item, other) in enumerate(zip(desired, live, strict=True)):
            yield from _differing(item, other, (*at, index), path)
    else:
        yield at, desired


def _is_by_index(desired: Sequence[Any], live: Sequence[Any], path: tuple[str, ...]) -> bool:
    return len(desired) == len(live) and path != ("metadata", "ownerReferences")


def _is_list_subset(desired: Sequence[Any], live: object, path: tuple[str, ...]) -> bool:
    if not isinstance(live, list):
        return False
    if path == ("metadata", "ownerReferences"):
        by_uid = {reference["uid"]: reference for reference in live}
        return all(is_subset(reference, by_uid.get(reference["uid"])) for reference in desired)
    return len(desired) == len(live) and all(
        is_subset(item, other, path) for item, other in zip(desired, live, strict=True)
    )


def _is_quantity(path: tuple[str, ...]) -> bool:
    return bool(path) and (path[-1] in _QUANTITY_MEMBERS or (len(path) > 1 and path[-2] in _QUANTITY_MAPS))


def _same_quantity(one: object, other: object) -> bool:
    if not (isinstance(one, int | str) and isinstance(other, int | str)):
        return False
    left, right = quantity.parse_or_none(one), quantity.parse_or_none(other)
    return left is not None and right is not None and left.value == right.value


def same_status(desired: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Whether two statuses mean the same: absent and null alike, conditions in any order (FW-011)."""
    # Nearly every pass changes nothing, and most statuses come out as they are stored, to the letter.
    return desired == stored or _status_form(desired) == _status_form(stored)


def _status_form(status: Mapping[str, Any]) -> bytes:
    conditions = {condition["type"]: condition for condition in status.get("conditions") or []}
    return canonical(_plain({**status, "conditions": conditions}))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        reduced = {key: _plain(member) for key, member in value.items()}
        return {key: member for key, member in reduced.items() if member not in (None, {}, [])}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
