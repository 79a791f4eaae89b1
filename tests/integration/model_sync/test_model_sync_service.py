"""The model-sync service as it runs: API server, broker, registry."""

import asyncio
from pathlib import Path

import pytest
from support.controlplane import RawApi, Reply
from support.model_sync_service import (
    EVENTS,
    MODELS,
    SOURCES,
    condition,
    models,
    models_created,
    running_service,
    source,
    until,
)
from support.nats import eventually

from aim_local.registry import Fault, LocalRegistry
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane


@pytest.mark.usefixtures("service")
@pytest.mark.spec(
    "MS-105", "MS-222", "MS-239", "MS-245", "MS-S096", "MS-S097", "MS-S105", "MS-S106", "MS-206", "MS-343"
)  # fmt: skip
async def test_the_life_of_a_source(api: RawApi, registry: LocalRegistry) -> None:
    """Synced once, limited, calm while its models change, synced again by an edit, garbage-collected."""
    spec: JsonObject = {
        "registry": registry.host,
        "filters": [{"image": "org/aim-*"}],
        "versions": [">=0.8.5"],
        "maxModels": 3,
    }
    created = await api.created(SOURCES, source(**spec))
    status = await until(api, "Ready")
    assert (status["discoveredModels"], status["availableModels"], status["modelsLimitReached"]) == (3, 4, True)
    assert condition(status, "MaxModelsLimitReached")["status"] == "True"
    made = await models(api)
    assert sorted(made) == [f"{registry.host}/org/{image}" for image in ("aim-a:0.8.5", "aim-a:0.9.0", "aim-b:0.9.0")]
    one = made[f"{registry.host}/org/aim-a:0.9.0"]["metadata"]
    assert one["ownerReferences"] == [
        {
            "apiVersion": "aim.eai.amd.com/v1alpha1",
            "kind": "AIMClusterModelSource",
            "name": "catalog",
            "uid": created["metadata"]["uid"],
            "controller": True,
        }
    ]
    assert one["labels"]["aim.eai.amd.com/tier"] == "gold"
    asked = registry.requests.copy()
    assert (asked["catalog"], asked["tags"]) == (1, 2)

    await api.merge(f"{SOURCES}/catalog", {"metadata": {"annotations": {"some": "note"}}})
    for model in made.values():
        await api.merge(f"{MODELS}/{model['metadata']['name']}/status", {"status": {"status": "Ready"}})
    await api.delete(f"{MODELS}/{one['name']}")
    await api.until(f"{SOURCES}/catalog", lambda reply: reply.body["status"]["discoveredModels"] == 2)
    assert registry.requests == asked

    await api.merge(f"{SOURCES}/catalog", {"spec": {"maxModels": 50}})
    status = await until(api, "Ready", generation=2)
    assert (status["discoveredModels"], status["modelsLimitReached"]) == (4, False)
    assert len(await models(api)) == 4

    await api.delete(f"{SOURCES}/catalog")
    await api.until(MODELS, lambda reply: reply.body["items"] == [])


@pytest.mark.usefixtures("service")
@pytest.mark.spec("MS-279", "MS-308", "MS-S100", "MS-S103", "MS-S093")
async def test_partial_failure_is_reported_honestly(api: RawApi, registry: LocalRegistry) -> None:
    filters = [
        {"image": "org/aim-a", "versions": ["0.9.0"]},
        {"image": "org/nowhere"},
        {"image": "org/aim-b", "versions": ["newest"]},
        {"image": "127.0.0.1:1/org/x"},
        {"image": "org/aim-b:0.8.4"},
    ]
    await api.created(SOURCES, source(registry=registry.host, filters=filters))
    status = await until(api, "Degraded")
    assert sorted(await models(api)) == [f"{registry.host}/org/{image}" for image in ("aim-a:0.9.0", "aim-b:0.8.4")]
    message = condition(status, "FiltersReady")["message"]
    for words in ("3 of 5", "[1] org/nowhere: NotFound", "[2] org/aim-b: InvalidVersionConstraint", "[3]", "'newest'"):
        assert words in message
    assert condition(status, "ConfigValid")["reason"] == "InvalidSpec"
    assert condition(status, "RegistryReachable")["reason"] == "RegistryUnreachable"


