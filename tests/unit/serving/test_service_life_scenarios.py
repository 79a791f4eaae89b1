"""Acceptance scenarios of a service's life: caches, pods, references, enqueues (serving.md 19.5 and 19.8 to 19.10)."""

from typing import Any

import pytest
from support.builders import make, owner, waiting
from support.predictors import USUAL
from support.serving import (
    CLAIM,
    TEAM,
    aim_service,
    children_of,
    condition_of,
    living,
    model,
    overall,
    plan_for,
    predictor_pod,
    run,
    serving_cache,
    stored,
    template,
    template_cache,
    workload,
)
from support.woken import woken

from aim_domain import kinds, labels
from aim_domain.naming import dedicated_cache_name, shared_cache_name
from aim_domain.parts import ARTIFACT_CLAIMS, MODELS, PREDICTOR_PODS, SERVICES, TEMPLATE_CACHES
from aim_serving.service import ServingSettings, definition
from controller_runtime import JsonObject, Plan
from controller_runtime.testing import BuiltCache


def variable(name: str, value: str) -> JsonObject:
    return {"name": name, "value": value}


def service(mode: str | None = None, **spec: Any) -> JsonObject:
    caching: JsonObject = {"caching": {"mode": mode}} if mode else {}
    return aim_service(template={"name": "qwen3-lat"}, **caching, **spec)


def made_cache(plan: Plan) -> JsonObject:
    (body,) = children_of(plan, "AIMTemplateCache")
    return body


def changed(cache: BuiltCache, **spec: Any) -> None:
    """Let the user change the stored service."""
    entry = cache.cache.all(SERVICES)[0]
    version = str(int(entry.raw["metadata"]["resourceVersion"]) + 1)
    metadata = {**entry.raw["metadata"], "resourceVersion": version}
    cache.put(SERVICES, {**entry.raw, "metadata": metadata, "spec": {**entry.raw["spec"], **spec}})


# Custom models


@pytest.mark.spec("AT-031", "SV-077", "SV-175")
def test_a_custom_model_for_the_cpu() -> None:
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    custom = {"baseImage": "base:1", "modelSources": [source], "hardware": {"cpu": {"requests": "500m"}}}
    own = aim_service(model={"custom": custom}, template={"allowUnoptimized": True})
    (made,) = children_of(plan_for(serving_cache(own)), "AIMModel")
    assert (made["spec"]["image"], made["spec"]["custom"]["hardware"]) == ("base:1", {"cpu": {"requests": "500m"}})
    ready = {
        **made,
        "metadata": {**made["metadata"], "uid": "m", "resourceVersion": "7"},
        "status": {"status": "Ready"},
    }
    of = template(
        of_model=made["metadata"]["name"],
        gpu="",
        count=0,
        type_="unoptimized",
        more_status={"resolvedHardware": {"cpu": {"requests": "500m"}}},
    )
    plan = plan_for(serving_cache(own, ready, of, template_cache(USUAL)))
    (body,) = children_of(plan, "InferenceService")
    assert body["spec"]["predictor"]["containers"][0]["resources"] == {"requests": {"cpu": "500m"}}
    assert body["spec"]["predictor"]["containers"][0]["image"] == "base:1"
    assert "affinity" not in body["spec"]["predictor"]
    assert overall(plan) == "Starting"


# Caches


@pytest.mark.spec("AT-068", "SV-123", "SV-259", "AR-612")
def test_names_of_caches() -> None:
    assert shared_cache_name("llama-template", "my-namespace") == "llama-template-783d2dc1"
    names = [dedicated_cache_name("llama-template", "my-svc", f"service-uid-{one}") for one in "ab"]
    assert names == ["llama-template-my-svc-dc5ac241", "llama-template-my-svc-7ac737af"]


@pytest.mark.spec("AT-071", "AT-072", "SV-128", "SC-102")
def test_variables_of_the_download() -> None:
    proxy, secure = "http://template-proxy:8080", "https://proxy.example.com:8080"
    caching = {"env": [variable("HF_TOKEN", "template-token-value"), variable("HTTP_PROXY", proxy)]}
    own = service(env=[variable("HF_TOKEN", "service-token-value"), variable("HTTPS_PROXY", secure)])
    made = made_cache(plan_for(serving_cache(own, template(caching=caching), model())))
    assert made["spec"]["env"] == [
        variable("HF_TOKEN", "service-token-value"),
        variable("HTTP_PROXY", proxy),
        variable("HTTPS_PROXY", secure),
    ]
    assert made["spec"]["templateScope"] == "Namespace"
    assert made["metadata"]["labels"][labels.SERVICE_NAME] == "qwen-chat"
    of = template(cluster=True, env=[variable("HF_TOKEN", "cluster-token")])
    made = made_cache(plan_for(serving_cache(service(), of, model())))
    assert (made["spec"]["env"], made["spec"]["templateScope"]) == ([variable("HF_TOKEN", "cluster-token")], "Cluster")


@pytest.mark.spec("AT-073", "SV-119", "AR-610", "SC-104")
@pytest.mark.parametrize("order", [("Dedicated", "Shared"), ("Shared", "Dedicated")])
def test_two_modes_make_two_caches(order: tuple[str, str]) -> None:
    services = [
        aim_service(f"s-{mode.lower()}", template={"name": "qwen3-lat"}, caching={"mode": mode}) for mode in order
    ]
    cache = living(*services, template(), model())
    owned = {}
    for one in services:
        name = one["metadata"]["name"]
        plan = plan_for(cache, name)
        (child,) = (child for child in plan.children if child.body["kind"] == "AIMTemplateCache")
        owned[child.body["spec"]["mode"]] = child.owned
        run(cache, name)
    assert owned == {"Shared": False, "Dedicated": True}
    assert len(cache.cache.all(TEMPLATE_CACHES)) == 2


