"""In which state an object is, in a word, and how bad that is. Pure."""

from enum import IntEnum
from typing import Final

from aim_cli.cluster.refs import JsonObject
from aim_cli.why.blockers import blockers_of
from aim_domain.kind_names import GATEWAY, HTTP_ROUTE, JOB, KindName


class Weight(IntEnum):
    """How much attention an object needs; the worst last."""

    WELL = 0
    UNDER_WAY = 1
    HURT = 2
    BROKEN = 3


# A template that is NotAvailable fits no GPU that there is, which is no fault.
_WEIGHTS: Final = {
    "Failed": Weight.BROKEN,
    "Lost": Weight.BROKEN,
    "Degraded": Weight.HURT,
    "Pending": Weight.UNDER_WAY,
    "Starting": Weight.UNDER_WAY,
    "Progressing": Weight.UNDER_WAY,
    "NotReady": Weight.UNDER_WAY,
    "Active": Weight.UNDER_WAY,
    "NoStatus": Weight.UNDER_WAY,
}


def state_of(kind: KindName, obj: JsonObject) -> str:
    """What the object says of itself, in one word; empty where its kind has no states."""
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    status = obj.get("status") or {}
    reported = status.get("status") or status.get("phase")
    if reported:
        return str(reported)
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    if kind == JOB:
        ended = next((name for name in ("Complete", "Failed") if _is_true(conditions.get(name))), None)
        return ended or "Active"
    if "Ready" in conditions:
        return "Ready" if _is_true(conditions["Ready"]) else "NotReady"
    if kind in (HTTP_ROUTE, GATEWAY):
        return "NotReady" if blockers_of(kind, obj) else "Accepted"
    return ""


def _is_true(condition: JsonObject | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def weight_of(state: str) -> Weight:
    """How bad a state is."""
    return _WEIGHTS.get(state, Weight.WELL)
