"""API discovery: /version, /api, /apis and the resource lists of each group version."""

from collections.abc import Sequence
from typing import Final

from aim_local.apiserver.resources import ALL_VERBS, STATUS_VERBS, Registry, ResourceType
from controller_runtime import JsonObject

VERSION: Final[JsonObject] = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.4+aim-local",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}

CORE_VERSIONS: Final[JsonObject] = {
    "kind": "APIVersions",
    "versions": ["v1"],
    "serverAddressByClientCIDRs": [],
}

EXTRA_VERBS: Final = {"log": ("get",), "binding": ("create",), "finalize": ("update",)}
"""Verbs of the subresources that only some built-in kinds have."""


def preferred(versions: Sequence[str]) -> list[str]:
    """Versions as Kubernetes ranks them: GA first, then beta, then alpha, higher numbers first."""
    stage = {"beta": 1, "alpha": 2}

    def rank(version: str) -> tuple[int, list[int]]:
        level = next((number for word, number in stage.items() if word in version), 0)
        numbers = [int(n) for n in "".join(c if c.isdigit() else " " for c in version).split()]
        return level, [-number for number in numbers]

    return sorted(versions, key=rank)


def group(name: str, versions: Sequence[str]) -> JsonObject:
    """The APIGroup of one group."""
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in preferred(versions)]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def group_list(registry: Registry) -> JsonObject:
    """The APIGroupList of all groups but the core one."""
    groups = [group(name, versions) for name, versions in registry.group_versions().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def resource_list(registry: Registry, name: str, version: str) -> JsonObject | None:
    """The APIResourceList of a group version, None if it is not served."""
    types = registry.of(name, version)
    if not types:
        return None
    resources = [entry for resource in types for entry in _entries(resource)]
    api_version = types[0].api_version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": resources}


def _entries(resource: ResourceType) -> list[JsonObject]:
    main: JsonObject = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["create"] if resource.virtual else list(ALL_VERBS),
    }
    if resource.short_names:
        main["shortNames"] = list(resource.short_names)
    if resource.categories:
        main["categories"] = list(resource.categories)
    entries = [main]
    if resource.has_status:
        entries.append(_subresource(resource, "status", STATUS_VERBS))
    if resource.scale:
        scale = _subresource(resource, "scale", STATUS_VERBS)
        entries.append(scale | {"group": "autoscaling", "version": "v1", "kind": "Scale"})
    return entries + [_subresource(resource, name, EXTRA_VERBS[name]) for name in resource.extra_subresources]


def _subresource(resource: ResourceType, name: str, verbs: Sequence[str]) -> JsonObject:
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(verbs),
    }
