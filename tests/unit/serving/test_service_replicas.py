"""Replicas of the predictor, and what scales it."""

import pytest
from support.predictors import METRIC, USUAL, predictor
from support.serving import (
    WORKLOAD,
    aim_service,
    children_of,
    condition_of,
    message_of,
    model,
    node,
    overall,
    plan_for,
    serving_cache,
    template,
    template_cache,
)

from controller_runtime import JsonObject


@pytest.mark.spec(
    "CC-302",
    "SV-180",
    "SV-181",
    "SV-182",
    "SV-186",
    "SV-188",
    "SV-209",
    "SV-210",
    "SV-211",
    "SV-212",
    "SV-273",
    "AT-108",
    "AT-147",
    "SV-P47",
)
@pytest.mark.parametrize(
    ("spec", "bounds", "scaler", "display"),
    [
        ({}, (1, 1), "none", "1"),
        ({"replicas": 3}, (3, 3), "none", "3"),
        ({"minReplicas": 3}, (3, 3), "hpa", "3"),
        ({"maxReplicas": 4}, (1, 4), "hpa", "1/1 (1-4)"),
        ({"autoScaling": {}}, (1, 1), "hpa", "1"),
        ({"minReplicas": 1, "maxReplicas": 3, "autoScaling": {"metrics": [METRIC]}}, (1, 3), "keda", "1/1 (1-3)"),
    ],
)
def test_replicas(spec: JsonObject, bounds: tuple[int, int], scaler: str, display: str) -> None:
    cache = serving_cache(aim_service(**spec), template(), model(), node(), template_cache(USUAL))
    plan = plan_for(cache)
    (body,) = children_of(plan, "InferenceService")
    found = body["spec"]["predictor"]
    assert (found["minReplicas"], found["maxReplicas"]) == bounds
    of_keda = {
        "sidecar.opentelemetry.io/inject": f"{WORKLOAD}-predictor",
        "prometheus.kserve.io/port": "8000",
    }
    chosen = {"serving.kserve.io/autoscalerClass": scaler}
    assert body["metadata"]["annotations"] == (chosen | of_keda if scaler == "keda" else chosen)
    assert ("autoScaling" in found) is ("autoScaling" in spec)
    assert plan.status is not None
    assert plan.status["runtime"]["replicas"] == display
    hpa = condition_of(plan, "HPAReady")
    assert hpa == (None if scaler == "none" else ("False", "HPANotFound"))


@pytest.mark.spec("CC-302", "SV-186", "SV-187", "SV-189")
@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"replicas": 0}, "spec.replicas"),
        ({"replicas": 2**31}, "spec.replicas"),
        ({"minReplicas": 2**63 - 1, "maxReplicas": 2**63 - 1}, "spec.minReplicas"),
        ({"maxReplicas": 2**31}, "spec.maxReplicas"),
        ({"minReplicas": 4, "maxReplicas": 2}, "spec.maxReplicas"),
        ({"autoScaling": {"metrics": [{"type": "PodMetric"}]}}, "spec.autoScaling.metrics"),
        (
            {
                "autoScaling": {
                    "metrics": [{"type": "PodMetric", "podmetric": {"target": {"averageUtilization": 2**31}}}]
                }
            },
            "spec.autoScaling.metrics[0].podmetric.target.averageUtilization",
        ),
    ],
)
def test_replicas_that_can_not_be(spec: JsonObject, field: str) -> None:
    plan = plan_for(serving_cache(aim_service(**spec), template(), model(), node(), template_cache(USUAL)))
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (("False", "InvalidSpec"), "Failed")
    assert field in message_of(plan, "InferenceServiceReady")
    assert plan.children == ()
    assert plan.status is not None
    assert plan.status["runtime"]["currentReplicas"] < 2**31, "the API server refuses any other status"


