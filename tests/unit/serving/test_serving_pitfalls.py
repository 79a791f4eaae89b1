"""Defects of section 21 of serving.md that no requirement's test would notice."""

from typing import Any

import pytest
from support.predictors import USUAL, applied, env
from support.serving import (
    aim_service,
    children_of,
    condition_of,
    config,
    model,
    node,
    overall,
    plan_for,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import labels
from controller_runtime import JsonObject

_ARGS = "AIM_ENGINE_ARGS"
_REFERENCE: JsonObject = {"secretKeyRef": {"name": "args", "key": "json"}}


def literal(value: str) -> list[JsonObject]:
    return [{"name": _ARGS, "value": value}]


def of_secret() -> list[JsonObject]:
    return [{"name": _ARGS, "valueFrom": _REFERENCE}]


@pytest.mark.spec("SV-P18", "FW-275")
def test_no_variable_is_written_twice() -> None:
    of = template(env=[{"name": "AIM_MODEL_ID", "value": "own"}, {"name": "AIM_METRIC", "value": "own"}])
    of["spec"] |= {"metric": "latency", "modelSources": [{"modelId": "a/b", "sourceUri": "hf://a/b"}]}
    shared = config(env=[{"name": "AIM_METRIC", "value": "throughput"}, {"name": "AIM_CACHE_PATH", "value": "/x"}])
    body = applied(aim_service(env=[{"name": "ZZ", "value": "1"}, {"name": "AA", "value": "1"}]), shared, of=of)
    names = [one["name"] for one in body["spec"]["predictor"]["containers"][0]["env"]]
    assert names == sorted(set(names))
    assert {"AIM_MODEL_ID", "AIM_METRIC", "AIM_CACHE_PATH", "AA", "ZZ"} <= set(names)


@pytest.mark.spec("SV-P19")
@pytest.mark.parametrize(
    ("below", "above", "found"),
    [
        (literal('{"a":1}'), of_secret(), _REFERENCE),
        (of_secret(), literal('{"a":1}'), '{"a":1}'),
        (of_secret(), [], _REFERENCE),
    ],
)
def test_engine_arguments_of_a_secret_are_kept(below: list[JsonObject], above: list[JsonObject], found: Any) -> None:
    assert env(aim_service(env=above), config(env=below))[_ARGS] == found


@pytest.mark.spec("SV-P30")
def test_a_named_template_of_another_model_is_used_as_it_is() -> None:
    service = aim_service(template={"name": "foreign"})
    cache = serving_cache(service, template("foreign", "another-model"), model(), node())
    plan = plan_for(cache)
    assert condition_of(plan, "TemplateReady") == ("True", "Resolved")
    assert plan.status is not None
    assert plan.status["resolvedTemplate"]["name"] == "foreign"


@pytest.mark.spec("SV-219", "SV-P31")
@pytest.mark.parametrize("status", ["Degraded", "Failed"])
@pytest.mark.parametrize(
    ("of_template", "exists", "value"),
    [("Ready", True, "Degraded"), ("Ready", False, "Failed"), ("Failed", True, "Failed")],
)
def test_a_failed_model_degrades_a_service_that_runs(
    status: str, of_template: str, value: str, *, exists: bool
) -> None:
    service = aim_service(template={"name": "qwen3-lat"})
    around = (
        template(status=of_template),
        node(),
        template_cache(USUAL),
        *([workload(service, ready=True)] if exists else []),
    )
    plan = plan_for(serving_cache(service, model(status=status), *around))
    assert (condition_of(plan, "ModelReady"), overall(plan)) == (("False", "ModelNotReady"), value)


@pytest.mark.spec("SV-P35", "FW-208", "FW-P10")
def test_a_long_name_is_a_valid_label_of_everything_that_is_made() -> None:
    name = "s" * 80
    source = {"modelId": "a/b", "sourceUri": "hf://a/b"}
    custom = {"custom": {"baseImage": "base:1", "modelSources": [source], "hardware": {"cpu": {"requests": "4"}}}}
    (made,) = children_of(plan_for(serving_cache(aim_service(name, model=custom)), name), "AIMModel")
    assert made["metadata"]["labels"][labels.SERVICE] == "s" * 63
    assert made["metadata"]["labels"][labels.SERVICE_NAME] == "s" * 63
    around = (template(), model(), node(), template_cache(USUAL))
    (body,) = children_of(plan_for(serving_cache(aim_service(name), *around), name), "InferenceService")
    assert body["metadata"]["labels"][labels.SERVICE] == "s" * 63
    assert all(len(value) <= 63 for value in body["metadata"]["labels"].values())
