"""A service that nobody asks anything of gives up its last replica, and gets one when a metric asks for it."""

from itertools import pairwise

import pytest
from support.scaling import CIRCUIT, WAYS, deployment_of, reason_of, settle, shown, spec_for, writers_of_replicas
from support.stack import Platform

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


async def ask_for(platform: Platform, namespace: str, replicas: int) -> None:
    """What the metrics ask for from now on."""
    isvcs = f"/apis/serving.kserve.io/v1beta1/namespaces/{namespace}/inferenceservices"
    (isvc,) = (await platform.api.get(isvcs)).body["items"]
    wish = {"metadata": {"annotations": {"local.aim/replicas": str(replicas)}}}
    await platform.api.merge(f"{isvcs}/{isvc['metadata']['name']}", wish)


@pytest.mark.spec("SV-285", "SV-273", "SV-209")
async def test_a_service_sleeps_and_wakes(platform: Platform) -> None:
    await platform.namespace("sleepy")
    routing = {"enabled": True, "pathTemplate": "/sleepy/{.metadata.name}"}
    path = await platform.service("sleepy", "chat", model={"image": IMAGE}, routing=routing, **spec_for("zero"))
    asleep = ("Running", "0/0 (0-3)", "ScaledToZero", "ScaledToZero")

    def seen(obj: JsonObject) -> tuple[str | None, ...]:
        return *shown(obj), reason_of(obj, "InferenceServicePodsReady"), reason_of(obj, "HPAReady")

    await platform.until(path, lambda obj: seen(obj) == asleep)
    pods = "/api/v1/namespaces/sleepy/pods?labelSelector=component%3Dpredictor"
    await platform.api.until(pods, lambda reply: reply.body["items"] == [])

    await ask_for(platform, "sleepy", 2)
    awake = await platform.until(path, lambda obj: shown(obj) == ("Running", "2/2 (0-3)"))
    assert "ScaledToZero" not in seen(awake)
    await platform.api.until(pods, lambda reply: len(reply.body["items"]) == 2)

    await ask_for(platform, "sleepy", 0)
    found = await platform.until(path, lambda obj: seen(obj) == asleep)
    assert found["status"]["routing"]["path"] == "/sleepy/chat", "it keeps its place at the gateway"
    routes = await platform.api.get("/apis/gateway.networking.k8s.io/v1/namespaces/sleepy/httproutes")
    assert len(routes.body["items"]) == 1
    deployment = await deployment_of(platform, "sleepy")
    assert deployment["spec"]["replicas"] == 0
    assert writers_of_replicas(deployment), "somebody wrote them"
    assert "aim-serving" not in writers_of_replicas(deployment)


@pytest.mark.spec("SV-272", "SV-285", "SV-286", "SV-297", "AT-109", "AT-110")
async def test_every_change_of_who_scales_ends_with_one_autoscaler_and_its_replicas(platform: Platform) -> None:
    assert len(set(pairwise(CIRCUIT))) == len(WAYS) * (len(WAYS) - 1)
    await platform.namespace("changing")
    first, *others = CIRCUIT
    path = await platform.service("changing", "chat", model={"image": IMAGE}, **spec_for(first))
    await settle(platform, path, first)
    for way in others:
        await platform.api.merge(path, {"spec": spec_for(way)})
        await settle(platform, path, way)


@pytest.mark.spec("SV-272", "AT-110")
async def test_the_collector_of_an_engines_metrics_goes_with_the_autoscaling(platform: Platform) -> None:
    await platform.namespace("measured")
    running = "vllm:num_requests_running"
    source = {"query": running, "metricNames": [running]}
    metric = {"type": "PodMetric", "podmetric": {"metric": source, "target": {"type": "Value", "value": "2"}}}
    bounds: JsonObject = {"minReplicas": 1, "maxReplicas": 2, "autoScaling": {"metrics": [metric]}}
    path = await platform.service("measured", "chat", model={"image": IMAGE}, **bounds)
    await platform.until(path, lambda obj: shown(obj) == ("Running", "1/1 (1-2)"))
    collectors = "/apis/opentelemetry.io/v1beta1/namespaces/measured/opentelemetrycollectors"
    (collector,) = (await platform.api.get(collectors)).body["items"]
    assert collector["metadata"]["name"] == (await deployment_of(platform, "measured"))["metadata"]["name"]
    await platform.api.merge(path, {"spec": spec_for("fixed")})
    await settle(platform, path, "fixed")
    await platform.api.until(collectors, lambda reply: not reply.body["items"])
