"""The InferenceService in every field (serving.md sections 9 and 10, appendix F)."""

import pytest
from support.builders import make
from support.predictors import METRIC, USUAL, applied, env, predictor
from support.serving import (
    AFFINITY,
    ARTIFACT,
    CLAIM,
    IMAGE,
    TEAM,
    WORKLOAD,
    aim_service,
    children_of,
    condition_of,
    config,
    living,
    message_of,
    model,
    node,
    overall,
    plan_for,
    run,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import kinds
from aim_domain.parts import INFERENCE_SERVICES, NAMESPACES, RUNTIME_CONFIGS
from controller_runtime import JsonObject, loads


@pytest.mark.spec(
    "SV-263",
    "SV-144",
    "SV-147",
    "SV-150",
    "SV-154",
    "SV-161",
    "SV-168",
    "SV-175",
    "SV-183",
    "SV-245",
    "AT-104",
    "AT-107",
)
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


@pytest.mark.spec("CC-300", "SV-145", "SV-214", "AT-009", "SV-P27")
def test_a_namespace_that_leaves_no_room() -> None:
    namespace = "n" * 43
    plan = plan_for(serving_cache(aim_service(namespace=namespace, model={"name": "qwen"}), model(namespace=namespace)))
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (("False", "InvalidSpec"), "Failed")
    assert condition_of(plan, "ConfigValid") == ("False", "InvalidSpec")
    assert namespace in message_of(plan, "InferenceServiceReady")
    assert (plan.retry, plan.requeue_after, plan.children) == (None, None, ())


@pytest.mark.spec("SV-146", "AT-010", "SV-P28")
def test_a_foreign_workload_of_that_name_is_left_alone() -> None:
    other = aim_service("other")
    foreign = {**workload(other)}
    foreign["metadata"] = {**foreign["metadata"], "name": WORKLOAD}
    plan = plan_for(serving_cache(aim_service(), template(), model(), node(), template_cache(USUAL), foreign))
    assert (condition_of(plan, "InferenceServiceReady"), overall(plan)) == (("False", "AlreadyExists"), "Failed")
    assert "other" in message_of(plan, "InferenceServiceReady")
    assert plan.children == ()


@pytest.mark.spec("SV-146")
def test_the_workload_of_an_earlier_service_of_this_name_is_waited_for() -> None:
    earlier = aim_service()
    earlier["metadata"]["uid"] = "earlier"
    plan = plan_for(serving_cache(aim_service(), template(), model(), node(), template_cache(USUAL), workload(earlier)))
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


@pytest.mark.spec("RC-118")
def test_a_changed_environment_of_a_config_reaches_the_service_that_runs() -> None:
    live = living(
        aim_service(), config(env=[{"name": "A", "value": "1"}]), template(), model(), node(), template_cache(USUAL)
    )
    run(live)
    running = live.only(INFERENCE_SERVICES)
    live.put(RUNTIME_CONFIGS, config(env=[{"name": "A", "value": "2"}]))
    run(live)
    later = live.only(INFERENCE_SERVICES)
    assert [env_of(one)["A"] for one in (running, later)] == ["1", "2"]
    # KServe rolls its pods over; made anew it would end them all first.
    assert later["metadata"]["uid"] == running["metadata"]["uid"]


def env_of(workload: JsonObject) -> dict[str, str]:
    (container,) = workload["spec"]["predictor"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}


@pytest.mark.spec("SV-038", "AT-086", "AT-087")
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


@pytest.mark.spec("SV-157", "AT-089")
def test_model_id_only_of_specified_sources() -> None:
    assert "AIM_MODEL_ID" not in env(aim_service())
    sources = [{"modelId": "test/env-propagation", "sourceUri": "hf://a/b"}]
    assert env(aim_service(), of=template(modelSources=sources))["AIM_MODEL_ID"] == "test/env-propagation"


# Predictor


@pytest.mark.spec("SV-151", "SV-152", "AT-100", "SV-P39")
def test_what_comes_from_several_levels() -> None:
    of = template(imagePullSecrets=[{"name": "b"}, {"name": "a"}], serviceAccountName="of-template")
    service = aim_service(imagePullSecrets=[{"name": "a"}])
    cache = serving_cache(service, of, model(imagePullSecrets=[{"name": "c"}]), node(), template_cache(USUAL))
    (body,) = children_of(plan_for(cache), "InferenceService")
    found = body["spec"]["predictor"]
    assert [one["name"] for one in found["imagePullSecrets"]] == ["a", "b", "c"]
    assert found["serviceAccountName"] == "of-template"
    assert predictor(aim_service(serviceAccountName="own"), of=of)["serviceAccountName"] == "own"


@pytest.mark.spec("SV-015", "SV-150", "SV-148", "SV-175", "SV-178")
def test_what_is_left_out() -> None:
    assert predictor(aim_service(priorityClassName="high"))["priorityClassName"] == "high"
    assert set(predictor(aim_service())) == {"minReplicas", "maxReplicas", "containers", "volumes"}


# Labels


@pytest.mark.spec("SV-052", "SV-248", "SV-249", "SV-250", "SV-251", "RC-090", "AT-153")
def test_labels_are_propagated() -> None:
    service = aim_service()
    service["metadata"]["labels"] = {"team-alpha": "frontend", "env": "test", "aim.eai.amd.com/custom": "x"}
    own = config(cluster=True, labelPropagation={"enabled": True, "match": ["team-*"]})
    cache = serving_cache(service, template(), model(), node(), own)
    (made,) = children_of(plan_for(cache), "AIMTemplateCache")
    for found in (made["metadata"]["labels"], applied(service, own)["metadata"]["labels"]):
        assert (found["team-alpha"], found["aim.eai.amd.com/custom"]) == ("frontend", "x")
        assert "env" not in found
    assert made["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "aim-service-controller"


# Pod Security


@pytest.mark.spec("SV-301", "FW-252")
@pytest.mark.parametrize("level", ["restricted", "baseline", None])
def test_a_pod_says_what_its_namespace_demands(level: str | None) -> None:
    demands = {} if level is None else {"pod-security.kubernetes.io/enforce": level}
    namespace = make(kinds.NAMESPACE, TEAM, labels=demands)
    cache = serving_cache(aim_service(), template(), model(), node(), template_cache(USUAL), namespace)
    (body,) = children_of(plan_for(cache), "InferenceService")
    pod = body["spec"]["predictor"]
    (container,) = pod["containers"]
    of_pod, of_container = pod.get("securityContext"), container.get("securityContext")
    if level != "restricted":
        assert (of_pod, of_container) == (None, None)
        return
    assert of_pod == {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}}
    assert of_container == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


@pytest.mark.spec("SV-301")
def test_nothing_is_planned_for_a_namespace_that_is_not_known() -> None:
    cache = serving_cache(aim_service(), template(), model(), node(), template_cache(USUAL))
    cache.make_stale(NAMESPACES)
    assert children_of(plan_for(cache), "InferenceService") == []
