"""What an autoscaled service answers: to scaling by hand, and where its autoscaler does not come."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import EARLIER, fact
from support.predictors import METRIC, USUAL
from support.serving import (
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
    template,
    template_cache,
    workload,
)

from aim_domain.parts import SERVICES
from aim_serving.autoscaling import SCALER_REPORT, complaints
from controller_runtime import FACTS, Category, ClassifiedError, JsonObject
from controller_runtime.testing import NOW

BOUNDS: JsonObject = {"minReplicas": 1, "maxReplicas": 3}
KEDA: JsonObject = {**BOUNDS, "autoScaling": {"metrics": [METRIC]}}


def around(**spec: Any) -> tuple[JsonObject, ...]:
    service = aim_service(template={"name": "qwen3-lat"}, **spec)
    return (service, template(), model(), node(), template_cache(USUAL))


@pytest.mark.spec("SV-280", "SV-180")
@pytest.mark.parametrize("scaled", [0, 2, 5])
@pytest.mark.parametrize("how", [BOUNDS, KEDA, {"autoScaling": {}}])
def test_scaling_by_hand_is_answered(how: JsonObject, scaled: int) -> None:
    plan = plan_for(serving_cache(*around(replicas=scaled, **how)))
    assert condition_of(plan, "ReplicasInEffect") == ("False", "AutoscalingDecides")
    said = message_of(plan, "ReplicasInEffect")
    bounds = "1 to 3" if "maxReplicas" in how else "1 to 1"
    assert f"spec.replicas is {scaled}, but autoscaling keeps {bounds} replicas" in said
    assert "AutoscalingDecides" in " ".join(f"{event.reason} {event.message}" for event in plan.events)
    (made,) = children_of(plan, "InferenceService")
    assert made["spec"]["predictor"]["minReplicas"] == 1
    assert overall(plan) == overall(plan_for(serving_cache(*around(**how)))), "it takes no part in the status"


@pytest.mark.spec("SV-280")
def test_the_answer_goes_with_its_cause() -> None:
    for spec in ({"replicas": 1, **BOUNDS}, {"replicas": 5}, {"replicas": 5, "minReplicas": 4, "maxReplicas": 2}):
        plan = plan_for(serving_cache(*around(**spec)))
        assert condition_of(plan, "ReplicasInEffect") is None
    cache = living(*around(replicas=5, **BOUNDS))
    run(cache)
    assert not [event for event in plan_for(cache).events if "AutoscalingDecides" in event.message]


@pytest.mark.spec("SV-013", "SV-283", "SV-207", "SV-208")
def test_why_keda_makes_no_autoscaler() -> None:
    service, *others = around(**KEDA)
    cache = serving_cache(service, *others, workload(service, ready=True), predictor_pod("Running", ready=True))
    first = plan_for(cache)
    assert message_of(first, "HPAReady").endswith("does not exist yet")
    (effect,) = first.effects
    assert (effect.kind, effect.params["name"]) == (SCALER_REPORT.name, f"{WORKLOAD}-predictor")
    assert effect.not_before == EARLIER + timedelta(seconds=10)
    before = EARLIER - timedelta(hours=1)
    behind = plan_for(cache, now=before).effects[0].not_before
    assert behind == before + timedelta(seconds=10), "a clock behind puts nothing off"
    why = "ScaledObject x: ScaledObjectCheckFailed: no metric specs returned from scalers"
    cache.put(FACTS, fact("serving", SCALER_REPORT.name, effect.key, service, SERVICES, outcome={"message": why}))
    reported = plan_for(cache)
    assert condition_of(reported, "HPAReady") == ("False", "HPANotFound")
    assert message_of(reported, "HPAReady").endswith(f"does not exist yet; {why}")
    assert overall(reported) == "Starting"
    assert reported.status is not None
    untrue = {one["type"] for one in reported.status["conditions"] if one["status"] != "True"}
    assert untrue == {"HPAReady", "Ready"}, "KEDA shows nowhere else"
    assert [one.not_before for one in reported.effects] == [NOW + timedelta(seconds=30)]
    refused = ClassifiedError(Category.INFRASTRUCTURE, "ScalerNotRead", "ScaledObject team/x cannot be read: 403")
    cache.put(FACTS, fact("serving", SCALER_REPORT.name, effect.key, service, SERVICES, failure=refused))
    assert message_of(plan_for(cache), "HPAReady").endswith(
        "does not exist yet; ScaledObject team/x cannot be read: 403"
    )
    for spec in (BOUNDS, {"replicas": 2}):
        other, *rest = around(**spec)
        plan = plan_for(serving_cache(other, *rest, workload(other), predictor_pod("Running", ready=True)))
        assert SCALER_REPORT.name not in {one.kind for one in plan.effects}, "KEDA has nothing to do with it"


@pytest.mark.spec("SV-283")
def test_what_is_quoted_of_a_scaled_object() -> None:
    def said(type_: str, status: str, reason: str, message: str) -> JsonObject:
        return {"type": type_, "status": status, "reason": reason, "message": message}

    failed = said("Ready", "False", "ScaledObjectCheckFailed", "no metric specs returned")
    assert complaints([failed, said("Active", "Unknown", "x", "y"), said("Fallback", "False", "x", "y")]) == [
        "ScaledObjectCheckFailed: no metric specs returned"
    ]
    assert complaints([said("Ready", "Unknown", "", "")]) == ["Ready: no message"]
    assert complaints([said("Ready", "True", "r", "m"), said("Paused", "True", "ScaledObjectPaused", "p")]) == [
        "ScaledObjectPaused: p"
    ]
