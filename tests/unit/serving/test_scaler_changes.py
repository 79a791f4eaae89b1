"""Fixed replicas, HPA and KEDA in all directions, and down to no replica at all."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import condition, fact, make
from support.live import Live
from support.predictors import METRIC, USUAL
from support.serving import (
    TEAM,
    WORKLOAD,
    aim_service,
    children_of,
    condition_of,
    living,
    message_of,
    model,
    node,
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

from aim_domain import kinds, labels
from aim_domain.parts import AUTOSCALERS, INFERENCE_SERVICES, PREDICTOR_PODS, SERVICES
from aim_serving.autoscaling import AWAKENING, SCALER_REMOVAL
from controller_runtime import (
    FACTS,
    Category,
    ClassifiedError,
    Effect,
    Event,
    EventType,
    JsonObject,
    Plan,
    timestamp,
)
from controller_runtime.testing import NOW, BuiltCache

AWAKE: JsonObject = {
    "type": "PodMetric",
    "podmetric": {"metric": {"query": "gateway_waiting_requests"}, "target": {"type": "Value", "value": "1"}},
}
FIXED: JsonObject = {"replicas": 2}
BY_HPA: JsonObject = {"minReplicas": 1, "maxReplicas": 4}
BY_KEDA: JsonObject = {"minReplicas": 1, "maxReplicas": 3, "autoScaling": {"metrics": [METRIC]}}
TO_ZERO: JsonObject = {"minReplicas": 0, "maxReplicas": 3, "autoScaling": {"metrics": [METRIC, AWAKE]}}
ANNOTATIONS = {
    "none": {labels.ANNOTATION_AUTOSCALER_CLASS: "none"},
    "hpa": {labels.ANNOTATION_AUTOSCALER_CLASS: "hpa"},
    "keda": {
        labels.ANNOTATION_AUTOSCALER_CLASS: "keda",
        labels.ANNOTATION_OTEL_INJECT: f"{WORKLOAD}-predictor",
        labels.ANNOTATION_PROMETHEUS_PORT: "8000",
    },
}


def service(**spec: Any) -> JsonObject:
    return aim_service(template={"name": "qwen3-lat"}, **spec)


def around() -> tuple[JsonObject, ...]:
    return (template(), model(), node(), template_cache(USUAL))


def autoscaler(name: str, current: int = 1, *, resting: bool = False) -> JsonObject:
    reason = ("False", "ScalingDisabled") if resting else ("True", "ValidMetricFound")
    status = {
        "currentReplicas": current,
        "desiredReplicas": current,
        "conditions": [condition("ScalingActive", *reason), condition("AbleToScale", True)],
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{WORKLOAD}-predictor"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3}
    own = {labels.SERVICE: "qwen-chat"}
    return make(kinds.HORIZONTAL_POD_AUTOSCALER, name, namespace=TEAM, labels=own, spec=spec, status=status)


HPA, KEDA = f"{WORKLOAD}-predictor", f"keda-hpa-{WORKLOAD}-predictor"


def changed(before: JsonObject, after: JsonObject, *left_over: str) -> tuple[Live, Plan]:
    """A service that ran with one way of scaling and now asks for the other."""
    cache = living(service(**before), *around())
    run(cache)
    cache.change(SERVICES, "qwen-chat", spec=service(**after)["spec"])
    for name in left_over:
        cache.put(AUTOSCALERS, autoscaler(name))
    return cache, plan_for(cache)


WAYS: dict[str, tuple[JsonObject, str, tuple[int, int]]] = {
    "fixed": (FIXED, "none", (2, 2)),
    "hpa": (BY_HPA, "hpa", (1, 4)),
    "keda": (BY_KEDA, "keda", (1, 3)),
    "zero": (TO_ZERO, "keda", (0, 3)),
}


@pytest.mark.spec("SV-177", "SV-178", "SV-181", "SV-273", "AT-109", "AT-110")
@pytest.mark.parametrize("before", WAYS)
@pytest.mark.parametrize("after", WAYS)
def test_every_change_of_who_scales(before: str, after: str) -> None:
    wanted, scaler, bounds = WAYS[after]
    cache, plan = changed(WAYS[before][0], wanted)
    uid = stored(cache).uid
    (body,) = children_of(plan, "InferenceService")
    assert body["metadata"]["annotations"] == ANNOTATIONS[scaler]
    predictor = body["spec"]["predictor"]
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == bounds
    assert ("autoScaling" in predictor) is (scaler == "keda")
    assert {child.body["kind"] for child in plan.children} == {"InferenceService"}, "nobody else writes replicas"
    assert (condition_of(plan, "HPAReady") is None) is (scaler == "none")
    assert plan.deletes == ()
    run(cache)
    assert stored(cache).uid == uid
    assert plan.status is not None
    assert (plan.status["runtime"]["minReplicas"], plan.status["runtime"]["maxReplicas"]) == bounds


def removals(plan: Plan) -> list[str]:
    return [str(one.params["former"]) for one in plan.effects if one.kind == SCALER_REMOVAL.name]


@pytest.mark.spec("SV-272", "SV-286", "AT-110")
@pytest.mark.parametrize(
    ("before", "after", "left_over", "removed"),
    [
        ("keda", "fixed", (), ["keda"]),
        ("keda", "hpa", (), ["keda"]),
        ("zero", "fixed", (KEDA,), ["keda"]),
        ("hpa", "keda", (HPA,), ["hpa"]),
        ("hpa", "zero", (HPA,), ["hpa"]),
        ("hpa", "keda", (), []),
        ("hpa", "fixed", (HPA,), []),
        ("fixed", "hpa", (HPA,), []),
        ("fixed", "keda", (KEDA,), []),
        ("keda", "zero", (KEDA,), []),
    ],
)
def test_the_former_autoscaler_goes(before: str, after: str, left_over: tuple[str, ...], removed: list[str]) -> None:
    _, plan = changed(WAYS[before][0], WAYS[after][0], *left_over)
    assert removals(plan) == removed


# No replica at all


@pytest.mark.spec("SV-285", "SV-186")
@pytest.mark.parametrize(
    ("scaling", "why"),
    [
        (None, "CPU needs pods"),
        ([METRIC | {"podmetric": {"metric": {}, "target": {"type": "Value", "value": "1"}}}], "every metric comes"),
        ([{**AWAKE, "podmetric": {"metric": {"query": "vllm:num_requests_running"}}}], "every metric comes"),
        ([{**AWAKE, "podmetric": {"metric": {"query": "q", "metricNames": ["q"]}}}], "every metric comes"),
    ],
)
def test_zero_is_refused_where_nothing_could_wake_the_service(scaling: list[JsonObject] | None, why: str) -> None:
    metrics = {} if scaling is None else {"autoScaling": {"metrics": scaling}}
    plan = plan_for(serving_cache(service(minReplicas=0, maxReplicas=2, **metrics), *around()))
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (("False", "InvalidSpec"), "Failed")
    assert "spec.minReplicas is 0" in message_of(plan, "InferenceServiceReady")
    assert why in message_of(plan, "InferenceServiceReady")
    assert plan.children == ()


@pytest.mark.spec("SV-285")
def test_zero_with_a_metric_that_can_wake() -> None:
    (body,) = children_of(plan_for(serving_cache(service(**TO_ZERO), *around())), "InferenceService")
    assert (body["spec"]["predictor"]["minReplicas"], body["spec"]["predictor"]["maxReplicas"]) == (0, 3)
    only = {"minReplicas": 0, "autoScaling": {"metrics": [AWAKE]}}
    (body,) = children_of(plan_for(serving_cache(service(**only), *around())), "InferenceService")
    assert (body["spec"]["predictor"]["minReplicas"], body["spec"]["predictor"]["maxReplicas"]) == (0, 1)
    usual = {"autoScaling": {"metrics": [AWAKE]}}
    (body,) = children_of(plan_for(serving_cache(service(**usual), *around())), "InferenceService")
    assert body["spec"]["predictor"]["minReplicas"] == 1, "off unless asked for"


@pytest.mark.spec("SV-285", "SV-209", "SV-212")
def test_a_service_without_replicas_is_well() -> None:
    own = service(**TO_ZERO)
    cache = serving_cache(own, *around(), workload(own, ready=True), autoscaler(KEDA, 0, resting=True))
    plan = plan_for(cache)
    assert condition_of(plan, "InferenceServicePodsReady") == ("True", "ScaledToZero")
    assert condition_of(plan, "HPAReady") == ("True", "ScaledToZero")
    assert overall(plan) == "Running"
    assert plan.status is not None
    assert plan.status["runtime"]["replicas"] == "0/0 (0-3)"
    woken = serving_cache(own, *around(), workload(own, ready=True), autoscaler(KEDA, 1))
    woken.put(PREDICTOR_PODS, predictor_pod("Running", ready=False))
    assert condition_of(plan_for(woken), "InferenceServicePodsReady") == ("False", "PodsStarting")


@pytest.mark.spec("SV-285", "SV-198", "SV-207")
def test_only_who_may_be_without_replicas_is_well_without() -> None:
    own = service(**BY_KEDA)
    cache = serving_cache(own, *around(), workload(own, ready=True), autoscaler(KEDA, 0, resting=True))
    plan = plan_for(cache)
    assert condition_of(plan, "InferenceServicePodsReady") == ("False", "NoPods")
    assert condition_of(plan, "HPAReady") == ("False", "MetricsFailed")
    fresh = service(**TO_ZERO)
    first = plan_for(serving_cache(fresh, *around(), workload(fresh, ready=True)))
    assert condition_of(first, "InferenceServicePodsReady") == ("False", "NoPods")
    assert condition_of(first, "HPAReady") == ("False", "HPANotFound")


@pytest.mark.spec("SV-218")
def test_a_condition_is_as_old_as_its_status_and_reason() -> None:
    def since(kind: str) -> tuple[str, str]:
        (found,) = [one for one in live.status(SERVICES, "qwen-chat")["conditions"] if one["type"] == kind]
        return found["message"], found["lastTransitionTime"]

    live = living(service(**BY_HPA, replicas=5), *around())
    run(live)
    reported, begin = since("ReplicasInEffect")
    live.put(AUTOSCALERS, autoscaler(HPA, 0, resting=True))
    run(live)
    live.later(60)
    live.change(SERVICES, "qwen-chat", spec=service(**BY_HPA, replicas=6)["spec"])
    live.put(AUTOSCALERS, waiting_for_metrics(HPA))
    run(live)
    later = timestamp(live.now)
    assert since("ReplicasInEffect")[0] != reported
    assert since("ReplicasInEffect")[1] == begin < later, "another message of the same state"
    assert live.condition(SERVICES, "qwen-chat", "HPAReady") == ("False", "WaitingForMetrics")
    assert since("HPAReady")[1] == later, "another reason of the same status"


def waiting_for_metrics(name: str) -> JsonObject:
    body = autoscaler(name)
    body["status"]["conditions"] = [condition("ScalingActive", "False", "FailedGetResourceMetric")]
    return body


# Left at zero


def resting(after: JsonObject, *others: JsonObject) -> BuiltCache:
    """A service that slept until it was changed, and whose new HPA finds no replica."""
    own = service(**after)
    return serving_cache(own, *around(), workload(own, ready=True), autoscaler(HPA, 0, resting=True), *others)


def awakenings(plan: Plan) -> list[Effect]:
    return [one for one in plan.effects if one.kind == AWAKENING.name]


@pytest.mark.spec("SV-297")
def test_an_hpa_is_helped_off_zero() -> None:
    cache = resting({"minReplicas": 2, "maxReplicas": 4})
    (effect,) = awakenings(plan_for(cache))
    assert effect.params == {
        "namespace": TEAM,
        "name": f"{WORKLOAD}-predictor",
        "workloadUid": stored(cache).uid,
        "replicas": 2,
    }
    assert effect.not_before == NOW
    cache.put(FACTS, fact("serving", AWAKENING.name, effect.key, service(), SERVICES, outcome={"scaled": True}))
    (again,) = awakenings(plan_for(cache))
    assert again.not_before == NOW + timedelta(seconds=30)


@pytest.mark.spec("SV-297", "SV-272")
def test_nobody_else_is_helped_off_zero() -> None:
    assert awakenings(plan_for(resting(BY_HPA, autoscaler(KEDA, 0, resting=True)))) == [], "KEDA would take it again"
    for other in (FIXED, BY_KEDA, TO_ZERO):
        assert awakenings(plan_for(resting(other))) == []
    own = service(**BY_HPA)
    awake = serving_cache(own, *around(), workload(own, ready=True), autoscaler(HPA, 1))
    assert awakenings(plan_for(awake)) == []


@pytest.mark.spec("SV-297", "SV-207")
def test_whoever_scales_to_zero_by_hand_is_reported_once_each_time() -> None:
    live = living(service(**BY_HPA), *around())
    run(live)
    live.put(AUTOSCALERS, autoscaler(HPA))
    reported: list[list[Event]] = []
    for current in (1, 0, 0, 1, 0):
        live.put(AUTOSCALERS, autoscaler(HPA, current, resting=not current))
        plan = run(live)
        reported.append([event for event in plan.events if event.reason == "LeftAtZero"])
        expected = ("True", "HPAOperational") if current else ("False", "LeftAtZero")
        assert condition_of(plan, "HPAReady") == expected
    assert [len(events) for events in reported] == [0, 1, 0, 0, 1]
    (event,) = reported[1]
    assert (event.type, event.condition, event.standing) == (EventType.WARNING, "HPAReady", False)
    for said in ("has no replica", "the minimum of 1 back", "spec.minReplicas 0", "by hand does not last"):
        assert said in event.message


@pytest.mark.spec("SV-297", "SV-271")
def test_a_dry_run_only_tells_of_the_awakening() -> None:
    own = service(**BY_HPA)
    own["metadata"]["annotations"] = {labels.ANNOTATION_DRY_RUN: "plan"}
    plan = plan_for(serving_cache(own, *around(), workload(own, ready=True), autoscaler(HPA, 0, resting=True)))
    assert awakenings(plan) == []
    (reported,) = children_of(plan, "ConfigMap")
    assert f"scale Deployment {WORKLOAD}-predictor from 0 to 1" in reported["data"]["plan"]


@pytest.mark.spec("SV-272")
def test_the_removal_names_the_workload_and_gives_kserve_its_time() -> None:
    cache, plan = changed(BY_KEDA, BY_HPA)
    [removal] = [one for one in plan.effects if one.kind == SCALER_REMOVAL.name]
    uid = cache.only(INFERENCE_SERVICES)["metadata"]["uid"]
    assert removal.params == {"namespace": TEAM, "name": HPA, "workloadUid": uid, "former": "keda"}
    assert removal.not_before == cache.now + timedelta(seconds=2)
    cache.answer(removal, failure=ClassifiedError(Category.INFRASTRUCTURE, "Broken", "it broke"))
    [again] = [one for one in plan_for(cache).effects if one.kind == SCALER_REMOVAL.name]
    assert again.not_before is not None
    assert again.not_before > cache.now + timedelta(seconds=2)
