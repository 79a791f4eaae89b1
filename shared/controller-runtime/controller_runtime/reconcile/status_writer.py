"""Writes status, takes objects over from another field manager, classifies failed calls (FW-040…FW-048)."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from controller_runtime import annotation_keys
from controller_runtime.api.enums import EventType
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.json import JsonObject, canonical
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ApiConnectionError, ApiError, ConnectionFailure, KubeError
from controller_runtime.kube.guard import NotLeaderError
from controller_runtime.log.wire.part import FieldOwner, Part, entries_of
from controller_runtime.reconcile.cache_access import CacheAccess
from controller_runtime.reconcile.child import Target
from controller_runtime.reconcile.effect_type import EffectError
from controller_runtime.reconcile.plan import Event, Verb, Write, WriteResult, kind_of
from controller_runtime.reconcile.reconciler import StatusOwnership


@dataclass(frozen=True, slots=True)
class _Rule:
    """One row of the table of FW-044; the first row that applies decides."""

    applies: Callable[[ApiError], bool]
    category: Category
    reason: str


def _code(*codes: int) -> Callable[[ApiError], bool]:
    return lambda error: error.code in codes


_RULES: Final = (
    _Rule(lambda error: error.is_typed_patch_failure, Category.INVALID_SPEC, "InvalidSpec"),
    _Rule(lambda error: error.is_definition_terminating, Category.INFRASTRUCTURE, "NotFound"),
    _Rule(lambda error: error.is_quota_exceeded, Category.INFRASTRUCTURE, "QuotaExceeded"),
    _Rule(lambda error: error.is_admission_denial, Category.INVALID_SPEC, "AdmissionDenied"),
    _Rule(_code(404), Category.MISSING_DOWNSTREAM, "NotFound"),
    _Rule(_code(401), Category.AUTH, "Unauthorized"),
    _Rule(_code(403), Category.AUTH, "Forbidden"),
    _Rule(_code(422), Category.INVALID_SPEC, "InvalidSpec"),
    _Rule(lambda error: error.is_already_exists, Category.INVALID_SPEC, "AlreadyExists"),
    _Rule(_code(409), Category.INFRASTRUCTURE, "Conflict"),
    _Rule(_code(504), Category.INFRASTRUCTURE, "Timeout"),
    _Rule(_code(503, 500), Category.INFRASTRUCTURE, "ServiceUnavailable"),
    _Rule(_code(429), Category.INFRASTRUCTURE, "RateLimited"),
    _Rule(lambda error: error.code >= 500, Category.INFRASTRUCTURE, "ServerError"),
    _Rule(lambda error: 400 <= error.code < 500, Category.INVALID_SPEC, "ClientError"),
)

_CONNECTION_REASONS: Final[Mapping[ConnectionFailure, str]] = MappingProxyType(
    {
        ConnectionFailure.REFUSED: "ConnectionRefused",
        ConnectionFailure.TIMEOUT: "NetworkTimeout",
        ConnectionFailure.RESET: "ConnectionReset",
        ConnectionFailure.DNS: "DNSFailure",
        ConnectionFailure.OTHER: "NetworkError",
    }
)

_PLACING: Final = frozenset({Verb.CREATE, Verb.APPLY, Verb.PATCH})


def classify(error: BaseException, *, verb: Verb | None = None) -> ClassifiedError:
    """The error as a value. What is classified already, even when wrapped, keeps its classification (FW-042).

    Args:
        verb: what was asked; a failed JSON-patch test is a conflict, not an invalid object.

    Raises:
        asyncio.CancelledError: a shutdown is no error of the object (FW-048).
    """
    for cause in _chain(error):
        if isinstance(cause, asyncio.CancelledError):
            raise cause
        if isinstance(cause, EffectError):
            return cause.error
        if isinstance(cause, ApiError):
            return _classify_answer(cause, verb)
        if isinstance(cause, ApiConnectionError):
            return ClassifiedError(Category.INFRASTRUCTURE, _CONNECTION_REASONS[cause.failure], str(cause))
    return ClassifiedError(Category.UNKNOWN, "UnknownError", str(error) or type(error).__name__)


def _classify_answer(error: ApiError, verb: Verb | None) -> ClassifiedError:
    if verb in _PLACING and error.is_not_found:
        # What a write does not find is where it would write: the CRD or the namespace, which come back (FW-810).
        return ClassifiedError(Category.INFRASTRUCTURE, "NotFound", str(error))
    if verb is Verb.PATCH and error.is_failed_json_patch_test:
        return ClassifiedError(Category.INFRASTRUCTURE, "Conflict", str(error))
    rule = next((rule for rule in _RULES if rule.applies(error)), None)
    if rule is None:
        return ClassifiedError(Category.UNKNOWN, "UnknownError", str(error))
    return ClassifiedError(rule.category, rule.reason, str(error), error.retry_after)


def is_quiet(error: BaseException, verb: Verb) -> bool:
    """Whether the failure ends the pass without an error: its cause brings an event of its own.

    A terminating namespace refuses creates; a delete whose UID no longer fits has nothing left to do, and so has
    one that finds nothing (FW-007, FW-044); a status conflict means a newer version is on its way (FW-012).
    """
    if not isinstance(error, ApiError):
        return False
    if verb is Verb.DELETE:
        return error.is_not_found or error.is_conflict
    if verb is Verb.STATUS and (error.is_conflict or error.is_not_found or error.is_failed_json_patch_test):
        return True
    return error.is_namespace_terminating


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it wraps, outermost first."""
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    return chain


