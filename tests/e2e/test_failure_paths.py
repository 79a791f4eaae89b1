"""What goes wrong in the cluster is told by the AIMService's status, and heals."""

import pytest
from support.builders import RUNNING_REQUESTS
from support.stack import OWN, Platform, status_of

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


def reasons(obj: JsonObject) -> dict[str, str]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return {one["type"]: one["reason"] for one in conditions}


def messages(obj: JsonObject) -> dict[str, str]:
    return {one["type"]: one["message"] for one in obj["status"]["conditions"]}


async def forget_failure(platform: Platform, namespace: str) -> None:
    patch = {"metadata": {"annotations": {"local.aim/fail": None}}}
    await platform.api.merge(f"/api/v1/namespaces/{namespace}", patch)


@pytest.mark.spec("SV-134", "SV-137", "SV-139", "AR-257", "AR-350", "AR-628")
async def test_a_download_without_access_is_retried_once_reported_and_repaired(platform: Platform) -> None:
    await platform.namespace("gated", **{"local.aim/fail": "download=auth"})
    path = await platform.service("gated", "chat", model={"image": IMAGE})

    failed = await platform.until(path, lambda obj: reasons(obj).get("CacheReady") == "CacheFailed")
    artifacts = (await platform.api.get(f"{OWN}/namespaces/gated/aimartifacts")).body["items"]
    isvcs = (await platform.api.get("/apis/serving.kserve.io/v1beta1/namespaces/gated/inferenceservices")).body["items"]

    assert status_of(failed) == "Degraded"
    assert failed["status"]["cache"]["retryAttempts"] == 1
    assert [status_of(artifact) for artifact in artifacts] == ["Failed"]
    assert reasons(artifacts[0])["AuthValid"] == "AuthError"
    assert isvcs == []

    # Whoever repairs the credentials and does not want to wait deletes the cache.
    await forget_failure(platform, "gated")
    caches = f"{OWN}/namespaces/gated/aimtemplatecaches"
    (cache,) = (await platform.api.get(caches)).body["items"]
    await platform.api.delete(f"{caches}/{cache['metadata']['name']}")
    service = await platform.running(path)

    assert service["status"]["cache"]["retryAttempts"] == 1


@pytest.mark.spec("SV-269", "AR-566", "AR-362")
async def test_a_token_corrected_in_the_service_is_enough(platform: Platform) -> None:
    await platform.namespace("token", **{"local.aim/fail": "download=auth"})
    bad = [{"name": "HF_TOKEN", "value": "bad"}]
    path = await platform.service("token", "chat", model={"image": IMAGE}, env=bad)
    await platform.until(path, lambda obj: reasons(obj).get("CacheReady") == "CacheFailed")
    (failed,) = (await platform.api.get(f"{OWN}/namespaces/token/aimartifacts")).body["items"]

    await forget_failure(platform, "token")
    good = [{"name": "HF_TOKEN", "value": "good"}]
    await platform.api.merge(path, {"spec": {"env": good}})
    service = await platform.running(path, 60)

    (healed,) = (await platform.api.get(f"{OWN}/namespaces/token/aimartifacts")).body["items"]
    assert healed["metadata"]["uid"] == failed["metadata"]["uid"]
    assert healed["spec"]["env"] == good
    assert service["status"]["cache"]["retryAttempts"] == 1


@pytest.mark.spec("SV-202")
async def test_a_pod_without_a_place_keeps_the_service_pending(platform: Platform) -> None:
    await platform.namespace("crowded")
    greedy = {"limits": {"amd.com/gpu": "64"}, "requests": {"amd.com/gpu": "64"}}
    path = await platform.service("crowded", "chat", model={"image": IMAGE}, resources=greedy)

    pending = await platform.until(
        path, lambda obj: reasons(obj).get("InferenceServicePodsReady") == "FailedScheduling"
    )
    assert status_of(pending) == "Pending"
    assert "Insufficient amd.com/gpu" in messages(pending)["InferenceServicePodsReady"]

    await platform.api.merge(path, {"spec": {"resources": None}})
    await platform.running(path, 60)


@pytest.mark.spec("SV-204")
async def test_a_crash_loop_degrades_the_service(platform: Platform) -> None:
    await platform.namespace("crashing", **{"local.aim/fail": "predictor=crash"})
    path = await platform.service("crashing", "chat", model={"image": IMAGE})

    degraded = await platform.until(
        path, lambda obj: reasons(obj).get("InferenceServicePodsReady") == "CrashLoopBackOff"
    )
    assert status_of(degraded) == "Degraded"

    await forget_failure(platform, "crashing")
    await platform.running(path, 60)


async def test_a_failed_discovery_leaves_the_service_waiting_for_its_template(platform: Platform) -> None:
    await platform.namespace("undiscovered", **{"local.aim/fail": "discovery=image-pull"})
    path = await platform.service("undiscovered", "chat", model={"image": "amdenterpriseai/aim-dummy:0.1.0"})

    templates = f"{OWN}/namespaces/undiscovered/aimservicetemplates"
    await platform.api.until(
        templates, lambda reply: any("ImageNotFound" in reasons(one).values() for one in reply.body["items"])
    )
    service = (await platform.api.get(path)).body
    assert status_of(service) != "Running"

    await forget_failure(platform, "undiscovered")
    await platform.running(path, 60)


@pytest.mark.spec("SV-209", "SV-212")
async def test_an_autoscaled_service_shows_its_replicas(platform: Platform) -> None:
    await platform.namespace("scaled")
    path = await platform.service(
        "scaled",
        "chat",
        model={"image": IMAGE},
        minReplicas=1,
        maxReplicas=3,
        autoScaling={"metrics": [RUNNING_REQUESTS]},
    )
    await platform.running(path)
    isvcs = "/apis/serving.kserve.io/v1beta1/namespaces/scaled/inferenceservices"
    (isvc,) = (await platform.api.get(isvcs)).body["items"]
    wish = {"metadata": {"annotations": {"local.aim/replicas": "3"}}}
    await platform.api.merge(f"{isvcs}/{isvc['metadata']['name']}", wish)

    service = await platform.until(path, lambda obj: obj["status"]["runtime"].get("replicas") == "3/3 (1-3)")
    pods = await platform.api.until(
        "/api/v1/namespaces/scaled/pods?labelSelector=component%3Dpredictor",
        lambda reply: len(reply.body["items"]) == 3,
    )
    assert service["status"]["runtime"]["currentReplicas"] == 3
    assert len(pods.body["items"]) == 3