@pytest.mark.usefixtures("service")
@pytest.mark.spec("MS-177", "MS-231", "MS-S104", "MS-S075", "MS-S076", "MS-P07")
async def test_two_sources_do_not_fight_for_a_pinned_image(api: RawApi) -> None:
    pinned = ["amdenterpriseai/aim-qwen-qwen3-32b:0.8.5", "amdenterpriseai/aim-deepseek-deepseek-r1:0.8.5"]
    await api.created(SOURCES, source(images=pinned))
    assert (await until(api, "Ready"))["discoveredModels"] == 2
    names = {one["metadata"]["name"] for one in (await models(api)).values()}
    assert names == {
        "amdenterpriseai-aim-qwen-qwen3-32b-0-8-5-72f726",
        "amdenterpriseai-aim-deepseek-deepseek-r1-0-8-5-355166",
    }
    before = {name: one["metadata"]["resourceVersion"] for name, one in (await models(api)).items()}
    await api.created(SOURCES, source("second", images=pinned))
    status = await until(api, "Ready", "second")
    assert (status["discoveredModels"], status["availableModels"]) == (0, 2)
    assert condition(status, "RegistryReachable")["status"] == "Unknown"
    assert {name: one["metadata"]["resourceVersion"] for name, one in (await models(api)).items()} == before


@pytest.mark.usefixtures("service")
@pytest.mark.spec("MS-244", "MS-301", "MS-311", "FW-013")
async def test_a_periodic_sync_that_finds_nothing_new_costs_two_status_writes(
    api: RawApi, controlplane: ControlPlane, registry: LocalRegistry
) -> None:
    spec: JsonObject = {"registry": registry.host, "images": ["org/aim-a"], "syncInterval": "4s"}
    await api.created(SOURCES, source(**spec))
    await until(api, "Ready")
    await api.until(EVENTS, models_created)
    controlplane.requests.reset()
    asked = registry.requests["tags"]
    seen: list[JsonObject] = []

    def synced_twice(reply: Reply) -> bool:
        seen.append(reply.body["status"])
        return (
            registry.requests["tags"] >= asked + 2 and condition(reply.body["status"], "Syncing")["status"] == "False"
        )

    await api.until(f"{SOURCES}/catalog", synced_twice)
    assert {(one["status"], condition(one, "Ready")["status"]) for one in seen} == {("Ready", "True")}
    written = [
        (one["verb"], one["resource"], one["count"])
        for one in controlplane.requests.report()["requests"]
        if one["fieldManager"] == "aim-model-sync" and one["verb"] != "get"
    ]
    assert written == [("apply", "aimclustermodelsources", 4)]


@pytest.mark.spec("MS-241", "MS-S107")
async def test_a_source_deleted_during_its_sync_creates_nothing(
    controlplane: ControlPlane, api: RawApi, registry: LocalRegistry, tmp_path: Path
) -> None:
    answer = asyncio.Event()
    registry.fail("tags", Fault(503, released=answer))
    async with running_service(controlplane, tmp_path, registry_request_timeout=60.0) as metrics:

        def effects_running() -> float:
            lines = [line for line in metrics.page().decode().splitlines() if line.startswith("aim_effects_running")]
            return sum(float(line.rpartition(" ")[2]) for line in lines)

        await api.created(SOURCES, source(registry=registry.host, images=["org/aim-a", "org/base:0.9.0"]))
        await eventually(lambda: registry.requests["tags"] > 0, "the sync has begun")
        await api.delete(f"{SOURCES}/catalog")
        await api.until_gone(f"{SOURCES}/catalog")
        answer.set()
        # A sync that went on would ask again, and end some time; after that, nothing comes of it any more.
        await eventually(lambda: effects_running() == 0, "the sync has ended")
        await api.created(SOURCES, source("fence", registry=registry.host, images=["org/base"]))
        await until(api, "Ready", "fence")
        assert registry.requests["tags"] == 2
        assert {image.rpartition(":")[0] for image in await models(api)} == {f"{registry.host}/org/base"}


