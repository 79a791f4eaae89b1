"""KEDA's operator, where it was built: KServe's ScaledObject becomes a HorizontalPodAutoscaler."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.controlplane import RawApi
from support.real_cluster import raw_api

from aim_local.assets import AssetError, Program, find_toolset
from aim_local.realcluster import ClusterSettings, RealCluster, User
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECONDS = 60
METRIC: JsonObject = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
"""One that needs no scaler: with an unreachable one KEDA makes no autoscaler."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RawApi]:
    """A cluster with KEDA; without it the run ends with a line that says how to build it."""
    try:
        find_toolset().require(Program.KEDA)
    except AssetError as error:
        pytest.exit(str(error), returncode=1)
    async with (
        RealCluster(ClusterSettings(tmp_path_factory.mktemp("keda"), keda=True)) as cluster,
        raw_api(cluster.kubeconfig_for(User.KUBECTL)) as client,
    ):
        yield client


async def test_an_autoscaled_inference_service_gets_an_autoscaler(api: RawApi) -> None:
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    container = {
        "name": "kserve-container",
        "image": "a/b:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    predictor = {
        "containers": [container],
        "minReplicas": 1,
        "maxReplicas": 3,
        "autoScaling": {"metrics": [METRIC]},
    }
    isvc = {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "qwen", "annotations": {"serving.kserve.io/autoscalerClass": "keda"}},
        "spec": {"predictor": predictor},
    }
    await api.created("/apis/serving.kserve.io/v1beta1/namespaces/team/inferenceservices", isvc)
    scaled = "/apis/keda.sh/v1alpha1/namespaces/team/scaledobjects/qwen-predictor"
    found = await api.until(scaled, lambda reply: reply.status == 200, SECONDS)
    assert (found.body["spec"]["minReplicaCount"], found.body["spec"]["maxReplicaCount"]) == (1, 3)
    autoscaler = "/apis/autoscaling/v2/namespaces/team/horizontalpodautoscalers/keda-hpa-qwen-predictor"
    made = (await api.until(autoscaler, lambda reply: reply.status == 200, SECONDS)).body
    assert made["metadata"]["ownerReferences"][0]["uid"] == found.body["metadata"]["uid"]
    assert made["spec"]["scaleTargetRef"]["name"] == "qwen-predictor"
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (1, 3)
