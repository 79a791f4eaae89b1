"""What of the large kinds is published: just what consumers read (docs/spec/README.md section 8, row 12).

Each function returns a new object that shares unchanged members with the old one.
"""

from collections.abc import Iterable
from typing import Final

from aim_domain import labels
from controller_runtime import JsonObject

_META: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "labels",
    "ownerReferences",
)
_SCALING_CONDITIONS: Final = ("ScalingActive", "AbleToScale")
_RESCALED: Final = "SucceededRescale"
"""Reason of `AbleToScale` in the one version in which the autoscaler has just changed the replicas."""
_CONTAINER_STATUS: Final = ("name", "ready", "restartCount", "state", "lastState", "started")


def _pick(obj: JsonObject, names: Iterable[str]) -> JsonObject:
    return {name: obj[name] for name in names if name in obj}


def _head(obj: JsonObject, *extra_metadata: str) -> JsonObject:
    head = _pick(obj, ("apiVersion", "kind"))
    return {**head, "metadata": _pick(obj["metadata"], (*_META, *extra_metadata))}


def pod(obj: JsonObject) -> JsonObject:
    """Identity, node, phase, conditions, container states and the claims that the pod mounts."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claims = [_pick(volume, ("name", "persistentVolumeClaim")) for volume in spec.get("volumes") or []]
    containers = {
        field: [_pick(entry, _CONTAINER_STATUS) for entry in status[field]]
        for field in ("initContainerStatuses", "containerStatuses")
        if status.get(field)
    }
    return {
        **_head(obj),
        "spec": {**_pick(spec, ("nodeName",)), "volumes": [one for one in claims if "persistentVolumeClaim" in one]},
        "status": {**_pick(status, ("phase", "reason", "message", "conditions", "podIP")), **containers},
    }


def job(obj: JsonObject) -> JsonObject:
    """Identity, annotations and how far the Job is."""
    status = _pick(obj.get("status") or {}, ("active", "succeeded", "failed", "conditions", "startTime"))
    return {**_head(obj, "annotations"), "status": status}


def node(obj: JsonObject) -> JsonObject:
    """Labels, taints with the mark of ours, and the extended resources. Heartbeats leave the result unchanged."""
    status = obj.get("status") or {}
    resources = {
        field: {name: amount for name, amount in status[field].items() if "/" in name}
        for field in ("capacity", "allocatable")
        if status.get(field)
    }
    head = _head(obj)
    head["metadata"].pop("generation", None)
    if mark := _pick(obj["metadata"].get("annotations") or {}, (labels.ANNOTATION_GPU_TAINT,)):
        head["metadata"]["annotations"] = mark
    return {**head, "spec": _pick(obj.get("spec") or {}, ("unschedulable", "taints")), "status": resources}


def autoscaler(obj: JsonObject) -> JsonObject:
    """Bounds, targets, replicas, and the two conditions that tell whether it works.

    Metric samples, which come every fifteen seconds, leave the result unchanged; that of the very change of replicas
    goes with it, which is news anyway (FW-724).
    """
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    conditions = [
        _pick(one, ("type", "status", "reason", "message"))
        for one in status.get("conditions") or []
        if one.get("type") in _SCALING_CONDITIONS
    ]
    has_rescaled = any(one.get("reason") == _RESCALED for one in conditions)
    reported = ("currentReplicas", "desiredReplicas", *(("currentMetrics",) if has_rescaled else ()))
    return {
        **_head(obj),
        "spec": _pick(spec, ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics")),
        "status": {**_pick(status, reported), "conditions": conditions},
    }


def inference_service(obj: JsonObject) -> JsonObject:
    """All that is desired, because it is compared with what should be; of the status the conditions and the address."""
    status = _pick(obj.get("status") or {}, ("conditions", "observedGeneration", "url"))
    return {**obj, "status": status} if status or "status" in obj else obj


def gateway(obj: JsonObject) -> JsonObject:
    """Whether gateway and listeners serve. The count of attached routes, which each changes, is left out (RT-232)."""
    status = obj.get("status") or {}
    listeners = [
        {**_pick(one, ("name",)), "conditions": _programmed(one)}
        for one in status.get("listeners") or []
        if _programmed(one)
    ]
    return {**_head(obj), "status": {"conditions": _programmed(status), "listeners": listeners}}


def _programmed(status: JsonObject) -> list[JsonObject]:
    fields = ("type", "status", "reason", "message", "observedGeneration")
    return [_pick(one, fields) for one in status.get("conditions") or [] if one.get("type") == "Programmed"]


def namespace(obj: JsonObject) -> JsonObject:
    """Annotations (quota), phase and the deletion timestamp."""
    return {**_head(obj, "annotations"), "status": _pick(obj.get("status") or {}, ("phase",))}


def event(obj: JsonObject) -> JsonObject:
    """What an Event says, of what, and when."""
    fields = ("involvedObject", "type", "reason", "message", "count", "series")
    times = ("firstTimestamp", "lastTimestamp", "eventTime")
    return {**_head(obj), **_pick(obj, (*fields, *times))}
