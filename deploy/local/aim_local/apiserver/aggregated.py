"""Aggregated discovery (apidiscovery.k8s.io/v2): all groups and resources in one document; kubectl asks it first."""

import hashlib
from typing import Final

import orjson
from starlette.responses import Response

from aim_local.apiserver.discovery import EXTRA_VERBS, preferred
from aim_local.apiserver.http import Request
from aim_local.apiserver.resources import ALL_VERBS, STATUS_VERBS, Registry, ResourceType
from aim_local.serving import JSON
from controller_runtime import JsonObject

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
