"""How tests take a decision: through the seam of the services, and watched."""

from datetime import datetime
from typing import Final, TypeVar

from support.planned_writes import PlansWatched

from controller_runtime import Plan, Reconciler, Resource, View
from controller_runtime.log.cache.view import CacheView, ReadLog
from controller_runtime.reconcile import decide as seam
from controller_runtime.reconcile.decide import Interceptor

T = TypeVar("T", bound=Resource)

WATCHED: Final = PlansWatched()
"""For workers that a test makes."""


def decide(reconciler: Reconciler[T], obj: T, view: View, now: datetime, *interceptors: Interceptor) -> Plan:
    """The plan of one pass, which nobody carries out."""
    reads = view.reads if isinstance(view, CacheView) else ReadLog()
    return seam.decide(seam.Decision(reconciler, obj, view, now, reads), (*interceptors, WATCHED))
