"""Under a storage limit an idle artifact makes room for a new one, and whoever is used stays."""

import pytest
from support.stack import OWN, Platform, status_of

from aim_serving.inference_service import OF_CONTAINER, OF_POD
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMESPACE = "evicting"
ARTIFACTS = f"{OWN}/namespaces/{NAMESPACE}/aimartifacts"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
NO_HEADROOM = {"aim.eai.amd.com/pvc-headroom-percent": "0"}


async def make_artifact(platform: Platform, name: str, size: str = "10Gi") -> str:
    """Make an evictable artifact; returns its path."""
    body: JsonObject = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMArtifact",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": NO_HEADROOM},
        "spec": {"sourceUri": f"hf://Qwen/{name}", "size": size, "retentionPriority": 0},
    }
    await platform.api.created(ARTIFACTS, {**body})
    return f"{ARTIFACTS}/{name}"


async def ready(platform: Platform, path: str) -> JsonObject:
    """The artifact once its weights are there."""
    return await platform.until(path, lambda obj: status_of(obj) == "Ready")


@pytest.mark.spec("AR-444", "AR-463", "AR-466", "AR-470", "AR-480", "AR-486", "AR-802", "FW-120", "RC-116")
async def test_an_idle_artifact_makes_room_and_a_used_one_stays(platform: Platform) -> None:
    limit = {"aim.eai.amd.com/artifact-storage-quota": "20Gi"}
    await platform.namespace(NAMESPACE, **limit)
    used = await ready(platform, await make_artifact(platform, "a-used"))
    # A pod of somebody else, which no watch of the platform shows.
    volume = {"name": "w", "persistentVolumeClaim": {"claimName": used["status"]["persistentVolumeClaim"]}}
    spec = {**OF_POD, "containers": [{"name": "c", "image": "i:1", **OF_CONTAINER}], "volumes": [volume]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader", "namespace": NAMESPACE}, "spec": spec}
    await platform.api.created(PODS, pod)
    idle = await ready(platform, await make_artifact(platform, "b-idle"))

    # Nobody asked for it and it is worth no more than the two, so it has to wait until it is.
    wanted = await make_artifact(platform, "c-wanted")
    blocked = await platform.until(wanted, lambda obj: status_of(obj) == "Pending" and "conditions" in obj["status"])
    conditions = {one["type"]: one["reason"] for one in blocked["status"]["conditions"]}
    assert conditions["StorageQuotaReady"] == conditions["Ready"] == "NamespaceQuotaExceeded"
    await platform.api.merge(wanted, {"spec": {"retentionPriority": 1}})

    made = await ready(platform, wanted)
    left = (await platform.api.get(ARTIFACTS)).body["items"]
    assert {one["metadata"]["name"] for one in left} == {"a-used", "c-wanted"}
    assert used["metadata"]["uid"] in {one["metadata"]["uid"] for one in left}
    assert "aim.eai.amd.com/storage-claim" not in made["metadata"].get("annotations", {})

    events = (await platform.api.get(EVENTS)).body["items"]
    reported = {event["reason"]: event for event in events if event["reason"] in {"Evicted", "EvictionTriggered"}}
    assert reported["Evicted"]["involvedObject"]["uid"] == idle["metadata"]["uid"]
    assert reported["EvictionTriggered"]["involvedObject"]["uid"] == made["metadata"]["uid"]
