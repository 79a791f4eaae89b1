"""Changes of replicas, with the values of the metrics that asked for them (FW-725). Pure functions."""

from collections.abc import Iterable
from typing import Final

from aim_cli.cluster.refs import JsonObject
from controller_runtime import quantity

_SHARES: Final = ("averageUtilization", "averageValue", "value")


def rescaled(before: JsonObject, after: JsonObject) -> str:
    """What an autoscaler made of the replicas between two of its versions, and why; empty if it left them.

    The values are there only in the version that the log keeps of the very change (FW-724).
    """
    status = after.get("status") or {}
    new = status.get("desiredReplicas")
    old = (before.get("status") or {}).get("desiredReplicas", status.get("currentReplicas"))
    if new is None or old == new:
        return ""
    values = "; ".join(_values(after))
    return f"replicas {old} → {new}: {values}" if values else f"replicas {old} → {new}"


def _values(autoscaler: JsonObject) -> Iterable[str]:
    targets = {_name(one): _of(one).get("target") or {} for one in autoscaler["spec"].get("metrics") or ()}
    for metric in (autoscaler.get("status") or {}).get("currentMetrics") or ():
        current, target = _of(metric).get("current") or {}, targets.get(_name(metric), {})
        share = next((one for one in _SHARES if one in target and one in current), None)
        if share is not None:
            sign = "%" if share == "averageUtilization" else ""
            yield f"{_name(metric)} {_number(current[share])}{sign} of target {_number(target[share])}{sign}"


def _of(metric: JsonObject) -> JsonObject:
    """What it says, which stands under its type."""
    kind = str(metric.get("type") or "")
    return metric.get(kind[:1].lower() + kind[1:]) or {}


def _name(metric: JsonObject) -> str:
    said = _of(metric)
    return str(said.get("name") or (said.get("metric") or {}).get("name") or metric.get("type") or "")


def _number(value: int | str) -> str:
    parsed = quantity.parse_or_none(value)
    return str(value) if parsed is None else f"{parsed.value.normalize():f}"
