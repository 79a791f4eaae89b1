"""The provisioner: makes, grows and removes volumes of our storage classes, each backed by a folder."""

import asyncio
import shutil
from typing import Final, final

from aim_local.actors.failures import Failure
from aim_local.actors.informer import Informer
from aim_local.actors.kinds import PERSISTENT_VOLUME, STORAGE_CLASS
from aim_local.actors.objects import annotations_of, is_going, uid_of
from aim_local.actors.programs import claim_folder
from aim_local.actors.settings import ActorSettings
from aim_local.actors.storage import (
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    asked,
    claim_uid,
    class_of,
    is_bound,
    storage_classes,
    volume_for,
    waits_for_consumer,
)
from aim_local.actors.wanted_failures import WantedFailures
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from controller_runtime import JsonObject, Key
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM

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
        if asked(claim) == claim["status"].get("capacity") or is_going(volume):
            return
        await asyncio.sleep(self._settings.delay)
        change = {"spec": {"capacity": asked(claim)}}
        self._volumes.put_if(await self._writer.patch(PERSISTENT_VOLUME, volume, change))
        status = {name: claim["status"][name] for name in ("phase", "accessModes") if name in claim["status"]}
        wanted = {**status, "capacity": asked(claim)}
        self._claims.put_if(await self._writer.status(PERSISTENT_VOLUME_CLAIM, claim, wanted))

    async def _remove(self, key: Key, volume: JsonObject) -> None:
        if not is_going(volume):
            await self._writer.delete(PERSISTENT_VOLUME, volume)
            await asyncio.to_thread(shutil.rmtree, claim_folder(self._settings, key), ignore_errors=True)
