"""The model-sync service in operation: metrics, permissions, a silent registry, a refused model, the end."""

import asyncio
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from support.controlplane import RawApi, Reply
from support.model_sync_service import MODELS, SOURCES, condition, models, running_service, source, until
from support.nats import eventually

from aim_local.registry import Fault, ImageStore, LocalRegistry
from aim_model_sync.catalogue import model_name
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane
from oci_registry import ImageReference, canonical_repository

SOURCE_DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/aimclustermodelsources.aim.eai.amd.com"
MODEL_DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/aimclustermodels.aim.eai.amd.com"
ALLOWED = {
    ("list", "aimclustermodelsources"),
    ("watch", "aimclustermodelsources"),
    ("get", "aimclustermodelsources"),
    ("patch", "aimclustermodelsources/status"),
    ("get", "aimclustermodels"),
    ("create", "aimclustermodels"),
    ("get", "secrets"),
    ("create", "events"),
    ("patch", "events"),
    ("get", "leases"),
    ("create", "leases"),
    ("update", "leases"),
    ("get", "namespaces"),
}
"""What the role of model-sync lets it do; the namespace is kube-system, whose UID tells clusters apart."""


def synced_since(time: str) -> Callable[[Reply], bool]:
    return lambda reply: (reply.body.get("status") or {}).get("lastSyncTime", "") > time


