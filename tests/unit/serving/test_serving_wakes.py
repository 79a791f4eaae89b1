"""Which services a change wakes (serving.md section 17), and what serving declares."""

from typing import Any

import pytest
from support.builders import BuiltWorld, condition, make
from support.serving import (
    CLAIM,
    IMAGE,
    TEAM,
    WORKLOAD,
    aim_service,
    artifact,
    cache,
    cluster_model,
    config,
    model,
    node,
    plan_for,
    predictor_pod,
    serving_world,
    summaries_read,
    template,
    workload,
)

from aim_serving.service import CONSUMED, PUBLISHED, definition
from aim_serving.wakes import WAKES
from aim_shared.api import kinds, labels
from aim_shared.bus import parts
from aim_shared.bus.entry import Change, Entry, Version
from aim_shared.bus.part import Key, Part
from aim_shared.json import JsonObject
from aim_shared.runtime.settings import Settings

STORED = {"name": "stored", "namespace": TEAM, "scope": "Namespace"}
STORED_TEMPLATE = {"resolvedTemplate": STORED}


def entry(part: Part[Any], obj: JsonObject) -> Entry[Any]:
    metadata = obj["metadata"]
    key = Key(metadata.get("namespace") or "", metadata["name"])
    return Entry.of(part, key, obj, Version(metadata["uid"], metadata["resourceVersion"], 1, "e1"))


def woken(world: BuiltWorld, part: Part[Any], after: JsonObject | None, before: JsonObject | None = None) -> set[str]:
    """Names of the services that a change wakes."""
    either = after or before
    assert either is not None
    old, new = (None if obj is None else entry(part, obj) for obj in (before, after))
    change = Change(part, entry(part, either).key, old, new)
    (wake,) = (one for one in WAKES if one.part is part)
    return {key.name for key in wake.keys(change, world.view())}


def services() -> BuiltWorld:
    """Services of all kinds."""
    custom = {"custom": {"baseImage": "base:1", "modelSources": [{"modelId": "a/b", "sourceUri": "hf://a/b"}]}}
    return serving_world(
        aim_service("by-image"),
        aim_service("by-name", model={"name": "named"}),
        aim_service("by-description", model=custom),
        aim_service("by-template", model={"name": "elsewhere"}, template={"name": "t"}),
        aim_service("stored", model={"name": "elsewhere"}, status=STORED_TEMPLATE),
        aim_service("other-config", model={"name": "elsewhere"}, runtimeConfigName="other"),
        aim_service("far", namespace="far"),
        model("by-image-model"),
    )


@pytest.mark.spec("SV-252")
def test_models_wake_by_name_image_and_description() -> None:
    world = services()
    assert woken(world, parts.MODELS, model("any")) == {"by-image"}
    assert woken(world, parts.MODELS, model("any", f"docker.io/{IMAGE}")) == {"by-image"}
    assert woken(world, parts.MODELS, model("named", "x:1")) == {"by-name"}
    assert woken(world, parts.MODELS, model("any", "base:1")) == {"by-description"}
    assert woken(world, parts.CLUSTER_MODELS, cluster_model("any")) == {"by-image", "far"}


@pytest.mark.spec("SV-252")
def test_progress_of_a_model_wakes_nobody() -> None:
    before, after = model("any", status="Progressing"), model("any", status="Progressing")
    after["status"]["conditions"] = [condition("ImageMetadataReady", True)]
    assert woken(services(), parts.MODELS, after, before) == set()
    assert woken(services(), parts.MODELS, model("any"), before) == {"by-image"}


@pytest.mark.spec("SV-252")
def test_templates_wake_by_name_reference_and_model() -> None:
    world = services()
    assert woken(world, parts.TEMPLATES, template("t", "x")) == {"by-template"}
    assert woken(world, parts.TEMPLATES, template("stored", "x")) == {"stored"}
    assert woken(world, parts.TEMPLATES, template("any", "named")) == {"by-name"}
    assert woken(world, parts.TEMPLATES, template("any", "by-image-model")) == {"by-image"}
    assert woken(world, parts.CLUSTER_TEMPLATES, template("t", "x", cluster=True)) == {"by-template"}
    assert woken(world, parts.CLUSTER_TEMPLATES, template("any", "named", cluster=True)) == {"by-name"}
    assert woken(world, parts.TEMPLATES, template("t", "x"), template("t", "x")) == set()


