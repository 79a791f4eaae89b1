"""A service by image from the first pass to Running, and the failure path of a download (README sections 5 and 6)."""

from datetime import timedelta

import pytest
from support.builders import condition, make
from support.live import Live
from support.serving import (
    ARTIFACT,
    CLAIM,
    GATEWAY,
    IMAGE,
    TEAM,
    WORKLOAD,
    aim_service,
    artifact,
    children_of,
    condition_of,
    config,
    living,
    message_of,
    model,
    node,
    overall,
    plan_for,
    pod_events,
    predictor_pod,
    route_reports,
    run,
    serving_cache,
    stored,
    template,
    template_cache,
)

from aim_domain import kinds, labels
from aim_domain.parts import ARTIFACTS, INFERENCE_SERVICES, MODELS, PREDICTOR_PODS, SERVICES, TEMPLATE_CACHES
from controller_runtime import FACTS, Category, ClassifiedError, to_json
from controller_runtime.reconcile.child import applied_hash
from controller_runtime.testing import NOW

CACHE = "qwen3-lat-a04542d9"


@pytest.mark.spec("SV-233", "FW-181")
def test_the_finalizer_comes_before_the_cache_that_the_service_makes() -> None:
    unmarked = {**aim_service(), "metadata": make(kinds.AIM_SERVICE, "qwen-chat", namespace=TEAM)["metadata"]}
    waiting = plan_for(serving_cache(unmarked, config(cluster=True, **GATEWAY), node()))
    assert waiting.patches == ()
    assert [child.body["kind"] for child in waiting.children] == ["AIMModel"]
    inputs = (unmarked, config(cluster=True, **GATEWAY), node(), model(), template())
    plan = plan_for(serving_cache(*inputs))
    assert plan.patches[0].body == {"metadata": {"finalizers": [labels.FINALIZER_SERVICE]}}
    assert (plan.children, plan.status) == ((), None)


@pytest.mark.spec("SV-233", "SV-234", "FW-181")
@pytest.mark.parametrize(
    ("status", "labelled", "marked"),
    [("Ready", "qwen-chat", False), ("Failed", "qwen-chat", True), ("Progressing", "another", False)],
)
def test_a_service_that_would_take_no_cache_along_has_no_finalizer(status: str, labelled: str, marked: bool) -> None:
    unmarked = {**aim_service(), "metadata": make(kinds.AIM_SERVICE, "qwen-chat", namespace=TEAM)["metadata"]}
    there = template_cache(CACHE, status=status, labels={labels.SERVICE: labelled})
    plan = plan_for(serving_cache(unmarked, config(cluster=True, **GATEWAY), node(), model(), template(), there))
    assert bool(plan.patches) == marked


@pytest.mark.spec("SV-061", "SV-066", "SV-067", "SV-068", "SV-069", "SV-070", "SV-071", "SV-216", "SV-220")
def test_model_is_made_for_the_image() -> None:
    cache = serving_cache(aim_service(), config(cluster=True, **GATEWAY), node())
    plan = plan_for(cache)
    (made,) = plan.children
    assert not made.owned
    assert (made.body["kind"], made.body["metadata"]["namespace"]) == ("AIMModel", TEAM)
    assert made.body["spec"] == {"image": IMAGE}
    assert made.body["metadata"]["labels"][labels.ORIGIN] == labels.ORIGIN_AUTO_GENERATED
    assert made.body["metadata"]["name"].startswith("aim-qwen-qwen3-32b-0-8-5-")
    assert condition_of(plan, "ModelReady") == ("False", "CreatingModel")
    assert IMAGE in message_of(plan, "ModelReady")
    assert overall(plan) == "Pending"
    assert condition_of(plan, "HTTPRouteReady") is None


def prepared() -> Live:
    """The state after step 19: model and template are Ready, nothing else is there."""
    return living(aim_service(), config(cluster=True, **GATEWAY), node(), model(), template())


