"""KServe and Kubernetes take every name that the platform derives, and those that they derive from it."""

import asyncio
import random
import string
from typing import Final

import pytest
from support.controlplane import RawApi

from aim_domain import naming
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

SEED: Final = 28
DRAWN: Final = 12
SECONDS: Final = 120
LONGEST_NAMESPACE: Final = 42
LONGEST_SERVICE: Final = 70
ISVCS: Final = "/apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices"
AT_LIMITS: Final = [
    ("a", "0"),
    ("7", "7b-chat"),
    ("ai", "mixtral-8x22b-instruct-long-context-eval-fp8"),
    ("n" * LONGEST_NAMESPACE, "9"),
    ("0" * LONGEST_NAMESPACE, "x" * LONGEST_SERVICE),
]


def drawn() -> list[tuple[str, str]]:
    """Namespaces and AIMServices, at the limits and between them."""
    source = random.Random(SEED)

    def name(longest: int) -> str:
        inner = string.ascii_lowercase + string.digits + "-"
        ends = string.ascii_lowercase + string.digits
        length = source.randint(1, longest)
        return "".join(source.choice(ends if place in {0, length - 1} else inner) for place in range(length))

    return AT_LIMITS + [(name(LONGEST_NAMESPACE), name(LONGEST_SERVICE)) for _ in range(DRAWN)]


def inference_service(namespace: str, name: str) -> JsonObject:
    container = {"name": "kserve-container", "image": "example.com/engine:1"}
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"serving.kserve.io/autoscalerClass": "none"},
        },
        "spec": {"predictor": {"containers": [container], "minReplicas": 1, "maxReplicas": 1}},
    }


async def runs(api: RawApi, namespace: str, service: str) -> None:
    """KServe makes Deployment and Service, and the ReplicaSet its pod, which carries all labels."""
    name = naming.inference_service_name(service, namespace)
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    try:
        await api.created(ISVCS.format(namespace), inference_service(namespace, name))
        pods = f"/api/v1/namespaces/{namespace}/pods?labelSelector=serving.kserve.io%2Finferenceservice%3D{name}"
        await api.until(pods, lambda reply: len(reply.body.get("items", ())) == 1, seconds=SECONDS)
        made = f"/api/v1/namespaces/{namespace}/services/{naming.predictor_name(name)}"
        await api.until(made, lambda reply: reply.status == 200, seconds=SECONDS)
    finally:
        await api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.mark.spec("FW-800", "FW-801", "SV-144")
async def test_pods_and_services_are_made_for_every_name(api: RawApi) -> None:
    async with asyncio.TaskGroup() as group:
        for namespace, service in drawn():
            group.create_task(runs(api, namespace, service))
