"""OpenAPI v3 documents, one per group version: enough for kubectl's apply, explain and server-side validation."""

import hashlib
from typing import Final

import orjson

from aim_local.apiserver.discovery import VERSION
from aim_local.apiserver.patching import patch_types
from aim_local.apiserver.resources import Registry, ResourceType
from controller_runtime import JsonObject

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
