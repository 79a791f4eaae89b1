"""What came of a plan, as plain data for the decision record, metrics and the next pass."""

from dataclasses import dataclass
from enum import StrEnum

from controller_runtime.errors import ClassifiedError
from controller_runtime.json import JsonObject
from controller_runtime.reconcile.verb import Verb


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
