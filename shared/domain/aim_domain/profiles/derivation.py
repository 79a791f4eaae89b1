"""Profiles derived from others: overlays of services, and the members of sets (PR-060 to PR-064)."""

import re
from collections.abc import Iterable
from typing import Final

from aim_domain.api.profile_shapes import ProfileOverrides, ServiceProfileOverrides
from aim_domain.profiles.selection import AnyProfile, version_of_image
from controller_runtime import JsonObject, to_json

_RUNTIME: Final = "aim-base"
_MAJOR_MINOR: Final = re.compile(r"v?([0-9]{1,9}\.[0-9]{1,9})([.-].*)?")
_OF_SPEC: Final = (
    *("aimId", "modelId", "profileId", "engine", "variant", "metric", "precision", "type", "autoSelectionPolicy"),
    *("primary", "engineArgs", "engineEnv", "acceleratorVendor", "acceleratorModel", "acceleratorType"),
    *("acceleratorCount", "acceleratorPartitioningMode", "resources", "image", "modelSources", "containerEnv"),
    *("imagePullSecrets", "serviceAccountName", "features"),
)
"""What a derived profile has of its source; caching ahead of use is not part of it."""
_REPLACING: Final = ("acceleratorModel", "acceleratorVendor", "acceleratorCount", "acceleratorPartitioningMode")
_IDENTITY: Final = ("aimId", "modelId", "profileId")


def derived_spec(source: AnyProfile, overrides: ServiceProfileOverrides | None, image: str = "") -> JsonObject:
    """The spec of a profile that is derived from ``source`` (PR-061).

    Args:
        image: of the set; that of the overrides takes precedence.
    """
    spec = {name: value for name, value in to_json(source.spec).items() if name in _OF_SPEC}
    given = {} if overrides is None else to_json(overrides)
    sources = given.get("modelSources") or []
    changed: JsonObject = {
        "image": derived_image(source, given.get("image") or image, new_weights=bool(sources)),
        **({"modelSources": sources, "modelId": sources[0]["modelId"]} if sources else {}),
        **{name: given[name] for name in (*_IDENTITY, *_REPLACING) if given.get(name) is not None},
        "containerEnv": _by_name(spec.get("containerEnv") or (), given.get("containerEnv") or ()),
        "engineEnv": {**(spec.get("engineEnv") or {}), **(given.get("engineEnv") or {})},
        "engineArgs": {**(spec.get("engineArgs") or {}), **(given.get("engineArgs") or {})},
        "features": list(dict.fromkeys((*(spec.get("features") or ()), *(given.get("features") or ())))),
    }
    merged = {**spec, **changed}
    return {name: value for name, value in merged.items() if value not in (None, "", [], {})}


def _by_name(lower: Iterable[JsonObject], higher: Iterable[JsonObject]) -> list[JsonObject]:
    merged = {one["name"]: one for one in lower}
    merged.update({one["name"]: one for one in higher})
    return list(merged.values())


def derived_image(source: AnyProfile, given: str, *, new_weights: bool) -> str:
    """The first that applies: the given one, the source's own, or the runtime that its image was built on (PR-062).

    An image of a model carries the id and the assumptions of its weights; others need the runtime alone.
    """
    own = source.spec.image
    if given:
        return given
    if not new_weights or not source.spec.model_sources:
        return own
    folder = own.partition("@")[0].rpartition("/")[0]
    place = f"{folder}/" if folder else ""
    base = source.status.base_image or ""
    if base:
        name = base.partition("@")[0].rpartition("/")[2].partition(":")[0]
        version = _major_minor(version_of_image(base))
        return f"{place}{name}:{version}" if version else own
    version = _major_minor(version_of_image(own))
    return f"{place}{_RUNTIME}:{version}" if version else own


def _major_minor(tag: str) -> str:
    found = _MAJOR_MINOR.fullmatch(tag)
    return found[1] if found is not None else ""


def is_changed(overrides: ServiceProfileOverrides | None) -> bool:
    """Whether the overrides say anything."""
    return overrides is not None and any(to_json(overrides).values())


def identity_of(overrides: ProfileOverrides | None, source: AnyProfile) -> str:
    """What tells members of one set apart: the id of the profile, else the name of its source (PR-063)."""
    own = overrides.profile_id if overrides is not None else None
    return own or source.spec.profile_id or source.name