@pytest.mark.spec("MS-351", "FW-387", "FW-398")
async def test_metrics_tell_of_syncs_sources_and_registries(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    async with running_service(controlplane, tmp_path) as metrics:
        spec: JsonObject = {"registry": registry.host, "images": ["org/aim-a", "org/nowhere"], "maxModels": 3}
        await api.created(SOURCES, source(**spec))
        await until(api, "Degraded")
        await api.created(SOURCES, source("second", registry=registry.host, images=["org/aim-b"]))
        await until(api, "Ready", "second")
        host = f'host="{registry.host}"'
        expected = (
            'aim_model_syncs_total{result="partial"} 1.0',
            'aim_model_syncs_total{result="succeeded"} 1.0',
            "aim_model_sync_seconds_count 2.0",
            'aim_model_source_discovered_models{source="catalog"} 3.0',
            'aim_model_source_available_models{source="catalog"} 4.0',
            'aim_model_source_limit_reached{source="catalog"} 1.0',
            'aim_model_source_limit_reached{source="second"} 0.0',
            f'aim_registry_requests_total{{{host},status="2xx"}} 2.0',
            f'aim_registry_requests_total{{{host},status="4xx"}} 1.0',
            "aim_registry_insecure_endpoints 0.0",
        )

        def shows_all() -> bool:
            page = metrics.page().decode()
            return all(f"{line}\n" in page for line in expected)

        await eventually(shows_all, "the statuses are in the world")


@pytest.mark.spec("MS-252", "MS-305", "MS-311", "MS-P23")
async def test_a_registry_that_never_answers_holds_nobody_up(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    """Twenty sources wait for it, more than it gets connections; the others are synced and even synced again."""
    silent = ImageStore()
    silent.put("org/aim-a", "1.0.0")
    async with LocalRegistry(store=silent, auth=None) as hanging:
        hanging.fail("tags", *[Fault(200, delay=90.0)] * 100)
        async with running_service(controlplane, tmp_path, registry_request_timeout=80.0):
            for number in range(20):
                await api.created(SOURCES, source(f"hanging-{number}", registry=hanging.host, images=["org/aim-a"]))
            await eventually(lambda: hanging.requests["tags"] == 10, "as many requests hang as one host may get")
            await api.created(SOURCES, source("lively", registry=registry.host, images=["org/aim-a"]))
            status = await until(api, "Ready", "lively")
            assert status["discoveredModels"] == 4
            await api.merge(f"{SOURCES}/lively", {"spec": {"images": ["org/aim-b"], "syncInterval": "1s"}})
            again = await until(api, "Ready", "lively", generation=2)
            await api.until(f"{SOURCES}/lively", synced_since(again["lastSyncTime"]))
            stuck = [(await api.get(f"{SOURCES}/hanging-{number}")).body["status"] for number in range(20)]
            assert {(one["status"], condition(one, "Syncing")["reason"]) for one in stuck} == {
                ("Progressing", "SyncInProgress")
            }
            assert hanging.requests["tags"] == 10


@pytest.mark.spec("MS-234", "MS-235", "MS-P38")
async def test_a_model_that_is_refused_does_not_stop_the_others(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    """The API server refuses the second of four; when it no longer does, the source recovers by itself."""
    body = (await api.get(MODEL_DEFINITION)).body
    image = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["image"]
    rule = {"rule": "!self.endsWith(':0.8.5')", "message": "0.8.5 is not wanted here"}
    image.setdefault("x-kubernetes-validations", []).append(rule)
    await api.merge(MODEL_DEFINITION, {"spec": {"versions": body["spec"]["versions"]}})
    async with running_service(controlplane, tmp_path):
        await api.created(SOURCES, source(registry=registry.host, images=["org/aim-a"]))
        status = await until(api, "Degraded")
        assert condition(status, "Ready")["reason"] == "ModelCreationFailed"
        assert "0.8.5 is not wanted here" in condition(status, "Ready")["message"]
        made = [f"{registry.host}/org/aim-a:{tag}" for tag in ("0.8.4", "0.9.0", "latest")]
        assert sorted(await models(api)) == made
        assert status["discoveredModels"] == 3
        image["x-kubernetes-validations"].remove(rule)
        await api.merge(MODEL_DEFINITION, {"spec": {"versions": body["spec"]["versions"]}})
        assert (await until(api, "Ready"))["discoveredModels"] == 4
        assert registry.requests["tags"] == 1, "the registry's answer is still at hand"


@pytest.mark.spec("MS-371")
async def test_a_service_that_ends_during_a_sync_leaves_what_is_written(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    async with running_service(controlplane, tmp_path, registry_request_timeout=60.0):
        await api.created(SOURCES, source(registry=registry.host, images=["org/aim-a"], syncInterval="1s"))
        await until(api, "Ready")
        registry.store.put("org/aim-a", "1.0.0")
        asked = registry.requests["tags"]
        registry.fail("tags", *[Fault(200, delay=50.0)] * 3)
        await eventually(lambda: registry.requests["tags"] > asked, "another sync has begun")
        before = (await api.get(f"{SOURCES}/catalog")).body["status"]
    after = (await api.get(f"{SOURCES}/catalog")).body["status"]
    assert (after["status"], after["lastSyncTime"]) == ("Ready", before["lastSyncTime"])
    assert len(await models(api)) == 4


@pytest.mark.spec(
    "MS-003", "MS-259", "MS-352", "MS-353", "MS-354", "MS-355", "MS-356", "MS-357", "MS-358", "MS-359", "MS-360",
    "MS-361", "MS-367",
)  # fmt: skip
async def test_the_service_asks_kubernetes_for_no_more_than_its_role_allows(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    """A sync with a pull secret, a refusal, a deleted model and the end of the source, with election."""
    for namespace in ("aim-system", "elsewhere"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await api.post("/api/v1/namespaces", body)
    controlplane.requests.reset()
    async with running_service(controlplane, tmp_path, leader_elect=True):
        spec: JsonObject = {"images": ["org/aim-a", "org/nowhere"], "imagePullSecrets": [{"name": "pull"}]}
        await api.created(SOURCES, source(registry=registry.host, **spec))
        await until(api, "Degraded")
        name = next(iter((await models(api)).values()))["metadata"]["name"]
        await api.delete(f"{MODELS}/{name}")
        await api.until(f"{SOURCES}/catalog", lambda reply: reply.body["status"]["discoveredModels"] == 3)
        await api.delete(f"{SOURCES}/catalog")
        await api.until(MODELS, lambda reply: reply.body["items"] == [])
        report = controlplane.requests.report()["requests"]
    used = {
        (
            "patch" if one["verb"] == "apply" else one["verb"],
            "/".join(filter(None, (one["resource"], one["subresource"]))),
        )
        for one in report
        if "model-sync" in f"{one['fieldManager']} {one['userAgent']}"
    }
    assert used <= ALLOWED
    assert used >= {("get", "secrets"), ("create", "aimclustermodels"), ("patch", "aimclustermodelsources/status")}
    assert (await api.get("/apis/batch/v1/jobs")).body["items"] == []
    assert (await api.get("/api/v1/pods")).body["items"] == []


@pytest.mark.spec("MS-232", "MS-176", "MS-231")
async def test_a_model_that_appears_during_the_sync_is_taken_as_made(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    """As after a crash between the creation and the status: it counts, and it is not written again."""
    answer = asyncio.Event()
    registry.fail("tags", Fault(503, {"Retry-After": "1"}, released=answer))
    async with running_service(controlplane, tmp_path, registry_request_timeout=60.0):
        created = await api.created(SOURCES, source(registry=registry.host, images=["org/aim-a"]))
        await eventually(lambda: registry.requests["tags"] == 1, "the sync has begun")
        image = canonical_repository(registry.host, "org/aim-a")
        name = model_name(ImageReference(image, "0.9.0"))
        metadata: JsonObject = {
            "name": name,
            "labels": {"aim.eai.amd.com/model-source": "catalog", "mine": "yes"},
            "ownerReferences": [
                {
                    "apiVersion": created["apiVersion"],
                    "kind": created["kind"],
                    "name": "catalog",
                    "uid": created["metadata"]["uid"],
                    "controller": True,
                }
            ],
        }
        body = {"apiVersion": created["apiVersion"], "kind": "AIMClusterModel", "metadata": metadata}
        made = await api.created(MODELS, {**body, "spec": {"image": f"{image}:0.9.0"}})
        answer.set()
        status = await until(api, "Ready")
        assert (status["discoveredModels"], status["availableModels"]) == (4, 4)
        kept = (await api.get(f"{MODELS}/{name}")).body
        assert kept["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@pytest.mark.spec("MS-284", "MS-301")
async def test_what_another_hand_wrote_into_the_status_is_put_right(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    """Fields with another owner, and a version that changes between reading and writing, hold nothing up."""
    answer = asyncio.Event()
    registry.fail("tags", Fault(503, released=answer))
    async with running_service(controlplane, tmp_path, registry_request_timeout=60.0):
        await api.created(SOURCES, source(registry=registry.host, images=["org/aim-a"]))
        await eventually(lambda: registry.requests["tags"] == 1, "the sync has begun")
        foreign = {"status": "Running", "discoveredModels": 99, "availableModels": 99}
        await api.merge(f"{SOURCES}/catalog/status", {"status": foreign})
        answer.set()
        status = await until(api, "Ready")
        assert (status["discoveredModels"], status["availableModels"]) == (4, 4)


@pytest.mark.spec("MS-029", "MS-031", "MS-033", "MS-304", "MS-P24")
async def test_a_source_that_an_older_definition_let_in_is_explained_and_alone(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    """Its status can be written although its spec would be refused today, and others are synced."""
    definition = (await api.get(SOURCE_DEFINITION)).body
    today = definition["spec"]["versions"]
    older = deepcopy(today)
    del older[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["syncInterval"]["pattern"]
    await api.merge(SOURCE_DEFINITION, {"spec": {"versions": older}})
    await api.created(SOURCES, source("old", registry=registry.host, images=["org/aim-a"], syncInterval="1d"))
    await api.merge(SOURCE_DEFINITION, {"spec": {"versions": today}})
    assert (await api.post(SOURCES, source("new", images=["org/aim-a"], syncInterval="1d"))).status == 422
    async with running_service(controlplane, tmp_path):
        await api.created(SOURCES, source(registry=registry.host, images=["org/aim-b"]))
        await until(api, "Ready")
        status = await until(api, "Failed", "old")
    assert condition(status, "ConfigValid")["reason"] == "InvalidSpec"
    assert "1d" in condition(status, "Ready")["message"]
    assert registry.requests["tags"] == 1


@pytest.mark.spec("MS-004", "MS-243")
async def test_every_field_may_be_edited(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    async with running_service(controlplane, tmp_path):
        await api.created(SOURCES, source(registry="quay.io", images=["org/aim-a:1"]))
        await until(api, "Ready")
        spec: JsonObject = {
            "registry": registry.host,
            "images": None,
            "filters": [{"image": "org/aim-*", "exclude": ["org/aim-b"], "versions": ["0.9.0"]}],
            "versions": [">=0.8.5"],
            "maxModels": 7,
            "syncInterval": "2h",
            "imagePullSecrets": [{"name": "pull"}],
        }
        assert (await api.merge(f"{SOURCES}/catalog", {"spec": spec})).status == 200
        status = await until(api, "Ready", generation=2)
        assert (status["discoveredModels"], status["availableModels"]) == (2, 1)
        assert sorted(await models(api)) == [f"{registry.host}/org/aim-a:0.9.0", "quay.io/org/aim-a:1"]
