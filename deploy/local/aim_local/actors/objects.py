"""Small readings and writings of undecoded objects, shared by the actors; kinds and groups of pods."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from aim_domain import labels
from controller_runtime import JsonObject, Key, canonical
from controller_runtime.kind_names import KindName

SERVICE: Final = KindName("", "v1", "Service", "services", True)
PERSISTENT_VOLUME: Final = KindName("", "v1", "PersistentVolume", "persistentvolumes", False)
STORAGE_CLASS: Final = KindName("storage.k8s.io", "v1", "StorageClass", "storageclasses", False)
REPLICA_SET: Final = KindName("apps", "v1", "ReplicaSet", "replicasets", True)
SCALED_OBJECT: Final = KindName("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", True)
COLLECTOR: Final = KindName("opentelemetry.io", "v1beta1", "OpenTelemetryCollector", "opentelemetrycollectors", True)


LOCAL_PREFIX: Final = "local.aim/"
"""Annotations with this prefix speak to the actors."""


def uid_of(obj: JsonObject) -> str:
    """The object's UID."""
    return str(obj["metadata"]["uid"])


def labels_of(obj: JsonObject) -> dict[str, str]:
    """The object's labels."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: JsonObject) -> dict[str, str]:
    """The object's annotations."""
    return obj["metadata"].get("annotations") or {}


def is_going(obj: JsonObject) -> bool:
    """Whether the object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller_uid(obj: JsonObject) -> str:
    """UID of the controlling owner; empty without one."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def controller_name(obj: JsonObject, kind: str) -> str:
    """Name of the controlling owner; empty without one of this kind."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return next((str(one["name"]) for one in owners if one.get("controller") and one["kind"] == kind), "")


def by_controller(obj: JsonObject) -> tuple[str, ...]:
    """Groups objects by the UID of their controlling owner."""
    uid = controller_uid(obj)
    return (uid,) if uid else ()


def controlled_by(owner: JsonObject) -> JsonObject:
    """An owner reference with which the owner controls the new object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def now_text() -> str:
    """The present time as Kubernetes writes it."""
    return stamp(datetime.now(UTC))


def stamp(moment: datetime) -> str:
    """A time as Kubernetes writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def time_of(text: str) -> datetime:
    """A Kubernetes time."""
    return datetime.fromisoformat(text)


def short_hash(value: object, length: int = 10) -> str:
    """Hex digits that are the same for equal values."""
    return hashlib.sha256(canonical(value)).hexdigest()[:length]


def condition(type_: str, holds: bool | None, reason: str = "", message: str = "", **extra: object) -> JsonObject:
    """A condition without its time; ``holds`` None is Unknown."""
    status = "Unknown" if holds is None else str(holds)
    made: JsonObject = {"type": type_, "status": status, **extra}
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def timed(wanted: Iterable[JsonObject], present: Iterable[JsonObject], now: str) -> list[JsonObject]:
    """Conditions with `lastTransitionTime`, which stays while the status does."""
    before = {one["type"]: one for one in present}
    result = []
    for one in wanted:
        old = before.get(one["type"], {})
        kept = old.get("lastTransitionTime") if old.get("status") == one["status"] else None
        result.append({**one, "lastTransitionTime": kept or now})
    return result


def matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether labels satisfy an equality selector."""
    return all(labels.get(name) == value for name, value in selector.items())


def is_ready(pod: JsonObject) -> bool:
    """Whether a pod takes requests."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not is_going(pod)


_PREDICTOR: Final = "predictor "
_CLAIM: Final = "claim "


def pod_groups(pod: JsonObject) -> tuple[str, ...]:
    """All groups of a pod."""
    namespace, name = pod["metadata"]["namespace"], labels_of(pod).get(labels.KSERVE_INFERENCE_SERVICE)
    served = (predictor_group(Key(namespace, name)),) if name else ()
    return (*by_controller(pod), *served, *map(claim_group, claims_of(pod)))


def predictor_group(inference_service: Key) -> str:
    """The group of an InferenceService's pods."""
    return f"{_PREDICTOR}{inference_service}"


def claim_group(claim: Key) -> str:
    """The group of the pods that mount a claim."""
    return f"{_CLAIM}{claim}"


def claims_of(pod: JsonObject) -> list[Key]:
    """The claims that a pod mounts."""
    volumes = pod["spec"].get("volumes") or ()
    mounted = [volume["persistentVolumeClaim"] for volume in volumes if volume.get("persistentVolumeClaim")]
    return [Key(pod["metadata"]["namespace"], one["claimName"]) for one in mounted]