@pytest.mark.spec("SV-252")
def test_a_template_of_a_namespace_wakes_nobody_elsewhere() -> None:
    world = serving_world(aim_service("near"), aim_service("far", namespace="far"), cluster_model("shared"))
    assert woken(world, parts.TEMPLATES, template("any", "shared")) == {"near"}
    assert woken(world, parts.CLUSTER_TEMPLATES, template("any", "shared", cluster=True)) == {"near", "far"}


@pytest.mark.spec("SV-252", "RC-080", "RC-081", "RC-082")
def test_configs_wake_by_effective_name() -> None:
    world = services()
    assert woken(world, parts.RUNTIME_CONFIGS, config("other")) == {"other-config"}
    everybody = {"by-image", "by-name", "by-description", "by-template", "stored"}
    assert woken(world, parts.RUNTIME_CONFIGS, config()) == everybody
    assert woken(world, parts.CLUSTER_RUNTIME_CONFIGS, config(cluster=True)) == {*everybody, "far"}
    assert woken(world, parts.RUNTIME_CONFIGS, config(), config()) == set()


@pytest.mark.spec("SV-252")
def test_caches_wake_by_template_and_label() -> None:
    world = services()
    assert woken(world, parts.TEMPLATE_CACHES, cache("c", "stored")) == {"stored"}
    assert woken(world, parts.TEMPLATE_CACHES, cache("c", "x", labels={labels.SERVICE: "by-name"})) == {"by-name"}


@pytest.mark.spec("SV-252", "SV-134")
def test_artifacts_wake_the_users_of_a_failed_cache_only() -> None:
    users = [aim_service("user", status=STORED_TEMPLATE), aim_service("maker"), aim_service("calm")]
    mine = {labels.SERVICE: "maker"}
    world = serving_world(*users, cache("c", "stored", status="Failed", labels=mine))
    assert woken(world, parts.ARTIFACTS, artifact()) == {"user", "maker"}
    assert woken(world, parts.ARTIFACTS, artifact(), artifact("Progressing")) == {"user", "maker"}
    assert woken(world, parts.ARTIFACTS, None, artifact()) == {"user", "maker"}
    assert woken(world, parts.ARTIFACTS, artifact(), artifact()) == set()
    loading = serving_world(*users, cache("c", "stored", status="Progressing", labels=mine))
    assert woken(loading, parts.ARTIFACTS, artifact()) == set()


@pytest.mark.spec("SV-252", "SV-254", "SV-253", "FW-114", "FW-170")
def test_the_workload_wakes_its_owner() -> None:
    service = aim_service()
    world = serving_world(service, workload(service))
    assert woken(world, parts.INFERENCE_SERVICES, workload(service)) == {"qwen-chat"}
    assert woken(world, parts.PREDICTOR_PODS, predictor_pod("Running")) == {"qwen-chat"}
    assert woken(world, parts.PREDICTOR_PODS, predictor_pod("Running"), predictor_pod("Running")) == set()
    assert woken(serving_world(service), parts.PREDICTOR_PODS, predictor_pod("Running")) == set()
    claim = make(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM, namespace=TEAM)
    assert woken(world, parts.ARTIFACT_CLAIMS, None, claim) == {"qwen-chat"}
    assert woken(world, parts.ARTIFACT_CLAIMS, claim) == set()


@pytest.mark.spec("SV-146", "SV-252")
def test_a_name_that_becomes_free_wakes_who_needs_it() -> None:
    foreign = workload(aim_service("other"))
    assert woken(serving_world(aim_service()), parts.INFERENCE_SERVICES, None, foreign) == {"qwen-chat", "other"}
    given_up = {**foreign, "metadata": {**foreign["metadata"], "ownerReferences": []}}
    assert woken(serving_world(aim_service()), parts.INFERENCE_SERVICES, given_up, foreign) == {"qwen-chat"}
    assert woken(serving_world(aim_service()), parts.INFERENCE_SERVICES, foreign, foreign) == {"other"}


