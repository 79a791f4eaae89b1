"""The platform beside KEDA's operator and KServe's controller, where those were built; the HPAs are played."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from support.keda_scaler import Scaler, keda_scaler
from support.scaling import CIRCUIT, deployment_of, reason_of, settle, shown, spec_for, writers_of_replicas
from support.stack import Platform, started_platform

from aim_local.assets import AssetError, Program, find_toolset
from aim_local.stack import ClusterKind
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="module")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
SECONDS = 120
"""KEDA looks at a metric every 30 s."""
METRIC: JsonObject = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
"""One that needs no scaler: with an unreachable one KEDA makes no autoscaler."""
SCALED = ("aimservices", "inferenceservices", "deployments", "horizontalpodautoscalers", "scaledobjects")
WRITES = frozenset({"create", "update", "patch", "delete"})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """A platform with KEDA; without it the run ends with a line that says how to build it."""
    try:
        find_toolset().require(Program.KEDA, Program.KEDA_SCALER)
    except AssetError as error:
        pytest.exit(str(error), returncode=1)
    folder = tmp_path_factory.mktemp("keda")
    async with started_platform(folder, cluster=ClusterKind.REAL, keda=True) as started:
        yield started


@pytest_asyncio.fixture(loop_scope="module")
async def scaler(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scaler]:
    """A metric that is there without pods."""
    async with keda_scaler(tmp_path_factory.mktemp("scaler")) as running:
        yield running


async def writes(platform: Platform) -> Counter[str]:
    """Who wrote what scales or is scaled, since the last reset."""
    counted = (await platform.stack.cluster.requests())["requests"]
    return Counter(
        {
            f"{one['userAgent']} {one['verb']} {one['resource']}": one["count"]
            for one in counted
            if one["verb"] in WRITES and one["resource"].startswith(SCALED)
        }
    )


async def comes_to_rest(platform: Platform, seconds: float, windows: int = 12) -> Counter[str]:
    """Wait for a time of ``seconds`` without writes, which a fight would never grant; returns all before it.

    KEDA tells of every look at an active trigger in the status of its ScaledObject; that is no fight.
    """
    before: Counter[str] = Counter()
    last: Counter[str] = Counter()
    for _ in range(windows):
        await platform.stack.cluster.reset_requests()
        await asyncio.sleep(seconds)
        last = Counter({what: count for what, count in (await writes(platform)).items() if not _is_look(what)})
        if not last:
            return before
        before += last
    pytest.fail(f"no rest: {last}")


def _is_look(what: str) -> bool:
    return what == "aim-keda patch scaledobjects.keda.sh/status"


async def test_an_autoscaled_inference_service_gets_an_autoscaler(platform: Platform) -> None:
    api = platform.api
    await platform.namespace("team")
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


@pytest.mark.spec("SV-285", "SV-273")
async def test_keda_takes_the_last_replica_and_brings_it_back(platform: Platform, scaler: Scaler) -> None:
    await platform.namespace("sleepy")
    routing = {"enabled": True, "pathTemplate": "/sleepy/{.metadata.name}"}
    wanted = spec_for("zero", scaler.address)
    path = await platform.service("sleepy", "chat", model={"image": IMAGE}, routing=routing, **wanted)
    await settle(platform, path, "zero", SECONDS)
    asleep = await platform.until(path, lambda obj: reason_of(obj, "HPAReady") == "ScaledToZero", SECONDS)
    assert reason_of(asleep, "InferenceServicePodsReady") == "ScaledToZero"
    assert asleep["status"]["routing"]["path"] == "/sleepy/chat"
    assert not [what for what in await comes_to_rest(platform, 10) if "aim-serving" in what and "deploy" in what]

    scaler.tell(1)
    await platform.until(path, lambda obj: shown(obj) == ("Running", "1/1 (0-3)"), SECONDS)
    scaler.tell(0)
    scaled = "/apis/keda.sh/v1alpha1/namespaces/sleepy/scaledobjects"
    (one,) = (await platform.api.get(scaled)).body["items"]
    where = f"{scaled}/{one['metadata']['name']}"
    await platform.until(where, lambda obj: reason_of(obj, "Active") == "ScalerCooldown", SECONDS)
    # KEDA waits for five minutes after the last activity; a minute ago it was long over.
    reply = await platform.api.merge(f"{where}/status", {"status": {"lastActiveTime": "2026-01-01T00:00:00Z"}})
    assert reply.status == 200, reply.body
    await platform.until(path, lambda obj: shown(obj) == ("Running", "0/0 (0-3)"), SECONDS)
    assert "aim-serving" not in writers_of_replicas(await deployment_of(platform, "sleepy"))


@pytest.mark.spec("SV-272", "SV-286", "SV-297", "AT-109", "AT-110")
async def test_nobody_fights_after_any_change_of_who_scales(platform: Platform, scaler: Scaler) -> None:
    await platform.namespace("changing")
    first, *others = CIRCUIT
    path = await platform.service("changing", "chat", model={"image": IMAGE}, **spec_for(first, scaler.address))
    await settle(platform, path, first, SECONDS)
    written: Counter[str] = Counter()
    for way in others:
        await platform.stack.cluster.reset_requests()
        await platform.api.merge(path, {"spec": spec_for(way, scaler.address)})
        await settle(platform, path, way, SECONDS)
        written += await writes(platform)
        written += await comes_to_rest(platform, 3)
    by_serving = {what: count for what, count in written.items() if what.startswith("aim-serving") and "deploy" in what}
    assert by_serving == {"aim-serving patch deployments.apps/scale": 1}, "only off zero, for an HPA"
    await comes_to_rest(platform, 20, windows=2)
