"""Profiles on a node: listed by a shell in the image, served by a container that reads the file of its profile."""

import os
import signal

import pytest
from support.node_pods import main_process
from support.on_node import IMAGE, OWN, OnNode

from controller_runtime import JsonObject

NEWER = OWN.replace("v1alpha1", "v1alpha2")
ASKED = {"aim.eai.amd.com/reconciler-pipeline": "profile"}
SYSTEM = "aim-system"


def discovered(model: JsonObject) -> int:
    found = (model.get("status") or {}).get("discoveredProfiles") or {}
    return int(found.get("total") or 0)


async def killed(node: OnNode, service: str) -> None:
    """End the main process of the pods of a service at once."""
    for pod in await node.objects("pods", "-n", SYSTEM, "-l", f"app.kubernetes.io/component={service}"):
        os.kill(await main_process(node, SYSTEM, pod["metadata"]["name"]), signal.SIGKILL)


@pytest.mark.spec("PR-010", "PR-060", "PR-071", "PR-072", "PR-091", "PR-094")
async def test_a_profile_of_an_image_serves_behind_a_real_gateway(node: OnNode) -> None:
    async with node.namespace("profiles") as namespace:
        collection = f"{OWN}/namespaces/{namespace}/aimmodels"
        metadata = {"name": "qwen", "namespace": namespace, "annotations": ASKED}
        body = {
            "apiVersion": "aim.eai.amd.com/v1alpha1",
            "kind": "AIMModel",
            "metadata": metadata,
            "spec": {"image": IMAGE},
        }
        await node.api.created(collection, body)
        await killed(node, "discovery")
        model = await node.until(f"{collection}/qwen", lambda one: discovered(one) > 0)
        assert model["status"]["aimId"] == "Qwen/Qwen3-32B"
        assert model["status"]["baseImage"].endswith("aim-base:0.9.0")
        selector = {"modelRef": {"name": "qwen"}, "metric": "latency"}
        overrides = {"containerEnv": [{"name": "AIM_ENGINE_START_SECONDS", "value": "1"}]}
        path = await node.service(
            namespace, "chat", model=None, profile={"selector": selector}, profileOverrides=overrides
        )
        await killed(node, "serving")
        service = await node.running(path)
        name = service["status"]["resolvedProfile"]["name"]
        overlay = (await node.api.get(f"{NEWER}/namespaces/{namespace}/aimprofiles/{name}")).body
        assert overlay["metadata"]["annotations"]["aim.eai.amd.com/overlay-service"] == "chat"
        answer = await node.ask(service["status"]["routing"]["path"])
        assert answer["choices"][0]["message"]["content"]
        [pod] = await node.objects("pods", "-n", namespace, "-l", "serving.kserve.io/inferenceservice")
        logged = await node.kubectl("logs", "-n", namespace, pod["metadata"]["name"], "-c", "kserve-container")
        assert "vllm-mi300x-fp16-tp1-latency" in logged or "Qwen/Qwen3-32B" in logged
