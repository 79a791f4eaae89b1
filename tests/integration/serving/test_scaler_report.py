"""What serving reads, removes and makes good of autoscalers, against the embedded control plane."""

import pytest
from support.controlplane import RawApi

from aim_serving.autoscaling import Awakener, AwakeningParams, RemovalParams, ReportParams, ScalerReader, ScalerRemover
from aim_serving.replicas import AutoscalerClass
from controller_runtime import JsonObject, KubeClient, to_json
from controller_runtime.kube.config import Connection, NoCredentials
from embedded_apiserver import ControlPlane

NAMESPACE = "default"
SCALED = f"/apis/keda.sh/v1alpha1/namespaces/{NAMESPACE}/scaledobjects"
NAME = "qwen-chat-a04542d9-predictor"
READING = ReportParams(namespace=NAMESPACE, name=NAME)


async def read(controlplane: ControlPlane) -> JsonObject:
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="serving") as kube:
        return to_json(await ScalerReader(kube)(READING))


@pytest.mark.spec("SV-283")
async def test_the_words_of_a_scaled_object(controlplane: ControlPlane, api: RawApi) -> None:
    assert await read(controlplane) == {"message": f"ScaledObject {NAME} does not exist; KServe has not made it"}
    body = {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {"scaleTargetRef": {"name": NAME}, "triggers": [{"type": "external", "metadata": {}}]},
    }
    await api.created(SCALED, body)
    assert await read(controlplane) == {"message": ""}, "KEDA has not said anything yet"
    failed = {"type": "Ready", "status": "False", "reason": "ScaledObjectCheckFailed", "message": "no metric specs"}
    reply = await api.merge(f"{SCALED}/{NAME}/status", {"status": {"conditions": [failed]}})
    assert reply.status == 200, reply.body
    found = await read(controlplane)
    assert found == {"message": f"ScaledObject {NAME}: ScaledObjectCheckFailed: no metric specs"}


@pytest.mark.spec("SV-286")
async def test_only_the_own_autoscaler_is_removed_when_keda_takes_over(controlplane: ControlPlane, api: RawApi) -> None:
    hpas = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers"
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": NAMESPACE}}
    made = await api.created(f"/api/v1/namespaces/{NAMESPACE}/configmaps", config_map)
    own = made["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": own}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME}
    body = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 2},
    }
    await api.created(hpas, body)
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="serving") as kube:
        for uid, removed in (("another", []), (own, ["HorizontalPodAutoscaler"]), (own, [])):
            params = RemovalParams(namespace=NAMESPACE, name=NAME, workload_uid=uid, former=AutoscalerClass.HPA)
            assert list((await ScalerRemover(kube)(params)).removed) == removed
    assert (await api.get(f"{hpas}/{NAME}")).status == 404


@pytest.mark.spec("SV-297")
async def test_only_the_own_deployment_at_zero_is_scaled(controlplane: ControlPlane, api: RawApi) -> None:
    deployments = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": NAMESPACE}}
    own = (await api.created(f"/api/v1/namespaces/{NAMESPACE}/configmaps", config_map))["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": own, "controller": True}
    app = {"app": "qwen"}
    pods = {"metadata": {"labels": app}, "spec": {"containers": [{"name": "main", "image": "a/b:1"}]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "namespace": NAMESPACE, "ownerReferences": [owner]},
        "spec": {"replicas": 0, "selector": {"matchLabels": app}, "template": pods},
    }
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="serving") as kube:

        async def awaken(uid: str) -> JsonObject:
            params = AwakeningParams(namespace=NAMESPACE, name=NAME, workload_uid=uid, replicas=2)
            return to_json(await Awakener(kube)(params))

        assert await awaken(own) == {"scaled": False}, "there is none"
        await api.created(deployments, body)
        for uid, scaled, replicas in (("another", False, 0), (own, True, 2)):
            assert await awaken(uid) == {"scaled": scaled}
            assert (await api.get(f"{deployments}/{NAME}")).body["spec"]["replicas"] == replicas
        await api.merge(f"{deployments}/{NAME}", {"spec": {"replicas": 1}})
        assert await awaken(own) == {"scaled": False}
        assert (await api.get(f"{deployments}/{NAME}")).body["spec"]["replicas"] == 1
