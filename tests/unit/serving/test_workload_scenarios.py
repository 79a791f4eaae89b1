"""Acceptance scenarios of the InferenceService's content (serving.md 19.6 and 19.7)."""

from typing import Any

import pytest
from support.predictors import USUAL, applied, env, predictor
from support.serving import (
    AFFINITY,
    aim_service,
    children_of,
    condition_of,
    config,
    living,
    model,
    node,
    overall,
    plan_for,
    run,
    serving_cache,
    stored,
    template,
    template_cache,
    workload,
)

from aim_domain.parts import SERVICES
from controller_runtime import JsonObject


def variable(name: str, value: str) -> JsonObject:
    return {"name": name, "value": value}


def specified(**spec: Any) -> JsonObject:
    """A template whose spec names metric and precision."""
    return template(metric="latency", precision="fp16", **spec)


# Gate


@pytest.mark.spec("AT-081", "SV-142")
def test_a_failed_model_does_not_stop_changes_of_what_runs() -> None:
    service = aim_service(model={"name": "qwen"}, template={"name": "qwen3-lat"}, env=[variable("NEW", "1")])
    cache = serving_cache(service, template(), model(status="Failed"), template_cache(USUAL), workload(service))
    plan = plan_for(cache)
    (body,) = children_of(plan, "InferenceService")
    assert variable("NEW", "1") in body["spec"]["predictor"]["containers"][0]["env"]
    assert overall(plan) == "Degraded"


# Environment


@pytest.mark.spec("AT-083", "AT-146", "SV-154", "SV-155", "SV-156")
def test_variables_of_every_service() -> None:
    of = specified()
    of["spec"] |= {"metric": "latency", "precision": "fp16"}
    assert env(aim_service(), of=of) == {
        "AIM_CACHE_PATH": "/workspace/cache",
        "AIM_METRIC": "latency",
        "AIM_PRECISION": "fp16",
        "VLLM_ENABLE_METRICS": "true",
    }
    own = env(aim_service(env=[variable("AIM_PROFILE_ID", "mine")]), of=of)
    assert own["AIM_PROFILE_ID"] == "mine"


@pytest.mark.spec("AT-084", "AT-085", "AT-088", "SV-154")
def test_which_level_gives_a_variable() -> None:
    shared = config(env=[variable("SHARED_VAR", "config"), variable("AIM_METRIC", "throughput"), variable("A", "2")])
    of = template(env=[variable("SHARED_VAR", "template"), variable("AIM_METRIC", "custom")])
    of["spec"]["metric"] = "latency"
    of["status"]["profile"]["env_vars"] = {"A": "1"}
    found = env(aim_service(env=[variable("SHARED_VAR", "service")]), shared, of=of)
    assert (found["SHARED_VAR"], found["AIM_METRIC"], found["A"]) == ("service", "custom", "2")
    of["spec"]["env"] = [variable("SHARED_VAR", "template")]
    found = env(aim_service(), shared, of=of)
    assert (found["SHARED_VAR"], found["AIM_METRIC"]) == ("template", "latency")
    assert env(aim_service(), of=of)["A"] == "1"


@pytest.mark.spec("AT-086", "AT-087", "SV-038")
@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        (
            '{"max-model-len":4096}',
            '{"kv-transfer-config":"value"}',
            '{"kv-transfer-config":"value","max-model-len":4096}',
        ),
        ('{"outer":{"inner1":"a"}}', '{"outer":{"inner2":"b"}}', '{"outer":{"inner1":"a","inner2":"b"}}'),
        ('{"a":1}', '{"a":2}', '{"a":2}'),
        ('{"a":1}', "not-valid-json", "not-valid-json"),
        ("not-valid-json", '{"a":2}', '{"a":2}'),
    ],
)
def test_engine_arguments(below: str, above: str, merged: str) -> None:
    name = "AIM_ENGINE_ARGS"
    found = env(aim_service(env=[variable(name, above)]), config(env=[variable(name, below)]))
    assert found[name] == merged


# Resources


