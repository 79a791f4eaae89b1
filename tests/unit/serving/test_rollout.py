"""Pods of a service that something refuses or that a full cluster keeps waiting, and what the settings give them."""

from datetime import timedelta
from typing import Any

import pytest
from support.predictors import applied, predictor
from support.serving import (
    TEAM,
    WORKLOAD,
    aim_service,
    condition_of,
    config,
    message_of,
    model,
    node,
    overall,
    plan_for,
    pod_events,
    predictor_pod,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain.pods.facts import POD_EVENTS
from controller_runtime import FACT, JsonObject, Plan
from controller_runtime.log.history.facts import fact_key
from controller_runtime.testing import NOW

SERVICE = aim_service()
FULL = "0/1 nodes are available: 1 Insufficient amd.com/gpu"
QUOTA = 'Error creating: pods "x-predictor-7d-abcde" is forbidden: failed quota: team: must specify limits.cpu'
PODS = "InferenceServicePodsReady"


def plan_with(*objects: JsonObject, ready: bool | None = None) -> Plan:
    around = (
        SERVICE,
        template(),
        model(),
        node(),
        template_cache("qwen3-lat-a04542d9"),
        workload(SERVICE, ready=ready),
    )
    return plan_for(serving_cache(*around, *objects))


def of_revision(revision: str, pod: JsonObject, *, age: int = 0) -> JsonObject:
    created = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = {**pod["metadata"]["labels"], "pod-template-hash": revision}
    return {**pod, "metadata": {**pod["metadata"], "labels": own, "creationTimestamp": created}}


def former() -> JsonObject:
    return of_revision("old", predictor_pod("Running", ready=True, name="old"), age=3600)


@pytest.mark.spec("SV-322")
@pytest.mark.parametrize("ready", [None, True])
def test_a_rollout_without_a_spare_gpu_says_so_while_the_former_pod_serves(ready: bool | None) -> None:
    new = of_revision("new", predictor_pod("Pending", name="new"))
    plan = plan_with(former(), new, pod_events(SERVICE, new, ("FailedScheduling", FULL)), ready=ready)
    assert condition_of(plan, PODS) == ("False", "FailedScheduling")
    said = message_of(plan, PODS)
    assert f"pod {TEAM}/new of the new revision" in said
    assert "Insufficient amd.com/gpu" in said
    assert f"pod {TEAM}/old of the former revision still serves" in said
    assert "spec.deploymentStrategy.type to Recreate" in said
    assert overall(plan) == "Starting"


@pytest.mark.spec("SV-322")
@pytest.mark.parametrize("events", [[], [("Pulling", "pulling image")]])
def test_a_rollout_that_goes_on_is_nothing_to_speak_of(events: list[tuple[str, str]]) -> None:
    new = of_revision("new", predictor_pod("Pending", name="new"))
    plan = plan_with(former(), new, pod_events(SERVICE, new, *events), ready=True)
    assert condition_of(plan, PODS) == ("True", "PodsReady")
    same = of_revision("old", predictor_pod("Pending", name="more"))
    scaling = plan_with(former(), same, pod_events(SERVICE, same, ("FailedScheduling", FULL)), ready=True)
    assert condition_of(scaling, PODS) == ("True", "PodsReady"), "another replica is no new revision"


def refusal(*, name: str = f"{WORKLOAD}-predictor-7d", reason: str = "FailedCreate") -> JsonObject:
    """The fact that holds Events of ReplicaSets."""
    uid = workload(SERVICE)["metadata"]["uid"]
    about = f"{SERVICE['metadata']['uid']}/{uid}/replicasets"
    where = fact_key("serving", POD_EVENTS.name, about)
    reported = {"reason": reason, "message": QUOTA, "involvedObject": {"kind": "ReplicaSet", "name": name}}
    return {
        "apiVersion": FACT.api_version,
        "kind": FACT.kind,
        "metadata": {"namespace": where.namespace, "name": where.name, "uid": where.name},
        "effect": POD_EVENTS.name,
        "about": about,
        "owner": {"part": "p", "name": "n", "uid": SERVICE["metadata"]["uid"]},
        "observedAt": NOW.isoformat(),
        "outcome": {"events": [{**reported, "lastTimestamp": NOW.isoformat()}]},
    }


@pytest.mark.spec("SV-321")
def test_what_refuses_the_pods_of_a_service_is_quoted() -> None:
    unknown = plan_with()
    (effect,) = [one for one in unknown.effects if one.kind == POD_EVENTS.name]
    assert effect.params["selector"] == "involvedObject.kind=ReplicaSet,reason=FailedCreate"
    assert condition_of(unknown, PODS) == ("False", "NoPods")
    plan = plan_with(refusal())
    assert condition_of(plan, PODS) == ("False", "FailedCreate")
    assert "failed quota: team: must specify limits.cpu" in message_of(plan, PODS)
    assert "abcde" not in message_of(plan, PODS), "the name of the pod is another with each attempt"
    assert overall(plan) == "Pending"
    assert condition_of(plan_with(refusal(name="another-predictor-7d")), PODS) == ("False", "NoPods")


@pytest.mark.spec("SV-321")
def test_a_refused_rollout_says_that_the_former_pod_serves_and_a_ready_one_asks_nothing() -> None:
    plan = plan_with(former(), refusal())
    assert condition_of(plan, PODS) == ("False", "FailedCreate")
    assert "of the former revision still serves" in message_of(plan, PODS)
    assert not [one for one in plan_with(former(), ready=True).effects if one.kind == POD_EVENTS.name]


@pytest.mark.spec("SV-320", "CC-353")
@pytest.mark.parametrize(
    ("own", "of_config", "expected"),
    [
        (None, None, None),
        ({"type": "Recreate"}, None, {"type": "Recreate"}),
        (None, {"type": "Recreate", "rollingUpdate": {"maxSurge": 0}}, {"type": "Recreate"}),
        (
            {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}},
            {"type": "Recreate"},
            {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "50%"}},
        ),
        ({"type": "RollingUpdate"}, {"type": "Recreate"}, {"type": "RollingUpdate"}),
    ],
)
def test_how_pods_are_replaced(own: Any, of_config: Any, expected: Any) -> None:
    service = aim_service(**({"deploymentStrategy": own} if own else {}))
    settings = [config(predictors={"deploymentStrategy": of_config})] if of_config else []
    assert predictor(service, *settings).get("deploymentStrategy") == expected


@pytest.mark.spec("SV-323", "CC-350", "CC-352")
def test_pods_of_services_have_everything_that_the_settings_say() -> None:
    settings = {
        "resources": {"limits": {"cpu": "16"}},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "nodeSelector": {"pool": "gpu"},
        "priorityClassName": "low",
        "serviceAccountName": "models",
        "imagePullSecrets": [{"name": "added"}],
        "annotations": {"a": "b"},
        "securityContext": {"fsGroup": 7},
    }
    service = aim_service(priorityClassName="high", imagePullSecrets=[{"name": "own"}])
    found = predictor(service, config(predictors=settings))
    assert found["containers"][0]["resources"]["limits"]["cpu"] == "16"
    assert found["tolerations"] == settings["tolerations"]
    assert (found["nodeSelector"], found["annotations"]) == ({"pool": "gpu"}, {"a": "b"})
    assert (found["priorityClassName"], found["serviceAccountName"]) == ("high", "models")
    assert [one["name"] for one in found["imagePullSecrets"]] == ["own", "added"]
    assert found["securityContext"]["fsGroup"] == 7
    assert applied(service)["spec"]["predictor"].keys().isdisjoint({"nodeSelector", "annotations", "tolerations"})