@pytest.mark.spec(
    "SV-122",
    "SV-123",
    "SV-125",
    "SV-126",
    "SV-131",
    "SV-141",
    "SV-229",
    "SV-228",
    "SV-227",
    "AT-116",
    "SV-P03",
    "AR-608",
    "AR-609",
)
def test_cache_is_made_before_the_workload() -> None:
    plan = plan_for(prepared())
    (made,) = plan.children
    assert (made.name, made.owned) == (CACHE, False)
    assert made.body["spec"] == {"templateName": "qwen3-lat", "templateScope": "Namespace", "mode": "Shared"}
    assert made.body["metadata"]["labels"][labels.SERVICE] == "qwen-chat"
    assert condition_of(plan, "CacheReady") == ("False", "CacheCreating")
    assert overall(plan) == "Starting"
    assert plan.status is not None
    assert plan.status["resolvedTemplate"]["kind"] == "aim.eai.amd.com/v1alpha1/AIMServiceTemplate"
    assert plan.status["resolvedModel"]["namespace"] == TEAM
    assert "cache" not in plan.status


@pytest.mark.spec("SV-140", "SV-141", "SV-190", "SV-229", "SV-168", "FW-200", "AT-075", "AR-617", "AR-618")
def test_workload_follows_the_ready_cache() -> None:
    cache = prepared()
    run(cache)
    cache.put(TEMPLATE_CACHES, template_cache(CACHE, status="Progressing"))
    waiting = plan_for(cache)
    assert children_of(waiting, "InferenceService") == []
    assert condition_of(waiting, "CacheReady") == ("False", "CacheNotReady")
    assert "cache" not in (waiting.status or {})
    cache.put(TEMPLATE_CACHES, template_cache(CACHE))
    plan = plan_for(cache)
    (made,) = plan.children
    assert (made.name, made.owned) == (WORKLOAD, True)
    volumes = made.body["spec"]["predictor"]["volumes"]
    assert volumes[1] == {"name": ARTIFACT, "persistentVolumeClaim": {"claimName": CLAIM}}
    assert condition_of(plan, "CacheReady") == ("True", "CacheReady")
    assert condition_of(plan, "InferenceServiceReady") == ("False", "CreatingRuntime")
    assert plan.status is not None
    assert plan.status["cache"]["templateCacheRef"]["name"] == CACHE


def running_cache() -> Live:
    """The state after step 33."""
    cache = prepared()
    cache.put(TEMPLATE_CACHES, template_cache(CACHE))
    run(cache)
    return cache


@pytest.mark.spec("SV-171", "SV-177", "FW-013", "FW-205")
def test_a_plan_carried_out_leaves_nothing_to_do() -> None:
    cache = running_cache()
    before = stored(cache)
    plan = plan_for(cache)
    (again,) = children_of(plan, "InferenceService")
    assert again["spec"] == to_json(before.spec)
    assert applied_hash(again) == applied_hash({**again, "spec": to_json(before.spec)})
    assert plan.status == plan_for(cache).status
    run(cache)
    assert plan_for(cache) == plan_for(cache)


