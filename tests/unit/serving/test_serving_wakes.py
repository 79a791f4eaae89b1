"""Which services a change enqueues (serving.md section 17), and what serving declares."""

from typing import Any

import pytest
from support.builders import condition, make
from support.serving import (
    CLAIM,
    IMAGE,
    TEAM,
    WORKLOAD,
    aim_service,
    artifact,
    cluster_model,
    config,
    model,
    node,
    plan_for,
    predictor_pod,
    serving_cache,
    summaries_read,
    template,
    template_cache,
    workload,
)
from support.woken import woken as all_woken

from aim_domain import kinds, labels, parts
from aim_serving.service import CONSUMED, PUBLISHED, ServingSettings, definition
from controller_runtime import JsonObject, Part
from controller_runtime.testing import BuiltCache

STORED = {"name": "stored", "namespace": TEAM, "scope": "Namespace"}
_LEAVING = {"deletionTimestamp": "2026-11-21T12:00:00Z"}
STORED_TEMPLATE = {"resolvedTemplate": STORED}


def woken(cache: BuiltCache, part: Part[Any], after: JsonObject | None, before: JsonObject | None = None) -> set[str]:
    """Names of the services that a change enqueues."""
    found = all_woken(definition(ServingSettings()), cache, part, before, after)
    return {key.rpartition("/")[2] for key in found if key.startswith("service:")}


def services() -> BuiltCache:
    """Services of all kinds."""
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    custom = {"custom": {"baseImage": "base:1", "modelSources": [source], "hardware": {"cpu": {"requests": "4"}}}}
    return serving_cache(
        aim_service("by-image"),
        aim_service("by-name", model={"name": "named"}),
        aim_service("by-description", model=custom),
        aim_service("by-template", model={"name": "elsewhere"}, template={"name": "t"}),
        aim_service("stored", model={"name": "elsewhere"}, status=STORED_TEMPLATE),
        aim_service("other-config", model={"name": "elsewhere"}, runtimeConfigName="other"),
        aim_service("far", namespace="far"),
        model("by-image-model"),
        model("named", "x:1"),
    )


@pytest.mark.spec("SV-252")
def test_models_wake_by_name_image_and_description() -> None:
    cache = services()
    assert woken(cache, parts.MODELS, model("any")) == {"by-image"}
    assert woken(serving_cache(aim_service()), parts.MODELS, model("any", f"docker.io/{IMAGE}")) == {"qwen-chat"}
    assert woken(cache, parts.MODELS, model("named", "x:1")) == {"by-name"}
    assert woken(cache, parts.MODELS, model("any", "base:1")) == {"by-description"}
    assert woken(cache, parts.CLUSTER_MODELS, cluster_model("any")) == {"by-image", "far"}


@pytest.mark.spec("SV-252")
def test_progress_of_a_model_wakes_nobody() -> None:
    before, after = model("any", status="Progressing"), model("any", status="Progressing")
    after["status"]["conditions"] = [condition("ImageMetadataReady", True)]
    assert woken(services(), parts.MODELS, after, before) == set()
    assert woken(services(), parts.MODELS, model("any"), before) == {"by-image"}


@pytest.mark.spec("SV-252", "SV-P10")
def test_templates_wake_by_name_reference_and_model() -> None:
    cache = services()
    assert woken(cache, parts.TEMPLATES, template("t", "x")) == {"by-template"}
    assert woken(cache, parts.TEMPLATES, template("stored", "x")) == {"stored"}
    assert woken(cache, parts.TEMPLATES, template("any", "named")) == {"by-name"}
    assert woken(cache, parts.TEMPLATES, template("any", "by-image-model")) == {"by-image"}
    assert woken(cache, parts.CLUSTER_TEMPLATES, template("t", "x", cluster=True)) == {"by-template"}
    assert woken(cache, parts.CLUSTER_TEMPLATES, template("any", "named", cluster=True)) == {"by-name"}
    assert woken(cache, parts.TEMPLATES, template("t", "x"), template("t", "x")) == set()


@pytest.mark.spec("SV-252")
def test_a_template_of_a_namespace_wakes_nobody_elsewhere() -> None:
    cache = serving_cache(aim_service("near"), aim_service("far", namespace="far"), cluster_model("shared"))
    assert woken(cache, parts.TEMPLATES, template("any", "shared")) == {"near"}
    assert woken(cache, parts.CLUSTER_TEMPLATES, template("any", "shared", cluster=True)) == {"near", "far"}


