"""What serving reads and removes of autoscalers, against the embedded control plane."""

import pytest
from support.controlplane import RawApi

from aim_local.apiserver import ControlPlane
from aim_serving.effects.scaler_removal import ScalerRemover
from aim_serving.effects.scaler_report import ScalerReader
from aim_serving.scaler_leftovers import SCALER_REMOVAL
from aim_serving.scaler_report import SCALER_REPORT
from controller_runtime import Effect, JsonObject, KubeClient
from controller_runtime.kube.config import Connection, NoCredentials

NAMESPACE = "default"
SCALED = f"/apis/keda.sh/v1alpha1/namespaces/{NAMESPACE}/scaledobjects"
NAME = "qwen-chat-a04542d9-predictor"
EFFECT = Effect(SCALER_REPORT, "k", {"namespace": NAMESPACE, "name": NAME})


async def read(controlplane: ControlPlane) -> JsonObject:
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="serving") as kube:
        return await ScalerReader(kube)(EFFECT)


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
            params = {"namespace": NAMESPACE, "name": NAME, "workloadUid": uid, "former": "hpa"}
            assert await ScalerRemover(kube)(Effect(SCALER_REMOVAL, "k", params)) == {"removed": removed}
    assert (await api.get(f"{hpas}/{NAME}")).status == 404
