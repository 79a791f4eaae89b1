"""What the server itself decides about an object when it is made or changed: pure functions over plain data."""

import base64
import secrets
import uuid
from collections.abc import Callable
from typing import Final

from aim_local.apiserver.objects.errors import FieldError, FieldErrorKind
from aim_local.apiserver.resources import ResourceType
from aim_local.apiserver.values import dig, timestamp
from controller_runtime import JsonObject

_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_SYSTEM_METADATA: Final = (
    "uid", "creationTimestamp", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds",
    "resourceVersion",
)  # fmt: skip


def generated_name(prefix: str) -> str:
    """A name from a generateName prefix, which is cut to leave room for the suffix."""
    return prefix[:58] + "".join(secrets.choice(_SUFFIX) for _ in range(5))


def begin(resource: ResourceType, obj: JsonObject, now: float) -> None:
    """Give a new object its system metadata and take away what a creator may not set; in place."""
    metadata = obj["metadata"]
    for name in _SYSTEM_METADATA:
        metadata.pop(name, None)
    metadata["uid"] = str(uuid.uuid4())
    metadata["creationTimestamp"] = timestamp(now)
    if resource.tracks_generation:
        metadata["generation"] = 1
    if resource.has_status:
        obj.pop("status", None)
    initial = _ON_CREATE.get(resource.qualified)
    if initial is not None:
        initial(obj)


