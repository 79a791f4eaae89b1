"""Storage classes, claims and the volumes they get. Pure functions over plain data."""

from typing import Final

from aim_local.actors.informer import Informer
from aim_local.actors.kinds import PERSISTENT_VOLUME, STORAGE_CLASS
from aim_local.actors.objects import annotations_of
from controller_runtime import JsonObject, Key

DEFAULT_CLASS: Final = "standard"
PROVISIONER: Final = "local.aim/folder"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_DEFAULT_ANNOTATION: Final = "storageclass.kubernetes.io/is-default-class"
_IMMEDIATE, _LATE = "Immediate", "WaitForFirstConsumer"
_BOUND_ANNOTATIONS: Final = {
    "pv.kubernetes.io/bind-completed": "yes",
    "pv.kubernetes.io/bound-by-controller": "yes",
    "volume.beta.kubernetes.io/storage-provisioner": PROVISIONER,
    "volume.kubernetes.io/storage-provisioner": PROVISIONER,
}


def storage_classes() -> list[JsonObject]:
    """What the cluster offers: the default, one that binds late, one whose volumes don't grow."""
    return [
        _storage_class(DEFAULT_CLASS, _IMMEDIATE, grows=True),
        _storage_class("standard-wait", _LATE, grows=True),
        _storage_class("standard-fixed", _IMMEDIATE, grows=False),
    ]


def class_of(claim: JsonObject, classes: Informer) -> JsonObject | None:
    """The class of a claim that is ours to provision; a claim without one has the default."""
    name = claim["spec"].get("storageClassName")
    if name is None:
        named = (one for one in classes.objects.values() if annotations_of(one).get(_DEFAULT_ANNOTATION) == "true")
        found = next(named, None)
    else:
        found = classes.get(Key("", name))
    return found if found is not None and found.get("provisioner") == PROVISIONER else None


def waits_for_consumer(claim: JsonObject, classes: Informer) -> bool:
    """Whether the volume is only made once a pod that mounts the claim has a place."""
    found = class_of(claim, classes)
    return found is not None and found.get("volumeBindingMode") == _LATE


def volume_name(claim: JsonObject) -> str:
    """Name of the volume that a claim gets."""
    return f"pvc-{claim['metadata']['uid']}"


def volume_for(claim: JsonObject, storage_class: str) -> JsonObject:
    """The volume that a claim gets."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME.kind,
        "metadata": {"name": volume_name(claim), "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": asked(claim),
            "accessModes": modes(claim),
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": "Filesystem",
            "storageClassName": storage_class,
            "claimRef": {
                "apiVersion": "v1",
                "kind": claim["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "hostPath": {"path": f"/volumes/{metadata['namespace']}/{metadata['name']}"},
        },
    }


def bound_claim(claim: JsonObject, volume: JsonObject) -> JsonObject:
    """What the binder adds to a claim."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": claim["kind"],
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "annotations": _BOUND_ANNOTATIONS,
        },
        "spec": {
            "volumeName": volume["metadata"]["name"],
            "storageClassName": volume["spec"].get("storageClassName", ""),
        },
    }


def by_claim(volume: JsonObject) -> tuple[str, ...]:
    """Groups volumes by the claim they are for."""
    claim = volume["spec"].get("claimRef") or {}
    return (str(Key(claim["namespace"], claim["name"])),) if claim else ()


def claim_uid(volume: JsonObject) -> str:
    """UID of the claim that a volume is for."""
    return str((volume["spec"].get("claimRef") or {}).get("uid", ""))


def is_bound(claim: JsonObject) -> bool:
    """Whether a claim has its volume."""
    return (claim.get("status") or {}).get("phase") == "Bound"


def asked(claim: JsonObject) -> JsonObject:
    """The capacity that a claim asks for."""
    return {"storage": ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "1Gi")}


def modes(claim: JsonObject) -> list[str]:
    """The access modes of a claim."""
    return claim["spec"].get("accessModes") or ["ReadWriteOnce"]


def _storage_class(name: str, mode: str, *, grows: bool) -> JsonObject:
    default = {"annotations": {_DEFAULT_ANNOTATION: "true"}} if name == DEFAULT_CLASS else {}
    return {
        "apiVersion": STORAGE_CLASS.api_version,
        "kind": STORAGE_CLASS.kind,
        "metadata": {"name": name, **default},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": mode,
        "allowVolumeExpansion": grows,
    }
