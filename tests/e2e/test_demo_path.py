"""From `kubectl apply` to an answer, through all five services, real NATS and real HTTP."""

import pytest
from support.stack import OWN, Platform, status_of

from aim_domain.labels import MODEL_SOURCE
from aim_local.demo.run import EXAMPLES, demo_files
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


def is_ready(pod: JsonObject) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((one["type"], one["status"]) == ("Ready", "True") for one in conditions)


@pytest.mark.spec("SV-222", "RT-051", "RT-052")
async def test_a_service_by_image_runs_and_answers(platform: Platform) -> None:
    await platform.apply([demo_files()[-1]])
    service = await platform.running(f"{OWN}/namespaces/demo/aimservices/qwen-chat")

    answer = await platform.chat(service["status"]["routing"]["path"], "what is 6 times 7?")

    assert service["status"]["routing"]["path"] == "/demo/qwen-chat"
    assert answer["model"] == "aim-qwen-qwen3-32b"
    assert answer["choices"][0]["message"]["content"].endswith("what is 6 times 7?")


async def test_a_second_service_of_its_own_yaml_runs_beside_it(platform: Platform) -> None:
    await platform.apply([demo_files()[-1], EXAMPLES / "second-service.yaml"])
    service = await platform.running(f"{OWN}/namespaces/demo/aimservices/qwen-batch")

    answer = await platform.chat(service["status"]["routing"]["path"], "hello")

    assert service["status"]["routing"]["path"] == "/batch/demo/qwen-batch"
    assert service["status"]["runtime"]["replicas"] == "2"
    assert answer["choices"][0]["message"]["content"].endswith("hello")


@pytest.mark.spec("FW-409", "FW-141")
async def test_scaling_keeps_the_pod_that_serves(platform: Platform) -> None:
    await platform.namespace("growing")
    path = await platform.service("growing", "chat", model={"image": IMAGE})
    await platform.running(path)
    pods = "/api/v1/namespaces/growing/pods?labelSelector=component%3Dpredictor"
    (first,) = (await platform.api.get(pods)).body["items"]

    await platform.api.merge(path, {"spec": {"replicas": 2}})
    grown = await platform.api.until(pods, lambda reply: sum(is_ready(pod) for pod in reply.body["items"]) == 2, 60)

    found = {pod["metadata"]["uid"]: pod for pod in grown.body["items"]}
    assert len(found) == 2, "nobody was replaced"
    assert "deletionTimestamp" not in found[first["metadata"]["uid"]]["metadata"]
    await platform.running(path)


@pytest.mark.spec("SV-237")
async def test_a_deleted_service_stops_answering(platform: Platform) -> None:
    await platform.namespace("short-lived")
    path = await platform.service("short-lived", "chat", model={"image": IMAGE})
    service = await platform.running(path)
    await platform.chat(service["status"]["routing"]["path"], "hello")

    await platform.api.delete(path)

    await platform.api.until_gone(path)
    pods = "/api/v1/namespaces/short-lived/pods?labelSelector=component%3Dpredictor"
    await platform.api.until(pods, lambda reply: reply.body["items"] == [])
    routes = "/apis/gateway.networking.k8s.io/v1/namespaces/short-lived/httproutes"
    await platform.api.until(routes, lambda reply: reply.body["items"] == [])


@pytest.mark.spec("FW-S51")
async def test_a_namespace_goes_with_all_that_runs_in_it(platform: Platform) -> None:
    await platform.namespace("leaving")
    path = await platform.service("leaving", "chat", model={"image": IMAGE})
    await platform.running(path)

    await platform.api.delete("/api/v1/namespaces/leaving")

    await platform.api.until("/api/v1/namespaces/leaving", lambda reply: reply.status == 404, 60)
    assert (await platform.api.get("/api/v1/namespaces/leaving/pods")).body.get("items", []) == []


async def test_the_catalogue_of_the_model_source_is_complete(platform: Platform) -> None:
    source = await platform.until(f"{OWN}/aimclustermodelsources/amd-catalogue", lambda obj: status_of(obj) == "Ready")

    found = await platform.api.get(f"{OWN}/aimclustermodels", labelSelector=f"{MODEL_SOURCE}=amd-catalogue")
    models = found.body["items"]
    images = {model["spec"]["image"] for model in models}

    assert source["status"]["discoveredModels"] == len(models) > 0
    assert any(image.endswith("amdenterpriseai/aim-qwen-qwen3-32b:0.8.5") for image in images)
    assert not any("aim-base" in image for image in images)


@pytest.mark.spec("SV-198")
async def test_an_image_that_can_not_be_pulled_is_named_in_the_status(platform: Platform) -> None:
    await platform.namespace("no-pull", **{"local.aim/fail": "predictor=image-pull"})
    path = await platform.service("no-pull", "chat", model={"image": IMAGE})

    service = await platform.until(path, lambda obj: status_of(obj) == "Failed")

    reasons = {one["type"]: one["reason"] for one in service["status"]["conditions"]}
    assert reasons["InferenceServicePodsReady"] == "ImageNotFound"

    await platform.api.merge("/api/v1/namespaces/no-pull", {"metadata": {"annotations": {"local.aim/fail": None}}})
    await platform.running(path)


async def test_kubectl_shows_what_is_there(platform: Platform) -> None:
    await platform.apply([demo_files()[-1]])
    await platform.running(f"{OWN}/namespaces/demo/aimservices/qwen-chat")

    listed = await platform.kubectl("get", "aimservices,inferenceservices,httproutes,pods", "-n", "demo")
    described = await platform.kubectl("describe", "aimservice", "-n", "demo", "qwen-chat")
    pods = await platform.kubectl("get", "pods", "-n", "demo", "-l", "component=predictor", "-o", "name")
    logs = await platform.kubectl("logs", "-n", "demo", pods.out.split()[0])

    assert "Running" in listed.out
    assert "AllComponentsReady" in described.out
    assert "Application startup complete" in logs.out