STATUS: Final = "status"
"""The subresource that a status is written through."""
_ITSELF: Final = "."
"""The member of a field set that stands for the field which has the set."""


def is_left(part: Part[Any], obj: JsonObject, subresource: str = "") -> bool:
    """Whether a predecessor still owns fields that were written through this subresource."""
    left = entries_of(part.predecessors, obj) if part.predecessors else ()
    return any(entry.get("subresource", "") == subresource for entry in left)


def handed_over(
    managed: Sequence[JsonObject], predecessors: Collection[FieldOwner], manager: str, subresource: str = ""
) -> list[JsonObject] | None:
    """The managedFields with what predecessors own in the Apply entry of a manager; `None` if they own nothing."""
    ours = FieldOwner(manager, "Apply", subresource)
    old = [entry for entry in managed if _owner(entry) in predecessors and _owner(entry).subresource == subresource]
    if not old:
        return None
    own = [entry for entry in managed if _owner(entry) == ours]
    # An applier has one entry, of whatever version; its own is the one whose time and version are right.
    first, *rest = [*own, *old]
    fields = first.get("fieldsV1") or {}
    for entry in rest:
        fields = _union(fields, entry.get("fieldsV1") or {})
    entry = {**first, "manager": manager, "operation": "Apply", "fieldsV1": fields}
    return [*(one for one in managed if one not in own and one not in old), entry]


async def take_over(
    kube: KubeClient, part: Part[Any], obj: JsonObject, manager: str, subresource: str = ""
) -> JsonObject:
    """Make what predecessors own of an object a manager's; returns the object as it is then.

    Raises:
        KubeError: a conflict if the object has changed between the look and the write.
    """
    metadata = obj["metadata"]
    namespace = metadata.get("namespace") or None
    live = await kube.get(part.kind, metadata["name"], namespace)
    fields = handed_over(live["metadata"].get("managedFields") or (), part.predecessors, manager, subresource)
    if fields is None or live["metadata"]["uid"] != metadata["uid"]:
        return live
    hashed = annotation_keys.APPLIED_HASH in (live["metadata"].get("annotations") or {})
    unmarked = {"annotations": {annotation_keys.APPLIED_HASH: None}} if hashed and not subresource else {}
    # Through a subresource, the server would take no notice of managedFields.
    return await kube.merge_patch(
        part.kind,
        metadata["name"],
        namespace,
        {"metadata": {"managedFields": fields, **unmarked}},
        resource_version=live["metadata"]["resourceVersion"],
        field_manager=manager,
    )


def _owner(entry: JsonObject) -> FieldOwner:
    return FieldOwner(str(entry.get("manager")), str(entry.get("operation")), str(entry.get("subresource") or ""))


def _union(one: JsonObject, other: JsonObject) -> JsonObject:
    """Both field sets. An empty member is the field itself, and says so in a set that also has members of it."""
    merged = dict(one)
    for name, below in other.items():
        if name not in merged:
            merged[name] = below
        elif name != _ITSELF and merged[name] != below:
            merged[name] = _union(_spelled_out(merged[name]), _spelled_out(below))
    return merged


def _spelled_out(fields: JsonObject) -> JsonObject:
    return fields or {_ITSELF: {}}


STATUS_REJECTED: Final = "StatusRejected"
"""Reason of the event about a status that the API server refuses (FW-018)."""

REFUSED_SECONDS: Final = 60.0
"""Pause before a refused status of the same content is sent again: no event tells that a CRD has changed (FW-810)."""


class Due(Enum):
    """What is to be done about a status."""

    SETTLED = "settled"
    """It is stored already, or not wanted."""
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
class _RefusedStatus:
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
        cache: CacheAccess,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._kube = kube
        self._manager = field_manager
        self._ownership = ownership
        self._cache = cache
        self._refused: dict[str, _RefusedStatus] = {}

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
        self._cache.absorb(target.part, answer)
        version = str(answer["metadata"].get("resourceVersion") or "")
        return StatusOutcome(_write(target, WriteResult.DONE, version=version))

    async def _apply(self, target: Target, status: JsonObject) -> JsonObject:
        body = self._body(target, status)
        kind = target.part.kind
        if self._takes_over(target):
            taken = await take_over(self._kube, target.part, target.raw, self._manager, STATUS)
            self._cache.absorb(target.part, taken)
        try:
            return await self._kube.apply(kind, body, self._manager, subresource=STATUS)
        except ApiError as error:
            if not _is_ownerless_condition(error):
                raise
        await self._drop_conditions(target, status)
        return await self._kube.apply(kind, body, self._manager, subresource=STATUS)

    def _takes_over(self, target: Target) -> bool:
        # Of a status that two services write, one takes over what a predecessor owned: the one that writes most of it.
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
        self._refused[target.uid] = _RefusedStatus(
            canonical(status), target.generation, self._clock() + REFUSED_SECONDS
        )
        reported = before is not None and before.generation == target.generation
        return StatusOutcome(write, event=None if reported else _rejection(error))


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