@pytest.mark.usefixtures("service")
@pytest.mark.spec("MS-248", "MS-258", "MS-S108")
async def test_a_paused_source_is_synced_when_it_is_released(api: RawApi, registry: LocalRegistry) -> None:
    paused = source(registry=registry.host, images=["org/aim-a"])
    paused["metadata"]["annotations"] = {"aim.eai.amd.com/reconciliation-paused": "true"}
    await api.created(SOURCES, paused)
    await api.created(SOURCES, source("other", registry=registry.host, images=["org/base"]))
    await until(api, "Ready", "other")
    held = (await api.get(f"{SOURCES}/catalog")).body
    assert not held.get("status")
    assert registry.requests["tags"] == 1
    await api.merge(
        f"{SOURCES}/catalog", {"metadata": {"annotations": {"aim.eai.amd.com/reconciliation-paused": None}}}
    )
    assert (await until(api, "Ready"))["discoveredModels"] == 4


@pytest.mark.usefixtures("service")
@pytest.mark.spec("MS-343", "MS-344", "MS-346", "MS-347")
async def test_events_tell_what_happened_once(api: RawApi, registry: LocalRegistry) -> None:
    await api.created(SOURCES, source(registry=registry.host, images=["org/aim-a"]))
    await until(api, "Ready")
    events = (await api.until(EVENTS, models_created, 10)).body["items"]
    own = [one for one in events if one["involvedObject"]["kind"] == "AIMClusterModelSource"]
    assert {one["source"]["component"] for one in own} == {"aim-cluster-model-source-controller"}
    assert all(one["type"] == "Normal" for one in own)
    assert not {"SyncInProgress", "SyncCompleted", "Reachable"} & {one["reason"] for one in own}


@pytest.mark.usefixtures("service")
@pytest.mark.spec("MS-242")
async def test_models_of_an_earlier_installation_are_recognised(api: RawApi, registry: LocalRegistry) -> None:
    image = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
    labels = {"aim.eai.amd.com/model-source": "catalog", "aim.eai.amd.com/origin": "auto-generated"}
    metadata = {"name": "amdenterpriseai-aim-qwen-qwen3-32b-0-8-5-72f726", "labels": labels}
    kind = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMClusterModel"}
    before = await api.created(MODELS, {**kind, "metadata": metadata, "spec": {"image": image}})
    await api.created(SOURCES, source(images=[image]))
    status = await until(api, "Ready")
    assert (status["discoveredModels"], status["availableModels"]) == (1, 1)
    assert (await models(api))[image]["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


@pytest.mark.spec("MS-011", "MS-014", "MS-015", "MS-016", "MS-021", "MS-022", "MS-023", "MS-024", "MS-029", "MS-S099")
@pytest.mark.parametrize(
    "spec",
    [
        {"images": ["a/b"], "filters": [{"image": "a/b"}]},
        {},
        {"filters": []},
        {"images": []},
        {"images": ["a/b"], "maxModels": 0},
        {"images": ["a/b"], "maxModels": 10001},
        {"filters": [{"image": "a/b"}] * 101},
        {"filters": [{"image": "a" * 513}]},
        {"filters": [{"image": ""}]},
        {"images": ["a/b"], "syncInterval": "1d"},
        {"images": ["a/b"], "syncInterval": "-1h"},
    ],
)
async def test_the_api_server_refuses_unusable_sources(api: RawApi, spec: JsonObject) -> None:
    assert (await api.post(SOURCES, source(**spec))).status == 422
