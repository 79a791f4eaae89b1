"""PATCH: the four patch formats, each turned into an update or an apply."""

from collections.abc import Callable
from typing import Final

import orjson
import yaml

from controller_runtime import JsonObject
from embedded_apiserver import protobuf, status
from embedded_apiserver.objects.patch import PatchError, json_patch, merge_patch, strategic_merge
from embedded_apiserver.resources import ResourceType

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_APPLIERS: Final[dict[str, Callable[[JsonObject, object, ResourceType], JsonObject]]] = {
    JSON_PATCH: lambda obj, patch, _resource: json_patch(obj, patch),
    MERGE_PATCH: lambda obj, patch, _resource: merge_patch(obj, patch),
    STRATEGIC_PATCH: lambda obj, patch, resource: strategic_merge(obj, patch, resource.schema),
}


def patch_types(resource: ResourceType) -> list[str]:
    """The patch formats that a type takes."""
    formats = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    return formats if resource.custom else [*formats, STRATEGIC_PATCH]


def media_type(header: str) -> str:
    """A Content-Type without its parameters."""
    return header.split(";", maxsplit=1)[0].strip()


def decode(body: bytes, content_type: str) -> JsonObject:
    """The object in a request body, JSON or YAML.

    Raises:
        ApiError: 415 for another format, 400 for a body that is no object.
    """
    kind = media_type(content_type) or "application/json"
    if kind == protobuf.MEDIA_TYPE:
        return protobuf.decode(body)
    if kind not in ("application/json", "application/yaml", "application/x-yaml", "*/*", APPLY_PATCH):
        raise status.unsupported_media_type(["application/json", "application/yaml", protobuf.MEDIA_TYPE])
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _decode_yaml(body)
    if not isinstance(value, dict):
        raise status.bad_request("the body of the request is not a JSON object: send one Kubernetes object")
    return value


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: timestamps stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _decode_yaml(body: bytes) -> object:
    try:
        loader = _Loader(body)
        try:
            value: object = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise status.bad_request(f"the body of the request can't be decoded as JSON or YAML: {error}") from error
    return value


def patched(resource: ResourceType, live: JsonObject, body: bytes, content_type: str) -> JsonObject:
    """The live object (which is left unchanged) after a JSON, merge or strategic merge patch.

    Raises:
        ApiError: the patch is malformed, does not fit, or is of a format that the type does not take.
    """
    kind = media_type(content_type)
    if kind not in patch_types(resource):
        raise status.unsupported_media_type(patch_types(resource))
    try:
        return _APPLIERS[kind](live, orjson.loads(body), resource)
    except orjson.JSONDecodeError as error:
        raise status.bad_request(f"error decoding patch: {error}") from error
    except PatchError as error:
        details: JsonObject | None = {} if error.code == 422 else None
        raise status.ApiError(error.code, status.Reason(error.reason), error.message, details) from error
