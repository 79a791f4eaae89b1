"""The InferenceService in every field (serving.md sections 9 and 10, appendix F)."""

from typing import Any

import pytest
from support.builders import make
from support.serving import (
    AFFINITY,
    ARTIFACT,
    CLAIM,
    IMAGE,
    TEAM,
    WORKLOAD,
    aim_service,
    cache,
    children_of,
    condition_of,
    config,
    message_of,
    model,
    node,
    overall,
    plan_for,
    predictor_pod,
    serving_world,
    template,
    workload,
)

from aim_domain import Hardware, kinds, labels
from aim_domain.parts import ARTIFACT_CLAIMS
from aim_serving.container_resources import container_resources
from controller_runtime import JsonObject, loads
from controller_runtime.core import ResourceRequirements

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
    world = serving_world(service, of or template(), model(), node(), cache(USUAL), *objects)
    (body,) = children_of(plan_for(world), "InferenceService")
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


@pytest.mark.spec("SV-263", "SV-144", "SV-147", "SV-150", "SV-154", "SV-161", "SV-168", "SV-175", "SV-183", "SV-245")
def test_the_worked_example() -> None:
    secret = {"secretKeyRef": {"name": "hf", "key": "token"}}
    service = aim_service(
        model={"name": "qwen"},
        minReplicas=1,
        maxReplicas=3,
        autoScaling={"metrics": [METRIC]},
        env=[{"name": "HF_TOKEN", "valueFrom": secret}],
        imagePullSecrets=[{"name": "regcred"}],
    )
    of = template(
        count=2,
        metric="latency",
        precision="fp8",
        more_status={"resolvedNodeAffinity": AFFINITY},
        profileId="vllm-mi300x-fp8-tp2-latency",
    )
    of["spec"] |= {"metric": "latency", "precision": "fp8"}
    body = applied(service, of=of)
    assert body["metadata"]["name"] == WORKLOAD
    assert body["metadata"]["labels"] == {
        "app.kubernetes.io/component": "inference",
        "app.kubernetes.io/managed-by": "aim-engine",
        "aim.eai.amd.com/service": "qwen-chat",
        "aim.eai.amd.com/service.name": "qwen-chat",
        "aim.eai.amd.com/template": "qwen3-lat",
        "aim.eai.amd.com/model": "qwen",
        "aim.eai.amd.com/metric": "latency",
        "aim.eai.amd.com/precision": "fp8",
    }
    assert body["metadata"]["annotations"] == {
        "serving.kserve.io/autoscalerClass": "keda",
        "sidecar.opentelemetry.io/inject": f"{WORKLOAD}-predictor",
        "prometheus.kserve.io/port": "8000",
    }
    assert body["spec"]["predictor"] == {
        "minReplicas": 1,
        "maxReplicas": 3,
        "autoScaling": {
            "metrics": [
                {
                    "type": "PodMetric",
                    "podmetric": {
                        "metric": {
                            "backend": "opentelemetry",
                            "metricNames": ["vllm:num_requests_running"],
                            "query": "q",
                            "operationOverTime": "avg",
                        },
                        "target": {"type": "Value", "value": "1"},
                    },
                }
            ]
        },
        "imagePullSecrets": [{"name": "regcred"}],
        "affinity": {"nodeAffinity": AFFINITY},
        "containers": [
            {
                "name": "kserve-container",
                "image": IMAGE,
                "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
                "env": [
                    {"name": "AIM_CACHE_PATH", "value": "/workspace/cache"},
                    {"name": "AIM_METRIC", "value": "latency"},
                    {"name": "AIM_PRECISION", "value": "fp8"},
                    {"name": "AIM_PROFILE_ID", "value": "vllm-mi300x-fp8-tp2-latency"},
                    {"name": "HF_TOKEN", "valueFrom": secret},
                    {"name": "VLLM_ENABLE_METRICS", "value": "true"},
                ],
                "resources": {
                    "requests": {"amd.com/gpu": "2", "cpu": "8", "memory": "64Gi"},
                    "limits": {"amd.com/gpu": "2", "memory": "96Gi"},
                },
                "volumeMounts": [
                    {"name": "dshm", "mountPath": "/dev/shm"},
                    {"name": ARTIFACT, "mountPath": "/workspace/cache/Qwen/Qwen3-32B"},
                ],
            }
        ],
        "volumes": [
            {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            {"name": ARTIFACT, "persistentVolumeClaim": {"claimName": CLAIM}},
        ],
    }


# Name


@pytest.mark.spec("SV-145", "SV-214")
def test_a_namespace_that_leaves_no_room() -> None:
    namespace = "n" * 43
    plan = plan_for(serving_world(aim_service(namespace=namespace, model={"name": "qwen"}), model(namespace=namespace)))
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (("False", "InvalidSpec"), "Failed")
    assert condition_of(plan, "ConfigValid") == ("False", "InvalidSpec")
    assert namespace in message_of(plan, "InferenceServiceReady")
    assert (plan.retry, plan.requeue_after, plan.children) == (None, None, ())


@pytest.mark.spec("SV-146")
def test_a_foreign_workload_of_that_name_is_left_alone() -> None:
    other = aim_service("other")
    foreign = {**workload(other)}
    foreign["metadata"] = {**foreign["metadata"], "name": WORKLOAD}
    plan = plan_for(serving_world(aim_service(), template(), model(), node(), cache(USUAL), foreign))
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (("False", "AlreadyExists"), "Failed")
    assert "other" in message_of(plan, "InferenceServiceReady")
    assert plan.children == ()


@pytest.mark.spec("SV-146")
def test_the_workload_of_an_earlier_service_of_this_name_is_waited_for() -> None:
    earlier = aim_service()
    earlier["metadata"]["uid"] = "earlier"
    plan = plan_for(serving_world(aim_service(), template(), model(), node(), cache(USUAL), workload(earlier)))
    assert condition_of(plan, "InferenceServiceReady") == ("False", "CreatingRuntime")
    assert "earlier" in message_of(plan, "InferenceServiceReady")
    assert plan.children == ()


# Environment


@pytest.mark.spec("SV-154", "SV-155", "SV-159", "SV-160", "SV-039", "SV-053")
def test_layers_of_the_environment() -> None:
    of = template(env=[{"name": "SHARED", "value": "template"}, {"name": "AIM_PRECISION", "value": "custom"}])
    of["spec"] |= {"metric": "latency", "precision": "fp8"}
    of["status"]["profile"]["env_vars"] = {"A": "1", "B": "1"}
    own = config(env=[{"name": "A", "value": "2"}, {"name": "AIM_METRIC", "value": "throughput"}])
    service = aim_service(env=[{"name": "SHARED", "value": "service"}])
    found = env(service, own, of=of)
    assert found == {
        "A": "2",
        "B": "1",
        "AIM_CACHE_PATH": "/workspace/cache",
        "AIM_METRIC": "latency",
        "AIM_PRECISION": "custom",
        "SHARED": "service",
        "VLLM_ENABLE_METRICS": "true",
    }


@pytest.mark.spec("SV-038")
@pytest.mark.parametrize(
    ("below", "above", "merged"),
    [
        ('{"max-model-len":4096}', '{"kv":"v"}', {"kv": "v", "max-model-len": 4096}),
        ('{"o":{"a":1}}', '{"o":{"b":2}}', {"o": {"a": 1, "b": 2}}),
        ('{"a":1}', '{"a":2}', {"a": 2}),
        ("broken", '{"a":2}', {"a": 2}),
    ],
)
def test_engine_arguments_are_merged(below: str, above: str, merged: JsonObject) -> None:
    name = "AIM_ENGINE_ARGS"
    found = env(aim_service(env=[{"name": name, "value": above}]), config(env=[{"name": name, "value": below}]))
    assert loads(found[name]) == merged


@pytest.mark.spec("SV-157")
def test_model_id_only_of_specified_sources() -> None:
    assert "AIM_MODEL_ID" not in env(aim_service())
    sources = [{"modelId": "test/env-propagation", "sourceUri": "hf://a/b"}]
    assert env(aim_service(), of=template(modelSources=sources))["AIM_MODEL_ID"] == "test/env-propagation"


# Resources


def resources(count: int, *layers: JsonObject | None, **gpu: object) -> JsonObject:
    hardware = Hardware.model_validate({"gpu": {"requests": count, **gpu}})
    return container_resources(hardware, [ResourceRequirements.model_validate(one) if one else None for one in layers])


@pytest.mark.spec("SV-161", "SV-164")
@pytest.mark.parametrize(
    ("count", "cpu", "memory", "limit"),
    [(1, "4", "32Gi", "48Gi"), (4, "16", "128Gi", "192Gi"), (8, "32", "256Gi", "384Gi")],
)
def test_defaults_by_gpu(count: int, cpu: str, memory: str, limit: str) -> None:
    gpus = {"amd.com/gpu": str(count)}
    assert resources(count) == {"requests": {"cpu": cpu, "memory": memory, **gpus}, "limits": {"memory": limit, **gpus}}
    assert resources(0) == {}


@pytest.mark.spec("SV-161", "SV-162", "SV-163", "SV-165", "SV-166")
@pytest.mark.parametrize(
    ("count", "layers", "side", "expected"),
    [
        (4, ({"requests": {"memory": "64Gi"}},), "requests", {"memory": "64Gi", "cpu": "16", "amd.com/gpu": "4"}),
        (1, ({"limits": {"amd.com/gpu": 8}},), "requests", {"memory": "32Gi", "cpu": "4", "amd.com/gpu": 8}),
        (1, ({"requests": {"amd.com/gpu": 8}},), "limits", {"memory": "48Gi", "amd.com/gpu": 8}),
        (4, ({"requests": {"memory": "256Gi"}},), "limits", {"memory": "256Gi", "amd.com/gpu": "4"}),
        (1, ({"limits": {"memory": "1Gi"}},), "requests", {"memory": "1Gi", "cpu": "4", "amd.com/gpu": "1"}),
        (
            1,
            ({"limits": {"memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "100Mi"}},),
            "requests",
            {"cpu": "100m", "memory": "100Mi", "amd.com/gpu": "1"},
        ),
        (
            1,
            ({"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}),
            "requests",
            {"memory": "32Gi", "cpu": "2", "amd.com/gpu": "1"},
        ),
    ],
)
def test_layers_of_resources(count: int, layers: tuple[JsonObject, ...], side: str, expected: JsonObject) -> None:
    assert resources(count, *layers)[side] == expected


@pytest.mark.spec("SV-161")
def test_other_gpu_resource_and_cpu_hardware() -> None:
    assert resources(2, resourceName="amd.com/gpu-x")["limits"]["amd.com/gpu-x"] == "2"
    cpu = Hardware.model_validate({"cpu": {"requests": "500m", "limits": "2"}})
    assert container_resources(cpu, []) == {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}}


# Predictor


@pytest.mark.spec("SV-151", "SV-152")
def test_what_comes_from_several_levels() -> None:
    of = template(imagePullSecrets=[{"name": "b"}, {"name": "a"}], serviceAccountName="of-template")
    service = aim_service(imagePullSecrets=[{"name": "a"}])
    world = serving_world(service, of, model(imagePullSecrets=[{"name": "c"}]), node(), cache(USUAL))
    (body,) = children_of(plan_for(world), "InferenceService")
    found = body["spec"]["predictor"]
    assert [one["name"] for one in found["imagePullSecrets"]] == ["a", "b", "c"]
    assert found["serviceAccountName"] == "of-template"
    assert predictor(aim_service(serviceAccountName="own"), of=of)["serviceAccountName"] == "own"


@pytest.mark.spec("SV-015", "SV-150", "SV-148", "SV-175", "SV-178")
def test_what_is_left_out() -> None:
    assert predictor(aim_service(priorityClassName="high"))["priorityClassName"] == "high"
    assert set(predictor(aim_service())) == {"minReplicas", "maxReplicas", "containers", "volumes"}


@pytest.mark.spec("SV-168")
def test_unfinished_artifacts_are_not_mounted() -> None:
    half = cache(USUAL)
    half["status"]["artifacts"] = {
        "a": {"name": "x.y", "model": "../../etc", "status": "Ready", "persistentVolumeClaim": "p1"},
        "c": {"name": "not-ready", "model": "m", "status": "Progressing", "persistentVolumeClaim": "p2"},
        "d": {"name": "dots", "model": "..", "status": "Ready", "persistentVolumeClaim": "p3"},
        "e": {"name": "z", "model": "m", "status": "Ready", "persistentVolumeClaim": "p4", "mountPoint": "/elsewhere"},
    }
    world = serving_world(aim_service(), template(), model(), node(), half)
    (body,) = children_of(plan_for(world), "InferenceService")
    mounts = {one["name"]: one["mountPath"] for one in body["spec"]["predictor"]["containers"][0]["volumeMounts"]}
    assert list(mounts.items())[1:] == [
        ("dots", "/workspace/cache/dots"),
        ("x-y", "/workspace/cache/etc"),
        ("z", "/elsewhere"),
    ]


@pytest.mark.spec("SV-142", "SV-171", "SV-172", "SV-132", "SV-130", "FW-113")
def test_a_running_workload_keeps_its_volumes() -> None:
    service = aim_service()
    world = serving_world(service, template(), model(), node(), workload(service))
    plan = plan_for(world)
    (body,) = children_of(plan, "InferenceService")
    assert [one["name"] for one in body["spec"]["predictor"]["volumes"]] == ["dshm", "weights"]
    assert [one["name"] for one in body["spec"]["predictor"]["containers"][0]["volumeMounts"]] == ["dshm", "weights"]
    assert condition_of(plan, "CacheReady") == ("False", "CacheLost")
    assert len(children_of(plan, "AIMTemplateCache")) == 1
    bare = serving_world(service, template(), model(), node(), workload(service, containers=[]))
    (body,) = children_of(plan_for(bare), "InferenceService")
    assert [one["name"] for one in body["spec"]["predictor"]["volumes"]] == ["dshm"]


@pytest.mark.spec("SV-173")
def test_volumes_follow_a_rebuilt_cache_once_the_old_claim_is_gone() -> None:
    service = aim_service()
    rebuilt = cache(USUAL)
    rebuilt["status"]["artifacts"]["Qwen/Qwen3-32B"]["persistentVolumeClaim"] = "new-claim"
    objects = [service, template(), model(), node(), rebuilt, workload(service)]
    claim = make(kinds.PERSISTENT_VOLUME_CLAIM, CLAIM, namespace=TEAM, labels={"aim.eai.amd.com/cache.name": "x"})

    def claims(*more: JsonObject) -> list[str]:
        world = serving_world(*objects, *more)
        (body,) = children_of(plan_for(world), "InferenceService")
        volumes = body["spec"]["predictor"]["volumes"]
        return [one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one]

    assert claims(claim) == [CLAIM]
    assert claims() == ["new-claim"]
    stale = serving_world(*objects)
    stale.make_stale(ARTIFACT_CLAIMS)
    (body,) = children_of(plan_for(stale), "InferenceService")
    assert body["spec"]["predictor"]["volumes"][1]["name"] == "weights"


@pytest.mark.spec("SV-171", "SV-142", "SV-118")
def test_a_service_that_changes_template_waits_for_the_new_weights() -> None:
    service = aim_service(template={"name": "thr"})
    running = workload(service, ready=True)
    running["metadata"]["labels"] = {labels.TEMPLATE: "qwen3-lat"}
    old = cache(USUAL)
    objects = [service, template(), template("thr", metric="throughput"), model(), node(), running, old]
    pod = predictor_pod("Running", ready=True)

    first = plan_for(serving_world(*objects, pod))
    assert [child.body["kind"] for child in first.children] == ["AIMTemplateCache"]
    assert children_of(first, "AIMTemplateCache")[0]["spec"]["templateName"] == "thr"
    assert (condition_of(first, "CacheReady"), overall(first)) == (("False", "CacheCreating"), "Starting")
    assert "keeps template qwen3-lat" in message_of(first, "CacheReady")

    loading = plan_for(serving_world(*objects, pod, cache("thr-cache", "thr", status="Progressing")))
    assert (loading.children, condition_of(loading, "CacheReady")) == ((), ("False", "CacheNotReady"))
    assert "keeps template qwen3-lat" in message_of(loading, "CacheReady")

    new = cache("thr-cache", "thr")
    new["status"]["artifacts"]["Qwen/Qwen3-32B"]["persistentVolumeClaim"] = "new-claim"
    moved = plan_for(serving_world(*objects, pod, new))
    (body,) = children_of(moved, "InferenceService")
    assert body["metadata"]["labels"][labels.TEMPLATE] == "thr"
    assert body["spec"]["predictor"]["volumes"][1]["persistentVolumeClaim"] == {"claimName": "new-claim"}
    assert overall(moved) == "Running"


@pytest.mark.spec("SV-141", "SV-171")
def test_a_ready_cache_whose_volume_is_gone_is_waited_for() -> None:
    going = cache(USUAL)
    going["status"]["artifacts"]["Qwen/Qwen3-32B"]["persistentVolumeClaim"] = None
    service = aim_service()
    plan = plan_for(serving_world(service, template(), model(), node(), going))
    assert children_of(plan, "InferenceService") == []
    assert (condition_of(plan, "CacheReady"), overall(plan)) == (("False", "CacheNotReady"), "Starting")
    assert ARTIFACT in message_of(plan, "CacheReady")

    again = plan_for(serving_world(service, template(), model(), node(), cache(USUAL)))
    (body,) = children_of(again, "InferenceService")
    assert [one["name"] for one in body["spec"]["predictor"]["volumes"]] == ["dshm", ARTIFACT]


@pytest.mark.spec("SV-140", "SV-141", "SV-142")
@pytest.mark.parametrize(
    ("objects", "made"),
    [
        ([template(), model(), cache(USUAL)], True),
        ([template(), model(), cache(USUAL, status="Progressing")], False),
        ([template(), model()], False),
        ([template(), model(status="Progressing"), cache(USUAL)], False),
        ([template(status="Progressing"), model(), cache(USUAL)], False),
    ],
)
def test_the_gate(objects: list[JsonObject], made: bool) -> None:
    service = aim_service(model={"name": "qwen"}, template={"name": "qwen3-lat"})
    plan = plan_for(serving_world(service, *objects))
    assert bool(children_of(plan, "InferenceService")) is made
    ready_template = objects[0]["status"]["status"] == "Ready"
    running = plan_for(serving_world(service, workload(service), *objects))
    assert bool(children_of(running, "InferenceService")) is ready_template


# Replicas


@pytest.mark.spec("SV-180", "SV-181", "SV-182", "SV-186", "SV-188", "SV-209", "SV-210", "SV-211", "SV-212", "SV-273")
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
    world = serving_world(aim_service(**spec), template(), model(), node(), cache(USUAL))
    plan = plan_for(world)
    (body,) = children_of(plan, "InferenceService")
    found = body["spec"]["predictor"]
    assert (found["minReplicas"], found["maxReplicas"]) == bounds
    annotations = body["metadata"]["annotations"]
    assert annotations["serving.kserve.io/autoscalerClass"] == scaler
    assert len(annotations) == (3 if scaler == "keda" else 1)
    assert ("autoScaling" in found) is ("autoScaling" in spec)
    assert plan.status is not None
    assert plan.status["runtime"]["replicas"] == display
    hpa = condition_of(plan, "HPAReady")
    assert hpa == (None if scaler == "none" else ("False", "HPANotFound"))


@pytest.mark.spec("SV-186", "SV-187", "SV-189")
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
    plan = plan_for(serving_world(aim_service(**spec), template(), model(), node(), cache(USUAL)))
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (("False", "InvalidSpec"), "Failed")
    assert field in message_of(plan, "InferenceServiceReady")
    assert plan.children == ()
    assert plan.status is not None
    assert plan.status["runtime"]["currentReplicas"] < 2**31, "the API server refuses any other status"


@pytest.mark.spec("SV-183")
def test_targets() -> None:
    def target(**given: object) -> JsonObject:
        metric = {"type": "PodMetric", "podmetric": {"metric": {}, "target": given}}
        found = predictor(aim_service(autoScaling={"metrics": [metric]}))
        converted = found["autoScaling"]["metrics"][0]["podmetric"]["target"]
        assert isinstance(converted, dict)
        return converted

    assert target(type="AverageValue", averageValue="100m") == {"type": "AverageValue", "averageValue": "100m"}
    assert target(type="Utilization", averageUtilization=80) == {"type": "Utilization", "averageUtilization": 80}


# Labels


@pytest.mark.spec("SV-052", "SV-248", "SV-249", "SV-250", "SV-251", "RC-090")
def test_labels_are_propagated() -> None:
    service = aim_service()
    service["metadata"]["labels"] = {"team-alpha": "frontend", "env": "test", "aim.eai.amd.com/custom": "x"}
    own = config(cluster=True, labelPropagation={"enabled": True, "match": ["team-*"]})
    world = serving_world(service, template(), model(), node(), own)
    (made,) = children_of(plan_for(world), "AIMTemplateCache")
    for found in (made["metadata"]["labels"], applied(service, own)["metadata"]["labels"]):
        assert (found["team-alpha"], found["aim.eai.amd.com/custom"]) == ("frontend", "x")
        assert "env" not in found
    assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "aim-service-controller"
