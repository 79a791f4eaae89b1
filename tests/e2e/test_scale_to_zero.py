"""A service that nobody asks anything of gives up its last replica, and gets one when a metric asks for it."""

import pytest
from support.stack import Platform, status_of

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
WAITING: JsonObject = {
    "type": "PodMetric",
    "podmetric": {"metric": {"query": "gateway_waiting_requests"}, "target": {"type": "Value", "value": "1"}},
}
"""One that is there without pods."""
TO_ZERO: JsonObject = {"minReplicas": 0, "maxReplicas": 3, "autoScaling": {"metrics": [WAITING]}}


def shown(obj: JsonObject) -> tuple[str, str | None, str | None]:
    """Overall status, replicas, and why the pods are as they are."""
    status = obj.get("status") or {}
    pods = [one["reason"] for one in status.get("conditions") or () if one["type"] == "InferenceServicePodsReady"]
    return status_of(obj), (status.get("runtime") or {}).get("replicas"), pods[0] if pods else None


async def ask_for(platform: Platform, namespace: str, replicas: int) -> None:
    """What the metrics ask for from now on."""
    isvcs = f"/apis/serving.kserve.io/v1beta1/namespaces/{namespace}/inferenceservices"
    (isvc,) = (await platform.api.get(isvcs)).body["items"]
    wish = {"metadata": {"annotations": {"local.aim/replicas": str(replicas)}}}
    await platform.api.merge(f"{isvcs}/{isvc['metadata']['name']}", wish)


async def replicas_by(platform: Platform, namespace: str) -> tuple[int, set[str]]:
    """Replicas of the one Deployment, and who wrote them."""
    (found,) = (await platform.api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")).body["items"]
    fields = found["metadata"]["managedFields"]
    return found["spec"]["replicas"], {
        one["manager"] for one in fields if "f:replicas" in one["fieldsV1"].get("f:spec", ())
    }


@pytest.mark.spec("SV-285", "SV-273", "SV-209")
async def test_a_service_sleeps_and_wakes(platform: Platform) -> None:
    await platform.namespace("sleepy")
    routing = {"enabled": True, "pathTemplate": "/sleepy/{.metadata.name}"}
    path = await platform.service("sleepy", "chat", model={"image": IMAGE}, routing=routing, **TO_ZERO)
    asleep = ("Running", "0/0 (0-3)", "ScaledToZero")
    await platform.until(path, lambda obj: shown(obj) == asleep)
    pods = "/api/v1/namespaces/sleepy/pods?labelSelector=component%3Dpredictor"
    await platform.api.until(pods, lambda reply: reply.body["items"] == [])

    await ask_for(platform, "sleepy", 2)
    awake = await platform.until(path, lambda obj: shown(obj)[:2] == ("Running", "2/2 (0-3)"))
    assert shown(awake)[2] != "ScaledToZero"
    await platform.api.until(pods, lambda reply: len(reply.body["items"]) == 2)

    await ask_for(platform, "sleepy", 0)
    found = await platform.until(path, lambda obj: shown(obj) == asleep)
    assert found["status"]["routing"]["path"] == "/sleepy/chat", "it keeps its place at the gateway"
    routes = await platform.api.get("/apis/gateway.networking.k8s.io/v1/namespaces/sleepy/httproutes")
    assert len(routes.body["items"]) == 1
    replicas, writers = await replicas_by(platform, "sleepy")
    assert replicas == 0
    assert writers, "somebody wrote them"
    assert not [one for one in writers if one.startswith("aim-")], writers
