"""The InferenceService that a pass applies when model, template and cache are Ready."""

from typing import Any

from support.serving import children_of, model, node, plan_for, serving_cache, template, template_cache

from controller_runtime import JsonObject

METRIC: JsonObject = {
    "type": "PodMetric",
    "podmetric": {
        "metric": {"metricNames": ["vllm:num_requests_running"], "query": "q", "operationOverTime": "avg"},
        "target": {"type": "Value", "value": "1"},
    },
}
USUAL = "qwen3-lat-a04542d9"


def applied(service: JsonObject, *objects: JsonObject, of: JsonObject | None = None) -> JsonObject:
    """The InferenceService that a pass applies when model, template and cache are Ready."""
    cache = serving_cache(service, of or template(), model(), node(), template_cache(USUAL), *objects)
    (body,) = children_of(plan_for(cache), "InferenceService")
    return body


def predictor(service: JsonObject, *objects: JsonObject, of: JsonObject | None = None) -> JsonObject:
    found = applied(service, *objects, of=of)["spec"]["predictor"]
    assert isinstance(found, dict)
    return found


def env(service: JsonObject, *objects: JsonObject, of: JsonObject | None = None) -> dict[str, Any]:
    listed = predictor(service, *objects, of=of)["containers"][0]["env"]
    names = [variable["name"] for variable in listed]
    assert names == sorted(set(names))
    return {variable["name"]: variable.get("value", variable.get("valueFrom")) for variable in listed}
