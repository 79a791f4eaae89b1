"""A dry run tells what a pass would do, and does none of it (SV-271)."""

from typing import Any

import pytest
from support.builders import make, owner
from support.predictors import USUAL
from support.serving import (
    TEAM,
    aim_service,
    artifact,
    children_of,
    condition_of,
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

from aim_domain import kinds, labels
from aim_domain.parts import INFERENCE_SERVICES, SERVICE_PLANS, SERVICES
from controller_runtime import JsonObject, Plan

NAME = "qwen-chat-plan"


def service(value: str = "plan", **spec: Any) -> JsonObject:
    own = aim_service(template={"name": "qwen3-lat"}, **spec)
    own["metadata"]["annotations"] = {labels.ANNOTATION_DRY_RUN: value}
    return own


def reported(plan: Plan) -> str:
    """The text of the plan; nothing else is written."""
    assert (plan.patches, plan.deletes) == ((), ())
    (child,) = plan.children
    assert (child.body["kind"], child.name, child.owned) == ("ConfigMap", NAME, True)
    assert child.body["metadata"]["labels"][labels.COMPONENT] == "service-plan"
    return str(child.body["data"]["plan"])


@pytest.mark.spec("SV-271")
def test_what_would_be_made() -> None:
    plan = plan_for(serving_cache(service(), template(), model(), node()))
    assert reported(plan) == f"create AIMTemplateCache {TEAM}/{USUAL}"
    assert condition_of(plan, "DryRun") == ("True", "PlanOnly")
    assert NAME in message_of(plan, "DryRun")
    wanted = plan_for(serving_cache(service(), template(), model(), node(), template_cache(USUAL)))
    assert reported(wanted) == "create InferenceService ml-team/qwen-chat-a04542d9"
    assert "does not exist yet" in message_of(wanted, "InferenceServiceReady")
    assert overall(wanted) == "Starting"
    for one in (plan, wanted):
        assert condition_of(one, "Ready") == ("False", "DryRun")
        assert NAME in message_of(one, "Ready")


@pytest.mark.spec("SV-271")
def test_what_would_be_changed_and_deleted() -> None:
    acting = aim_service(template={"name": "qwen3-lat"})
    cache = living(acting, template(), model(), node(), template_cache(USUAL))
    run(cache)
    annotated = {"annotations": {labels.ANNOTATION_DRY_RUN: "plan"}}
    cache.change(SERVICES, "qwen-chat", metadata=annotated)
    unstamped = "change InferenceService ml-team/qwen-chat-a04542d9: members that are no longer wanted go"
    assert reported(plan_for(cache)) == unstamped, "what carries no hash of its members may have more of them"
    cache.change(SERVICES, "qwen-chat", spec={**acting["spec"], "replicas": 3})
    text = reported(plan_for(cache))
    assert text.splitlines() == [
        "change InferenceService ml-team/qwen-chat-a04542d9",
        "  spec.predictor.minReplicas: 1 -> 3",
        "  spec.predictor.maxReplicas: 1 -> 3",
    ]
    failed = serving_cache(service(), template(), model(), node(), template_cache(USUAL, status="Failed"), artifact())
    plan = plan_for(failed)
    assert reported(plan).startswith("delete AIMArtifact ")
    assert "cache" not in (plan.status or {}), "a retry that did not happen is not counted"


@pytest.mark.spec("SV-271", "SV-272")
def test_the_former_autoscaler_stays_during_a_dry_run() -> None:
    own = service()
    was_keda = workload(own, ready=True)
    was_keda["metadata"]["annotations"] = {labels.ANNOTATION_AUTOSCALER_CLASS: "keda"}
    plan = plan_for(serving_cache(own, template(), model(), node(), template_cache(USUAL), was_keda))
    assert plan.effects == ()
    assert "delete what the former autoscaler of qwen-chat-a04542d9-predictor needed" in reported(plan)


@pytest.mark.spec("SV-271")
@pytest.mark.parametrize("value", ["Plan", "true", ""])
def test_other_values_are_no_dry_run(value: str) -> None:
    plan = plan_for(serving_cache(service(value), template(), model(), node()))
    assert len(children_of(plan, "AIMTemplateCache")) == 1
    assert condition_of(plan, "DryRun") is None


@pytest.mark.spec("SV-271")
def test_the_end_of_a_dry_run() -> None:
    own = service()
    cache = living(own, template(), model(), node(), template_cache(USUAL), workload(own))
    run(cache)
    assert len(cache.cache.all(SERVICE_PLANS)) == 1
    cache.change(SERVICES, "qwen-chat", metadata={"annotations": {}})
    plan = plan_for(cache)
    assert [delete.name for delete in plan.deletes] == [NAME]
    assert len(children_of(plan, "InferenceService")) == 1
    assert condition_of(plan, "DryRun") is None
    foreign = make(kinds.CONFIG_MAP, NAME, namespace=TEAM, labels={labels.COMPONENT: "service-plan"})
    foreign["metadata"]["ownerReferences"] = [owner(aim_service("another"))]
    cache.put(SERVICE_PLANS, foreign)
    assert plan_for(cache).deletes == ()


@pytest.mark.spec("SV-271")
def test_the_plan_goes_though_no_status_ever_reported_of_it() -> None:
    own = service()
    cache = living(own, template(), model(), node(), template_cache(USUAL), workload(own))
    run(cache)
    acting = {**own, "metadata": {**own["metadata"], "annotations": {}}}
    there = cache.only(SERVICE_PLANS)
    plan = plan_for(serving_cache(acting, template(), model(), node(), template_cache(USUAL), workload(acting), there))
    assert [delete.name for delete in plan.deletes] == [NAME]


@pytest.mark.spec("SV-271")
def test_of_a_list_the_members_that_differ_are_reported() -> None:
    own = service(env=[{"name": "A", "value": "1"}])
    cache = living(own, template(), model(), node(), template_cache(USUAL), workload(own))
    there = cache.only(INFERENCE_SERVICES)
    cache.change(SERVICES, "qwen-chat", metadata={"annotations": {}})
    run(cache)
    changed = service(env=[{"name": "A", "value": "2"}])
    cache.change(SERVICES, "qwen-chat", metadata=changed["metadata"], spec=changed["spec"])
    lines = reported(plan_for(cache)).splitlines()
    assert lines[0] == f"change InferenceService {TEAM}/{there['metadata']['name']}"
    [(path, values)] = [line.strip().split(": ", 1) for line in lines[1:]]
    assert path.startswith("spec.predictor.containers.0.env")
    assert "2" in values.rpartition("->")[2]


@pytest.mark.spec("SV-271", "SV-266")
def test_what_would_be_patched() -> None:
    own = service(overrides={"precision": "fp16"})
    base = template()
    made = plan_for(serving_cache({**own, "metadata": {**own["metadata"], "annotations": {}}}, model(), base, node()))
    [child] = made.children
    stamped = {**child.body["metadata"], "uid": "d", "resourceVersion": "7", "ownerReferences": []}
    derived = {**child.body, "metadata": stamped, "status": {"status": "Ready"}}
    plan = plan_for(serving_cache(own, model(), base, derived, node()))
    assert f"patch AIMServiceTemplate {TEAM}/{child.name}: use this derived template" in reported(plan).splitlines()