@pytest.mark.spec("SV-252", "RC-080", "RC-081", "RC-082", "AT-143", "SV-P36")
def test_configs_wake_by_effective_name() -> None:
    cache = services()
    assert woken(cache, parts.RUNTIME_CONFIGS, config("other")) == {"other-config"}
    everybody = {"by-image", "by-name", "by-description", "by-template", "stored"}
    assert woken(cache, parts.RUNTIME_CONFIGS, config()) == everybody
    assert woken(cache, parts.CLUSTER_RUNTIME_CONFIGS, config(cluster=True)) == {*everybody, "far"}
    assert woken(cache, parts.RUNTIME_CONFIGS, config(), config()) == set()


@pytest.mark.spec("SV-252")
def test_caches_wake_by_template_and_label() -> None:
    cache = services()
    assert woken(cache, parts.TEMPLATE_CACHES, template_cache("c", "stored")) == {"stored"}
    doomed = aim_service("leaving")
    doomed["metadata"] |= _LEAVING
    leaving = serving_cache(doomed, make(kinds.NAMESPACE, TEAM))
    assert woken(leaving, parts.TEMPLATE_CACHES, template_cache("c", "x", labels={labels.SERVICE: "leaving"})) == {
        "leaving"
    }


@pytest.mark.spec("SV-252", "SV-134")
def test_artifacts_wake_the_users_of_a_failed_cache_only() -> None:
    users = [
        aim_service("user", status=STORED_TEMPLATE, template={"name": "stored"}),
        aim_service("calm", model={"name": "elsewhere"}),
    ]
    around = (template("stored"), model(), node())
    cache = serving_cache(*users, *around, template_cache("c", "stored", status="Failed"))
    assert woken(cache, parts.ARTIFACTS, artifact()) == {"user"}
    assert woken(cache, parts.ARTIFACTS, artifact(), artifact("Progressing")) == {"user"}
    assert woken(cache, parts.ARTIFACTS, None, artifact()) == {"user"}
    assert woken(cache, parts.ARTIFACTS, artifact(), artifact()) == set()
    loading = serving_cache(*users, *around, template_cache("c", "stored", status="Progressing"))
    assert woken(loading, parts.ARTIFACTS, artifact()) == set()


@pytest.mark.spec("SV-252", "SV-254", "SV-253", "FW-114", "FW-170")
def test_the_workload_wakes_its_owner() -> None:
    service = aim_service()
    cache = serving_cache(service, workload(service))
    assert woken(cache, parts.INFERENCE_SERVICES, workload(service)) == {"qwen-chat"}
    assert woken(cache, parts.PREDICTOR_PODS, predictor_pod("Running")) == {"qwen-chat"}
    assert woken(cache, parts.PREDICTOR_PODS, predictor_pod("Running"), predictor_pod("Running")) == set()
    assert woken(serving_cache(service), parts.PREDICTOR_PODS, predictor_pod("Running")) == set()


@pytest.mark.spec("SV-146", "SV-252")
def test_a_name_that_becomes_free_wakes_who_needs_it() -> None:
    foreign = workload(aim_service("other"))
    assert woken(serving_cache(aim_service()), parts.INFERENCE_SERVICES, None, foreign) == {"qwen-chat"}
    given_up = {**foreign, "metadata": {**foreign["metadata"], "ownerReferences": []}}
    assert woken(serving_cache(aim_service()), parts.INFERENCE_SERVICES, given_up, foreign) == {"qwen-chat"}
    assert woken(serving_cache(aim_service()), parts.INFERENCE_SERVICES, foreign, foreign) == set()


@pytest.mark.spec("SV-267", "SV-252")
def test_a_model_in_the_way_wakes_who_needs_its_name() -> None:
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    hardware = {"cpu": {"requests": "4"}}
    custom = {"custom": {"baseImage": "base:1", "modelSources": [source], "hardware": hardware}}
    cache = serving_cache(aim_service("by-image"), aim_service("by-description", model=custom))
    for service in ("by-image", "by-description"):
        name = plan_for(cache, service).children[0].name
        assert woken(cache, parts.MODELS, None, model(name, "another:1")) == {service}


@pytest.mark.spec("SV-252", "SV-193", "FW-261")
@pytest.mark.parametrize(
    ("type_", "message", "expected"),
    [("Warning", "boom", True), ("Normal", "boom", False), ("Warning", "the object has been modified", False)],
)
def test_events_wake_the_owner(type_: str, message: str, expected: bool) -> None:
    service = aim_service()
    mine = workload(service)
    involved = {"kind": "InferenceService", "name": WORKLOAD, "namespace": TEAM, "uid": mine["metadata"]["uid"]}
    event = make(
        kinds.EVENT,
        "e",
        namespace=TEAM,
        involvedObject=involved,
        type=type_,
        reason="InternalError",
        message=message,
    )
    found = woken(serving_cache(service, workload(service)), parts.INFERENCE_SERVICE_EVENTS, event)
    assert bool(found) is expected


