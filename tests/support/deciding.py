"""How tests take a decision: through the seam of the services, and watched."""

from datetime import datetime
from typing import Final, TypeVar

from support.planned_writes import PlansWatched

from aim_shared.api.meta import Resource
from aim_shared.bus.view import ReadLog, View, WorldView
from aim_shared.reconcile import decide as seam
from aim_shared.reconcile.decide import Interceptor
from aim_shared.reconcile.plan import Plan
from aim_shared.reconcile.reconciler import Reconciler

T = TypeVar("T", bound=Resource)

WATCHED: Final = PlansWatched()
"""For workers that a test makes."""


def decide(reconciler: Reconciler[T], obj: T, view: View, now: datetime, *interceptors: Interceptor) -> Plan:
    """The plan of one pass, which nobody carries out."""
    reads = view.reads if isinstance(view, WorldView) else ReadLog()
    return seam.decide(seam.Decision(reconciler, obj, view, now, reads), (*interceptors, WATCHED))
