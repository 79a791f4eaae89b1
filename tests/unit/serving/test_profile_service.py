"""Services that are served by a profile: selection, binding, overrides, weights, workload (docs/spec/profiles.md)."""

from typing import Any

import pytest
from support.builders import condition, make, owner
from support.serving import (
    CLAIM,
    DEFINITION,
    IMAGE,
    TEAM,
    aim_service,
    children_of,
    cluster_model,
    condition_of,
    config,
    message_of,
    model,
    node,
    overall,
    plan_for,
    serving_cache,
    template_cache,
    workload,
)
from support.woken import woken

from aim_domain import AIMProfile, AIMService, as_model, as_template, labels, resolve_config
from aim_domain.kinds import AIM_CLUSTER_PROFILE, AIM_PROFILE, AIM_PROFILE_CACHE, NAMESPACE
from aim_domain.naming import dedicated_profile_cache_name, overlay_name, profile_cache_name, profile_file_name
from aim_domain.parts import CUSTOM_PROFILES, PROFILE_CACHES, PROFILES
from aim_serving.inference_service import asked_for
from controller_runtime import JsonObject, Plan

SOURCE = {"modelId": "Qwen/Qwen3-32B", "sourceUri": "hf://Qwen/Qwen3-32B"}
ASKED = {labels.ANNOTATION_PIPELINE: "profile"}
OF_MODEL = {"name": "qwen", "scope": "Namespace"}
SELECTED: JsonObject = {"selector": {"aimId": "qwen/qwen3"}}


def profile(name: str = "fast", *, cluster: bool = False, state: JsonObject | None = None, **spec: Any) -> JsonObject:
    given = {
        "aimId": "qwen/qwen3",
        "modelId": "Qwen/Qwen3-32B",
        "image": IMAGE,
        "engine": "vllm",
        "type": "optimized",
        "metric": "latency",
        "precision": "fp8",
        "acceleratorType": "gpu",
        "acceleratorModel": "MI300X",
        "acceleratorCount": 1,
        "acceleratorPartitioningMode": "unpartitioned",
        "modelSources": [SOURCE],
        **spec,
    }
    given = {key: value for key, value in given.items() if value is not None}
    status = {"status": "Ready", "observedGeneration": 1, "origin": "user-authored", **(state or {})}
    return make(AIM_CLUSTER_PROFILE if cluster else AIM_PROFILE, name, namespace=TEAM, spec=given, status=status)


def service(annotations: dict[str, str] | None = None, *, status: JsonObject | None = None, **spec: Any) -> JsonObject:
    body = aim_service(status=status)
    body["spec"] = {"replicas": 1, "profile": SELECTED, **spec}
    body["spec"] = {key: value for key, value in body["spec"].items() if value is not None}
    body["metadata"] = {**body["metadata"], "annotations": annotations or {}}
    return body


def cache(of: str = "fast", status: str = "Ready", *, scope: str = "Namespace", **more: Any) -> JsonObject:
    artifact = {
        "uid": "u",
        "name": "weights",
        "model": SOURCE["modelId"],
        "status": status,
        "persistentVolumeClaim": CLAIM,
        "mountPoint": "/workspace/cache/Qwen/Qwen3-32B",
    }
    where = TEAM if scope == "Namespace" else scope
    found = {"status": status, "artifacts": {SOURCE["modelId"]: artifact}}
    spec = {"profileName": of, "profileScope": scope, "mode": "Shared", **more}
    return make(AIM_PROFILE_CACHE, profile_cache_name(of, where), namespace=TEAM, spec=spec, status=found)


def bound(name: str = "fast", scope: str = "Namespace") -> JsonObject:
    return {"resolvedProfile": {"name": name, "scope": scope, "kind": "aim.eai.amd.com/v1alpha2/AIMProfile"}}


def decided(*objects: JsonObject, of: JsonObject | None = None) -> Plan:
    return plan_for(serving_cache(of or service(), node(), *objects))


def used(plan: Plan) -> str | None:
    assert plan.status is not None
    found = plan.status.get("resolvedProfile")
    return found["name"] if found else None


def served(plan: Plan) -> JsonObject:
    (found,) = children_of(plan, "InferenceService")
    return found


