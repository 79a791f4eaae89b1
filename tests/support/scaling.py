"""Who scales a service, and every change from one to another."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from support.controlplane import Reply
from support.stack import Platform, status_of

from controller_runtime import JsonObject

WAYS: Final[tuple[str, ...]] = ("fixed", "hpa", "keda", "zero")
CIRCUIT: Final = (
    "fixed",
    "hpa",
    "keda",
    "zero",
    "fixed",
    "keda",
    "hpa",
    "zero",
    "keda",
    "fixed",
    "zero",
    "hpa",
    "fixed",
)
"""Each of the twelve changes once."""
RUNS: Final[Mapping[str, str]] = MappingProxyType(
    {"fixed": "1", "hpa": "1/1 (1-2)", "keda": "1/1 (1-3)", "zero": "0/0 (0-3)"}
)
"""What `status.runtime.replicas` comes to while the metrics ask for nothing."""
SCALES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "fixed": frozenset(),
        "hpa": frozenset({"HorizontalPodAutoscaler"}),
        "keda": frozenset({"HorizontalPodAutoscaler", "ScaledObject"}),
        "zero": frozenset({"HorizontalPodAutoscaler", "ScaledObject"}),
    }
)
"""Objects that scale the one Deployment."""


def waiting(server: str = "") -> JsonObject:
    """A metric that is there without pods."""
    source = {"query": "gateway_waiting_requests", **({"serverAddress": server} if server else {})}
    return {"type": "PodMetric", "podmetric": {"metric": source, "target": {"type": "Value", "value": "1"}}}


def spec_for(way: str, server: str = "") -> JsonObject:
    """A merge patch of the spec that makes this way the only one."""
    nobody: JsonObject = {"replicas": 1, "minReplicas": None, "maxReplicas": None, "autoScaling": None}
    by_metric: JsonObject = {"autoScaling": {"metrics": [waiting(server)]}, "maxReplicas": 3}
    ways: dict[str, JsonObject] = {
        "fixed": {},
        "hpa": {"minReplicas": 1, "maxReplicas": 2},
        "keda": {"minReplicas": 1, **by_metric},
        "zero": {"minReplicas": 0, **by_metric},
    }
    return {**nobody, **ways[way]}


def shown(obj: JsonObject) -> tuple[str, str | None]:
    """Overall status and replicas."""
    return status_of(obj), ((obj.get("status") or {}).get("runtime") or {}).get("replicas")


def reason_of(obj: JsonObject, condition: str) -> str | None:
    """Why a condition is as it is."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((one["reason"] for one in conditions if one["type"] == condition), None)


async def settle(platform: Platform, path: str, way: str, seconds: float = 60) -> None:
    """Wait until the service runs as this way has it, with its autoscaler and no other."""
    namespace = path.split("/")[-3]
    await platform.until(path, lambda obj: shown(obj) == ("Running", RUNS[way]), seconds)
    for kind, where in _AUTOSCALERS.items():
        count = _none if kind not in SCALES[way] else _one
        await platform.api.until(where.format(namespace), count, seconds)


def _none(reply: Reply) -> bool:
    return not reply.body["items"]


def _one(reply: Reply) -> bool:
    return len(reply.body["items"]) == 1


async def deployment_of(platform: Platform, namespace: str) -> JsonObject:
    """The one Deployment there."""
    reply = await platform.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")
    found: list[JsonObject] = reply.body["items"]
    (one,) = found
    return one


def writers_of_replicas(deployment: JsonObject) -> set[str]:
    """Whose fields the replicas are."""
    fields: Iterable[JsonObject] = deployment["metadata"]["managedFields"]
    return {one["manager"] for one in fields if "f:replicas" in one["fieldsV1"].get("f:spec", ())}


_AUTOSCALERS: Final = {
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers",
    "ScaledObject": "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects",
}