@pytest.mark.spec("SV-198", "SV-196", "SV-212", "SV-222", "SV-241", "FW-374", "FW-375", "FW-076", "FW-023", "AT-115")
def test_pods_route_and_runtime_make_it_run() -> None:
    cache = running_cache()
    service = cache.cache.get(SERVICES, cache.object(SERVICES, TEAM, "qwen-chat").key)
    assert service is not None
    pending = predictor_pod("Pending")
    cache.put(PREDICTOR_PODS, pending)
    first = plan_for(cache)
    assert condition_of(first, "InferenceServicePodsReady") == ("False", "NoPods")
    assert [effect.kind for effect in first.effects] == ["pod-events"]
    cache.put(FACTS, pod_events(service.raw, pending, ("Pulling", "pulling image")))
    plan = plan_for(cache)
    assert (condition_of(plan, "InferenceServicePodsReady"), overall(plan)) == (("False", "Pulling"), "Starting")
    run(cache)
    cache.put(PREDICTOR_PODS, predictor_pod("Running", ready=False))
    plan = plan_for(cache)
    assert (condition_of(plan, "InferenceServicePodsReady"), overall(plan)) == (("False", "PodsStarting"), "Starting")
    run(cache)
    route_reports(cache, True, "HTTPRouteAccepted")
    assert plan_for(cache).status == plan.status
    cache.put(PREDICTOR_PODS, predictor_pod("Running", ready=True))
    cache.change(INFERENCE_SERVICES, WORKLOAD, status={"conditions": [condition("Ready", True)]})
    plan = plan_for(cache)
    assert condition_of(plan, "InferenceServicePodsReady") == ("True", "PodsReady")
    assert condition_of(plan, "InferenceServiceReady") == ("True", "RuntimeReady")
    assert condition_of(plan, "Ready") == ("True", "AllComponentsReady")
    assert overall(plan) == "Running"
    assert {event.reason for event in plan.events} == {"PodsReady", "RuntimeReady", "AllComponentsReady"}
    assert plan.status is not None
    assert plan.status["runtime"]["replicas"] == "1"
    assert plan.status["runtime"]["selector"] == f"serving.kserve.io/inferenceservice={WORKLOAD}"


# A download that fails


def failed_cache() -> Live:
    """The cache and its artifact have failed for the first time."""
    cache = prepared()
    run(cache)
    cache.put(TEMPLATE_CACHES, template_cache(CACHE, status="Failed"))
    cache.put(ARTIFACTS, artifact(created=NOW - timedelta(minutes=5)))
    return cache


@pytest.mark.spec("SV-134", "SV-135", "AR-625", "AR-626", "AT-078", "AR-631", "SC-107", "AR-363", "AR-630")
def test_a_failed_cache_is_retried_once() -> None:
    plan = plan_for(failed_cache())
    assert [(delete.name, delete.uid) for delete in plan.deletes] == [(ARTIFACT, f"aimartifact-{ARTIFACT}-uid")]
    assert condition_of(plan, "CacheReady") == ("False", "CacheRetrying")
    assert overall(plan) == "Starting"
    assert plan.status is not None
    assert plan.status["cache"] == {"retryAttempts": 1}


@pytest.mark.spec("SV-134", "FW-518", "SV-300")
def test_a_retry_is_reported_however_new_the_service_is() -> None:
    new = aim_service("qwen-chat")
    new["metadata"]["creationTimestamp"] = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
    known = (
        template(),
        model(),
        node(),
        template_cache(CACHE, status="Failed"),
        artifact(created=NOW - timedelta(minutes=5)),
    )
    plan = plan_for(serving_cache(new, *known))
    assert plan.status is not None
    assert plan.status["cache"] == {"retryAttempts": 1}


@pytest.mark.spec("SV-134", "AR-626")
@pytest.mark.parametrize("seen", ["Progressing", None])
def test_a_cache_that_is_heard_of_before_its_artifact_is_not_given_up(seen: str | None) -> None:
    cache = failed_cache()
    if seen is None:
        cache.remove(ARTIFACTS, ARTIFACT)
    else:
        cache.put(ARTIFACTS, artifact(seen))
    early = plan_for(cache)
    assert (condition_of(early, "CacheReady"), overall(early)) == (("False", "CacheRetrying"), "Starting")
    assert (early.deletes, (early.status or {}).get("cache")) == ((), None)
    run(cache)
    cache.put(ARTIFACTS, artifact(uid=None if seen else "unheard-of", created=NOW + timedelta(seconds=1)))
    late = plan_for(cache)
    assert [delete.name for delete in late.deletes] == [ARTIFACT]
    assert late.status is not None
    assert late.status["cache"] == {"retryAttempts": 1}


