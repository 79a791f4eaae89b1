"""The decision about one object: what every reconciler has in common, around its own reconcile (FW-001…FW-003).

Pure. A worker takes it with the live cache, a replay with that of a decision record, a test with one that it made.

This is also the one place where anything may stand around a decision (FW-504). An observer of each of them is an
`Interceptor`, as in gRPC: it is given the decision and the rest of the way to it.

    class Timed(Interceptor):
        def decide(self, decision, proceed):
            started = time.perf_counter()
            try:
                return proceed(decision)
            finally:
                self.observe(decision.reconciler.controller, time.perf_counter() - started)

    plan = decide(Decision(reconciler, obj, view, now), [Timed()])
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar

from controller_runtime import annotation_keys
from controller_runtime.api.meta import Resource
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.log.cache.view import ReadLog, View
from controller_runtime.log.wire.part import Part
from controller_runtime.log.wire.version import CachePosition
from controller_runtime.reconcile.plan import NOTHING, Execution, Patch, Plan
from controller_runtime.reconcile.reconciler import Reconciler

T = TypeVar("T", bound=Resource)

IMMEDIATELY: Final = 0.0
"""Delay of the pass that follows a change of finalizers (FW-181)."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    """What a decision is taken from, and what is known of the pass that takes it.

    Attributes:
        reads: what it reads, where the view notes that.
        position: how far the cache is.
        woken_by: the change that brought the pass; empty when it was none.
        traceparent: trace context of the pass.
    """

    reconciler: Reconciler[T]
    obj: T
    view: View
    now: datetime
    reads: ReadLog = field(default_factory=ReadLog)
    position: CachePosition = field(default_factory=lambda: CachePosition({}))
    woken_by: str = ""
    traceparent: str | None = None


Proceed: TypeAlias = Callable[[Decision[Any]], Plan]
"""The rest of the way to the decision."""


class Interceptor:
    """Stands around every decision of a controller: be it a reconcile, a clean-up, or neither, as of a paused object.

    It watches and does not change: a replay takes the same decision without it.
    """

    def decide(self, decision: Decision[Any], proceed: Proceed) -> Plan:
        """Call ``proceed`` once and hand on its plan, or what it raises. Nothing else runs meanwhile: do not wait."""
        return proceed(decision)

    def carried_out(self, decision: Decision[Any], plan: Plan, execution: Execution) -> None:
        """What came of a plan. A decision that raised, and one that is not carried out, do not get here."""


def decide(decision: Decision[Any], interceptors: Sequence[Interceptor] = ()) -> Plan:
    """The plan of one pass, taken past the interceptors, the first of which is the outermost."""
    if not interceptors:
        return _decide(decision.reconciler, decision.obj, decision.view, decision.now)
    first, *rest = interceptors
    return first.decide(decision, lambda passed: decide(passed, rest))


def _decide(reconciler: Reconciler[T], obj: T, view: View, now: datetime) -> Plan:
    # Finalizers come before the pause, so that a paused object can be deleted (FW-003).
    if obj.deleting:
        return _clean_up(reconciler, obj, view, now)
    finalizer = reconciler.finalizer
    lacks_finalizer = finalizer is not None and finalizer not in obj.metadata.finalizers
    if lacks_finalizer and reconciler.cleans_up is None:
        return _add_finalizer(reconciler, obj)
    plan = NOTHING if is_paused(obj) else reconciler.reconcile(obj, view, now)
    # It is there before what it removes: between two writes the object may be deleted.
    if lacks_finalizer and reconciler.cleans_up is not None and reconciler.cleans_up(obj, view, plan):
        return _add_finalizer(reconciler, obj)
    return plan


def _add_finalizer(reconciler: Reconciler[T], obj: T) -> Plan:
    finalizers = [*obj.metadata.finalizers, str(reconciler.finalizer)]
    patch = _finalizers(reconciler.part, obj, finalizers, f"add finalizer {reconciler.finalizer}")
    return Plan(patches=(patch,), requeue_after=IMMEDIATELY)


def is_paused(obj: Resource) -> bool:
    """Whether the user has paused the object: exactly ``true`` counts (FW-002)."""
    return obj.metadata.annotations.get(annotation_keys.PAUSED) == "true"


def is_forbidden(failure: ClassifiedError) -> bool:
    """Whether a write failed for lack of permission."""
    return failure.category is Category.AUTH and failure.reason == "Forbidden"


def _clean_up(reconciler: Reconciler[T], obj: T, view: View, now: datetime) -> Plan:
    """Only the clean-up, no children and no status; then the finalizer goes (FW-182, FW-184)."""
    finalizer = reconciler.finalizer
    if finalizer is None or finalizer not in obj.metadata.finalizers:
        return NOTHING
    # What is forbidden will stay so, as in a namespace that goes away: it must not keep the object for ever (FW-184).
    given_up = view.failure is not None and is_forbidden(view.failure)
    plan = None if given_up or reconciler.finalize is None else reconciler.finalize(obj, view, now)
    if plan is not None:
        return Plan(
            patches=plan.patches,
            deletes=plan.deletes,
            events=plan.events,
            effects=plan.effects,
            requeue_after=plan.requeue_after,
            retry=plan.retry,
        )
    others = [other for other in obj.metadata.finalizers if other != finalizer]
    return Plan(patches=(_finalizers(reconciler.part, obj, others, f"remove finalizer {finalizer}"),))


def _finalizers(part: Part[T], obj: T, finalizers: list[str], why: str) -> Patch:
    """A patch of the finalizers alone, so that no field of the user's object is rewritten (FW-190)."""
    metadata = obj.metadata
    body = {"metadata": {"finalizers": finalizers or None}}
    return Patch(part, metadata.namespace, metadata.name, metadata.resource_version, body, why)
