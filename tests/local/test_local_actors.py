"""The simulated cluster does what the real one does, as seen through the API."""

from functools import partial

import pytest
from support.cluster import IMAGE, NAMESPACE, JobSpec, holds, inference_service, path
from support.controlplane import RawApi, Reply

from aim_local.engine import Backends
from controller_runtime import JsonObject, loads

JOBS, PODS, ISVCS = "batch/v1/jobs", "v1/pods", "serving.kserve.io/v1beta1/inferenceservices"
ROUTES, GATEWAYS = "gateway.networking.k8s.io/v1/httproutes", "gateway.networking.k8s.io/v1/gateways"

pytestmark = pytest.mark.usefixtures("backends")


def has_items(count: int, reply: Reply) -> bool:
    return len(reply.body["items"]) == count


async def finished(api: RawApi, name: str, condition: str) -> JsonObject:
    reply = await api.until(path(JOBS, name), lambda reply: holds(reply.body, condition))
    return reply.body


async def pods_of(api: RawApi, selector: str) -> list[JsonObject]:
    return list((await api.get(path(PODS), labelSelector=selector)).body["items"])


async def waiting_reason(api: RawApi, name: str, reason: str) -> str:
    """The message of the first container that waits for this reason."""
    found = ""

    def waits(pods: list[JsonObject]) -> bool:
        nonlocal found
        for pod in pods:
            for status in pod.get("status", {}).get("containerStatuses", ()):
                state = status["state"].get("waiting", {})
                if state.get("reason") == reason:
                    found = state.get("message", "")
                    return True
        return False

    await api.until(path(PODS), lambda reply: waits(reply.body["items"]))
    assert name in found or name == ""
    return found


@pytest.mark.spec("DI-174", "DI-176")
async def test_the_node_says_which_gpus_it_has(api: RawApi) -> None:
    node = (await api.get("/api/v1/nodes/mi300x-1")).body

    assert node["metadata"]["labels"]["amd.com/gpu.device-id"] == "74a1"
    assert node["status"]["allocatable"]["amd.com/gpu"] == "8"
    assert holds(node, "Ready")


async def test_a_discovery_job_completes_and_its_log_is_the_profile(api: RawApi) -> None:
    job = JobSpec(env=(("AIM_METRIC", "latency"),)).build()
    await api.created(path(JOBS), job)

    done = await finished(api, job["metadata"]["name"], "Complete")
    (pod,) = await pods_of(api, "job-name=discover-qwen")
    async with api.session.get(path(PODS, pod["metadata"]["name"]) + "/log", params={"tailLines": "50"}) as log:
        text = await log.text()

    assert done["status"]["succeeded"] == 1
    assert done["status"]["completionTime"]
    assert "active" not in done["status"]
    assert holds(done, "SuccessCriteriaMet")
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["metadata"]["ownerReferences"][0]["uid"] == done["metadata"]["uid"]
    assert loads(text.strip()[1:-1])["profile"]["metadata"]["metric"] == "latency"


@pytest.mark.parametrize(
    ("fail", "limit", "reason", "pods"),
    [("crash", 0, "BackoffLimitExceeded", 1), ("crash", 2, "BackoffLimitExceeded", 3)],
)
async def test_a_job_fails_when_its_attempts_are_used_up(
    api: RawApi, fail: str, limit: int, reason: str, pods: int
) -> None:
    await api.created(path(JOBS), JobSpec(fail=fail, backoff_limit=limit).build())

    job = await finished(api, "discover-qwen", "Failed")

    assert job["status"]["failed"] == pods == len(await pods_of(api, "job-name=discover-qwen"))
    assert {one["reason"] for one in job["status"]["conditions"]} == {reason}


@pytest.mark.spec("AR-257")
async def test_a_listed_exit_code_fails_the_job_at_the_first_pod(api: RawApi) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "model-download", "operator": "In", "values": [10]}}
    spec = JobSpec("download", container="model-download", fail="auth", backoff_limit=2)
    await api.created(path(JOBS), spec.build(podFailurePolicy={"rules": [rule]}))

    job = await finished(api, "download", "Failed")
    (pod,) = await pods_of(api, "job-name=download")

    assert job["status"]["conditions"][0]["reason"] == "PodFailurePolicy"
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == 10
    assert loads(ended["message"])["category"] == "Auth"


async def test_an_unknown_image_is_not_pulled(api: RawApi) -> None:
    await api.created(path(JOBS), JobSpec(image="amdenterpriseai/aim-nothing:1.0.0").build())

    assert "not found" in await waiting_reason(api, "aim-nothing", "ErrImagePull")
    assert "Back-off pulling image" in await waiting_reason(api, "aim-nothing", "ImagePullBackOff")