@pytest.mark.spec("SV-267", "SV-252")
def test_a_model_in_the_way_wakes_who_needs_its_name() -> None:
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    hardware = {"cpu": {"requests": "4"}}
    custom = {"custom": {"baseImage": "base:1", "modelSources": [source], "hardware": hardware}}
    world = serving_world(aim_service("by-image"), aim_service("by-description", model=custom))
    for service in ("by-image", "by-description"):
        name = plan_for(world, service).children[0].name
        assert woken(world, parts.MODELS, None, model(name, "another:1")) == {service}


@pytest.mark.spec("SV-252", "SV-193")
@pytest.mark.parametrize(
    ("type_", "message", "expected"),
    [("Warning", "boom", True), ("Normal", "boom", False), ("Warning", "the object has been modified", False)],
)
def test_events_wake_the_owner(type_: str, message: str, expected: bool) -> None:
    service = aim_service()
    involved = {"kind": "InferenceService", "name": WORKLOAD, "namespace": TEAM}
    event = make(kinds.EVENT, "e", namespace=TEAM, type=type_, message=message, involvedObject=involved)
    found = woken(serving_world(service, workload(service)), parts.INFERENCE_SERVICE_EVENTS, event)
    assert bool(found) is expected


@pytest.mark.spec("SV-252", "SV-253", "FW-114")
def test_autoscalers_wake_on_replicas_and_conditions() -> None:
    def hpa(desired: int = 1, metric: str = "1", *, active: bool = False) -> JsonObject:
        status = {
            "desiredReplicas": desired,
            "currentMetrics": [metric],
            "conditions": [condition("ScalingActive", active)],
        }
        return make(
            kinds.HORIZONTAL_POD_AUTOSCALER, "h", namespace=TEAM, uid="h", labels={labels.SERVICE: "s"}, status=status
        )

    world = serving_world()
    assert woken(world, parts.AUTOSCALERS, hpa(metric="2"), hpa()) == set()
    assert woken(world, parts.AUTOSCALERS, hpa(desired=2), hpa()) == {"s"}
    assert woken(world, parts.AUTOSCALERS, hpa(active=True), hpa()) == {"s"}


@pytest.mark.spec("SV-252", "FW-454")
def test_nodes_wake_services_that_wait_for_a_template() -> None:
    ready = {"resolvedTemplate": {**STORED, "name": "qwen3-lat"}}
    world = serving_world(
        aim_service("waiting"),
        aim_service("named", template={"name": "qwen3-lat"}),
        aim_service("resolved", status=ready),
        aim_service("elsewhere", namespace="far"),
        model(),
        template(),
        node(device_id="740f"),
    )
    names = ("waiting", "named", "resolved", "elsewhere")
    reading = {name: summaries_read(world, name) for name in names}
    groups = {group for change in world.put(parts.NODES, node("gpu-2")) for group in change.groups}
    assert [name for name in names if reading[name] & groups] == ["waiting"]
    (another,) = world.put(parts.NODES, node("gpu-3"))
    assert another.groups == set(), "one more of a known kind"


@pytest.mark.spec("SV-001", "SV-257", "FW-370", "FW-371", "RC-071")
def test_declaration() -> None:
    declared = definition(Settings())
    assert set(PUBLISHED) <= set(CONSUMED)
    assert {wake.part for wake in WAKES} <= set(declared.consumes)
    assert {index.part for index in declared.indexes} <= set(declared.consumes)
    own = declared.reconcilers[0].status.own(
        {"routing": {"path": "/"}, "status": "Running", "conditions": [{"type": "HTTPRouteReady"}, {"type": "Ready"}]}
    )
    assert own == {"status": "Running", "conditions": [{"type": "Ready"}]}
