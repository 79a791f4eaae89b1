"""Writes the status: only what this service owns, only when it differs (FW-011, FW-018, FW-106, FW-412)."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from controller_runtime.api.enums import EventType
from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject, canonical
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ApiError, KubeError
from controller_runtime.kube.guard import NotLeaderError
from controller_runtime.reconcile.child_body import Target
from controller_runtime.reconcile.classify import classify, is_quiet
from controller_runtime.reconcile.execution import Write, WriteResult
from controller_runtime.reconcile.plan import Event, kind_of
from controller_runtime.reconcile.reconciler import StatusOwnership
from controller_runtime.reconcile.take_over import STATUS, is_left, take_over
from controller_runtime.reconcile.verb import Verb
from controller_runtime.reconcile.world_access import WorldAccess

STATUS_REJECTED: Final = "StatusRejected"
"""Reason of the event about a status that the API server refuses (FW-018)."""

REFUSED_SECONDS: Final = 60.0
"""Pause before a refused status of the same content is sent again: no event tells that a CRD has changed (FW-810)."""


class Due(Enum):
    """What is to be done about a status."""

    SETTLED = "settled"
    """It is stored already, or nobody wants one."""
    WRITE = "write"
    HELD_BACK = "held back"
    """The API server has refused exactly this content before (FW-018)."""


@dataclass(frozen=True, slots=True)
class StatusOutcome:
    """What came of a status: a write, a failure, an event about a refusal."""

    write: Write
    failure: ClassifiedError | None = None
    event: Event | None = None

    @property
    def stored(self) -> bool:
        """Whether the API server has taken the status."""
        return self.write.result is WriteResult.DONE


@dataclass(frozen=True, slots=True)
class _Refused:
    """A status that was refused; sent again when its content differs, or the CRD may have changed meanwhile."""

    content: bytes
    generation: int
    until: float


class StatusWriter:
    """Writes the statuses of one controller.

    Keeps in memory which contents the API server refused, one per object, until `forget`.
    """

    def __init__(
        self,
        kube: KubeClient,
        field_manager: str,
        ownership: StatusOwnership,
        world: WorldAccess,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._kube = kube
        self._manager = field_manager
        self._ownership = ownership
        self._world = world
        self._refused: dict[str, _Refused] = {}

    def due(self, target: Target, status: JsonObject | None) -> Due:
        """Whether the status has to be written: it differs, and was not refused as it is."""
        if status is None:
            return Due.SETTLED
        if not self._takes_over(target) and self._ownership.is_stored(status, target.raw.get("status") or {}):
            return Due.SETTLED
        refused = self._refused.get(target.uid)
        same = refused is not None and refused.content == canonical(status)
        return Due.HELD_BACK if refused is not None and same and self._clock() < refused.until else Due.WRITE

    def held_for(self, uid: str) -> float | None:
        """Seconds until a refused status is sent again although its content is the same; `None` = none was refused."""
        refused, now = self._refused.get(uid), self._clock()
        return None if refused is None or refused.until <= now else refused.until - now

    def forget(self, uid: str) -> None:
        """Drop what is remembered about an object that is gone."""
        self._refused.pop(uid, None)

    async def write(self, target: Target, status: JsonObject) -> StatusOutcome:
        """Apply the status; a conflict is not an error, a refusal is remembered (FW-012, FW-018).

        Raises:
            NotLeaderError: this process may not write any more (FW-407).
        """
        try:
            answer = await self._apply(target, status)
        except NotLeaderError:
            raise
        except KubeError as error:
            return self._failed(target, status, error)
        self._refused.pop(target.uid, None)
        self._world.absorb(target.part, answer)
        version = str(answer["metadata"].get("resourceVersion") or "")
        return StatusOutcome(_write(target, WriteResult.DONE, version=version))

    async def _apply(self, target: Target, status: JsonObject) -> JsonObject:
        body = self._body(target, status)
        kind = target.part.kind
        if self._takes_over(target):
            taken = await take_over(self._kube, target.part, target.raw, self._manager, STATUS)
            self._world.absorb(target.part, taken)
        try:
            return await self._kube.apply(kind, body, self._manager, subresource=STATUS)
        except ApiError as error:
            if not _is_ownerless_condition(error):
                raise
        await self._drop_conditions(target, status)
        return await self._kube.apply(kind, body, self._manager, subresource=STATUS)

    def _takes_over(self, target: Target) -> bool:
        # Of a status that two services write, one takes over what a predecessor owned: whoever writes most of it.
        return not self._ownership.is_listed and is_left(target.part, target.raw, STATUS)

    def _body(self, target: Target, status: JsonObject) -> JsonObject:
        namespace = {"namespace": target.namespace} if target.namespace else {}
        # The UID keeps it from a namesake that was made meanwhile (FW-409).
        metadata = {"name": target.name, **namespace, "uid": target.uid}
        return kind_of({"metadata": metadata, "status": status}, target.part.kind)

    async def _drop_conditions(self, target: Target, status: JsonObject) -> None:
        """Remove own conditions that an apply cannot drop, because others own leaves of them (FW-412)."""
        kind = target.part.kind
        live = await self._kube.get(kind, target.name, target.namespace or None)
        wanted = {condition["type"] for condition in status.get("conditions") or ()}
        present = live.get("status") or {}
        owned = {c["type"] for c in self._ownership.own(present).get("conditions") or ()}
        operations: list[JsonObject] = [
            {"op": "test", "path": "/metadata/uid", "value": target.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]},
        ]
        # From the end, so that removing one does not move the others.
        for index, condition in reversed(list(enumerate(present.get("conditions") or ()))):
            if condition["type"] in owned - wanted:
                path = f"/status/conditions/{index}"
                operations += [
                    {"op": "test", "path": f"{path}/type", "value": condition["type"]},
                    {"op": "remove", "path": path},
                ]
        await self._kube.json_patch(
            kind,
            target.name,
            target.namespace or None,
            operations,
            field_manager=self._manager,
            subresource=STATUS,
        )

    def _failed(self, target: Target, status: JsonObject, error: KubeError) -> StatusOutcome:
        if is_quiet(error, Verb.STATUS):
            return StatusOutcome(_write(target, WriteResult.CONFLICT, error=str(error)))
        write = _write(target, WriteResult.FAILED, error=str(error))
        if not (isinstance(error, ApiError) and (error.code == 422 or error.is_typed_patch_failure)):
            return StatusOutcome(write, failure=classify(error, verb=Verb.STATUS))
        before = self._refused.get(target.uid)
        self._refused[target.uid] = _Refused(canonical(status), target.generation, self._clock() + REFUSED_SECONDS)
        told = before is not None and before.generation == target.generation
        return StatusOutcome(write, event=None if told else _rejection(error))


def _is_ownerless_condition(error: ApiError) -> bool:
    return (
        error.code == 422
        and any("status.conditions" in cause.field for cause in error.causes)
        and "Required value" in error.message
    )


def _rejection(error: ApiError) -> Event:
    paths = ", ".join(cause.field for cause in error.causes if cause.field) or "the status"
    return Event(EventType.WARNING, STATUS_REJECTED, f"the API server refuses {paths}: {error.message}")


def _write(target: Target, result: WriteResult, *, version: str = "", error: str = "") -> Write:
    return Write(Verb.STATUS, target.part.kind.kind, target.namespace, target.name, result, version, error)