async def test_a_private_image_needs_a_pull_secret(api: RawApi) -> None:
    await api.created(path(JOBS), JobSpec(image="private/aim-dummy:0.1.0").build())

    assert "no basic auth credentials" in await waiting_reason(api, "private/aim-dummy", "ErrImagePull")


async def test_a_failure_on_the_namespace_ends_when_the_annotation_goes(api: RawApi) -> None:
    where = f"/api/v1/namespaces/{NAMESPACE}"
    await api.merge(where, {"metadata": {"annotations": {"local.aim/fail": "discovery=image-pull"}}})
    await api.created(path(JOBS), JobSpec().build())
    await waiting_reason(api, "", "ImagePullBackOff")

    await api.merge(where, {"metadata": {"annotations": {"local.aim/fail": None}}})

    await finished(api, "discover-qwen", "Complete")


async def test_a_finished_job_goes_after_its_time_to_live(api: RawApi) -> None:
    await api.created(path(JOBS), JobSpec().build(ttlSecondsAfterFinished=1))
    await finished(api, "discover-qwen", "Complete")

    await api.until_gone(path(JOBS, "discover-qwen"))


async def test_a_job_that_hangs_ends_at_its_deadline(api: RawApi) -> None:
    await api.created(path(JOBS), JobSpec(fail="hang").build(activeDeadlineSeconds=1))

    job = await finished(api, "discover-qwen", "Failed")

    assert job["status"]["conditions"][0]["reason"] == "DeadlineExceeded"
    assert await pods_of(api, "job-name=discover-qwen") == []


async def test_a_claim_is_bound_and_released(api: RawApi) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights", "namespace": NAMESPACE},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "70Gi"}}},
    }
    where = path("v1/persistentvolumeclaims")
    await api.created(where, claim)
    bound = await api.until(f"{where}/weights", lambda reply: reply.body["status"].get("phase") == "Bound")
    volume = f"/api/v1/persistentvolumes/{bound.body['spec']['volumeName']}"

    assert bound.body["status"]["capacity"] == {"storage": "70Gi"}
    assert (await api.get(volume)).body["spec"]["claimRef"]["name"] == "weights"

    await api.delete(f"{where}/weights")
    await api.until_gone(volume)


@pytest.mark.spec("SV-149", "SV-153")
async def test_an_inference_service_becomes_ready_and_answers(api: RawApi, backends: Backends) -> None:
    await api.created(path(ISVCS), inference_service())

    isvc = (await api.until(path(ISVCS, "qwen-chat"), lambda reply: holds(reply.body, "Ready"))).body
    (pod,) = await pods_of(api, "serving.kserve.io/inferenceservice=qwen-chat")
    service = (await api.get(path("v1/services", "qwen-chat-predictor"))).body
    backend = backends.of_host(f"qwen-chat-predictor.{NAMESPACE}.svc:80")

    assert holds(isvc, "PredictorReady")
    assert holds(isvc, "IngressReady")
    assert isvc["status"]["observedGeneration"] == isvc["metadata"]["generation"]
    assert pod["metadata"]["labels"]["aim.eai.amd.com/service.name"] == "qwen-chat"
    assert service["spec"]["ports"][0]["port"] == 80
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    assert backend is not None
    assert [one.name for one in backend.pods] == [pod["metadata"]["name"]]


async def test_replicas_follow_the_bounds(api: RawApi) -> None:
    await api.created(path(ISVCS), inference_service())
    await api.until(path(ISVCS, "qwen-chat"), lambda reply: holds(reply.body, "Ready"))
    for count in (3, 1):
        await api.merge(path(ISVCS, "qwen-chat"), {"spec": {"predictor": {"minReplicas": count, "maxReplicas": count}}})
        await api.until(path(PODS), partial(has_items, count))


async def test_a_new_image_replaces_the_pods(api: RawApi) -> None:
    await api.created(path(ISVCS), inference_service())
    await api.until(path(ISVCS, "qwen-chat"), lambda reply: holds(reply.body, "Ready"))
    (before,) = await pods_of(api, "component=predictor")
    changed = inference_service(image=IMAGE.replace("0.8.5", "0.8.4"))["spec"]
    await api.merge(path(ISVCS, "qwen-chat"), {"spec": changed})

    await api.until_gone(path(PODS, before["metadata"]["name"]))
    (after,) = await pods_of(api, "component=predictor")

    assert after["spec"]["containers"][0]["image"].endswith("0.8.4")
    assert holds(after, "Ready")


