"""What real quotas, limits, schedulers and provisioners refuse is quoted in the status, and the remedies help."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from support.said import why
from support.stack import Platform, started_platform, status_of

from aim_local.stack import ClusterKind
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

OWN: Final = "/apis/aim.eai.amd.com/v1alpha1"
IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
WITHIN: Final = 60
"""Seconds in which a status has the words of what refuses."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """A platform whose admission, scheduler and controllers are those of Kubernetes."""
    folder = tmp_path_factory.mktemp("platform")
    async with started_platform(folder, cluster=ClusterKind.REAL) as found:
        yield found


async def artifact(platform: Platform, namespace: str, **spec: object) -> str:
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMArtifact",
        "metadata": {"name": "weights", "namespace": namespace},
        "spec": {"sourceUri": "hf://Qwen/Qwen3-0.6B", **spec},
    }
    collection = f"{OWN}/namespaces/{namespace}/aimartifacts"
    await platform.api.created(collection, body)
    return f"{collection}/weights"


async def refuse(platform: Platform, kind: str, namespace: str, **spec: object) -> None:
    body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "team"}, "spec": spec}
    path = f"/api/v1/namespaces/{namespace}/{kind.lower()}s"
    await platform.api.created(path, body)
    if kind == "ResourceQuota":
        # Admission goes by what the quota controller has written.
        await platform.until(f"{path}/team", lambda obj: bool((obj.get("status") or {}).get("hard")))


def condition(obj: JsonObject, type_: str) -> tuple[str, str]:
    """Reason and message of a condition that does not hold."""
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one["type"] == type_ and one["status"] != "True":
            return one["reason"], one["message"]
    return "", ""


@pytest.mark.spec("AR-840", "SV-321")
async def test_a_quota_of_cpu_admits_the_jobs_and_names_the_predictor(platform: Platform) -> None:
    await platform.namespace("quota")
    hard = {"requests.cpu": "64", "requests.memory": "512Gi", "limits.cpu": "64", "limits.memory": "512Gi"}
    await refuse(platform, "ResourceQuota", "quota", hard=hard)
    path = await platform.service("quota", "chat", model={"image": IMAGE})
    found = await platform.until(
        path, lambda obj: condition(obj, "InferenceServicePodsReady")[0] == "FailedCreate", WITHIN
    )
    assert "must specify limits.cpu for: kserve-container" in condition(found, "InferenceServicePodsReady")[1]
    assert status_of(found) == "Pending"
    said = await why(platform, "aimservice", "quota/chat")
    assert "failed quota: team: must specify limits.cpu" in said.lines[1]
    assert "predictors of the runtime config" in said.lines[2]
    resources = {"limits": {"cpu": "4", "memory": "8Gi"}, "requests": {"cpu": "2", "memory": "4Gi"}}
    await platform.api.merge(path, {"spec": {"resources": resources}})
    await platform.running(path)


@pytest.mark.spec("AR-844")
async def test_a_quota_of_pods_is_quoted_and_nothing_is_said_to_run(platform: Platform) -> None:
    await platform.namespace("no-pods")
    await refuse(platform, "ResourceQuota", "no-pods", hard={"pods": "0"})
    path = await artifact(platform, "no-pods", size="1Gi")
    found = await platform.until(path, lambda obj: condition(obj, "DownloadJobReady")[0] == "FailedCreate", WITHIN)
    assert "exceeded quota: team" in condition(found, "DownloadJobReady")[1]
    assert status_of(found) == "Pending"


@pytest.mark.spec("FW-044")
@pytest.mark.parametrize(
    ("kind", "spec", "status", "words"),
    [
        (
            "ResourceQuota",
            {"hard": {"persistentvolumeclaims": "0"}},
            "Degraded",
            "exceeded quota: team",
        ),
        (
            "LimitRange",
            {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]},
            "Failed",
            "maximum storage usage per PersistentVolumeClaim is 1Gi",
        ),
    ],
)
async def test_what_refuses_a_claim_is_no_missing_permission(
    platform: Platform, kind: str, spec: dict[str, object], status: str, words: str
) -> None:
    namespace = f"no-claims-{kind.lower()}"
    await platform.namespace(namespace)
    await refuse(platform, kind, namespace, **spec)
    path = await artifact(platform, namespace, size="2Gi")
    found = await platform.until(path, lambda obj: words in condition(obj, "Ready")[1], WITHIN)
    assert status_of(found) == status
    said = await why(platform, "aimartifact", f"{namespace}/weights")
    assert words in said.lines[1]
    assert condition(found, "AuthValid") == ("", "")


@pytest.mark.spec("AR-845", "FW-605")
async def test_a_storage_class_that_does_not_exist_is_the_cause(platform: Platform) -> None:
    await platform.namespace("no-class")
    path = await artifact(platform, "no-class", size="1Gi", storageClassName="fast-typo")
    found = await platform.until(path, lambda obj: condition(obj, "CachePvcReady")[0] == "ProvisioningFailed", WITHIN)
    assert 'storageclass.storage.k8s.io "fast-typo" not found' in condition(found, "CachePvcReady")[1]
    said = await why(platform, "aimartifact", "no-class/weights")
    assert 'ProvisioningFailed: storageclass.storage.k8s.io "fast-typo" not found' in said.lines[1]
    assert "kubectl get storageclass" in said.lines[2]


@pytest.mark.spec("SV-320", "SV-322")
async def test_a_rollout_without_a_spare_gpu_is_stated_and_recreate_ends_it(platform: Platform) -> None:
    await platform.namespace("full")
    path = await platform.service("full", "chat", model={"image": IMAGE}, replicas=1)
    await platform.running(path)
    pods = (await platform.api.get("/api/v1/pods")).body["items"]
    taken = sum(gpus(pod) for pod in pods)
    nodes = (await platform.api.get("/api/v1/nodes")).body["items"]
    free = sum(int(node["status"]["allocatable"].get("amd.com/gpu", 0)) for node in nodes) - taken
    await platform.running(await platform.service("full", "rest", model={"image": IMAGE}, replicas=free), 120)

    await platform.api.merge(path, {"spec": {"env": [{"name": "LEVEL", "value": "DEBUG"}]}})
    found = await platform.until(
        path, lambda obj: condition(obj, "InferenceServicePodsReady")[0] == "FailedScheduling", WITHIN
    )
    message = condition(found, "InferenceServicePodsReady")[1]
    assert "Insufficient amd.com/gpu" in message
    assert "of the former revision still serves" in message
    assert "set spec.deploymentStrategy.type to Recreate" in message
    await platform.api.merge(path, {"spec": {"deploymentStrategy": {"type": "Recreate"}}})
    await platform.running(path)


def gpus(pod: JsonObject) -> int:
    """GPUs that a pod holds."""
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    return sum(
        int(one.get("resources", {}).get("requests", {}).get("amd.com/gpu", 0)) for one in pod["spec"]["containers"]
    )


@pytest.mark.spec("AR-841", "RC-155")
async def test_jobs_run_where_every_node_has_the_gpu_taint(platform: Platform) -> None:
    nodes = (await platform.api.get("/api/v1/nodes")).body["items"]
    paths = [f"/api/v1/nodes/{node['metadata']['name']}" for node in nodes]
    config = {
        "apiVersion": "config.kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoConfig",
        "metadata": {"name": "kaiwo"},
        "spec": {"nodes": {"defaultGpuTaintKey": "amd.com/gpu"}},
    }
    await platform.api.created("/apis/config.kaiwo.silogen.ai/v1alpha1/kaiwoconfigs", config)
    for path in paths:
        taint = {"key": "amd.com/gpu", "value": "present", "effect": "NoSchedule"}
        await platform.api.merge(path, {"spec": {"taints": [taint]}})
    try:
        await platform.namespace("tainted")
        # Without a size, so that its check runs as a pod as well.
        path = await artifact(platform, "tainted")
        await platform.until(path, lambda obj: status_of(obj) == "Ready", WITHIN)
    finally:
        for path in paths:
            await platform.api.merge(path, {"spec": {"taints": None}})
        await platform.api.delete("/apis/config.kaiwo.silogen.ai/v1alpha1/kaiwoconfigs/kaiwo")
