"""API discovery, plain and aggregated, and OpenAPI v3 documents: enough for kubectl."""

import hashlib
from collections.abc import Sequence
from typing import Final

import orjson
from starlette.responses import Response

from controller_runtime import JsonObject
from embedded_apiserver.http import Request
from embedded_apiserver.patching import patch_types
from embedded_apiserver.resources import ALL_VERBS, STATUS_VERBS, Registry, ResourceType
from embedded_apiserver.serving import JSON

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


_VERSIONS: Final = ("v2", "v2beta1")
_KIND: Final = "APIGroupDiscoveryList"


def asked_version(request: Request) -> str:
    """The version of aggregated discovery that a client prefers to the plain form; "" for none."""
    for alternative in request.headers.get("accept", "").split(","):
        kind, *rest = (part.strip() for part in alternative.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        if kind == JSON and parameters.get("as") == _KIND and parameters.get("v") in _VERSIONS:
            return parameters["v"]
        if kind == JSON and "as" not in parameters:
            return ""
    return ""


def answer(registry: Registry, request: Request, version: str, *, core: bool) -> Response:
    """The document of the core group, or of all others; 304 for a client that has it already."""
    groups = registry.group_versions()
    document = {
        "kind": _KIND,
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_group(registry, name, versions) for name, versions in groups.items() if (name == "") == core],
    }
    body = orjson.dumps(document)
    tag = f'"{hashlib.sha512(body).hexdigest().upper()}"'
    form = f"{JSON};g=apidiscovery.k8s.io;v={version};as={_KIND}"
    headers = {"content-type": form, "etag": tag, "vary": "Accept", "cache-control": "public"}
    if request.headers.get("if-none-match") == tag:
        # Clients take the form of what they kept from here.
        return Response(b"", 304, headers)
    return Response(body, 200, headers)


def _group(registry: Registry, name: str, versions: list[str]) -> JsonObject:
    entries = [
        {
            "version": version,
            "resources": [_resource(one) for one in sorted(registry.of(name, version), key=lambda one: one.plural)],
            "freshness": "Current",
        }
        for version in preferred(versions)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": entries}


def _resource(resource: ResourceType) -> JsonObject:
    entry: JsonObject = {
        "resource": resource.plural,
        "responseKind": _kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": ["create"] if resource.virtual else list(ALL_VERBS),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = _subresources(resource)
    return entry | ({"subresources": subresources} if subresources else {})


def _subresources(resource: ResourceType) -> list[JsonObject]:
    found: list[JsonObject] = []
    if resource.has_status:
        found.append({"subresource": "status", "responseKind": _kind(resource), "verbs": list(STATUS_VERBS)})
    if resource.scale:
        kind = {"group": "autoscaling", "version": "v1", "kind": "Scale"}
        found.append({"subresource": "scale", "responseKind": kind, "verbs": list(STATUS_VERBS)})
    return found + [
        {"subresource": name, "responseKind": _kind(resource), "verbs": list(EXTRA_VERBS[name])}
        for name in resource.extra_subresources
    ]


def _kind(resource: ResourceType) -> JsonObject:
    # Built-in kinds leave the group and version to the place where they stand.
    place = (resource.group, resource.version) if resource.custom else ("", "")
    return {"group": place[0], "version": place[1], "kind": resource.kind}


_QUERY: Final = ("dryRun", "fieldManager", "fieldValidation")


def index(registry: Registry) -> JsonObject:
    """The document that names the documents of all group versions."""
    paths: JsonObject = {}
    for group, versions in registry.group_versions().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            digest = hashlib.sha256(orjson.dumps(document(registry, group, version))).hexdigest()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest.upper()}"}
    return {"paths": paths}


def document(registry: Registry, group: str, version: str) -> JsonObject | None:
    """The document of one group version, None if it is not served."""
    types = registry.of(group, version)
    if not types:
        return None
    paths: JsonObject = {}
    for resource in types:
        paths |= _paths(resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
        "paths": paths,
        "components": {"schemas": {_component(resource): _schema(resource) for resource in types}},
    }


def _gvk(resource: ResourceType) -> JsonObject:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _component(resource: ResourceType) -> str:
    reverse = ".".join(reversed(resource.group.split("."))) if resource.group else "io.k8s.api.core"
    return f"{reverse}.{resource.version}.{resource.kind}"


def _schema(resource: ResourceType) -> JsonObject:
    schema = dict(resource.schema.openapi) if resource.schema else {"type": "object"}
    return schema | {"x-kubernetes-group-version-kind": [_gvk(resource)]}


def _paths(resource: ResourceType) -> JsonObject:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    base = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    collection = {"get": _operation(resource, "list", ()), "post": _operation(resource, "post", _QUERY)}
    single = {
        "get": _operation(resource, "get", ()),
        "put": _operation(resource, "put", _QUERY),
        "patch": _operation(resource, "patch", (*_QUERY, "force")),
        "delete": _operation(resource, "delete", ("dryRun",)),
    }
    return {base: collection, f"{base}/{{name}}": single}


def _operation(resource: ResourceType, action: str, query: tuple[str, ...]) -> JsonObject:
    reference = {"$ref": f"#/components/schemas/{_component(resource)}"}
    operation: JsonObject = {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(resource),
        "parameters": [{"name": name, "in": "query", "schema": {"type": "string"}} for name in query],
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
    }
    if action == "patch":
        # Without the strategic format here kubectl merges built-in kinds by the merge keys that it was built with.
        formats = [name for name in patch_types(resource) if "strategic" not in name]
        operation["requestBody"] = {"content": {name: {"schema": {"type": "object"}} for name in formats}}
    elif action in ("post", "put"):
        operation["requestBody"] = {"content": {"application/json": {"schema": reference}}}
    return operation
