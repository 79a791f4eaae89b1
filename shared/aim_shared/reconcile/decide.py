"""The decision about one object: what every reconciler has in common, around its own reconcile (FW-001…FW-003).

Pure. The worker calls it with the live world, a replay with the world of a decision record.
"""

from datetime import datetime
from typing import Final, TypeVar

from aim_shared import annotation_keys
from aim_shared.api.meta import Resource
from aim_shared.bus.part import Part
from aim_shared.bus.view import View
from aim_shared.errors import AimError, Category
from aim_shared.reconcile.plan import NOTHING, Patch, Plan
from aim_shared.reconcile.reconciler import Reconciler

T = TypeVar("T", bound=Resource)

IMMEDIATELY: Final = 0.0
"""Delay of the pass that follows a change of finalizers (FW-181)."""


def decide(reconciler: Reconciler[T], obj: T, view: View, now: datetime) -> Plan:
    """The plan of one pass.

    Finalizers come before the pause, so that a paused object can be deleted (FW-003).
    """
    if obj.deleting:
        return _clean_up(reconciler, obj, view, now)
    finalizer = reconciler.finalizer
    if finalizer is not None and finalizer not in obj.metadata.finalizers:
        finalizers = [*obj.metadata.finalizers, finalizer]
        patch = _finalizers(reconciler.part, obj, finalizers, f"add finalizer {finalizer}")
        return Plan(patches=(patch,), requeue_after=IMMEDIATELY)
    if is_paused(obj):
        return NOTHING
    return reconciler.reconcile(obj, view, now)


def is_paused(obj: Resource) -> bool:
    """Whether the user has paused the object: exactly ``true`` counts (FW-002)."""
    return obj.metadata.annotations.get(annotation_keys.PAUSED) == "true"


def is_forbidden(failure: AimError) -> bool:
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
