"""The volume binder: every claim gets a volume of the default storage class, backed by a folder."""

import asyncio
import shutil
from typing import Final, final

from aim_local.actors.failures import FAIL_ANNOTATION, Failure
from aim_local.actors.informer import Informer
from aim_local.actors.kinds import PERSISTENT_VOLUME, STORAGE_CLASS
from aim_local.actors.objects import annotations_of, is_going, uid_of
from aim_local.actors.programs import claim_folder
from aim_local.actors.settings import ActorSettings
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from aim_local.keys import Key
from aim_shared.api.kinds import PERSISTENT_VOLUME_CLAIM
from aim_shared.json import JsonObject
from aim_shared.kube.errors import ApiError

DEFAULT_CLASS: Final = "standard"
_PROVISIONER: Final = "local.aim/folder"


async def register_storage_class(writer: Writer) -> None:
    """Offer the default storage class."""
    await writer.apply(
        STORAGE_CLASS,
        {
            "apiVersion": STORAGE_CLASS.api_version,
            "kind": STORAGE_CLASS.kind,
            "metadata": {
                "name": DEFAULT_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": _PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": True,
        },
    )


@final
class Volumes:
    """Binds claims as they appear, and removes volume and data as they go."""

    def __init__(self, writer: Writer, settings: ActorSettings, claims: Informer) -> None:
        self._writer = writer
        self._settings = settings
        self._claims = claims
        self._volumes: dict[Key, JsonObject] = {}
        self.workers = Workers("volumes", self._handle)
        claims.listen(lambda key, _: self.workers.add(key))

    async def _handle(self, key: Key) -> None:
        claim = self._claims.get(key)
        held = self._volumes.get(key)
        if held is not None and (claim is None or held["spec"]["claimRef"]["uid"] != uid_of(claim)):
            await self._release(key, held)
        if claim is None or is_going(claim):
            return
        if _is_bound(claim):
            if key not in self._volumes:
                await self._remember(key, claim)
            return
        await asyncio.sleep(self._settings.delay)
        if annotations_of(claim).get(FAIL_ANNOTATION) == Failure.PVC:
            message = 'failed to provision volume with StorageClass "standard": no space left in pool'
            await self._writer.event(PERSISTENT_VOLUME_CLAIM, claim, "ProvisioningFailed", message, warning=True)
            return
        await self._bind(key, claim)

    async def _bind(self, key: Key, claim: JsonObject) -> None:
        volume = await self._writer.apply(PERSISTENT_VOLUME, volume_for(claim))
        self._volumes[key] = volume
        await self._writer.status(PERSISTENT_VOLUME, volume, {"phase": "Bound"})
        name = volume["metadata"]["name"]
        identity = {"name": key.name, "namespace": key.namespace, "uid": uid_of(claim)}
        bound = {"apiVersion": "v1", "kind": claim["kind"], "metadata": identity, "spec": {"volumeName": name}}
        await self._writer.apply(PERSISTENT_VOLUME_CLAIM, bound)
        status = {"phase": "Bound", "accessModes": _modes(claim), "capacity": _asked(claim)}
        written = await self._writer.status(PERSISTENT_VOLUME_CLAIM, claim, status)
        if written is not None:
            self._claims.put(written)

    async def _remember(self, key: Key, claim: JsonObject) -> None:
        """Take over the volume of a claim that was bound before this process began."""
        try:
            volume = await self._writer.client.get(PERSISTENT_VOLUME, claim["spec"].get("volumeName") or "none")
        except ApiError as error:
            if error.is_not_found:
                return
            raise
        if (volume["spec"].get("claimRef") or {}).get("uid") == uid_of(claim):
            self._volumes[key] = volume

    async def _release(self, key: Key, volume: JsonObject) -> None:
        del self._volumes[key]
        await self._writer.delete(PERSISTENT_VOLUME, volume)
        await asyncio.to_thread(shutil.rmtree, claim_folder(self._settings, key), ignore_errors=True)


def volume_for(claim: JsonObject) -> JsonObject:
    """The volume that a claim gets."""
    metadata = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUME.kind,
        "metadata": {"name": f"pvc-{metadata['uid']}"},
        "spec": {
            "capacity": _asked(claim),
            "accessModes": _modes(claim),
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim["spec"].get("storageClassName") or DEFAULT_CLASS,
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


def _is_bound(claim: JsonObject) -> bool:
    return (claim.get("status") or {}).get("phase") == "Bound"


def _asked(claim: JsonObject) -> JsonObject:
    return {"storage": ((claim["spec"].get("resources") or {}).get("requests") or {}).get("storage", "1Gi")}


def _modes(claim: JsonObject) -> list[str]:
    return claim["spec"].get("accessModes") or ["ReadWriteOnce"]
