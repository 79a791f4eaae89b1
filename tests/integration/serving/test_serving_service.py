"""The serving service as it runs: API server, broker, KServe and pods; the test plays discovery and artifacts."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest
from matrix.oracle import ObjectKey, differences, normalised
from support.cluster import IMAGE, NAMESPACE, path
from support.controlplane import RawApi, Reply
from support.nats import eventually, settings_for
from support.rounds import at_rest

from aim_local.nats import NatsServer
from aim_serving.service import CONSUMED, PUBLISHED, ServingSettings, definition
from controller_runtime import FACTS, JsonObject, KubeClient, ServiceDefinition, load_connection
from controller_runtime.log.broker.connection import connect
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.run import ServiceProcess
from controller_runtime.telemetry.metrics import Metrics
from embedded_apiserver import ControlPlane

pytestmark = [pytest.mark.usefixtures("backends"), pytest.mark.usefixtures("serving")]

GROUP = "aim.eai.amd.com/v1alpha1"
SERVICES, MODELS, TEMPLATES = f"{GROUP}/aimservices", f"{GROUP}/aimmodels", f"{GROUP}/aimservicetemplates"
CACHES, ARTIFACTS = f"{GROUP}/aimtemplatecaches", f"{GROUP}/aimartifacts"
WORKLOADS = "serving.kserve.io/v1beta1/inferenceservices"
CACHE, WORKLOAD, CLAIM, ARTIFACT = "qwen3-lat-a04542d9", "qwen-chat-a04542d9", "weights", "hf-qwen"
OTHERS = ServiceDefinition(
    "others", publishes=tuple(part for part in CONSUMED if part not in (*PUBLISHED, FACTS)), consumes=(FACTS,)
)
"""What other services publish for serving."""


@pytest.fixture
async def serving(controlplane: ControlPlane, tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    """Serving, and somebody who publishes what it consumes."""
    kubeconfig = tmp_path / "kubeconfig-serving"
    kubeconfig.write_text(controlplane.kubeconfig())
    settings = ServingSettings(system_namespace=NAMESPACE, health_probe_bind_address="0", direct_watch=False)
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(NatsServer())
        group = await stack.enter_async_context(asyncio.TaskGroup())
        processes = []
        for declared in (definition(settings), OTHERS):
            connection = await load_connection(str(kubeconfig))
            metrics = Metrics(connection.server)
            kube = await stack.enter_async_context(KubeClient(connection, service=declared.name, observer=metrics))
            bus = await stack.enter_async_context(connect(settings_for(broker.url, declared.name)))
            clients = await stack.enter_async_context(declared.clients(kube))
            context = ProcessContext.of(declared, settings, clients, bus, metrics=metrics)
            processes.append(ServiceProcess(context))
        tasks = [group.create_task(process.run()) for process in processes]
        yield processes[0]
        for task in tasks:
            task.cancel()


def named(kind: str, name: str, **body: Any) -> JsonObject:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, **body}


async def has(api: RawApi, collection: str, name: str, status: JsonObject) -> None:
    """Let an object's own controller report."""
    reply = await api.merge(f"{path(collection, name)}/status", {"status": status})
    assert reply.status == 200, reply.body


async def prepared(api: RawApi, **spec: Any) -> None:
    """A Ready model with one Ready template, and a service for its image."""
    await api.created(path(MODELS), named("AIMModel", "qwen", spec={"image": IMAGE}))
    await has(api, MODELS, "qwen", {"status": "Ready"})
    await ready_template(api, "qwen3-lat", "latency")
    await api.created(path(SERVICES), named("AIMService", "qwen-chat", spec={"model": {"image": IMAGE}, **spec}))


async def ready_template(api: RawApi, name: str, metric: str) -> None:
    """A template of the model whose discovery is finished."""
    await api.created(path(TEMPLATES), named("AIMServiceTemplate", name, spec={"modelName": "qwen", "metric": metric}))
    source = {"modelId": "Qwen/Qwen3-32B", "sourceUri": "hf://Qwen/Qwen3-32B"}
    profile = {"metadata": {"type": "optimized", "metric": metric, "precision": "fp8", "gpu": "MI300X"}}
    hardware = {"gpu": {"requests": 1, "model": "MI300X"}}
    found = {"status": "Ready", "profile": profile, "modelSources": [source], "resolvedHardware": hardware}
    await has(api, TEMPLATES, name, found)


