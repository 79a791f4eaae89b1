"""Completing an object without overwriting anything of it (RC-126)."""

from typing import Final

from controller_runtime import JsonObject

_WHOLE: Final = frozenset({"spec.routing.gatewayRef", "spec.storage.downloadFilter"})
"""Blocks that are one value: half of one and half of another would be a third (RC-032)."""
_BY_NAME: Final = "spec.env"


def completed(base: JsonObject, addition: JsonObject) -> tuple[JsonObject, list[str]]:
    """``base`` with the fields that only ``addition`` has, and the paths at which both say something else."""
    conflicts: list[str] = []
    return {
        **base,
        "spec": _completed(base.get("spec") or {}, addition.get("spec") or {}, "spec", conflicts),
    }, conflicts


def _completed(base: JsonObject, addition: JsonObject, path: str, conflicts: list[str]) -> JsonObject:
    merged = dict(base)
    for name, value in addition.items():
        here = f"{path}.{name}"
        there = base.get(name)
        if value is None:
            # The API server stores no null: to it the field is absent (CC-009).
            continue
        if there is None:
            merged[name] = value
        elif here == _BY_NAME and isinstance(there, list) and isinstance(value, list):
            merged[name] = _named(there, value, conflicts)
        elif isinstance(there, dict) and isinstance(value, dict) and here not in _WHOLE:
            merged[name] = _completed(there, value, here, conflicts)
        elif not contains(there, value):
            conflicts.append(here)
    return merged


def _named(base: list[JsonObject], addition: list[JsonObject], conflicts: list[str]) -> list[JsonObject]:
    there = {entry.get("name"): entry for entry in base}
    for entry in addition:
        name = entry.get("name")
        if name in there and not contains(there[name], entry):
            conflicts.append(f"{_BY_NAME}[{name}]")
    return [*base, *(entry for entry in addition if entry.get("name") not in there)]


def contains(there: object, wanted: object) -> bool:
    """Whether a stored value is what was wanted; the API server may have added defaults to it."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return all(contains(there.get(name), value) for name, value in wanted.items())
    if isinstance(there, list) and isinstance(wanted, list):
        return len(there) == len(wanted) and all(map(contains, there, wanted))
    return there == wanted


def differences(there: object, wanted: object, path: str) -> list[str]:
    """Paths at which a stored object is not what was wanted."""
    if isinstance(there, dict) and isinstance(wanted, dict):
        return [one for name, value in wanted.items() for one in differences(there.get(name), value, f"{path}.{name}")]
    return [] if contains(there, wanted) else [path]
