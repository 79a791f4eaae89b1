"""The real control plane: what its controllers and KServe do, what its audit log tells, that nothing survives it."""

import asyncio
import itertools
import re
import signal
import sys
from pathlib import Path

import pytest
from support.controlplane import RawApi, eventually
from support.real_cluster import raw_api

from aim_domain.kinds import INFERENCE_SERVICE
from aim_local.realcluster import RealCluster, RequestKey
from controller_runtime import ApiError, Category, JsonObject, KubeClient, classify
from controller_runtime.kube.config import from_kubeconfig

pytestmark = pytest.mark.asyncio(loop_scope="session")

ISVCS = "/apis/serving.kserve.io/v1beta1/namespaces/{}/inferenceservices"
SECONDS = 60


def inference_service(namespace: str, name: str = "qwen-chat", **predictor: object) -> JsonObject:
    container = {
        "name": "kserve-container",
        "image": "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5",
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
    }
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": {"serving.kserve.io/autoscalerClass": "none"},
        },
        "spec": {"predictor": {"containers": [container], "minReplicas": 1, "maxReplicas": 1, **predictor}},
    }


async def only_item(api: RawApi, collection: str) -> JsonObject:
    """The one object of a collection, waited for."""
    reply = await api.until(collection, lambda reply: len(reply.body.get("items", ())) == 1, seconds=SECONDS)
    [item] = reply.body["items"]
    assert isinstance(item, dict)
    return item


async def test_server_tells_its_version(api: RawApi) -> None:
    version = (await api.get("/version")).body
    assert version["gitVersion"].startswith(f"v{version['major']}.{version['minor']}.")


async def test_workload_of_an_inference_service(api: RawApi, namespace: str) -> None:
    isvc = await api.created(ISVCS.format(namespace), inference_service(namespace))
    deployment = await only_item(api, f"/apis/apps/v1/namespaces/{namespace}/deployments")
    replica_set = await only_item(api, f"/apis/apps/v1/namespaces/{namespace}/replicasets")
    pod = await only_item(api, f"/api/v1/namespaces/{namespace}/pods")
    service = await only_item(api, f"/api/v1/namespaces/{namespace}/services")
    chain = [isvc, deployment, replica_set, pod]
    for parent, child in itertools.pairwise(chain):
        assert child["metadata"]["ownerReferences"][0]["uid"] == parent["metadata"]["uid"]
    assert service["metadata"]["name"] == "qwen-chat-predictor"
    assert pod["metadata"]["labels"]["serving.kserve.io/inferenceservice"] == "qwen-chat"
    # No settings of KServe's may come into a container that names none (FW-327).
    [container] = pod["spec"]["containers"]
    assert (container["name"], container.get("resources")) == ("kserve-container", {})
    collected = f"/apis/apps/v1/namespaces/{namespace}/deployments/{deployment['metadata']['name']}"
    await api.delete(f"{ISVCS.format(namespace)}/qwen-chat")
    await api.until(collected, lambda reply: reply.status == 404, seconds=SECONDS)


async def test_webhooks_refuse_and_complete(api: RawApi, namespace: str) -> None:
    refused = await api.post(ISVCS.format(namespace), inference_service(namespace, minReplicas=-1))
    assert refused.status >= 400
    assert "inferenceservice.kserve-webhook-server.validator" in refused.message
    made = await api.created(ISVCS.format(namespace), inference_service(namespace))
    assert made["metadata"]["annotations"]["serving.kserve.io/deploymentMode"] == "Standard"


@pytest.mark.spec("FW-044")
async def test_a_refusal_of_a_webhook_counts_as_an_invalid_spec(real_cluster: RealCluster, namespace: str) -> None:
    connection = await from_kubeconfig(str(real_cluster.kubeconfig_for("serving")))
    async with KubeClient(connection, service="serving") as client:
        with pytest.raises(ApiError) as caught:
            await client.apply(INFERENCE_SERVICE, inference_service(namespace, minReplicas=-1), "aim-serving")
    found = classify(caught.value)
    assert (found.category, found.reason) == (Category.INVALID_SPEC, "AdmissionDenied")


async def test_audit_log_counts_by_user(real_cluster: RealCluster, namespace: str) -> None:
    await real_cluster.audit.reset()
    async with raw_api(real_cluster.kubeconfig_for("serving")) as serving:
        for _ in range(3):
            await serving.get(ISVCS.format(namespace))
        await serving.created(
            f"/api/v1/namespaces/{namespace}/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}},
        )
    expected = {
        RequestKey("serving", "list", "inferenceservices.serving.kserve.io"): 3,
        RequestKey("serving", "create", "configmaps"): 1,
    }
    await until_counted(real_cluster, "serving", expected)


async def until_counted(cluster: RealCluster, user: str, expected: dict[RequestKey, int]) -> None:
    """Wait until the audit log tells exactly these requests of a user."""
    async with asyncio.timeout(SECONDS):
        while True:
            counts = await cluster.audit.counts()
            if {key: number for key, number in counts.items() if key.user == user} == expected:
                return
            await asyncio.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process lives; one that ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_nothing_survives(tmp_path: Path, how: signal.Signals) -> None:
    folder = tmp_path / "cluster"
    command = [sys.executable, "-m", "aim_local.realcluster", "--folder", str(folder)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    pids: list[int] = []
    async with asyncio.timeout(110):
        async for line in process.stdout:
            if found := re.search(rb"^  \S+ +pid (\d+)", line):
                pids.append(int(found[1]))
            if line.startswith(b"stop with"):
                break
        assert len(pids) == 5
        assert all(alive(pid) for pid in pids)
        process.send_signal(how)
        assert await process.wait() == (-signal.SIGKILL if how is signal.SIGKILL else 0)
    await eventually(lambda: not any(alive(pid) for pid in pids), SECONDS)
    assert (folder / "logs" / "kube-apiserver.log").exists()