@pytest.mark.spec("AT-091", "AT-092", "AT-093", "AT-094", "AT-095", "SV-161", "SV-163", "SV-165", "SV-166")
@pytest.mark.parametrize(
    ("hardware", "of_template", "of_model", "of_service", "expected"),
    [
        (
            {"gpu": {"requests": 4}},
            None,
            None,
            {"requests": {"memory": "64Gi"}},
            ({"cpu": "16", "memory": "64Gi", "amd.com/gpu": "4"}, {"memory": "192Gi", "amd.com/gpu": "4"}),
        ),
        (
            {"gpu": {"requests": 1}},
            None,
            None,
            {"requests": {"amd.com/gpu": 8}, "limits": {"amd.com/gpu": 8}},
            ({"cpu": "4", "memory": "32Gi", "amd.com/gpu": "8"}, {"memory": "48Gi", "amd.com/gpu": "8"}),
        ),
        (
            {"gpu": {"requests": 1}},
            None,
            None,
            {"limits": {"amd.com/gpu": 8}},
            ({"cpu": "4", "memory": "32Gi", "amd.com/gpu": "8"}, {"memory": "48Gi", "amd.com/gpu": "8"}),
        ),
        (
            {"gpu": {"requests": 4}},
            {"requests": {"memory": "256Gi"}},
            None,
            None,
            ({"cpu": "16", "memory": "256Gi", "amd.com/gpu": "4"}, {"memory": "256Gi", "amd.com/gpu": "4"}),
        ),
        (
            {"gpu": {"requests": 1}},
            None,
            {"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "100Mi"}},
            None,
            ({"cpu": "100m", "memory": "100Mi", "amd.com/gpu": "1"}, {"memory": "1Gi", "amd.com/gpu": "1"}),
        ),
        (
            {"gpu": {"requests": 2, "resourceName": "amd.com/gpu-x"}},
            None,
            None,
            None,
            ({"cpu": "8", "memory": "64Gi", "amd.com/gpu-x": "2"}, {"memory": "96Gi", "amd.com/gpu-x": "2"}),
        ),
        ({"cpu": {"requests": "500m"}}, None, None, None, ({"cpu": "500m"}, {})),
    ],
)
def test_requests_and_limits(
    hardware: JsonObject,
    of_template: JsonObject | None,
    of_model: JsonObject | None,
    of_service: JsonObject | None,
    expected: tuple[JsonObject, JsonObject],
) -> None:
    def layer(resources: JsonObject | None) -> dict[str, Any]:
        return {} if resources is None else {"resources": resources}

    of = template(more_status={"resolvedHardware": hardware}, **layer(of_template))
    service, own = aim_service(**layer(of_service)), model(**layer(of_model))
    (body,) = children_of(plan_for(serving_cache(service, of, own, node(), template_cache(USUAL))), "InferenceService")
    found = body["spec"]["predictor"]["containers"][0]["resources"]
    assert (found["requests"], found.get("limits", {})) == expected


# Volumes


@pytest.mark.spec("AT-096", "AT-097", "SV-168", "SV-169", "SV-170", "SV-P20", "AR-618", "AR-P22")
def test_volumes_of_the_cache() -> None:
    ready = template_cache(USUAL)
    ready["status"]["artifacts"] = {
        "z": {"name": "z-last", "model": "../../etc", "status": "Ready", "persistentVolumeClaim": "p3"},
        "Qwen/Qwen2-0.5B": {
            "name": "hf-qwen.x-abc",
            "model": "Qwen/Qwen2-0.5B",
            "status": "Ready",
            "persistentVolumeClaim": "p1",
        },
        "y": {"name": "y", "model": "y", "status": "Progressing", "persistentVolumeClaim": "p2"},
    }
    (body,) = children_of(
        plan_for(serving_cache(aim_service(), template(), model(), node(), ready)), "InferenceService"
    )
    found = body["spec"]["predictor"]
    assert found["volumes"][1:] == [
        {"name": "hf-qwen-x-abc", "persistentVolumeClaim": {"claimName": "p1"}},
        {"name": "z-last", "persistentVolumeClaim": {"claimName": "p3"}},
    ]
    mounts = found["containers"][0]["volumeMounts"][1:]
    assert mounts[0] == {"name": "hf-qwen-x-abc", "mountPath": "/workspace/cache/Qwen/Qwen2-0.5B"}
    assert ".." not in mounts[1]["mountPath"]


@pytest.mark.spec("AT-098", "SV-171", "SV-172")
def test_volumes_of_what_runs_are_taken_over_once() -> None:
    service = aim_service()
    names = ("dshm", "cache-vol-1", "cache-vol-2")
    volumes = [
        {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        *({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names[1:]),
    ]
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in names]
    container = {"name": "kserve-container", "image": "i:1", "volumeMounts": mounts}
    running = workload(service, volumes=volumes, containers=[container])
    (body,) = children_of(plan_for(serving_cache(service, template(), model(), node(), running)), "InferenceService")
    assert [one["name"] for one in body["spec"]["predictor"]["volumes"]] == list(names)
    assert [one["name"] for one in body["spec"]["predictor"]["containers"][0]["volumeMounts"]] == list(names)


# Predictor


@pytest.mark.spec("AT-099", "AT-102", "SV-150", "SV-167", "SV-175")
def test_what_every_predictor_has_and_has_not() -> None:
    own = aim_service(resources={"requests": {"cpu": "1"}, "claims": [{"name": "c"}]})
    found = predictor(own)
    (container,) = found["containers"]
    assert found["volumes"][0] == {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    assert container["volumeMounts"][0] == {"name": "dshm", "mountPath": "/dev/shm"}
    assert container["ports"] == [{"name": "http", "containerPort": 8000, "protocol": "TCP"}]
    assert set(container) == {"name", "image", "env", "resources", "ports", "volumeMounts"}
    assert set(container["resources"]) == {"requests", "limits"}
    assert not {"tolerations", "affinity", "nodeSelector"} & set(found)
    of = template(more_status={"resolvedNodeAffinity": AFFINITY})
    assert predictor(aim_service(), of=of)["affinity"] == {"nodeAffinity": AFFINITY}


@pytest.mark.spec("AT-101", "SV-015", "SV-178")
def test_a_priority_class_that_is_removed() -> None:
    cache = living(aim_service(priorityClassName="high"), template(), model(), node(), template_cache(USUAL))
    run(cache)
    assert stored(cache).spec.predictor.priority_class_name == "high"
    cache.change(SERVICES, "qwen-chat", spec=aim_service()["spec"])
    (body,) = children_of(plan_for(cache), "InferenceService")
    assert "priorityClassName" not in body["spec"]["predictor"]


@pytest.mark.spec("AT-105", "AT-106", "AT-112", "SV-210", "SV-211", "SV-213")
@pytest.mark.parametrize(
    ("spec", "numbers", "display"),
    [
        ({}, (1, 1, 1, 1), "1"),
        ({"replicas": 3}, (3, 3, 3, 3), "3"),
        ({"minReplicas": 1, "maxReplicas": 3}, (1, 1, 1, 3), "1/1 (1-3)"),
    ],
)
def test_numbers_before_anything_runs(spec: JsonObject, numbers: tuple[int, ...], display: str) -> None:
    plan = plan_for(serving_cache(aim_service(**spec), template(), model(), node(), template_cache(USUAL)))
    assert plan.status is not None
    runtime = plan.status["runtime"]
    names = ("currentReplicas", "desiredReplicas", "minReplicas", "maxReplicas")
    assert (tuple(runtime[name] for name in names), runtime["replicas"]) == (numbers, display)
    (body,) = children_of(plan, "InferenceService")
    found = body["spec"]["predictor"]
    assert (found["minReplicas"], found["maxReplicas"]) == numbers[2:]
    if spec.get("maxReplicas"):
        assert (condition_of(plan, "HPAReady"), overall(plan)) == (("False", "HPANotFound"), "Starting")
    assert "runtime" in (plan_for(serving_cache(aim_service(model={"name": "gone"}))).status or {})


# Labels


@pytest.mark.spec("AT-154", "SV-249")
@pytest.mark.parametrize(("pattern", "copied"), [("org.my/*", True), ("*", False), ("org.??/x", True), ("[", False)])
def test_patterns_of_labels_stop_at_a_slash(pattern: str, copied: bool) -> None:
    service = aim_service()
    service["metadata"]["labels"] = {"org.my/x": "v"}
    own = config(labelPropagation={"enabled": True, "match": [pattern]})
    assert ("org.my/x" in applied(service, own)["metadata"]["labels"]) is copied


@pytest.mark.spec("AT-160", "SV-224")
def test_a_rejected_route_stops_no_change_of_replicas() -> None:
    gateway = {"enabled": True, "gatewayRef": {"name": "g", "namespace": "n"}}
    rejected = {
        "type": "HTTPRouteReady",
        "status": "False",
        "reason": "NotAllowedByListeners",
        "message": "no",
        "lastTransitionTime": "2026-11-21T12:00:00Z",
    }
    service = aim_service(replicas=3, routing=gateway, status={"conditions": [rejected]})
    cache = serving_cache(service, template(), model(), node(), template_cache(USUAL), workload(service, ready=True))
    plan = plan_for(cache)
    assert overall(plan) == "Failed"
    (body,) = children_of(plan, "InferenceService")
    assert body["spec"]["predictor"]["minReplicas"] == 3