@pytest.mark.spec("SV-134")
def test_the_retry_counts_only_when_its_deletes_were_carried_out() -> None:
    failure = ClassifiedError(Category.INFRASTRUCTURE, "InfrastructureError", "delete failed")
    plan = plan_for(failed_cache(), failure=failure)
    assert plan.deletes == ()
    assert plan.status is not None
    assert "cache" not in plan.status


@pytest.mark.spec(
    "SV-136", "SV-137", "SV-138", "SV-139", "AR-628", "AT-078", "AT-079", "AR-616", "AR-P21", "AR-629", "SC-108"
)
def test_a_second_failure_degrades_and_a_success_heals() -> None:
    cache = failed_cache()
    run(cache)
    stale = plan_for(cache)
    assert condition_of(stale, "CacheReady") == ("False", "CacheRetrying")
    later = NOW + timedelta(minutes=2)
    cache.put(ARTIFACTS, artifact(uid="second", created=NOW + timedelta(seconds=1)))
    again = plan_for(cache, now=later)
    assert again.deletes == ()
    assert (condition_of(again, "CacheReady"), overall(again)) == (("False", "CacheFailed"), "Degraded")
    assert children_of(again, "InferenceService") == []
    run(cache)
    cache.put(ARTIFACTS, artifact("Ready", uid="second"))
    cache.put(TEMPLATE_CACHES, template_cache(CACHE))
    healed = plan_for(cache, now=later)
    assert condition_of(healed, "CacheReady") == ("True", "CacheReady")
    assert len(children_of(healed, "InferenceService")) == 1
    assert healed.status is not None
    assert healed.status["cache"]["retryAttempts"] == 1


@pytest.mark.spec("SV-136")
def test_an_artifact_that_the_retry_deleted_may_linger() -> None:
    cache = failed_cache()
    run(cache)
    cache.put(ARTIFACTS, artifact(uid="held", deleting=NOW))
    assert condition_of(plan_for(cache), "CacheReady") == ("False", "CacheRetrying")


@pytest.mark.spec("SV-134", "AR-627")
def test_hand_made_artifacts_are_not_deleted() -> None:
    cache = failed_cache()
    cache.put(ARTIFACTS, artifact(made_by_cache=False))
    plan = plan_for(cache)
    assert plan.deletes == ()
    assert plan.status is not None
    assert plan.status["cache"] == {"retryAttempts": 1}


@pytest.mark.spec("SV-138")
def test_a_cache_that_fails_without_artifacts_is_not_retried() -> None:
    cache = failed_cache()
    cache.put(TEMPLATE_CACHES, template_cache(CACHE, status="Failed", artifact_status="Pending"))
    cache.remove(ARTIFACTS, ARTIFACT)
    plan = plan_for(cache)
    assert (condition_of(plan, "CacheReady"), overall(plan)) == (("False", "CacheFailed"), "Failed")
    assert plan.status is not None
    assert "cache" not in plan.status


@pytest.mark.spec("SV-269", "SV-134")
@pytest.mark.parametrize("behind", ["cache", "artifact"])
def test_what_failed_with_a_former_env_does_not_cost_the_retry(behind: str) -> None:
    cache = failed_cache()
    failed = template_cache(CACHE, status="Failed") if behind == "cache" else artifact()
    failed["metadata"] |= {"generation": 2, "resourceVersion": "9000000"}
    failed["status"]["observedGeneration"] = 1
    cache.put(TEMPLATE_CACHES if behind == "cache" else ARTIFACTS, failed)
    plan = plan_for(cache)
    assert (condition_of(plan, "CacheReady"), plan.deletes) == (("False", "CacheRetrying"), ())
    assert "cache" not in (plan.status or {})


@pytest.mark.spec("SV-072", "AT-138")
def test_two_services_with_one_image_make_one_model() -> None:
    cache = living(aim_service(), aim_service("other"))
    first, second = plan_for(cache), plan_for(cache, "other")
    assert first.children[0].name == second.children[0].name
    run(cache)
    assert plan_for(cache, "other").children == ()
    assert len(cache.cache.all(MODELS)) == 1