async def downloaded(api: RawApi, cache: str = CACHE, claim_name: str = CLAIM) -> None:
    """Let the cache's weights be there."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim_name, "namespace": NAMESPACE, "labels": {"aim.eai.amd.com/cache.name": "x"}},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await api.created(path("v1/persistentvolumeclaims"), claim)
    await has(api, CACHES, cache, cache_status("Ready", uid="u", claim=claim_name))


def cache_status(value: str, *, uid: str, claim: str = CLAIM) -> JsonObject:
    entry = {"uid": uid, "name": ARTIFACT, "model": "Qwen/Qwen3-32B", "status": value, "persistentVolumeClaim": claim}
    return {"status": value, "artifacts": {"Qwen/Qwen3-32B": entry}}


def has_status(value: str) -> Callable[[Reply], bool]:
    return lambda reply: (reply.body.get("status") or {}).get("status") == value


def exists(reply: Reply) -> bool:
    return reply.status == 200


def reason(reply: Reply, type_: str) -> str:
    conditions = (reply.body.get("status") or {}).get("conditions") or []
    return next((str(one["reason"]) for one in conditions if one["type"] == type_), "")


def message(reply: Reply, type_: str) -> str:
    conditions = (reply.body.get("status") or {}).get("conditions") or []
    return next((str(one["message"]) for one in conditions if one["type"] == type_), "")


@pytest.mark.spec("SV-233", "SV-122", "SV-141", "SV-177", "SV-220", "SV-276", "CC-003", "FW-011", "FW-013")
async def test_a_service_runs_and_follows_its_spec(
    controlplane: ControlPlane, api: RawApi, serving: ServiceProcess
) -> None:
    await prepared(api)
    await api.until(path(CACHES, CACHE), exists)
    await downloaded(api)
    done = (await api.until(path(SERVICES, "qwen-chat"), has_status("Running"))).body

    assert done["metadata"]["finalizers"] == ["aim.eai.amd.com/template-cache-cleanup"]
    assert done["status"]["resolvedTemplate"]["name"] == "qwen3-lat"
    assert done["status"]["cache"]["templateCacheRef"]["name"] == CACHE
    assert done["status"]["runtime"]["replicas"] == "1"
    # Usually six: finalizer, cache, InferenceService, and a status for cache awaited, workload awaited, running.
    assert writes_of_serving(controlplane) <= 8

    await api.merge(path(SERVICES, "qwen-chat"), {"spec": {"replicas": 2}})
    two = await api.until(path(WORKLOADS, WORKLOAD), lambda reply: predictor(reply)["minReplicas"] == 2)
    assert [one["name"] for one in predictor(two)["volumes"]] == ["dshm", ARTIFACT]
    await api.until(f"{path(SERVICES, 'qwen-chat')}/scale", lambda reply: reply.body["status"].get("replicas") == 2)
    scale = (await api.get(f"{path(SERVICES, 'qwen-chat')}/scale")).body
    assert scale["status"]["selector"] == f"serving.kserve.io/inferenceservice={WORKLOAD}"

    async def written() -> int:
        return writes_of_serving(controlplane)

    await at_rest(serving, written, "nothing is written any more")


@pytest.mark.spec("FW-472")
async def test_a_spec_that_comes_back_brings_back_what_was_there(api: RawApi, serving: ServiceProcess) -> None:
    await prepared(api)
    await api.until(path(CACHES, CACHE), exists)
    await downloaded(api)
    await api.until(path(SERVICES, "qwen-chat"), has_status("Running"))
    before = await state_at_rest(serving, api)

    other: JsonObject = {"replicas": 2, "env": [{"name": "A", "value": "1"}], "priorityClassName": "high"}
    await api.merge(path(SERVICES, "qwen-chat"), {"spec": other})
    await api.until(path(WORKLOADS, WORKLOAD), lambda reply: predictor(reply)["minReplicas"] == 2)
    changed = await state_at_rest(serving, api)
    await api.merge(path(SERVICES, "qwen-chat"), {"spec": {"runtimeConfigName": "absent", "replicas": 3}})
    await api.until(
        path(SERVICES, "qwen-chat"), lambda reply: reason(reply, "RuntimeConfigReady") == "ReferenceNotFound"
    )
    broken = await state_at_rest(serving, api)
    touched = [text for text in differences(changed, broken) if not text.startswith("AIMService")]
    # Its status is KServe's, who may not have followed yet.
    assert [text for text in touched if ": .status." not in text] == [], "what cannot be carried out changes nothing"

    back = {"replicas": None, "env": None, "priorityClassName": None, "runtimeConfigName": None}
    await api.merge(path(SERVICES, "qwen-chat"), {"spec": back})
    await eventually(lambda: came_back(before, serving, api), "everything is as it was")


async def came_back(before: dict[ObjectKey, JsonObject], serving: ServiceProcess, api: RawApi) -> bool:
    return differences(before, await state_at_rest(serving, api)) == []


async def state_at_rest(serving: ServiceProcess, api: RawApi) -> dict[ObjectKey, JsonObject]:
    """The service and its workload, once they stand still."""
    await settled(serving, api)
    return normalised([(await api.get(path(*one))).body for one in ((SERVICES, "qwen-chat"), (WORKLOADS, WORKLOAD))])


@pytest.mark.spec("SV-171", "SV-142", "SV-118")
async def test_a_running_service_moves_to_another_template(api: RawApi) -> None:
    def seen(reply: Reply) -> tuple[str, list[str]]:
        env = {one["name"]: one.get("value", "") for one in predictor(reply)["containers"][0]["env"]}
        volumes = predictor(reply)["volumes"]
        claims = [one["persistentVolumeClaim"] for one in volumes if "persistentVolumeClaim" in one]
        return env["AIM_METRIC"], [claim["claimName"] for claim in claims]

    await prepared(api)
    await api.until(path(CACHES, CACHE), exists)
    await downloaded(api)
    await api.until(path(SERVICES, "qwen-chat"), has_status("Running"))
    await ready_template(api, "qwen3-thr", "throughput")
    await api.merge(path(SERVICES, "qwen-chat"), {"spec": {"template": {"name": "qwen3-thr"}}})
    await api.until(path(CACHES, "qwen3-thr-a04542d9"), exists)
    waiting = await api.until(path(SERVICES, "qwen-chat"), has_status("Starting"))
    assert reason(waiting, "CacheReady") == "CacheCreating"
    assert seen(await api.get(path(WORKLOADS, WORKLOAD))) == ("latency", [CLAIM])
    await downloaded(api, "qwen3-thr-a04542d9", "weights-thr")
    moved = await api.until(path(WORKLOADS, WORKLOAD), lambda reply: seen(reply)[0] == "throughput")
    assert seen(moved) == ("throughput", ["weights-thr"])
    await api.until(path(SERVICES, "qwen-chat"), has_status("Running"))


def predictor(reply: Reply) -> JsonObject:
    found: JsonObject = reply.body["spec"]["predictor"]
    return found


def writes_of_serving(controlplane: ControlPlane) -> int:
    """Writes of the service, Events and Leases left out."""
    counted = controlplane.requests.report()["requests"]
    return sum(
        one["count"]
        for one in counted
        if one["userAgent"].partition("/")[0] == "aim-serving"
        and one["verb"] in ("create", "update", "patch", "delete", "apply")
        and one["resource"] not in ("events", "leases")
    )


async def settled(serving: ServiceProcess, api: RawApi) -> None:
    """Wait until the workload is ready, and service and workload stand still."""

    def is_ready(reply: Reply) -> bool:
        conditions = (reply.body.get("status") or {}).get("conditions") or []
        return {one["type"] for one in conditions if one["status"] == "True"} >= {"Ready", "PredictorReady"}

    async def versions() -> list[str]:
        bodies = [(await api.get(path(*one))).body for one in ((SERVICES, "qwen-chat"), (WORKLOADS, WORKLOAD))]
        return [str(body["metadata"]["resourceVersion"]) for body in bodies]

    await api.until(path(WORKLOADS, WORKLOAD), is_ready)
    await at_rest(serving, versions, "service and workload stand still")


@pytest.mark.spec("SV-134", "SV-137", "SV-139", "AR-625", "AR-628", "SC-107")
async def test_a_failed_download_is_retried_once(api: RawApi) -> None:
    await prepared(api)
    await api.until(path(CACHES, CACHE), exists)
    first = await failing_artifact(api)
    await api.until_gone(path(ARTIFACTS, ARTIFACT))
    # The cache may be heard of before its artifact: then the condition is told first, and counted with the deletion.
    retried = await api.until(path(SERVICES, "qwen-chat"), lambda reply: "cache" in reply.body.get("status", {}))
    assert reason(retried, "CacheReady") == "CacheRetrying"
    assert retried.body["status"]["cache"]["retryAttempts"] == 1
    assert await failing_artifact(api) != first
    degraded = await api.until(path(SERVICES, "qwen-chat"), has_status("Degraded"))
    assert reason(degraded, "CacheReady") == "CacheFailed"
    assert (await api.get(path(ARTIFACTS, ARTIFACT))).status == 200
    await downloaded(api)
    await api.until(path(WORKLOADS, WORKLOAD), exists)


@pytest.mark.spec("SV-134", "SV-252", "AR-626")
async def test_the_retry_is_not_missed_when_the_cache_is_heard_of_first(api: RawApi) -> None:
    await prepared(api)
    await api.until(path(CACHES, CACHE), exists)
    uid = await new_artifact(api)
    await has(api, CACHES, CACHE, cache_status("Failed", uid=uid))
    early = await api.until(path(SERVICES, "qwen-chat"), lambda reply: reason(reply, "CacheReady") == "CacheRetrying")
    assert (early.body["status"]["status"], early.body["status"].get("cache")) == ("Starting", None)
    await has(api, ARTIFACTS, ARTIFACT, {"status": "Failed"})
    await api.until_gone(path(ARTIFACTS, ARTIFACT))


@pytest.mark.spec("SV-269", "FW-411")
async def test_a_corrected_token_reaches_the_cache(api: RawApi) -> None:
    def env(reply: Reply) -> JsonObject:
        return {one["name"]: one.get("value") for one in reply.body["spec"].get("env") or []}

    await prepared(api, env=[{"name": "HF_TOKEN", "value": "bad"}])
    made = await api.until(path(CACHES, CACHE), exists)
    assert env(made) == {"HF_TOKEN": "bad"}
    await failing_artifact(api)
    await api.until_gone(path(ARTIFACTS, ARTIFACT))
    await failing_artifact(api)
    await api.until(path(SERVICES, "qwen-chat"), has_status("Degraded"))
    await api.merge(path(SERVICES, "qwen-chat"), {"spec": {"env": [{"name": "HF_TOKEN", "value": "good"}]}})
    await api.until(path(CACHES, CACHE), lambda reply: env(reply) == {"HF_TOKEN": "good"})
    assert (await api.get(path(ARTIFACTS, ARTIFACT))).status == 200
    reported = (await api.get(path(SERVICES, "qwen-chat"))).body["status"]
    assert reported["cache"]["retryAttempts"] == 1


async def failing_artifact(api: RawApi) -> str:
    """An artifact of the cache that fails, and its UID."""
    uid = await new_artifact(api)
    await has(api, ARTIFACTS, ARTIFACT, {"status": "Failed"})
    await has(api, CACHES, CACHE, cache_status("Failed", uid=uid))
    return uid


async def new_artifact(api: RawApi) -> str:
    """An artifact of the cache, and its UID."""
    body = named("AIMArtifact", ARTIFACT, spec={"sourceUri": "hf://Qwen/Qwen3-32B"})
    body["metadata"]["labels"] = {"aim.eai.amd.com/template-cache.name": CACHE}
    return str((await api.created(path(ARTIFACTS), body))["metadata"]["uid"])


@pytest.mark.spec("SV-234", "SV-236", "SV-239", "SC-106")
async def test_deletion_takes_the_unfinished_cache_along(api: RawApi) -> None:
    await prepared(api)
    await api.until(path(CACHES, CACHE), exists)
    await has(api, CACHES, CACHE, {"status": "Failed"})
    await api.until(path(SERVICES, "qwen-chat"), lambda reply: reason(reply, "CacheReady") == "CacheFailed")
    await api.delete(path(SERVICES, "qwen-chat"))
    await api.until_gone(path(SERVICES, "qwen-chat"))
    await api.until_gone(path(CACHES, CACHE))


@pytest.mark.spec("SV-059", "SV-086", "SV-064", "SV-049", "SV-244", "RC-072")
async def test_bad_input_is_explained(api: RawApi) -> None:
    bad = {
        "no-model": {"model": {"name": "nonexistent"}},
        "no-template": {"model": {"image": IMAGE}, "template": {"name": "nonexistent"}},
        "no-image": {"model": {"image": ":::invalid"}},
        "no-config": {"model": {"image": IMAGE}, "runtimeConfigName": "nonexistent"},
    }
    for name, spec in bad.items():
        await api.created(path(SERVICES), named("AIMService", name, spec=spec))
    expected = {
        "no-model": ("ModelReady", "ModelNotFound"),
        "no-template": ("TemplateReady", "TemplateNotFound"),
        "no-image": ("ModelReady", "InvalidImageReference"),
        "no-config": ("RuntimeConfigReady", "ReferenceNotFound"),
    }
    for name, (condition, wanted) in expected.items():
        reply = await api.until(path(SERVICES, name), has_status("Failed"))
        assert reason(reply, condition) == wanted
    reported = (await api.get(path("v1/events"))).body["items"]
    of_services = {one["source"]["component"] for one in reported if one["involvedObject"]["kind"] == "AIMService"}
    assert of_services == {"aim-service-controller"}
    stored = (await api.get(path(SERVICES, "no-model"))).body["metadata"]["managedFields"]
    assert {one["manager"] for one in stored if one.get("subresource") == "status"} == {"aim-serving"}
    config = named("AIMRuntimeConfig", "default", spec={"routing": {"requestTimeout": "soon"}})
    await api.created(path(f"{GROUP}/aimruntimeconfigs"), config)
    await api.until(
        path(f"{GROUP}/aimruntimeconfigs", "default"), lambda reply: reason(reply, "ConfigValid") == "InvalidSpec"
    )


async def started(api: RawApi, failure: str) -> None:
    """A service whose predictor pods fail in this way."""
    annotations = {"local.aim/fail": f"predictor={failure}"}
    await api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"annotations": annotations}})
    await prepared(api)
    await api.until(path(CACHES, CACHE), exists)
    await downloaded(api)


PODS = "InferenceServicePodsReady"


@pytest.mark.spec("SV-198", "SV-199", "SV-201", "SV-202", "SV-204", "FW-155")
@pytest.mark.parametrize(
    ("failure", "wanted", "value"),
    [
        ("unschedulable", "FailedScheduling", "Pending"),
        ("image-auth", "ImagePullAuthFailure", "Failed"),
        ("crash", "CrashLoopBackOff", "Degraded"),
        ("not-ready", "PodsStarting", "Starting"),
    ],
)
async def test_pods_that_do_not_run(api: RawApi, failure: str, wanted: str, value: str) -> None:
    await started(api, failure)
    reported = await api.until(path(SERVICES, "qwen-chat"), lambda reply: reason(reply, PODS) == wanted)
    assert reported.body["status"]["status"] == value


@pytest.mark.spec("SV-287", "SV-288")
async def test_who_waits_for_gpus_is_reported_where_some_are_free(api: RawApi) -> None:
    nodes = (await api.get("/api/v1/nodes")).body["items"]
    gpus = {one["metadata"]["name"]: int(one["status"]["allocatable"]["amd.com/gpu"]) for one in nodes}
    name, count = next(iter(gpus.items()))
    amount = {"amd.com/gpu": str(count)}
    container = {"name": "c", "image": "i:1", "resources": {"requests": amount, "limits": amount}}
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "other", "namespace": NAMESPACE}}
    await api.created(path("v1/pods"), {**other, "spec": {"nodeName": name, "containers": [container]}})
    await started(api, "unschedulable")
    rest = [f"{gpus[node]} of {gpus[node]} on {node}" for node in sorted(gpus) if node != name]
    expected = f"free: {', '.join((*rest, f'0 of {count} on {name}'))}"
    await api.until(path(SERVICES, "qwen-chat"), lambda reply: expected in message(reply, PODS))


@pytest.mark.spec("SV-205", "SV-224", "SV-177")
async def test_a_correction_reaches_pods_that_can_not_pull(api: RawApi) -> None:
    await started(api, "image-auth")
    await api.until(path(SERVICES, "qwen-chat"), has_status("Failed"))
    await api.merge(path(SERVICES, "qwen-chat"), {"spec": {"imagePullSecrets": [{"name": "regcred"}]}})
    await api.until(
        path(WORKLOADS, WORKLOAD), lambda reply: predictor(reply).get("imagePullSecrets") == [{"name": "regcred"}]
    )
    await api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"annotations": {"local.aim/fail": None}}})
    await api.until(path(SERVICES, "qwen-chat"), has_status("Running"))


@pytest.mark.spec("SV-105", "SV-110", "SV-266", "FW-213", "FW-S53")
async def test_services_share_a_derived_template(api: RawApi) -> None:
    overridden = {"template": {"name": "qwen3-lat"}, "overrides": {"precision": "fp16"}}
    await prepared(api, **overridden)
    second = named("AIMService", "second", spec={"model": {"image": IMAGE}, **overridden})
    await api.created(path(SERVICES), second)

    def owners(reply: Reply) -> set[str]:
        items = [one for one in reply.body["items"] if one["metadata"]["name"].startswith("qwen3-lat-ovr-fp16-")]
        return {owner["name"] for one in items for owner in one["metadata"].get("ownerReferences") or []}

    await api.until(path(TEMPLATES), lambda reply: owners(reply) == {"qwen-chat", "second"})
    await api.delete(path(SERVICES, "second"))
    await api.until(path(TEMPLATES), lambda reply: owners(reply) == {"qwen-chat"})


@pytest.mark.spec("SV-272", "SV-181", "SV-217")
async def test_the_end_of_autoscaling_leaves_nothing_behind(api: RawApi) -> None:
    metric = {"type": "PodMetric", "podmetric": {"metric": {"query": "q"}, "target": {"type": "Value", "value": "1"}}}
    await prepared(api, minReplicas=1, maxReplicas=2, autoScaling={"metrics": [metric]})
    await api.until(path(CACHES, CACHE), exists)
    await downloaded(api)
    made = await api.until(path(WORKLOADS, WORKLOAD), exists)
    await api.until(path(SERVICES, "qwen-chat"), lambda reply: reason(reply, "HPAReady") != "")
    scaled = path("keda.sh/v1alpha1/scaledobjects", f"{WORKLOAD}-predictor")
    if (await api.get(scaled)).status != 200:
        await api.created(path("keda.sh/v1alpha1/scaledobjects"), scaled_object(made.body))
    fixed = {"minReplicas": None, "maxReplicas": None, "autoScaling": None, "replicas": 1}
    await api.merge(path(SERVICES, "qwen-chat"), {"spec": fixed})
    await api.until(scaled, lambda reply: reply.status == 404)
    changed = await api.until(
        path(WORKLOADS, WORKLOAD),
        lambda reply: reply.body["metadata"]["annotations"]["serving.kserve.io/autoscalerClass"] == "none",
        10,
    )
    assert "sidecar.opentelemetry.io/inject" not in changed.body["metadata"]["annotations"]
    await api.until(path(SERVICES, "qwen-chat"), lambda reply: reason(reply, "HPAReady") == "")


def scaled_object(workload: JsonObject) -> JsonObject:
    owner = {
        "apiVersion": workload["apiVersion"],
        "kind": workload["kind"],
        "name": WORKLOAD,
        "uid": workload["metadata"]["uid"],
        "controller": True,
    }
    name = f"{WORKLOAD}-predictor"
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
        "spec": {"scaleTargetRef": {"name": name}, "triggers": [{"type": "external", "metadata": {}}]},
    }


_PRODUCT: Final = ("controller_runtime", "aim_domain", "aim_serving")
"""Packages of which code runs between a watch event and the status that follows from it."""
MOST_MODULES: Final = 86


@contextmanager
def modules_run() -> Iterator[set[str]]:
    """The modules whose functions are entered meanwhile, by this thread."""
    found: set[str] = set()

    def enter(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__"))
        if event == "call" and name.startswith(_PRODUCT) and frame.f_code.co_name != "<module>":
            found.add(name)

    sys.setprofile(enter)
    try:
        yield found
    finally:
        sys.setprofile(None)


async def test_a_person_reads_few_modules_from_an_event_to_a_status(serving: ServiceProcess, api: RawApi) -> None:
    await prepared(api)
    await api.until(path(CACHES, CACHE), exists)
    await downloaded(api)
    await api.until(path(SERVICES, "qwen-chat"), has_status("Running"))
    await settled(serving, api)
    always = await modules_of_a_status(api, "Failed")
    for value in ("Ready", "Failed") * 10:
        # Heartbeats and the like come in between, but not in each round; on a busy machine, in most.
        always &= await modules_of_a_status(api, value)
    assert len(always) <= MOST_MODULES, sorted(always)


async def modules_of_a_status(api: RawApi, value: str) -> set[str]:
    """What runs until the cache's own status has come to that of the service."""
    with modules_run() as modules:
        await has(api, CACHES, CACHE, cache_status(value, uid="u"))
        await api.until(
            path(SERVICES, "qwen-chat"),
            lambda reply: (reason(reply, "CacheReady") == "CacheReady") == (value == "Ready"),
        )
    return modules
