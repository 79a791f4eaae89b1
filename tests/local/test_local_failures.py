"""Failures on demand look like the real ones, by annotation and by the actors' API, and heal when taken back."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest_asyncio
from support.cluster import NAMESPACE, JobSpec, holds, inference_service, path
from support.controlplane import RawApi

from aim_local.actors import ActorSettings, SimulatedCluster
from aim_local.actors.failures import failure_api
from controller_runtime import JsonObject, KubeClient, load_connection
from embedded_apiserver import ControlPlane

JOBS, PODS, ISVCS = "batch/v1/jobs", "v1/pods", "serving.kserve.io/v1beta1/inferenceservices"
CLAIMS, EVENTS = "v1/persistentvolumeclaims", "v1/events"
ROUTES, GATEWAYS = "gateway.networking.k8s.io/v1/httproutes", "gateway.networking.k8s.io/v1/gateways"
SECONDS = 20


class Rules:
    """The failure API of running actors."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self.http = http

    async def add(self, **rule: object) -> str:
        async with self.http.post("/failures", json=rule) as answer:
            assert answer.status == 201, await answer.text()
            return str((await answer.json())["id"])

    async def remove(self, identity: str) -> int:
        async with self.http.delete(f"/failures/{identity}") as answer:
            return answer.status


@pytest_asyncio.fixture
async def rules(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> AsyncIterator[Rules]:
    """Running actors with short delays, and their API."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await api.created("/api/v1/namespaces", namespace)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    connection = await load_connection(str(kubeconfig))
    async with KubeClient(connection, service="local-actors") as client:
        cluster = SimulatedCluster(client, ActorSettings(tmp_path / "data", delay=0.005, retry_delay=0.05))
        async with (
            cluster.running(),
            failure_api(cluster.failures) as url,
            aiohttp.ClientSession(url) as http,
        ):
            yield Rules(http)


async def pod_when(api: RawApi, accept: Callable[[JsonObject], bool]) -> JsonObject:
    """The first pod that is as wished."""
    reply = await api.until(path(PODS), lambda reply: any(map(accept, reply.body["items"])), SECONDS)
    return next(pod for pod in reply.body["items"] if accept(pod))


def container(pod: JsonObject) -> JsonObject:
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    return dict(statuses[0])


def waits_for(reason: str) -> Callable[[JsonObject], bool]:
    return lambda pod: container(pod).get("state", {}).get("waiting", {}).get("reason") == reason


async def ready(api: RawApi, name: str = "qwen-chat") -> None:
    await api.until(path(ISVCS, name), lambda reply: holds(reply.body, "Ready"), SECONDS)


async def reported(api: RawApi, reason: str, text: str) -> None:
    """Wait for an Event of this reason whose message has this text."""

    def tells(event: JsonObject) -> bool:
        return event["reason"] == reason and text in event["message"]

    await api.until(path(EVENTS), lambda reply: any(map(tells, reply.body["items"])), SECONDS)


async def test_a_rate_limit_keeps_the_image_away_until_it_is_lifted(api: RawApi, rules: Rules) -> None:
    rule = await rules.add(failure="image-rate-limit", kind="InferenceService", name="qwen-*")
    await api.created(path(ISVCS), inference_service())
    pod = await pod_when(api, waits_for("ImagePullBackOff"))
    assert "toomanyrequests" in container(pod)["state"]["waiting"]["message"]
    await reported(api, "Failed", "Failed to pull image")

    assert await rules.remove(rule) == 204
    await ready(api)
    assert await rules.remove(rule) == 404


def failed_to_load(isvc: JsonObject) -> bool:
    return bool(isvc["status"]["modelStatus"]["transitionStatus"] == "BlockedByFailedLoad")


async def test_a_running_server_can_run_out_of_memory(api: RawApi, rules: Rules) -> None:
    await api.created(path(ISVCS), inference_service())
    await ready(api)

    rule = await rules.add(failure="oom", role="predictor", namespace=NAMESPACE)
    pod = await pod_when(api, waits_for("CrashLoopBackOff"))
    last = container(pod)["lastState"]["terminated"]
    # Between two back-offs the container runs again for a moment.
    isvc = (await api.until(path(ISVCS, "qwen-chat"), lambda reply: failed_to_load(reply.body), SECONDS)).body

    assert (last["exitCode"], last["reason"]) == (137, "OOMKilled")
    assert "restarting failed container=kserve-container" in container(pod)["state"]["waiting"]["message"]
    assert not holds(isvc, "Ready")
    assert isvc["status"]["modelStatus"]["lastFailureInfo"]["exitCode"] == 137
    await rules.remove(rule)
    await ready(api)
    healed = await pod_when(api, lambda pod: bool(container(pod).get("ready")))
    assert container(healed)["restartCount"] >= 1
    assert container(healed)["lastState"]["terminated"]["exitCode"] == 137


async def test_a_crash_leaves_its_log_as_the_previous_one(api: RawApi, rules: Rules) -> None:
    isvc = inference_service()
    isvc["metadata"]["annotations"] |= {"local.aim/fail": "crash:3", "local.aim/fail-log": "no such profile"}
    await api.created(path(ISVCS), isvc)
    pod = await pod_when(api, lambda pod: container(pod).get("restartCount", 0) >= 2)
    await api.merge(path(ISVCS, "qwen-chat"), {"metadata": {"annotations": {"local.aim/fail": None}}})
    await ready(api)

    log = path(PODS, pod["metadata"]["name"]) + "/log"
    async with api.session.get(log, params={"previous": "true"}) as answer:
        assert "no such profile" in await answer.text()
    async with api.session.get(log) as answer:
        assert "startup complete" in await answer.text()


async def test_a_job_fails_with_the_log_and_code_that_are_asked_for(api: RawApi, rules: Rules) -> None:
    await rules.add(failure="crash", argument="7", log="profile is broken", kind="Job", name="discover-*")
    await api.created(path(JOBS), JobSpec().build())
    await api.until(path(JOBS, "discover-qwen"), lambda reply: holds(reply.body, "Failed"), SECONDS)
    pod = await pod_when(api, lambda pod: pod["status"].get("phase") == "Failed")

    assert container(pod)["state"]["terminated"]["exitCode"] == 7
    async with api.session.get(path(PODS, pod["metadata"]["name"]) + "/log") as answer:
        assert await answer.text() == "profile is broken\n"


async def test_a_slow_start_is_ready_later_or_when_it_is_taken_back(api: RawApi, rules: Rules) -> None:
    rule = await rules.add(failure="slow-start", argument="600", role="predictor")
    await api.created(path(ISVCS), inference_service())
    pod = await pod_when(api, lambda pod: "running" in container(pod).get("state", {}))
    assert not container(pod)["ready"]

    await rules.remove(rule)
    await ready(api)


def claim(storage_class: str | None = None, size: str = "1Gi") -> JsonObject:
    spec: JsonObject = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}}
    if storage_class:
        spec["storageClassName"] = storage_class
    metadata = {"name": "weights", "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def mounting(job: JsonObject) -> JsonObject:
    volume = {"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}
    job["spec"]["template"]["spec"]["volumes"] = [volume]
    return job


async def test_a_pod_waits_for_a_claim_that_can_not_be_provisioned(api: RawApi, rules: Rules) -> None:
    rule = await rules.add(failure="pvc", kind="PersistentVolumeClaim")
    await api.created(path(CLAIMS), claim())
    await api.created(path(JOBS), mounting(JobSpec().build()))

    await reported(api, "ProvisioningFailed", 'StorageClass "standard"')
    await reported(api, "FailedScheduling", "unbound immediate PersistentVolumeClaims")
    assert (await api.get(path(CLAIMS, "weights"))).body["status"]["phase"] == "Pending"
    await rules.remove(rule)
    await api.until(path(JOBS, "discover-qwen"), lambda reply: holds(reply.body, "Complete"), SECONDS)


async def test_a_late_claim_is_bound_for_its_first_consumer_and_grows(api: RawApi, rules: Rules) -> None:
    await api.created(path(CLAIMS), claim("standard-wait"))
    await reported(api, "WaitForFirstConsumer", "first consumer")

    await api.created(path(JOBS), mounting(JobSpec().build()))
    await api.until(path(JOBS, "discover-qwen"), lambda reply: holds(reply.body, "Complete"), SECONDS)
    bound = (await api.get(path(CLAIMS, "weights"))).body
    assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "mi300x-1"
    assert bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"] == "yes"

    await api.merge(path(CLAIMS, "weights"), {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
    await api.until(
        path(CLAIMS, "weights"), lambda reply: reply.body["status"]["capacity"] == {"storage": "5Gi"}, SECONDS
    )


def gateway() -> JsonObject:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "public", "namespace": NAMESPACE},
        "spec": {"gatewayClassName": "local", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    }


def route() -> JsonObject:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "chat", "namespace": NAMESPACE},
        "spec": {"parentRefs": [{"name": "public"}], "rules": [{"backendRefs": [{"name": "x", "port": 80}]}]},
    }


def parents(obj: JsonObject) -> list[JsonObject]:
    return list(obj.get("status", {}).get("parents") or ())


async def test_routes_are_refused_and_gateways_missed_on_demand(api: RawApi, rules: Rules) -> None:
    missing = await rules.add(failure="gateway-missing", kind="Gateway")
    await api.created(path(GATEWAYS), gateway())
    await api.created(path(ROUTES), route())
    refused = await rules.add(failure="route", argument="NotAllowedByListeners", kind="HTTPRoute", name="chat")
    assert parents((await api.get(path(ROUTES, "chat"))).body) == []

    await rules.remove(missing)
    where = path(ROUTES, "chat")
    found = await api.until(where, lambda reply: bool(parents(reply.body)), SECONDS)
    reasons = {one["type"]: one["reason"] for one in parents(found.body)[0]["conditions"]}
    assert reasons["Accepted"] == "NotAllowedByListeners"
    await rules.remove(refused)
    await api.until(
        where,
        lambda reply: any(one["reason"] == "Accepted" for one in parents(reply.body)[0]["conditions"]),
        SECONDS,
    )


async def test_the_api_lists_rules_and_says_what_is_wrong(rules: Rules) -> None:
    identity = await rules.add(failure="unschedulable", role="predictor")
    async with rules.http.get("/failures") as answer:
        listed = await answer.json()
    async with rules.http.post("/failures", json={"failure": "rain"}) as answer:
        assert answer.status == 400
        assert "there are image-pull" in (await answer.json())["error"]
    async with rules.http.post("/failures", data=b"[") as answer:
        assert answer.status == 400

    assert listed["rules"] == {
        identity: {"failure": "unschedulable", "role": "predictor", "namespace": "*", "name": "*"}
    }
    assert "gateway-missing" in listed["failures"]
    async with rules.http.delete("/failures") as answer:
        assert answer.status == 204
    async with rules.http.get("/failures") as answer:
        assert (await answer.json())["rules"] == {}
