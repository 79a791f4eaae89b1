"""What a reconcile decides: plain data that the executor carries out and a replay compares."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from controller_runtime.api.enums import EventType
from controller_runtime.api.kind import Kind
from controller_runtime.bus.part import Index, Key, Part
from controller_runtime.bus.question import Question, about_object
from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject


class WriteMode(StrEnum):
    """How a child is brought into being."""

    APPLY = "apply"
    """Server-side apply with force whenever it differs from what is desired (FW-200, FW-202, FW-409)."""

    CREATE = "create"
    """Created when absent, never updated (FW-206, FW-410)."""


def _one(_: object) -> int:
    return 1


@dataclass(frozen=True, slots=True)
class Quota:
    """How much objects of a sort may take together, for a child that is only created.

    Passes decide at once, and each of them sees the same free place in its world. So the executor counts again right
    before it creates, one creation after the other, and leaves the child out when there is no place.

    Attributes:
        index, value: where the world finds the objects of that sort.
        most: how many objects there may be, or how much they may take in all.
        takes: what the child takes of it.
        taken_by: what an object takes of it.
    """

    index: Index[Any]
    value: str
    most: int
    takes: int = 1
    taken_by: Callable[[Any], int] = _one

    def __str__(self) -> str:
        return f"{self.most} of {self.index} {self.value!r}"


@dataclass(frozen=True, slots=True)
class Child:
    """An object that shall exist.

    Attributes:
        part: where the world knows it from.
        body: complete desired object with apiVersion, kind, metadata; without hash and trace annotations,
            which the executor adds, and without the owner reference when ``owned``.
        owned: add a controller owner reference to the reconciled object (FW-210).
        quotas: with `WriteMode.CREATE`: created only while there is a place in each. The plan looks again by itself.
    """

    part: Part[Any]
    body: JsonObject
    owned: bool = True
    mode: WriteMode = WriteMode.APPLY
    quotas: tuple[Quota, ...] = ()

    @property
    def namespace(self) -> str:
        return str(self.body["metadata"].get("namespace") or "")

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Delete:
    """An object that shall go; the UID is a precondition, so a namesake made meanwhile survives.

    Attributes:
        why: short cause for log and decision record.
    """

    part: Part[Any]
    namespace: str
    name: str
    uid: str
    why: str


@dataclass(frozen=True, slots=True)
class Patch:
    """A guarded change of metadata or spec: a merge patch, refused when the object has changed (FW-411).

    Attributes:
        body: merge patch without resourceVersion; the executor adds ``resource_version`` as the guard.
    """

    part: Part[Any]
    namespace: str
    name: str
    resource_version: str
    body: JsonObject
    why: str


@dataclass(frozen=True, slots=True)
class Subject:
    """What an Event is about, where that is not the reconciled object."""

    part: Part[Any]
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes Event on the reconciled object, or on another one that the pass has acted upon (FW-120).

    Attributes:
        standing: a standing error, which is repeated at most every five minutes (FW-125) instead of on transition.
        condition: type of the condition it reports; empty for the reasons of FW-130.
        status: status of that condition, for the log (FW-128).
        about: another object; ``None`` = the reconciled one.
        of_deletes: it tells of the plan's deletes, so it is emitted only when they were carried out.
    """

    type: EventType
    reason: str
    message: str
    standing: bool = False
    condition: str = ""
    status: str = ""
    about: Subject | None = None
    of_deletes: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """I/O that the decision needs; its result comes back as a fact and wakes the object.

    Attributes:
        kind: which runner carries it out, for example ``image-inspection``.
        key: what it is about; names the fact together with ``kind``. A plan that asks again while the effect runs
            changes nothing.
        params: all the runner needs; never a secret value.
        not_before: earliest start, for retries; ``None`` = now.
    """

    kind: str
    key: str
    params: JsonObject = field(default_factory=dict)
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything one pass decided, in the order in which it is carried out (FW-001, FW-007, FW-008).

    Attributes:
        patches: guarded changes, first.
        deletes: then deletes; if one fails nothing is applied in this pass.
        children: then children, owned ones first.
        status: the complete desired status as far as this service owns it; ``None`` = leave the status alone.
        events: Kubernetes Events to emit.
        effects: I/O to start.
        requeue_after: look again after that many seconds, unless an error is retried (FW-097).
        retry: the error for which the pass is retried with backoff (FW-094).
        retry_within: with ``retry``: look again after that many seconds at the latest (FW-068).
    """

    patches: tuple[Patch, ...] = ()
    deletes: tuple[Delete, ...] = ()
    children: tuple[Child, ...] = ()
    status: JsonObject | None = None
    events: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()
    requeue_after: float | None = None
    retry: ClassifiedError | None = None
    retry_within: float | None = None


NOTHING = Plan()
"""The plan that changes nothing."""


def compared(plan: Plan) -> set[Question]:
    """What carrying out the plan asks: how the objects are that it wants to be so, or to be gone."""
    objects: tuple[Patch | Delete | Child, ...] = (*plan.patches, *plan.deletes, *plan.children)
    return {about_object(one.part.name, Key(one.namespace, one.name)) for one in objects}


def kind_of(body: Mapping[str, Any], kind: Kind[Any]) -> JsonObject:
    """The body with ``apiVersion`` and ``kind`` first, as every child is sent (FW-203)."""
    api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    return {"apiVersion": api_version, "kind": kind.kind, **body}
