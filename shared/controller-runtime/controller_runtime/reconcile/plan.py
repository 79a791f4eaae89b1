"""What a reconcile wants of Kubernetes, as data, and what came of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from controller_runtime.api.enums import EventType
from controller_runtime.api.meta import Kind
from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.log.wire.part import Dependency, Index, Key, Part, about_object


class Verb(StrEnum):
    """What was asked of the API server; some answers mean different things to different verbs."""

    GET = "get"
    CREATE = "create"
    APPLY = "apply"
    PATCH = "patch"
    DELETE = "delete"
    STATUS = "status"


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

    Passes decide at once, and each of them sees the same free place in its cache. So the executor counts again right
    before it creates, one creation after the other, and leaves the child out when there is no place.

    Attributes:
        index, value: where the cache finds the objects of that sort.
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
        part: where the cache knows it from.
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
    """I/O that the decision needs; its result comes back as a fact and enqueues the object.

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


def compared(plan: Plan) -> set[Dependency]:
    """What carrying out the plan asks: how the objects are that it wants to be so, or to be gone."""
    objects: tuple[Patch | Delete | Child, ...] = (*plan.patches, *plan.deletes, *plan.children)
    return {about_object(one.part.name, Key(one.namespace, one.name)) for one in objects}


def kind_of(body: Mapping[str, Any], kind: Kind[Any]) -> JsonObject:
    """The body with ``apiVersion`` and ``kind`` first, as every child is sent (FW-203)."""
    api_version = f"{kind.group}/{kind.version}" if kind.group else kind.version
    return {"apiVersion": api_version, "kind": kind.kind, **body}


class WriteResult(StrEnum):
    """What the API server made of a write."""

    DONE = "done"
    GONE = "gone"
    """A delete found nothing, or another object of that name (FW-007, FW-044)."""
    EXISTS = "exists"
    """A create found what it wanted to create (FW-207)."""
    CONFLICT = "conflict"
    """The object has changed meanwhile; its new version usually brings a pass (FW-012, FW-181)."""
    FAILED = "failed"
    HELD = "held"
    """Not sent: the child's quota is used up (DI-315)."""


@dataclass(frozen=True, slots=True)
class Write:
    """One request that may have changed something, or that was held back.

    Attributes:
        resource_version: of the answer; empty without one.
        error: why it failed or was held back; empty otherwise.
    """

    verb: Verb
    kind: str
    namespace: str
    name: str
    result: WriteResult
    resource_version: str = ""
    error: str = ""

    def to_json(self) -> JsonObject:
        """The write as it stands in the decision record."""
        optional = {"resourceVersion": self.resource_version, "error": self.error}
        return {
            "verb": self.verb.value,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "result": self.result.value,
            **{name: value for name, value in optional.items() if value},
        }


class Drop(StrEnum):
    """Why a plan, or the rest of it, was not carried out although nothing failed."""

    NOT_LEADER = "not-leader"
    """The Lease was not renewed in time (FW-407)."""
    STALE = "stale"
    """A delete was planned on a view that is not fresh (FW-019)."""
    TERMINATING = "terminating"
    """The namespace is going away (FW-044)."""
    CONFLICT = "conflict"
    """A guarded change or a status met a newer version, which usually brings a pass; retried with backoff (FW-181,
    FW-188, FW-431)."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Everything that came of a plan.

    Attributes:
        failure: the first failed patch, delete or apply; to be reported by a pass for the status only (FW-010).
        status_failure: a failed status write; retried, but reported nowhere (FW-012).
        drop: why something was left undone.
        requeue_after: seconds after which the drop is worth another try.
        started: whether effects were started that the plan before did not start.
    """

    writes: tuple[Write, ...] = ()
    failure: ClassifiedError | None = None
    status_failure: ClassifiedError | None = None
    drop: Drop | None = None
    requeue_after: float | None = None
    started: bool = False

    def followed_by(self, report: "Execution") -> "Execution":
        """This failed execution together with the pass that reported its failure."""
        return Execution(
            (*self.writes, *report.writes), self.failure, report.status_failure, report.drop, report.requeue_after
        )

    @property
    def changed(self) -> bool:
        """Whether anything was sent to the API server, or held back from it."""
        return bool(self.writes)

    @property
    def is_news(self) -> bool:
        """Whether anything came of the plan at all; most passes find everything as it should be."""
        return self.changed or self.started or self.failure is not None
