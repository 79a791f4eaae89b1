"""The volume binder: joins claims with the volumes that are made for them."""

from typing import Final, final

from aim_local.actors.informer import Informer
from aim_local.actors.kinds import PERSISTENT_VOLUME
from aim_local.actors.objects import annotations_of, is_going, uid_of
from aim_local.actors.storage import SELECTED_NODE, bound_claim, claim_uid, is_bound, modes, waits_for_consumer
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from controller_runtime import JsonObject, Key
from controller_runtime.kinds import PERSISTENT_VOLUME_CLAIM

_WAITING: Final = "waiting for first consumer to be created before binding"


@final
class Binder:
    """Acts on each claim when it or its volume changes."""

    def __init__(self, writer: Writer, *, claims: Informer, volumes: Informer, classes: Informer) -> None:
        """``volumes`` are grouped with `by_claim`."""
        self._writer = writer
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self.workers = Workers("binder", self._handle)
        claims.listen(lambda key, _: self.workers.add(key))
        volumes.listen(self._on_volume)

    def _on_volume(self, _: Key, volume: JsonObject) -> None:
        claim = volume["spec"].get("claimRef")
        if claim:
            self.workers.add(Key(claim["namespace"], claim["name"]))

    async def _handle(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None or is_going(claim) or is_bound(claim):
            return
        uid = uid_of(claim)
        volume = next((one for one in self._volumes.group(str(key)).values() if claim_uid(one) == uid), None)
        if volume is not None:
            await self._bind(claim, volume)
        elif waits_for_consumer(claim, self._classes) and SELECTED_NODE not in annotations_of(claim):
            await self._writer.event(PERSISTENT_VOLUME_CLAIM, claim, "WaitForFirstConsumer", _WAITING, warning=False)

    async def _bind(self, claim: JsonObject, volume: JsonObject) -> None:
        await self._writer.status(PERSISTENT_VOLUME, volume, {"phase": "Bound"})
        claim = await self._writer.apply(PERSISTENT_VOLUME_CLAIM, bound_claim(claim, volume))
        status = {"phase": "Bound", "accessModes": modes(claim), "capacity": volume["spec"]["capacity"]}
        self._claims.put_if(await self._writer.status(PERSISTENT_VOLUME_CLAIM, claim, status))
