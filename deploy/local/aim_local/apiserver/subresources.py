"""The `scale` and `binding` subresources."""

from dataclasses import replace
from typing import Final

from aim_local.apiserver import status
from aim_local.apiserver.objects.errors import FieldError, FieldErrorKind
from aim_local.apiserver.resources import ResourceType, ScalePaths
from aim_local.apiserver.store import Version
from aim_local.apiserver.values import timestamp
from controller_runtime import JsonObject

_MOST_REPLICAS: Final = 2**31 - 1


def scale_of(resource: ResourceType, version: Version) -> JsonObject:
    """The autoscaling/v1 Scale of an object."""
    assert resource.scale is not None
    obj, paths = version.obj, resource.scale
    metadata = {
        key: obj["metadata"][key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in obj["metadata"]
    }
    scaled: JsonObject = {"replicas": _at(obj, paths.status_replicas) or 0}
    selector = _selector_text(obj, paths)
    if selector:
        scaled["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": _at(obj, paths.spec_replicas) or 0},
        "status": scaled,
    }


def with_replicas(resource: ResourceType, obj: JsonObject, scale: JsonObject) -> JsonObject:
    """The object (changed in place) with the replicas of a Scale.

    Raises:
        ApiError: 422 for a negative or missing number.
    """
    assert resource.scale is not None
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        path, detail = ".spec.replicas", "should be a non-negative integer"
        if not resource.custom:
            path, detail = "spec.replicas", "must be greater than or equal to 0"
        error = FieldError(path, FieldErrorKind.INVALID, detail, replicas)
        raise status.invalid(resource, obj["metadata"]["name"], [error])
    parent = obj
    for step in resource.scale.spec_replicas[:-1]:
        parent = parent.setdefault(step, {})
    parent[resource.scale.spec_replicas[-1]] = replicas
    revision = (scale.get("metadata") or {}).get("resourceVersion")
    if revision:
        obj["metadata"]["resourceVersion"] = revision
    return obj


def scale_errors(resource: ResourceType, obj: JsonObject) -> list[FieldError]:
    """What a Scale could not carry: a custom resource's integers have 64 bits, a Scale's 32."""
    if not resource.custom or resource.scale is None:
        return []
    replicas = _at(obj, resource.scale.spec_replicas)
    if not isinstance(replicas, int) or replicas <= _MOST_REPLICAS:
        return []
    path = "." + ".".join(resource.scale.spec_replicas)
    return [FieldError(path, FieldErrorKind.INVALID, f"should be less than or equal to {_MOST_REPLICAS}", replicas)]


def _at(obj: object, path: tuple[str, ...]) -> object:
    for step in path:
        obj = obj.get(step) if isinstance(obj, dict) else None
    return obj


def _selector_text(obj: JsonObject, paths: ScalePaths) -> str:
    selector = _at(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        return ",".join(f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items())
    return selector if isinstance(selector, str) else ""


def bound_pod(resource: ResourceType, live: Version, binding: JsonObject, now: float) -> JsonObject:
    """The pod after a scheduler's Binding.

    Raises:
        ApiError: 409 for a pod that has a node or is being deleted, 400 or 500 for a binding that lacks something.
    """
    name, node = live.key[1], (binding.get("target") or {}).get("name")
    if (binding.get("metadata") or {}).get("name") != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    if not node:
        raise status.internal("target.name: Required value")
    taken = live.obj["spec"].get("nodeName")
    why = ""
    if live.obj["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif taken:
        why = f'pod {name} is already assigned to node "{taken}"'
    if why:
        raise status.conflict(replace(resource, plural="pods/binding"), name, why)
    pod = live.copy()
    pod["spec"]["nodeName"] = node
    others = [c for c in pod["status"].get("conditions", []) if c.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": timestamp(now)}
    pod["status"]["conditions"] = [*others, scheduled]
    return pod
