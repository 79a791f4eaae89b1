"""What KEDA makes of a ScaledObject. Pure functions."""

from typing import Final

from aim_local.actors.kinds import DEPLOYMENT
from aim_local.actors.objects import annotations_of, condition, controlled_by, labels_of
from controller_runtime import JsonObject
from controller_runtime.kinds import HORIZONTAL_POD_AUTOSCALER

NAME_LABEL: Final = "scaledobject.keda.sh/name"
_VERSION: Final = "2.21.0"
_RESOURCES: Final = frozenset({"cpu", "memory"})
_THRESHOLDS: Final = ("threshold", "targetValue", "value")
_DEFAULT_MOST: Final = 100
_PAUSE: Final = "autoscaling.keda.sh/paused"
_READY: Final = ("ScaledObjectReady", "ScaledObject is defined correctly and is ready for scaling")
_NO_TARGET: Final = "ScaledObject doesn't have correct scaleTargetRef specification"


def hpa_name(scaled: JsonObject) -> str:
    """Name of the HorizontalPodAutoscaler."""
    advanced = (scaled["spec"].get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    return str(advanced.get("name") or f"keda-hpa-{scaled['metadata']['name']}")


def hpa_for(scaled: JsonObject) -> JsonObject:
    """The HorizontalPodAutoscaler; resource triggers become resource metrics, all others external ones."""
    metadata, spec = scaled["metadata"], scaled["spec"]
    name = hpa_name(scaled)
    own = {
        "app.kubernetes.io/name": name[:63].rstrip("-_."),
        "app.kubernetes.io/version": _VERSION,
        "app.kubernetes.io/part-of": metadata["name"],
        "app.kubernetes.io/managed-by": "keda-operator",
    }
    wanted: JsonObject = {
        "scaleTargetRef": {
            "apiVersion": DEPLOYMENT.api_version,
            "kind": DEPLOYMENT.kind,
            "name": spec["scaleTargetRef"]["name"],
        },
        "minReplicas": spec.get("minReplicaCount") or 1,
        "maxReplicas": max(1, spec.get("maxReplicaCount", _DEFAULT_MOST)),
        "metrics": sorted(_metrics(scaled), key=lambda one: str(one["type"])),
    }
    behavior = ((spec.get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}).get("behavior")
    if behavior:
        wanted["behavior"] = behavior
    return {
        "apiVersion": HORIZONTAL_POD_AUTOSCALER.api_version,
        "kind": HORIZONTAL_POD_AUTOSCALER.kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {**own, **labels_of(scaled), NAME_LABEL: metadata["name"]},
            "annotations": annotations_of(scaled),
            "ownerReferences": [controlled_by(scaled)],
        },
        "spec": wanted,
    }


def status_for(scaled: JsonObject, target: JsonObject | None, autoscaler: JsonObject | None) -> JsonObject:
    """The ScaledObject's status; without a target nothing is scaled."""
    present = scaled.get("status") or {}
    if target is None:
        name = scaled["spec"]["scaleTargetRef"]["name"]
        why = f'{_NO_TARGET}: deployments.apps "{name}" not found'
        conditions = [
            condition("Ready", False, "ScaledObjectCheckFailed", why),
            condition("Active", None, "UnknownState", "ScaledObject check failed"),
            *_others(scaled),
        ]
        return {**present, "conditions": conditions}
    metrics = _metrics(scaled)
    names = {
        "externalMetricNames": [one["external"]["metric"]["name"] for one in metrics if "external" in one],
        "resourceMetricNames": [one["resource"]["name"] for one in metrics if "resource" in one],
    }
    active = condition("Active", True, "ScalerActive", "Scaling is performed because triggers are active")
    return {
        "scaleTargetKind": f"{DEPLOYMENT.api_version}.{DEPLOYMENT.kind}",
        "scaleTargetGVKR": {
            "group": DEPLOYMENT.group,
            "version": DEPLOYMENT.version,
            "kind": DEPLOYMENT.kind,
            "resource": DEPLOYMENT.plural,
        },
        "originalReplicaCount": present.get("originalReplicaCount", target["spec"].get("replicas", 1)),
        **{name: value for name, value in names.items() if value},
        **({"hpaName": autoscaler["metadata"]["name"]} if autoscaler else {}),
        "triggersTypes": ",".join(dict.fromkeys(one["type"] for one in scaled["spec"].get("triggers") or ())),
        "authenticationsTypes": "",
        "conditions": [condition("Ready", True, *_READY), active, *_others(scaled)],
    }


def _others(scaled: JsonObject) -> list[JsonObject]:
    fallback = condition("Fallback", False, "NoFallbackFound", "No fallbacks are active on this scaled object")
    if annotations_of(scaled).get(_PAUSE) == "true":
        return [fallback, condition("Paused", True, "ScaledObjectPaused", "ScaledObject is paused")]
    return [fallback, condition("Paused", None)]


def _metrics(scaled: JsonObject) -> list[JsonObject]:
    return [
        _resource(trigger) if trigger["type"] in _RESOURCES else _external(scaled, index, trigger)
        for index, trigger in enumerate(scaled["spec"].get("triggers") or ())
    ]


def _resource(trigger: JsonObject) -> JsonObject:
    value, kind = (trigger.get("metadata") or {}).get("value", "0"), trigger.get("metricType") or "Utilization"
    share = {"averageUtilization": int(value)} if kind == "Utilization" else {"averageValue": str(value)}
    return {"type": "Resource", "resource": {"name": trigger["type"], "target": {"type": kind, **share}}}


def _external(scaled: JsonObject, index: int, trigger: JsonObject) -> JsonObject:
    told = trigger.get("metadata") or {}
    threshold = next((str(told[name]) for name in _THRESHOLDS if name in told), "0")
    kind = trigger.get("metricType") or "AverageValue"
    share = {"averageValue" if kind == "AverageValue" else "value": threshold}
    metric = {
        "name": f"s{index}-{_metric_name(trigger)}",
        "selector": {"matchLabels": {NAME_LABEL: scaled["metadata"]["name"]}},
    }
    return {"type": "External", "external": {"metric": metric, "target": {"type": kind, **share}}}


def _metric_name(trigger: JsonObject) -> str:
    """What the scaler calls it; an external scaler answers with the query's own name."""
    if trigger["type"] != "external":
        return str(trigger["type"])
    query = str((trigger.get("metadata") or {}).get("metricQuery", ""))
    return "".join(letter if letter.isalnum() else "-" for letter in query).strip("-") or "external"