@pytest.mark.spec("AT-074", "SV-120", "SV-121", "SV-P16", "AR-607")
def test_the_first_pass_finds_the_cache_of_the_template() -> None:
    of_template = template_cache("made-by-template", owners=[owner(template())])
    plan = plan_for(serving_cache(service(), template(), model(), of_template))
    assert children_of(plan, "AIMTemplateCache") == []
    assert plan.status is not None
    assert plan.status["cache"]["templateCacheRef"]["name"] == "made-by-template"


@pytest.mark.spec("AT-076", "AT-077", "SV-130", "SV-132", "AR-620", "SC-109")
@pytest.mark.parametrize(("mode", "reason"), [("Shared", "CacheLost"), ("Dedicated", "CacheCreating")])
def test_a_cache_that_is_deleted_under_a_running_service(mode: str, reason: str) -> None:
    own = service(mode)
    name = dedicated_cache_name("qwen3-lat", "qwen-chat", own["metadata"]["uid"]) if mode == "Dedicated" else USUAL
    there = template_cache(name, mode=mode, owners=[owner(own)] if mode == "Dedicated" else [])
    space = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    of_cache = {"aim.eai.amd.com/cache.name": "x"}
    claim = make(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM, namespace=TEAM, labels=of_cache, spec=space)
    cache = living(own, template(), model(), there, claim, workload(own, ready=True))
    cache.put(PREDICTOR_PODS, predictor_pod("Running", ready=True))
    run(cache)
    assert overall(plan_for(cache)) == "Running"
    volumes = [one.name for one in stored(cache).spec.predictor.volumes]
    cache.remove(TEMPLATE_CACHES, name)
    cache.remove(ARTIFACT_CLAIMS, CLAIM)
    lost = plan_for(cache)
    assert (condition_of(lost, "CacheReady"), overall(lost)) == (("False", reason), "Degraded")
    (child,) = (child for child in lost.children if child.body["kind"] == "AIMTemplateCache")
    assert (child.name, child.owned) == (name, mode == "Dedicated")
    run(cache)
    assert [one.name for one in stored(cache).spec.predictor.volumes] == volumes
    again = {**there, "metadata": {**there["metadata"], "uid": "again", "resourceVersion": "9999999"}}
    cache.put(TEMPLATE_CACHES, again)
    healed = plan_for(cache)
    assert (condition_of(healed, "CacheReady"), overall(healed)) == (("True", "CacheReady"), "Running")


@pytest.mark.spec("AT-149", "SV-124")
def test_a_cache_of_another_template_has_the_name() -> None:
    taken = template_cache(USUAL, "another-template")
    plan = plan_for(serving_cache(service(), template(), model(), taken))
    made = made_cache(plan)
    assert made["metadata"]["name"] not in (USUAL, "")
    assert made["metadata"]["name"].startswith("qwen3-lat-")
    assert (plan.patches, plan.deletes) == ((), ())


# What is observed


@pytest.mark.spec("AT-119", "SV-205", "SV-224")
def test_a_corrected_pull_secret_reaches_pods_that_cannot_pull() -> None:
    own = service()
    text = "unauthorized: authentication required"
    pod = predictor_pod("Pending", containers=[waiting("kserve-container", "ImagePullBackOff", text)])
    cache = living(own, template(), model(), template_cache(USUAL), workload(own), pod)
    plan = plan_for(cache)
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "ImagePullAuthFailure")
    assert (condition_of(plan, "AuthValid"), overall(plan)) == (("False", "AuthError"), "Failed")
    run(cache)
    cache.change(SERVICES, "qwen-chat", spec={**own["spec"], "imagePullSecrets": [{"name": "regcred"}]})
    (body,) = children_of(plan_for(cache), "InferenceService")
    assert body["spec"]["predictor"]["imagePullSecrets"] == [{"name": "regcred"}]


@pytest.mark.spec("AT-129", "SV-227", "SV-228", "SV-231", "FW-111")
def test_references_are_complete_and_of_what_is_ready() -> None:
    plan = plan_for(serving_cache(service(model={"name": "qwen"}), template(), model()))
    assert plan.status is not None
    kind = "aim.eai.amd.com/v1alpha1"
    scope = {"namespace": TEAM, "scope": "Namespace"}
    assert plan.status["resolvedModel"] == {
        "name": "qwen",
        **scope,
        "kind": f"{kind}/AIMModel",
        "uid": model()["metadata"]["uid"],
    }
    assert plan.status["resolvedTemplate"] == {
        "name": "qwen3-lat",
        **scope,
        "kind": f"{kind}/AIMServiceTemplate",
        "uid": template()["metadata"]["uid"],
    }
    unready = plan_for(
        serving_cache(service(model={"name": "qwen"}), template(status="Progressing"), model(status="Progressing"))
    )
    assert not {"resolvedModel", "resolvedTemplate"} & set(unready.status or {})


# Enqueues


@pytest.mark.spec("AT-142", "SV-252", "SV-P09")
def test_everybody_who_shares_a_custom_model_is_woken() -> None:
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    custom = {"custom": {"baseImage": "base:1", "modelSources": [source], "hardware": {"cpu": {"requests": "4"}}}}
    cache = living(aim_service("first", model=custom), aim_service("second", model=custom))
    run(cache, "first")
    (entry,) = cache.cache.all(MODELS)
    assert entry.raw["metadata"]["labels"][labels.SERVICE] == "first"
    ready = {**entry.raw, "status": {"status": "Ready"}}
    found = woken(definition(ServingSettings()), cache, MODELS, entry.raw, ready)
    assert {key.rpartition("/")[2] for key in found} == {"first", "second"}
