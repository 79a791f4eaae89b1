"""The actors beside a real control plane: what needs hardware is played, everything else is real."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.controlplane import RawApi
from support.nats import eventually

from aim_local.actors import ActorSettings, SimulatedCluster
from aim_local.actors.failures import parse_rule
from aim_local.actors.settings import HARDWARE_ACTORS
from aim_local.assets import Program, find_toolset
from aim_local.realcluster import RealCluster, User
from controller_runtime import JsonObject, KubeClient
from controller_runtime.kube.config import from_kubeconfig

pytestmark = pytest.mark.asyncio(loop_scope="session")

SECONDS = 60
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def actors(
    real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[SimulatedCluster]:
    """Nodes, kubelets, volumes and gateway."""
    folder = tmp_path_factory.mktemp("actors")
    settings = ActorSettings(folder, delay=0.01, retry_delay=0.2, node_count=2, gpus=64, actors=HARDWARE_ACTORS)
    connection = await from_kubeconfig(str(real_cluster.kubeconfig_for(User.ACTORS)))
    async with KubeClient(connection, service="local-actors") as client:
        cluster = SimulatedCluster(client, settings)
        async with cluster.running():
            yield cluster


def holds(obj: JsonObject, type_: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(one["type"] == type_ and one["status"] == "True" for one in conditions)


def template(*args: str, policy: str = "Always", claim: str = "") -> JsonObject:
    container = {"name": "main", "image": "busybox:1", "args": list(args)}
    spec: JsonObject = {"restartPolicy": policy, "containers": [container]}
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"metadata": {"labels": {"app": "web"}}, "spec": spec}


def job(name: str, *, claim: str = "", backoff: int = 0) -> JsonObject:
    spec = {"backoffLimit": backoff, "template": template("work", policy="Never", claim=claim)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def kubectl(cluster: RealCluster, *arguments: str) -> str:
    """What the real kubectl prints."""
    process = await asyncio.create_subprocess_exec(
        str(find_toolset().program(Program.KUBECTL)),
        "--kubeconfig",
        str(cluster.kubeconfig_for(User.KUBECTL)),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(SECONDS):
        out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()


async def test_a_deployment_runs_scales_and_goes(
    api: RawApi, namespace: str, real_cluster: RealCluster, actors: SimulatedCluster
) -> None:
    deployments, pods = f"/apis/apps/v1/namespaces/{namespace}/deployments", f"/api/v1/namespaces/{namespace}/pods"
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("serve", "--fast")}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    await api.created(deployments, made)
    await api.until(f"{deployments}/web", lambda reply: reply.body["status"].get("availableReplicas") == 2, SECONDS)

    log = await kubectl(real_cluster, "-n", namespace, "logs", "deploy/web")
    assert log.endswith("simulated: busybox:1 serve --fast\n")
    tail = await kubectl(real_cluster, "-n", namespace, "logs", "-l", "app=web", "--tail=1", "--prefix")
    assert tail.count("serve --fast") == 2

    await api.merge(f"{deployments}/web", {"spec": {"replicas": 1}})
    await api.until(pods, lambda reply: len(reply.body["items"]) == 1, SECONDS)
    await api.delete(f"{deployments}/web")
    await api.until(pods, lambda reply: reply.body["items"] == [], SECONDS)


async def test_a_job_completes_on_a_volume_that_the_controller_manager_binds(
    api: RawApi, namespace: str, actors: SimulatedCluster
) -> None:
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    for name, storage_class in (("now", "standard"), ("late", "standard-wait")):
        spec = {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": "2Gi"}},
        }
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
        await api.created(claims, claim)
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    for name in ("now", "late"):
        await api.created(jobs, job(name, claim=name))
        await api.until(f"{jobs}/{name}", lambda reply: holds(reply.body, "Complete"), SECONDS)

    for name in ("now", "late"):
        bound = (await api.get(f"{claims}/{name}")).body
        assert bound["status"]["phase"] == "Bound"
        volume = f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}"
        assert (await api.get(volume)).body["status"]["phase"] == "Bound"
    await api.delete(f"{jobs}/late", {"propagationPolicy": "Background"})
    await api.delete(f"{claims}/late")
    await api.until(volume, lambda reply: reply.status == 404, SECONDS)


async def test_a_job_fails_on_demand(
    api: RawApi, namespace: str, real_cluster: RealCluster, actors: SimulatedCluster
) -> None:
    rule = {"failure": "crash", "argument": "9", "log": "out of luck", "kind": "Job", "namespace": namespace}
    actors.failures.add(parse_rule(rule))
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    await api.created(jobs, job("unlucky"))
    failed = await api.until(f"{jobs}/unlucky", lambda reply: holds(reply.body, "Failed"), SECONDS)

    reasons = {one["type"]: one["reason"] for one in failed.body["status"]["conditions"]}
    assert reasons["Failed"] == "BackoffLimitExceeded"
    assert await kubectl(real_cluster, "-n", namespace, "logs", "job/unlucky") == "out of luck\n"


async def test_an_inference_service_of_the_real_kserve_gets_ready_and_heals(
    api: RawApi, namespace: str, real_cluster: RealCluster, actors: SimulatedCluster
) -> None:
    container = {"name": "kserve-container", "image": IMAGE, "ports": [{"name": "http", "containerPort": 8000}]}
    isvc = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "chat", "annotations": {"serving.kserve.io/autoscalerClass": "none"}},
        "spec": {"predictor": {"containers": [container], "minReplicas": 1, "maxReplicas": 1}},
    }
    where = f"/apis/serving.kserve.io/v1beta1/namespaces/{namespace}/inferenceservices"
    await api.created(where, isvc)
    await api.until(f"{where}/chat", lambda reply: holds(reply.body, "Ready"), SECONDS)

    # Until the rule goes, the container may end again, before it has served: each time it says the same.
    failure = {"failure": "oom", "log": "out of memory", "namespace": namespace, "role": "predictor"}
    rule = actors.failures.add(parse_rule(failure))
    await api.until(f"{where}/chat", lambda reply: not holds(reply.body, "Ready"), SECONDS)
    actors.failures.remove(rule)
    await api.until(f"{where}/chat", lambda reply: holds(reply.body, "Ready"), SECONDS)
    pods = (await api.get(f"/api/v1/namespaces/{namespace}/pods")).body["items"]
    wanted = ("-n", namespace, "logs", "--previous", pods[0]["metadata"]["name"])

    async def is_reported() -> bool:
        return "out of memory" in await kubectl(real_cluster, *wanted)

    await eventually(is_reported, "the log of the container that ended")