async def test_everything_goes_with_the_inference_service(api: RawApi, backends: Backends) -> None:
    await api.created(path(ISVCS), inference_service())
    await api.until(path(ISVCS, "qwen-chat"), lambda reply: holds(reply.body, "Ready"))

    await api.delete(path(ISVCS, "qwen-chat"))

    await api.until(path(PODS), lambda reply: reply.body["items"] == [])
    await api.until_gone(path("v1/services", "qwen-chat-predictor"))
    assert backends.of_host(f"qwen-chat-predictor.{NAMESPACE}") is None


async def test_a_crashing_predictor_loops(api: RawApi) -> None:
    isvc = inference_service()
    isvc["metadata"]["annotations"]["local.aim/fail"] = "predictor=crash"
    await api.created(path(ISVCS), isvc)

    assert "back-off" in await waiting_reason(api, "", "CrashLoopBackOff")

    reply = await api.get(path(ISVCS, "qwen-chat"))
    assert not holds(reply.body, "Ready")


async def test_an_unschedulable_predictor_says_so(api: RawApi) -> None:
    isvc = inference_service()
    isvc["metadata"]["annotations"]["local.aim/fail"] = "unschedulable"
    await api.created(path(ISVCS), isvc)

    events = await api.until(
        path("v1/events"), lambda reply: any(one["reason"] == "FailedScheduling" for one in reply.body["items"])
    )
    assert "Insufficient amd.com/gpu" in events.body["items"][0]["message"]


METRIC: JsonObject = {
    "type": "PodMetric",
    "podmetric": {
        "metric": {"backend": "opentelemetry", "metricNames": ["vllm:num_requests_running"], "query": "requests"},
        "target": {"type": "Value", "value": "1"},
    },
}


@pytest.mark.spec("SV-185")
async def test_an_autoscaled_predictor_has_an_autoscaler(api: RawApi) -> None:
    isvc = inference_service(minReplicas=1, maxReplicas=3, autoScaling={"metrics": [METRIC]})
    isvc["metadata"]["annotations"].update({"serving.kserve.io/autoscalerClass": "keda", "local.aim/replicas": "2"})
    await api.created(path(ISVCS), isvc)
    where = path("autoscaling/v2/horizontalpodautoscalers", "keda-hpa-qwen-chat-predictor")

    autoscaler = (await api.until(where, lambda reply: holds(reply.body, "ScalingActive"))).body

    assert autoscaler["status"]["desiredReplicas"] == 2
    assert autoscaler["metadata"]["labels"]["aim.eai.amd.com/service.name"] == "qwen-chat"
    await api.until(path(PODS), lambda reply: len(reply.body["items"]) == 2)


def gateway(allowed: str = "All") -> JsonObject:
    listener = {"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": allowed}}}
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "public", "namespace": NAMESPACE},
        "spec": {"gatewayClassName": "local", "listeners": [listener]},
    }


def route() -> JsonObject:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "qwen-chat", "namespace": NAMESPACE},
        "spec": {
            "parentRefs": [{"name": "public"}],
            "rules": [{"backendRefs": [{"name": "qwen-chat-predictor", "port": 80}]}],
        },
    }


def conditions_of(obj: JsonObject) -> dict[str, str]:
    parents = obj.get("status", {}).get("parents", [])
    return {one["type"]: one["reason"] for one in parents[0]["conditions"]} if parents else {}


@pytest.mark.spec("RT-143", "RT-145")
async def test_a_route_is_accepted_once_its_gateway_and_resolved_once_its_service_exists(api: RawApi) -> None:
    await api.created(path(ROUTES), route())
    await api.created(path(GATEWAYS), gateway())
    where = path(ROUTES, "qwen-chat")
    await api.until(where, lambda reply: conditions_of(reply.body).get("ResolvedRefs") == "BackendNotFound")
    await api.created(path(ISVCS), inference_service())

    found = await api.until(where, lambda reply: conditions_of(reply.body).get("ResolvedRefs") == "ResolvedRefs")

    assert conditions_of(found.body)["Accepted"] == "Accepted"
    assert holds((await api.get(path(GATEWAYS, "public"))).body, "Programmed")


async def test_a_route_that_no_listener_admits_is_refused(api: RawApi) -> None:
    elsewhere: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gateways"}}
    await api.created("/api/v1/namespaces", elsewhere)
    public = gateway(allowed="Same")
    public["metadata"]["namespace"] = "gateways"
    await api.created("/apis/gateway.networking.k8s.io/v1/namespaces/gateways/gateways", public)
    foreign = route()
    foreign["spec"]["parentRefs"] = [{"name": "public", "namespace": "gateways"}]
    await api.created(path(ROUTES), foreign)

    await api.until(
        path(ROUTES, "qwen-chat"), lambda reply: conditions_of(reply.body).get("Accepted") == "NotAllowedByListeners"
    )