@pytest.mark.spec("SV-252", "SV-253", "FW-114", "AT-114", "SV-P26")
def test_autoscalers_wake_on_replicas_and_conditions() -> None:
    service = aim_service(template={"name": "qwen3-lat"}, minReplicas=1, maxReplicas=8)
    around = (template(), model(), node(), template_cache("qwen3-lat-a04542d9"), workload(service, ready=True))

    def hpa(desired: int = 1, metric: str = "1", *, active: bool = False) -> JsonObject:
        conditions = [condition("ScalingActive", active)]
        status = {"desiredReplicas": desired, "currentMetrics": [metric], "conditions": conditions}
        return make(kinds.HORIZONTAL_POD_AUTOSCALER, f"{WORKLOAD}-predictor", namespace=TEAM, uid="h", status=status)

    cache = serving_cache(service, *around)
    assert woken(cache, parts.AUTOSCALERS, hpa(metric="2"), hpa()) == set()
    assert woken(cache, parts.AUTOSCALERS, hpa(desired=2), hpa()) == {"qwen-chat"}
    assert woken(cache, parts.AUTOSCALERS, hpa(active=True), hpa()) == {"qwen-chat"}


@pytest.mark.spec("SV-252", "SV-173")
def test_a_mounted_claim_that_goes_wakes_who_has_a_rebuilt_cache() -> None:
    service = aim_service()
    rebuilt = template_cache("qwen3-lat-a04542d9")
    rebuilt["status"]["artifacts"]["Qwen/Qwen3-32B"]["persistentVolumeClaim"] = "new-claim"
    cache = serving_cache(service, template(), model(), node(), rebuilt, workload(service))
    claim = make(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM, namespace=TEAM)
    grown = {**claim, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    assert woken(cache, parts.ARTIFACT_CLAIMS, None, claim) == {"qwen-chat"}
    assert woken(cache, parts.ARTIFACT_CLAIMS, {**claim, "metadata": {**claim["metadata"], **_LEAVING}}, claim)
    assert woken(cache, parts.ARTIFACT_CLAIMS, grown, claim) == set()


@pytest.mark.spec("SV-252", "FW-454", "AT-144")
def test_nodes_wake_services_that_wait_for_a_template() -> None:
    ready = {"resolvedTemplate": {**STORED, "name": "qwen3-lat"}}
    cache = serving_cache(
        aim_service("waiting"),
        aim_service("named", template={"name": "qwen3-lat"}),
        aim_service("resolved", status=ready),
        aim_service("elsewhere", namespace="far"),
        model(),
        template(),
        node(device_id="740f"),
    )
    names = ("waiting", "named", "resolved", "elsewhere")
    reading = {name: summaries_read(cache, name) for name in names}
    groups = {group for change in cache.put(parts.NODES, node("gpu-2")) for group in change.groups}
    assert [name for name in names if reading[name] & groups] == ["waiting"]
    (another,) = cache.put(parts.NODES, node("gpu-3"))
    assert another.groups == set(), "one more of a known kind"


@pytest.mark.spec("SV-252", "SV-301")
def test_a_namespace_wakes_its_services_by_what_it_demands_of_pods() -> None:
    cache = serving_cache(aim_service(), template(), model(), node(), template_cache("qwen3-lat-a04542d9"))
    plain = make(kinds.NAMESPACE, TEAM)
    demanding = make(kinds.NAMESPACE, TEAM, labels={"pod-security.kubernetes.io/enforce": "restricted"})
    labelled = make(kinds.NAMESPACE, TEAM, labels={"team": "a"})
    assert woken(cache, parts.NAMESPACES, demanding, plain) == {"qwen-chat"}
    assert woken(cache, parts.NAMESPACES, labelled, plain) == set()


@pytest.mark.spec("SV-001", "SV-257", "FW-370", "FW-371", "RC-071")
def test_declaration() -> None:
    declared = definition(ServingSettings())
    assert set(PUBLISHED) <= set(CONSUMED)
    assert {shown.part for shown in declared.predicates} <= set(declared.consumes)
    assert {index.part for index in declared.indexes} <= set(declared.consumes)
    own = declared.reconcilers[0].status.own(
        {"routing": {"path": "/"}, "status": "Running", "conditions": [{"type": "HTTPRouteReady"}, {"type": "Ready"}]}
    )
    assert own == {"status": "Running", "conditions": [{"type": "Ready"}]}