@pytest.mark.spec("PR-040", "PR-053", "PR-070", "PR-071", "PR-072", "PR-073")
def test_a_service_runs_its_profile() -> None:
    found = profile(
        engineArgs={"x": 1},
        containerEnv=[{"name": "A", "value": "profile"}, {"name": "B", "value": "profile"}],
        imagePullSecrets=[{"name": "of-profile"}],
        serviceAccountName="of-profile",
        state={"resolvedNodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    )
    asking = service(
        env=[{"name": "B", "value": "service"}, {"name": "AIM_ID", "value": "mine"}],
        imagePullSecrets=[{"name": "of-service"}],
    )
    plan = decided(found, cache(), of=asking)
    made = served(plan)
    predictor = made["spec"]["predictor"]
    (container,) = predictor["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    assert container["image"] == IMAGE
    assert (env["A"], env["B"], env["AIM_ID"], env["AIM_MODEL_ID"]) == ("profile", "service", "", "Qwen/Qwen3-32B")
    assert env["AIM_PROFILE_ID"] == "custom/qwen/qwen3/vllm-mi300x-fp8-tp1-latency"
    assert not {"AIM_METRIC", "AIM_PRECISION"} & env.keys()
    assert container["resources"]["limits"] == {"amd.com/gpu": "1", "memory": "48Gi"}
    assert [one["name"] for one in predictor["imagePullSecrets"]] == ["of-service", "of-profile"]
    assert predictor["serviceAccountName"] == "of-profile"
    assert "affinity" in predictor
    assert (made["metadata"]["labels"][labels.PROFILE], labels.TEMPLATE in made["metadata"]["labels"]) == (
        "fast",
        False,
    )
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert mounts["custom-profile"] == "/workspace/aim-runtime/profiles/custom/qwen/qwen3"
    assert "/workspace/cache/Qwen/Qwen3-32B" in mounts.values()
    (file,) = [one for one in plan.children if one.part is CUSTOM_PROFILES]
    assert file.name == profile_file_name("qwen-chat")
    assert used(plan) == "fast"
    assert plan.status is not None
    assert plan.status["resolvedModel"]["name"] == "Qwen/Qwen3-32B"
    assert plan.status["cache"]["profileCacheRef"]["name"] == profile_cache_name("fast", TEAM)
    assert condition_of(plan, "ProfileReady") == ("True", "ProfileResolved")
    assert condition_of(plan, "ProfileCacheReady") == ("True", "ProfileCacheReady")
    assert condition_of(plan, "TemplateReady") is None
    assert condition_of(plan, "CacheReady") is None
    assert condition_of(plan, "ModelReady") is None


@pytest.mark.spec("PR-033")
def test_a_container_asks_for_parts_of_gpus_by_the_resource_of_their_nodes() -> None:
    amounts = {"amd.com/cpx_nps4": "4", "memory": "24Gi"}
    state = {"resources": {"requests": amounts, "limits": amounts}}
    found = profile(acceleratorPartitioningMode="CPX-NPS4", acceleratorCount=4, state=state)
    (container,) = served(decided(found, cache()))["spec"]["predictor"]["containers"]
    for side in ("requests", "limits"):
        asked = container["resources"][side]
        assert {name: amount for name, amount in asked.items() if "/" in name} == {"amd.com/cpx_nps4": "4"}


@pytest.mark.spec("PR-080", "PR-081")
def test_the_weights_of_a_profile_are_in_a_cache_of_profiles() -> None:
    plan = decided(profile())
    (child,) = [one for one in plan.children if one.part is PROFILE_CACHES]
    assert (child.name, child.owned) == (profile_cache_name("fast", TEAM), False)
    assert child.body["spec"] == {"profileName": "fast", "profileScope": "Namespace", "mode": "Shared"}
    assert children_of(plan, "InferenceService") == []
    assert condition_of(plan, "ProfileCacheReady") == ("False", "ProfileCacheNotReady")
    own = service(caching={"mode": "Dedicated"})
    (dedicated,) = [one for one in decided(profile(cluster=True), of=own).children if one.part is PROFILE_CACHES]
    assert dedicated.owned
    assert dedicated.name == dedicated_profile_cache_name("fast", "qwen-chat", own["metadata"]["uid"], "Cluster")
    assert dedicated.body["spec"]["profileScope"] == "Cluster"
    shared = cache(scope="Cluster")
    assert served(decided(profile(cluster=True), shared))
    assert children_of(decided(profile(), shared), "InferenceService") == [], "of another profile of that name"
    assert decided(profile(), template_cache("fast")).children != (), "a template cache is none of it"


@pytest.mark.spec("PR-047", "PR-049", "PR-052", "PR-003")
@pytest.mark.parametrize(
    ("asking", "objects", "reason", "words"),
    [
        (
            {"profile": {"name": "none"}},
            (),
            "ProfileNotFound",
            "neither AIMProfile ml-team/none nor",
        ),
        ({"profile": {"name": "fast"}}, (profile(modelSources=None, aimId=None),), "BaseProfile", "derive one"),
        ({}, (), "ProfileNotFound", "no profile matches spec.profile.selector"),
        ({}, (profile(type="general"),), "ProfileNotFound", "below optimized: AIMProfile ml-team/fast"),
        ({}, (profile(state={"status": "Pending"}),), "ProfileNotReady", "AIMProfile ml-team/fast is not ready yet"),
        (
            {},
            (profile(state={"status": "NotAvailable", "conditions": [condition("Ready", False, "X", "no node")]}),),
            "ProfileNotReady",
            "is not available: X: no node",
        ),
        ({"profile": {"selector": {"modelRef": {"name": "none"}}}}, (), "ProfileNotFound", "is called none"),
        (
            {"profile": {"selector": {"modelRef": {"name": "qwen"}}}},
            (model(),),
            "ProfileNotFound",
            "kubectl annotate aimmodel qwen -n ml-team aim.eai.amd.com/reconciler-pipeline=profile",
        ),
    ],
)
def test_what_leads_to_no_profile_says_why(
    asking: JsonObject, objects: tuple[JsonObject, ...], reason: str, words: str
) -> None:
    plan = decided(*objects, of=service(**asking))
    assert condition_of(plan, "ProfileReady") == ("False", reason)
    assert words in message_of(plan, "ProfileReady")
    assert children_of(plan, "InferenceService") == []
    assert condition_of(plan, "ProfileCacheReady") is None or reason == "ProfileNotReady"


@pytest.mark.spec("PR-047")
def test_an_image_that_is_being_read_is_waited_for() -> None:
    reading = model()
    reading["status"] = {
        "status": "Ready",
        "conditions": [condition("ProfilesDiscovered", False, "DiscoveryInProgress", "Job x is running")],
    }
    asking = service(profile={"selector": {"modelRef": {"name": "qwen"}}})
    plan = decided(reading, of=asking)
    assert condition_of(plan, "ProfileReady") == ("False", "ProfileNotReady")
    assert "DiscoveryInProgress" in message_of(plan, "ProfileReady")
    assert overall(plan) in ("Pending", "Starting")


@pytest.mark.spec("PR-010", "PR-012", "PR-040", "PR-048")
@pytest.mark.parametrize("wanted", [{"name": "qwen"}, {"image": IMAGE}])
def test_a_model_alone_means_its_profiles(wanted: JsonObject) -> None:
    mine = profile("mine", state={"sourceModel": OF_MODEL})
    foreign = profile(
        "a-better", primary=True, state={"sourceModel": {"name": "qwen", "scope": "Cluster"}}, cluster=True
    )
    asking = service(ASKED, profile=None, model=wanted)
    plan = decided(model(), mine, foreign, cache("mine"), of=asking)
    assert used(plan) == "mine"
    assert condition_of(plan, "ModelReady") == ("True", "ModelResolved")
    assert plan.status is not None
    assert plan.status["resolvedModel"]["name"] == "qwen"
    of_cluster = decided(cluster_model(), mine, foreign, cache("a-better", scope="Cluster"), of=asking)
    assert used(of_cluster) == "a-better"


@pytest.mark.spec("PR-050", "PR-052")
def test_a_profile_is_kept_until_it_is_gone_or_no_longer_meant() -> None:
    better, kept = profile("better", primary=True), profile("kept")
    asking = service(status=bound("kept"))
    plan = decided(better, kept, cache("kept"), of=asking)
    assert used(plan) == "kept"
    assert not [one for one in plan.events if one.reason == "ProfileRebound"]
    gone = decided(better, cache("better"), of=asking)
    assert used(gone) == "better"
    (event,) = [one for one in gone.events if one.reason == "ProfileRebound"]
    assert event.message == "AIMProfile ml-team/better takes the place of kept: kept is gone"
    changed = service(status=bound("kept"), profile={"selector": {"aimId": "qwen/qwen3", "metric": "throughput"}})
    other = profile("other", metric="throughput")
    assert used(decided(kept, other, cache("other"), of=changed)) == "other"
    forced = service({labels.ANNOTATION_REBIND: "yes"}, status=bound("kept"))
    assert used(decided(better, kept, cache("better"), of=forced)) == "better"
    unready = decided(profile("kept", state={"status": "NotAvailable"}), better, of=asking)
    assert condition_of(unready, "ProfileReady") == ("False", "ProfileNotReady")


@pytest.mark.spec("PR-052")
def test_equally_good_profiles_are_told_apart_by_their_names_and_reported() -> None:
    plan = decided(profile("b"), profile("a"), cache("a"))
    assert used(plan) == "a"
    assert "ProfileSelectorAmbiguous" in {one.reason for one in plan.events}
    assert "AIMProfile ml-team/b would do as well" in message_of(plan, "ProfileReady")


# Overrides

CHANGED: JsonObject = {"engineArgs": {"x": 2}}


def overlay(of: JsonObject, seed: str = "fast", **state: Any) -> JsonObject:
    """The profile that a service's overrides were laid over."""
    found = profile(overlay_name(seed, "qwen-chat", of["metadata"]["uid"]), state=state, engineArgs={"x": 2})
    annotations = {labels.ANNOTATION_OVERLAY_SERVICE: "qwen-chat", labels.ANNOTATION_OVERLAY_SEED: f"Namespace/{seed}"}
    found["metadata"] = {**found["metadata"], "annotations": annotations, "ownerReferences": [owner(of)]}
    return found


@pytest.mark.spec("PR-060", "PR-061")
def test_overrides_are_a_profile_of_the_service_that_no_other_finds() -> None:
    asking = service(profileOverrides=CHANGED)
    plan = decided(profile(), of=asking)
    (child,) = [one for one in plan.children if one.part is PROFILES]
    assert child.name == overlay_name("fast", "qwen-chat", asking["metadata"]["uid"])
    assert child.owned
    assert child.body["spec"]["engineArgs"] == {"x": 2}
    assert child.body["metadata"]["annotations"][labels.ANNOTATION_OVERLAY_SEED] == "Namespace/fast"
    assert condition_of(plan, "ProfileReady") == ("False", "ProfileNotReady")
    laid = overlay(asking)
    name = laid["metadata"]["name"]
    ready = decided(profile(), laid, cache(name), of=asking)
    assert used(ready) == name
    assert served(ready)["metadata"]["labels"][labels.PROFILE] == name
    other = plan_for(
        serving_cache({**service(), "metadata": {**service()["metadata"], "name": "other"}}, laid, node()), "other"
    )
    assert condition_of(other, "ProfileReady") == ("False", "ProfileNotFound")
    none = decided(profile(), cache(), of=service(profileOverrides={}))
    assert [one for one in none.children if one.part is PROFILES] == []


@pytest.mark.spec("PR-051", "PR-064")
def test_the_profile_below_is_kept_and_a_former_overlay_goes() -> None:
    asking = service(profileOverrides=CHANGED)
    laid = overlay(asking)
    bound_to = service(profileOverrides=CHANGED, status=bound(laid["metadata"]["name"]))
    better = profile("better", primary=True)
    plan = decided(profile(), better, laid, cache(laid["metadata"]["name"]), of=bound_to)
    assert used(plan) == laid["metadata"]["name"]
    assert condition_of(plan, "ProfileReady") == ("True", "ProfileResolved")
    assert plan.deletes == ()
    plain = service(status=bound(laid["metadata"]["name"]))
    gone = decided(profile(), laid, cache(), of=plain)
    assert [(one.part, one.name) for one in gone.deletes] == [(PROFILES, laid["metadata"]["name"])]
    running = workload(plain)
    running["metadata"]["labels"] = {labels.PROFILE: laid["metadata"]["name"]}
    assert decided(profile(), laid, cache(), running, of=plain).deletes == (), "pods are made of it"


@pytest.mark.spec("PR-060")
def test_an_overlay_whose_status_is_of_former_overrides_is_waited_for() -> None:
    asking = service(profileOverrides=CHANGED)
    laid = overlay(asking)
    laid["metadata"]["generation"] = 2
    plan = decided(profile(), laid, cache(laid["metadata"]["name"]), of=asking)
    assert condition_of(plan, "ProfileReady") == ("False", "ProfileNotReady")
    assert children_of(plan, "InferenceService") == []


@pytest.mark.spec("PR-070", "SV-340")
def test_what_an_engine_is_given_is_part_of_its_version() -> None:
    resolved = resolve_config(serving_cache(config()).view(), TEAM, None)
    asking = AIMService.model_validate(service())

    def version(**spec: Any) -> str:
        found = AIMProfile.model_validate(profile(**spec))
        return asked_for(asking, as_template(found), as_model(found), resolved)

    versions = [version(), version(engineArgs={"x": 1}), version(engineEnv={"A": "1"}), version(image="a/b:9")]
    assert len(set(versions)) == len(versions)
    assert version() == version(state={"matchingNodes": 9})


# Moving, and losing a profile


@pytest.mark.spec("PR-013", "PR-053")
def test_a_service_that_moves_keeps_its_workload_until_the_weights_are_there() -> None:
    former = workload(service())
    former["metadata"]["labels"] = {labels.TEMPLATE: "fast"}
    by_template = service(status={"resolvedTemplate": {"name": "fast", "scope": "Namespace"}})
    waiting = decided(profile(), former, of=by_template)
    made = children_of(waiting, "InferenceService")
    assert [one["metadata"]["name"] for one in made] in ([], [former["metadata"]["name"]])
    moved = served(decided(profile(), cache(), former))
    assert moved["metadata"]["name"] == former["metadata"]["name"]
    assert waiting.status is not None
    assert "resolvedTemplate" not in waiting.status
    undecided = decided(former, of=by_template)
    assert undecided.status is not None
    assert undecided.status["resolvedTemplate"]["name"] == "fast", "it can go back"
    back = service({labels.ANNOTATION_PIPELINE: "template"}, status=bound(), model={"name": "qwen"})
    returning = decided(former, of=back)
    assert returning.status is not None
    assert returning.status["resolvedProfile"]["name"] == "fast"


@pytest.mark.spec("PR-053")
def test_a_service_that_runs_and_loses_its_profile_is_degraded_and_stays() -> None:
    running = workload(service())
    running["metadata"]["labels"] = {labels.PROFILE: "fast"}
    plan = decided(cache(), running, of=service(status={**bound(), "status": "Running"}))
    assert condition_of(plan, "ProfileReady") == ("False", "ProfileNotFound")
    assert overall(plan) == "Degraded"
    assert (plan.children, plan.deletes) == ((), ())
    assert used(plan) == "fast", "what it was"


@pytest.mark.spec("PR-002")
def test_a_service_of_a_template_reads_no_profile() -> None:
    built = serving_cache(aim_service(), model(), profile(), node(), config())
    view = built.view()
    plan_for(built)
    assert view.failure is None
    plain = plan_for(built)
    assert condition_of(plain, "ProfileReady") is None
    assert woken(DEFINITION, built, PROFILES, profile(), profile(engineArgs={"x": 9})) == set()


@pytest.mark.spec("PR-002", "PR-047")
def test_a_profile_that_comes_enqueues_whoever_waits_for_one() -> None:
    built = serving_cache(service(), node())
    assert woken(DEFINITION, built, PROFILES, None, profile()) == {f"service:{TEAM}/qwen-chat"}
    counted = profile(state={"matchingNodes": 7})
    assert woken(DEFINITION, serving_cache(service(), profile(), node()), PROFILES, profile(), counted) == set()


@pytest.mark.spec("PR-085", "SV-234")
def test_a_cache_that_is_not_ready_goes_with_the_last_service_that_wants_it() -> None:
    leaving = service(status=bound())
    leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": "2026-11-21T12:00:00Z"}
    mine = cache(status="Progressing")
    mine["metadata"]["labels"] = {labels.SERVICE: "qwen-chat"}
    team = make(NAMESPACE, TEAM)
    plan = plan_for(serving_cache(team, leaving, mine, profile()))
    assert [(one.part, one.name) for one in plan.deletes] == [(PROFILE_CACHES, mine["metadata"]["name"])]
    other = service(status=bound())
    other["metadata"] = {**other["metadata"], "name": "other", "uid": "other"}
    assert plan_for(serving_cache(team, leaving, mine, other)).deletes == ()