@pytest.mark.spec("SV-289", "SV-189")
@pytest.mark.parametrize(
    ("metric", "target", "field"),
    [
        ({}, {"type": "Value", "value": "1"}, "metric.query is missing"),
        ({"query": ""}, {"type": "Value", "value": "1"}, "metric.query is missing"),
        ({"metricNames": ["vllm:num_requests_running"]}, {"value": "1"}, "metric.query is missing"),
        ({"query": "q"}, {"type": "Value"}, "target.value is missing"),
        ({"query": "q"}, {}, "target.value is missing"),
        ({"query": "q"}, {"type": "AverageValue", "value": "1"}, "target.averageValue is missing"),
        ({"query": "q"}, {"type": "Utilization", "value": "1"}, "target.type is Utilization"),
        ({"query": "q"}, {"type": "Utilization", "value": "1", "averageUtilization": 80}, "target.type is Utilization"),
        ({"query": "q"}, {"type": "Utilization", "averageUtilization": 80}, "target.type is Utilization"),
        ({"query": "q", "operationOverTime": "median"}, {"value": "1"}, "metric.operationOverTime is 'median'"),
        ({"query": "q", "operationOverTime": "AVG"}, {"value": "1"}, "metric.operationOverTime is 'AVG'"),
        ({"query": "q", "operationOverTime": "last_one"}, {"value": "1"}, None),
        ({"query": "q", "operationOverTime": ""}, {"value": "1"}, None),
        ({"query": "q"}, {"type": "AverageValue", "averageValue": "1"}, None),
        ({"query": "q"}, {"type": "AverageValue", "value": "1", "averageValue": "1"}, None),
        ({"query": "q"}, {"value": "1"}, None),
    ],
)
def test_what_kserve_would_refuse_is_reported_with_the_field(
    metric: JsonObject, target: JsonObject, field: str | None
) -> None:
    good = {"type": "PodMetric", "podmetric": {"metric": {"query": "q"}, "target": {"value": "1"}}}
    metrics = [good, {"type": "PodMetric", "podmetric": {"metric": metric, "target": target}}]
    service = aim_service(template={"name": "qwen3-lat"}, autoScaling={"metrics": metrics})
    plan = plan_for(serving_cache(service, template(), model(), node(), template_cache(USUAL)))
    made = [child.body["kind"] for child in plan.children]
    if field is None:
        assert made == ["InferenceService"]
        return
    assert (condition_of(plan, "InferenceServiceReady"), made) == (("False", "InvalidSpec"), [])
    assert f"spec.autoScaling.metrics[1].podmetric.{field}" in message_of(plan, "InferenceServiceReady")


@pytest.mark.spec("SV-183", "SV-306", "AT-148")
def test_targets() -> None:
    def target(**given: object) -> JsonObject:
        metric = {"type": "PodMetric", "podmetric": {"metric": {"query": "q"}, "target": {"value": "1", **given}}}
        found = predictor(aim_service(autoScaling={"metrics": [metric]}))
        converted = found["autoScaling"]["metrics"][0]["podmetric"]["target"]
        assert isinstance(converted, dict)
        return converted

    by_average = {"type": "AverageValue", "averageValue": "100m"}
    assert target(**by_average, value="5") == {**by_average, "value": "0.1"}, "KServe reads value whatever the type"
    assert target(**by_average, value=None) == {**by_average, "value": "0.1"}
    for given, number in (("1", "1"), ("1000", "1000"), ("2k", "2000"), ("0.5", "0.5"), ("500m", "0.5")):
        assert target(value=given) == {"type": "Value", "value": number}, "the scaler parses no suffix"
    with_more = {"type": "Value", "averageValue": "7", "averageUtilization": 80}
    assert target(**with_more) == {**with_more, "value": "1"}


@pytest.mark.spec("SV-307", "SV-188")
@pytest.mark.parametrize(
    ("spec", "replicas"),
    [
        ({"minReplicas": 2}, 2),
        ({"autoScaling": {"metrics": [METRIC]}}, 1),
        ({"autoScaling": {}}, 1),
        ({"minReplicas": 2, "maxReplicas": 2}, None),
        ({"minReplicas": 1, "maxReplicas": 3}, None),
        ({"replicas": 3}, None),
    ],
)
def test_autoscaling_without_a_maximum_is_answered(spec: JsonObject, replicas: int | None) -> None:
    plan = plan_for(serving_cache(aim_service(**spec), template(), model(), node(), template_cache(USUAL)))
    if replicas is None:
        assert condition_of(plan, "AutoscalingInEffect") is None
        return
    assert condition_of(plan, "AutoscalingInEffect") == ("False", "MaxReplicasMissing")
    said = message_of(plan, "AutoscalingInEffect")
    assert f"always has {replicas} replicas" in said
    assert f"set spec.maxReplicas above {replicas}" in said