def drop_empty(metadata: JsonObject) -> None:
    """Leave out what is empty in the metadata, as every kind does; in place."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]


def carry_over(resource: ResourceType, old: JsonObject, new: JsonObject) -> None:
    """Keep in an update what only the server changes: identity, deletion marks, status and generation; in place."""
    before, after = old["metadata"], new["metadata"]
    for name in _SYSTEM_METADATA:
        after.pop(name, None)
        if name in before:
            after[name] = before[name]
    if resource.has_status:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    on_update = _ON_UPDATE.get(resource.qualified)
    if on_update is not None:
        on_update(old, new)
    if resource.tracks_generation and _desired(resource, old) != _desired(resource, new):
        after["generation"] = before.get("generation", 0) + 1


def with_status_only(resource: ResourceType, old: JsonObject, new: JsonObject) -> JsonObject:
    """The old object with the status of the new one; managed fields are taken over for the field manager to judge."""
    result = {key: value for key, value in old.items() if key != "status"}
    if "status" in new:
        result["status"] = new["status"]
    result["metadata"] = dict(old["metadata"])
    if resource.qualified == "nodes" and "labels" in new["metadata"]:
        result["metadata"]["labels"] = new["metadata"]["labels"]
    return result


def _desired(resource: ResourceType, obj: JsonObject) -> JsonObject:
    dropped = {"metadata", "apiVersion", "kind"} | ({"status"} if resource.has_status else set())
    return {key: value for key, value in obj.items() if key not in dropped}


def check_update(resource: ResourceType, old: JsonObject, new: JsonObject) -> list[FieldError]:
    """The errors of a change: what may not change once it is set, and finalizers that come too late."""
    errors = []
    if old["metadata"].get("deletionTimestamp"):
        before = set(old["metadata"].get("finalizers") or [])
        added = [f for f in new["metadata"].get("finalizers") or [] if f not in before]
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            errors.append(FieldError("metadata.finalizers", FieldErrorKind.FORBIDDEN, detail, None))
    return errors + [
        FieldError(path, FieldErrorKind.INVALID, "field is immutable", dig(new, path))
        for path in _IMMUTABLE.get(resource.qualified, ())
        if dig(old, path) is not None and dig(old, path) != dig(new, path)
    ]


_IMMUTABLE: Final = {
    "pods": ("spec.nodeName",),
    "jobs.batch": ("spec.template", "spec.selector", "spec.completions", "spec.completionMode"),
    "deployments.apps": ("spec.selector",),
    "replicasets.apps": ("spec.selector",),
    "rolebindings.rbac.authorization.k8s.io": ("roleRef",),
    "clusterrolebindings.rbac.authorization.k8s.io": ("roleRef",),
    "secrets": ("type",),
    "storageclasses.storage.k8s.io": ("provisioner", "parameters"),
    "priorityclasses.scheduling.k8s.io": ("value",),
    "customresourcedefinitions.apiextensions.k8s.io": (
        "spec.group",
        "spec.scope",
        "spec.names.plural",
        "spec.names.kind",
    ),
}


def _encode_secret(obj: JsonObject) -> None:
    plain = obj.pop("stringData", None)
    if plain:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        obj["data"] = (obj.get("data") or {}) | encoded
    obj.setdefault("type", "Opaque")


def _new_namespace(obj: JsonObject) -> None:
    obj["spec"] = {"finalizers": ["kubernetes"]}
    obj["status"] = {"phase": "Active"}
    labels = obj["metadata"].get("labels") or {}
    obj["metadata"]["labels"] = labels | {"kubernetes.io/metadata.name": obj["metadata"]["name"]}


def _new_job(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
    if not spec.get("manualSelector"):
        identity = {"batch.kubernetes.io/controller-uid": uid, "controller-uid": uid}
        named = {"batch.kubernetes.io/job-name": name, "job-name": name}
        spec["manualSelector"] = False
        metadata = spec.setdefault("template", {}).setdefault("metadata", {})
        metadata["labels"] = (metadata.get("labels") or {}) | identity | named
        spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    if not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(spec.get("template", {}).get("metadata", {}).get("labels") or {})
    obj["status"] = {}


_NOT_READY: Final = tuple(
    {"effect": "NoExecute", "key": f"node.kubernetes.io/{what}", "operator": "Exists", "tolerationSeconds": 300}
    for what in ("not-ready", "unreachable")
)


def _new_pod(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    obj["status"] = {"phase": "Pending", "qosClass": _quality(spec)}
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    present = spec.get("tolerations") or []
    keys = {toleration.get("key") for toleration in present}
    spec["tolerations"] = [*present, *(dict(one) for one in _NOT_READY if one["key"] not in keys)]


def _quality(spec: JsonObject) -> str:
    """The quality of service class: what the containers reserve of processor time and memory."""
    resources = [container.get("resources") or {} for container in spec.get("containers") or ()]
    named = [
        {name: (one.get(kind) or {}).get(name) for name in ("cpu", "memory")}
        for one in resources
        for kind in ("limits", "requests")
    ]
    if not any(value for amounts in named for value in amounts.values()):
        return "BestEffort"
    equal = all(named[index] == named[index + 1] for index in range(0, len(named), 2))
    return "Guaranteed" if equal and all(all(amounts.values()) for amounts in named) else "Burstable"


def _new_service(obj: JsonObject) -> None:
    spec = obj.setdefault("spec", {})
    obj["status"] = {"loadBalancer": {}}
    if spec.get("type") == "ExternalName":
        return
    address = spec.setdefault("clusterIP", _cluster_address(obj["metadata"]["uid"]))
    spec.setdefault("clusterIPs", [address])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")


def _cluster_address(uid: str) -> str:
    """An address of 10.0.0.0/16 for show: nothing listens there."""
    number = uuid.UUID(uid).int
    return f"10.0.{number % 251 + 1}.{number // 251 % 251 + 1}"


def _new_binding(obj: JsonObject) -> None:
    if isinstance(obj.get("roleRef"), dict):
        obj["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")


def _pending(obj: JsonObject) -> None:
    obj["status"] = {"phase": "Pending"}


def _keep_namespace_spec(old: JsonObject, new: JsonObject) -> None:
    new["spec"] = old["spec"]


_ON_CREATE: Final[dict[str, Callable[[JsonObject], None]]] = {
    "secrets": _encode_secret,
    "namespaces": _new_namespace,
    "jobs.batch": _new_job,
    "pods": _new_pod,
    "services": _new_service,
    "rolebindings.rbac.authorization.k8s.io": _new_binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _new_binding,
    "persistentvolumeclaims": _pending,
    "persistentvolumes": _pending,
}

_ON_UPDATE: Final[dict[str, Callable[[JsonObject, JsonObject], None]]] = {
    "secrets": lambda _old, new: _encode_secret(new),
    "namespaces": _keep_namespace_spec,
}
