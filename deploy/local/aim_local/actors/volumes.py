"""The provisioner: makes, grows and removes volumes of our storage classes."""

import asyncio
import shutil
from typing import Final, final

from aim_local.actors.failures import Failure, WantedFailures
from aim_local.actors.objects import PERSISTENT_VOLUME, STORAGE_CLASS, annotations_of, is_going, uid_of
from aim_local.actors.programs import claim_folder
from aim_local.actors.runtime import Informer, Workers, Writer
from aim_local.actors.settings import ActorSettings
from controller_runtime import JsonObject, Key
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM

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
            "capacity": asked_capacity(claim),
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


def asked_capacity(claim: JsonObject) -> JsonObject:
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


_EXHAUSTED: Final = "rpc error: code = ResourceExhausted desc = no space left in pool"


async def register_storage_classes(writer: Writer) -> None:
    """Offer our storage classes."""
    for one in storage_classes():
        await writer.apply(STORAGE_CLASS, one)


@final
class Volumes:
    """Acts on each claim when it, its volume or a failure changes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        failures: WantedFailures,
        *,
        claims: Informer,
        volumes: Informer,
        classes: Informer,
    ) -> None:
        """``volumes`` are grouped with `by_claim`."""
        self._writer = writer
        self._settings = settings
        self._failures = failures
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self.workers = Workers("volumes", self._handle)
        claims.listen(lambda key, _: self.workers.add(key))
        volumes.listen(self._on_volume)
        failures.listen(self._look_at_pending)

    def _on_volume(self, _: Key, volume: JsonObject) -> None:
        claim = volume["spec"].get("claimRef")
        if claim:
            self.workers.add(Key(claim["namespace"], claim["name"]))

    def _look_at_pending(self) -> None:
        for key, claim in self._claims.objects.items():
            if not is_bound(claim):
                self.workers.add(key)

    async def _handle(self, key: Key) -> None:
        claim = self._claims.get(key)
        uid = uid_of(claim) if claim else ""
        for volume in tuple(self._volumes.group(str(key)).values()):
            if claim_uid(volume) != uid and annotations_of(volume).get(PROVISIONED_BY) == PROVISIONER:
                await self._remove(key, volume)
        if claim is None or is_going(claim):
            return
        found = class_of(claim, self._classes)
        if found is None:
            return
        own = next((one for one in self._volumes.group(str(key)).values() if claim_uid(one) == uid), None)
        if own is None and not is_bound(claim):
            await self._provision(claim, found)
        elif own is not None and is_bound(claim) and found.get("allowVolumeExpansion"):
            await self._grow(claim, own)

    async def _provision(self, claim: JsonObject, storage_class: JsonObject) -> None:
        if waits_for_consumer(claim, self._classes) and SELECTED_NODE not in annotations_of(claim):
            return
        name = storage_class["metadata"]["name"]
        if self._failures.of(Failure.PVC, claim):
            message = f'failed to provision volume with StorageClass "{name}": {_EXHAUSTED}'
            await self._writer.event(PERSISTENT_VOLUME_CLAIM, claim, "ProvisioningFailed", message, warning=True)
            return
        await asyncio.sleep(self._settings.delay)
        self._volumes.put_if(await self._writer.create(PERSISTENT_VOLUME, volume_for(claim, name)))

    async def _grow(self, claim: JsonObject, volume: JsonObject) -> None:
        """A claim that asks for more gets it; the file system grows with the volume."""
        if asked_capacity(claim) == claim["status"].get("capacity") or is_going(volume):
            return
        await asyncio.sleep(self._settings.delay)
        change = {"spec": {"capacity": asked_capacity(claim)}}
        self._volumes.put_if(await self._writer.patch(PERSISTENT_VOLUME, volume, change))
        status = {name: claim["status"][name] for name in ("phase", "accessModes") if name in claim["status"]}
        wanted = {**status, "capacity": asked_capacity(claim)}
        self._claims.put_if(await self._writer.status(PERSISTENT_VOLUME_CLAIM, claim, wanted))

    async def _remove(self, key: Key, volume: JsonObject) -> None:
        if not is_going(volume):
            await self._writer.delete(PERSISTENT_VOLUME, volume)
            await asyncio.to_thread(shutil.rmtree, claim_folder(self._settings, key), ignore_errors=True)
