"""Which template a service gets: stored, named, default, selected, derived (serving.md section 7)."""

from typing import Any

import pytest
from support.builders import condition
from support.serving import (
    DEFINITION,
    TEAM,
    aim_service,
    children_of,
    cluster_model,
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
from support.woken import woken

from aim_domain import Overrides, labels
from aim_domain.parts import CLUSTER_TEMPLATES, MODELS, NODES, TEMPLATES
from aim_serving.derived_template import derived_name
from controller_runtime import JsonObject, Plan
from controller_runtime.testing import NOW


def used(plan: Plan) -> JsonObject:
    """The template that the plan reports."""
    assert plan.status is not None
    found = plan.status.get("resolvedTemplate") or {}
    assert isinstance(found, dict)
    return found


STORED = {"name": "qwen3-lat", "namespace": TEAM, "scope": "Namespace", "kind": "k", "uid": "u"}


# Named


@pytest.mark.spec("SV-085", "SV-228", "SV-088", "SV-089", "AT-032", "AT-034")
def test_named_template() -> None:
    service = aim_service(template={"name": "t"}, model={"name": "gone"})
    both = [template("t", type_="unoptimized"), template("t", cluster=True)]
    assert used(plan_for(serving_cache(service, *both)))["scope"] == "Namespace"
    assert used(plan_for(serving_cache(service, both[1])))["scope"] == "Cluster"


@pytest.mark.spec("SV-086", "SV-214", "AT-033")
def test_missing_named_template() -> None:
    plan = plan_for(serving_cache(aim_service(template={"name": "nonexistent-template"}), model()))
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotFound"), "Failed")
    assert condition_of(plan, "ConfigValid") == ("False", "ReferenceNotFound")
    assert "nonexistent-template" in message_of(plan, "TemplateReady")
    assert plan.children == ()


@pytest.mark.spec("SV-082", "SV-087", "AT-036", "AT-037")
def test_default_template_of_the_model() -> None:
    default = model(defaultServiceTemplate="t-default")
    candidates = [template("t-default", gpu="MI210"), template("t-best", gpu="MI325X"), node()]
    assert used(plan_for(serving_cache(aim_service(), default, *candidates)))["name"] == "t-default"
    plan = plan_for(serving_cache(aim_service(), model(defaultServiceTemplate="gone"), *candidates))
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotFound"), "Pending")
    assert "gone" in message_of(plan, "TemplateReady")
    assert condition_of(plan, "ConfigValid") is None


@pytest.mark.spec("SV-220", "SV-084", "FW-024", "AT-035", "SV-P04", "FW-P01")
def test_a_template_without_gpu() -> None:
    service = aim_service(template={"name": "qwen3-lat"})
    absent = template(status="NotAvailable")
    plan = plan_for(serving_cache(service, model(), absent))
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotReady"), "Pending")
    assert "resolvedTemplate" not in (plan.status or {})
    assert overall(plan_for(serving_cache(service, model(), absent, workload(service)))) == "Degraded"


@pytest.mark.spec("SV-216", "SV-221")
@pytest.mark.parametrize(
    ("status", "value"), [("Pending", "Pending"), ("Progressing", "Pending"), ("Failed", "Failed")]
)
def test_a_template_that_is_not_ready(status: str, value: str) -> None:
    plan = plan_for(serving_cache(aim_service(template={"name": "qwen3-lat"}), model(), template(status=status)))
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotReady"), value)
    assert plan.children == ()


# Named as in customTemplates


def called(alias: str, name: str, of_model: str = "qwen", **more: Any) -> JsonObject:
    return template(name, of_model, metadata={"labels": {labels.TEMPLATE_ALIAS: alias}}, **more)


@pytest.mark.spec("SV-311", "DI-144")
def test_a_custom_template_is_found_by_the_name_that_its_model_gives_it() -> None:
    service = aim_service(template={"name": "mine"})
    made = called("mine", "qwen-custom-mine-fp8-9432a6d6")
    other = called("mine", "other-custom-mine-fp8-11111111", "other-model")
    plan = plan_for(serving_cache(service, model(), made, other))
    assert used(plan)["name"] == "qwen-custom-mine-fp8-9432a6d6"
    assert condition_of(plan, "TemplateReady") == ("True", "Resolved")
    exact = plan_for(serving_cache(service, model(), made, template("mine")))
    assert used(exact)["name"] == "mine", "the name of an object takes precedence"
    in_cluster = called("mine", "qwen-custom-mine-fp8-22222222", cluster=True)
    assert used(plan_for(serving_cache(service, cluster_model(), in_cluster)))["scope"] == "Cluster"
    default = aim_service()
    by_model = plan_for(serving_cache(default, model(defaultServiceTemplate="mine"), made))
    assert used(by_model)["name"] == "qwen-custom-mine-fp8-9432a6d6"
    missing = plan_for(serving_cache(service, model(), other))
    assert condition_of(missing, "TemplateReady") == ("False", "TemplateNotFound")
    assert "customTemplates" in message_of(missing, "TemplateReady")


@pytest.mark.spec("SV-311", "SV-057")
def test_a_service_stays_with_the_template_that_it_found_by_that_name() -> None:
    name = "qwen-custom-mine-fp8-9432a6d6"
    service = aim_service(template={"name": "mine"}, status={"resolvedTemplate": {**STORED, "name": name}})
    moved = called("mine", "qwen-custom-mine-fp8-ffffffff")
    assert used(plan_for(serving_cache(service, model(), called("mine", name), moved)))["name"] == name
    failed = called("mine", name, status="Failed")
    assert used(plan_for(serving_cache(service, model(), failed, moved)))["name"] == "qwen-custom-mine-fp8-ffffffff"


# Selected


@pytest.mark.spec("SV-090", "SV-091", "SV-042", "AT-056")
def test_selection_among_the_templates_of_the_model() -> None:
    others = [template("other", "other-model", metric="latency"), node()]
    plan = plan_for(
        serving_cache(aim_service(), model(), template(), template("b", cluster=True, precision="fp4"), *others)
    )
    assert used(plan)["name"] == "qwen3-lat"
    plan = plan_for(serving_cache(aim_service(), model(), *others))
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotFound"), "Pending")
    assert "qwen" in message_of(plan, "TemplateReady")


@pytest.mark.spec("SV-102", "SV-P11")
def test_outcomes_without_a_template() -> None:
    none_ready = plan_for(serving_cache(aim_service(), model(), template(status="Failed"), node()))
    assert (condition_of(none_ready, "TemplateReady"), overall(none_ready)) == (
        ("False", "TemplateNotReady"),
        "Pending",
    )
    unoptimized = plan_for(serving_cache(aim_service(), model(), template(type_="unoptimized"), node()))
    assert condition_of(unoptimized, "TemplateReady") == ("False", "TemplateNotFound")
    assert "1 ready" in message_of(unoptimized, "TemplateReady")
    assert "allowUnoptimized" in message_of(unoptimized, "TemplateReady")
    no_gpu = plan_for(serving_cache(aim_service(), model(), template(), node(device_id="740f")))
    assert condition_of(no_gpu, "TemplateReady") == ("False", "TemplateNotFound")
    assert "GPU" in message_of(no_gpu, "TemplateReady")


@pytest.mark.spec("SV-102", "FW-019")
@pytest.mark.parametrize("part", [TEMPLATES, CLUSTER_TEMPLATES, NODES])
def test_selection_from_a_stale_view(part: object) -> None:
    objects = [aim_service(), model(), *([template()] if part is NODES else [])]
    cache = serving_cache(*objects)
    for stale in (TEMPLATES, CLUSTER_TEMPLATES, NODES):
        if stale is part:
            cache.make_stale(stale)
    plan = plan_for(cache)
    assert condition_of(plan, "TemplateReady") == ("False", "ViewStale")
    assert plan.retry is not None


@pytest.mark.spec("SV-102", "FW-019", "FW-453")
def test_an_unknown_gpu_is_not_an_absent_one() -> None:
    """Otherwise the service would get the template without a GPU, and keep it."""
    slow = template("cpu", gpu="", count=0)
    cache = serving_cache(aim_service(), model(), template(), slow, node(device_id="740f"))
    cache.make_stale(NODES)
    unknown = plan_for(cache)
    assert condition_of(unknown, "TemplateReady") == ("False", "ViewStale")
    assert unknown.retry is not None
    cache.cache.mark(NODES, fresh=True)
    assert used(plan_for(cache))["name"] == "cpu", "it is absent now"
    cache.put(NODES, node("gpu-2"))
    cache.make_stale(NODES)
    assert used(plan_for(cache))["name"] == "qwen3-lat", "what was seen counts as it was last seen"


@pytest.mark.spec("SV-100", "SV-222", "SV-083", "SV-103", "AT-052", "SV-P11")
def test_ambiguity() -> None:
    tied = [template("a"), template("b"), node()]
    plan = plan_for(serving_cache(aim_service(), model(), *tied))
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateSelectionAmbiguous"), "Failed")
    assert condition_of(plan, "Ready") == ("False", "TemplateSelectionAmbiguous")
    assert "2" in message_of(plan, "Ready")
    stored = aim_service(status={"resolvedTemplate": {**STORED, "name": "b"}})
    assert used(plan_for(serving_cache(stored, model(), *tied)))["name"] == "b"
    gone = aim_service(status={"resolvedTemplate": {**STORED, "name": "gone"}})
    running = plan_for(serving_cache(gone, model(), *tied, workload(gone)))
    assert condition_of(running, "TemplateReady") == ("False", "TemplateSelectionAmbiguous")
    assert children_of(running, "InferenceService") == []


# Overrides that come later


def with_overrides(**more: Any) -> JsonObject:
    return aim_service(overrides={"metric": "throughput"}, status={"resolvedTemplate": STORED}, **more)


@pytest.mark.spec("SV-303", "SV-177", "SV-057")
def test_a_running_service_follows_its_spec_when_no_template_has_the_added_overrides() -> None:
    service = with_overrides(env=[{"name": "X", "value": "three"}], replicas=3)
    ready = [model(), template(), node(), template_cache("qwen3-lat-a04542d9")]
    plan = plan_for(serving_cache(service, *ready, workload(service, ready=True)))
    (applied,) = children_of(plan, "InferenceService")
    predictor = applied["spec"]["predictor"]
    assert {"name": "X", "value": "three"} in predictor["containers"][0]["env"]
    assert predictor["minReplicas"] == 3
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotFound"), "Degraded")
    assert condition_of(plan, "Ready") == ("False", "TemplateNotFound")
    for part in ("qwen3-lat stays in use", "spec.overrides", "latency instead of throughput", "remove it"):
        assert part in message_of(plan, "TemplateReady")
    assert used(plan)["name"] == "qwen3-lat"
    (restored,) = children_of(plan_for(serving_cache(service, *ready)), "InferenceService")
    assert restored["spec"]["predictor"]["minReplicas"] == 3, "a deleted InferenceService comes back"


@pytest.mark.spec("SV-303", "SV-057")
def test_added_overrides_that_a_template_has_are_applied() -> None:
    service = with_overrides()
    plan = plan_for(
        serving_cache(service, model(), template(), template("fast", metric="throughput"), node(), workload(service))
    )
    assert used(plan)["name"] == "fast"
    assert condition_of(plan, "TemplateReady") == ("True", "Resolved")


@pytest.mark.spec("SV-303", "SV-087")
def test_a_default_template_that_does_not_exist_changes_nothing_but_is_reported() -> None:
    service = aim_service(status={"resolvedTemplate": STORED})
    ready = [model(defaultServiceTemplate="gone"), template(), node(), template_cache("qwen3-lat-a04542d9")]
    plan = plan_for(serving_cache(service, *ready, workload(service, ready=True)))
    assert len(children_of(plan, "InferenceService")) == 1
    assert condition_of(plan, "TemplateReady") == ("False", "TemplateNotFound")
    assert "gone" in message_of(plan, "TemplateReady")


@pytest.mark.spec("SV-304", "SV-103")
def test_a_running_service_without_a_usable_template_reports_that_it_follows_no_change() -> None:
    service = aim_service(status={"resolvedTemplate": STORED})
    plan = plan_for(serving_cache(service, model(), node(), workload(service, ready=True)))
    assert children_of(plan, "InferenceService") == []
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotFound"), "Degraded")
    for part in ("qwen3-lat", "stays as it is", "no change of spec"):
        assert part in message_of(plan, "TemplateReady")


@pytest.mark.spec("SV-083", "SV-057", "AT-055", "SV-P29", "FW-111")
def test_the_stored_template_stays_while_it_fits() -> None:
    stored = aim_service(status={"resolvedTemplate": STORED})
    better = template("better", precision="fp4")
    assert used(plan_for(serving_cache(stored, model(), template(), better, node())))["name"] == "qwen3-lat"
    renamed = aim_service(template={"name": "better"}, status={"resolvedTemplate": STORED})
    assert used(plan_for(serving_cache(renamed, model(), template(), better, node())))["name"] == "better"
    not_ready = template(status="Degraded")
    assert used(plan_for(serving_cache(stored, model(), not_ready, better, node())))["name"] == "better"


# Derived


def overridden(**overrides: object) -> JsonObject:
    return aim_service(template={"name": "t"}, overrides=overrides)


@pytest.mark.spec("SV-112", "SV-259", "AT-057", "SV-P15")
@pytest.mark.parametrize(
    ("base", "overrides", "name"),
    [
        ("base", {"hardware": {"gpu": {"model": "MI300X"}}}, "base-ovr-mi300x-a61e"),
        ("base", {"hardware": {"gpu": {"requests": 4}}}, "base-ovr-4gpu-2da2"),
        ("base", {"hardware": {"gpu": {"model": "MI325X", "requests": 8}}}, "base-ovr-mi325x-8gpu-eeea"),
        ("base", {"precision": "fp16"}, "base-ovr-fp16-fe0f"),
        ("base", {"precision": "fp8"}, "base-ovr-fp8-f7cb"),
        ("base", {"metric": "latency"}, "base-ovr-latency-817c"),
        (
            "my-template",
            {"hardware": {"gpu": {"model": "MI300X", "requests": 4}}, "precision": "fp8", "metric": "throughput"},
            "my-template-ovr-mi300x-4gpu-fp8-throughput-b295",
        ),
        ("base", {"hardware": {"gpu": {"minVram": "64Gi"}}}, "base-ovr-hw-1345"),
        ("base", {"hardware": {"gpu": {"requests": 2, "minVram": "64Gi"}}}, "base-ovr-2gpu-hw-ffb1"),
        ("base", {"hardware": {"cpu": {"requests": "500m"}}}, "base-ovr-hw-8ff0"),
        ("base", {"hardware": {"gpu": {"requests": 1, "resourceName": "amd.com/gpu-x"}}}, "base-ovr-1gpu-hw-49b4"),
    ],
)
def test_names_of_derived_templates(base: str, overrides: JsonObject, name: str) -> None:
    assert derived_name(base, Overrides.model_validate(overrides)) == name


@pytest.mark.spec("SV-105", "SV-108", "SV-109", "SV-110", "SV-111", "SV-113", "SV-114", "SV-P12", "SV-P14")
@pytest.mark.parametrize("cluster", [False, True])
def test_a_derived_template_is_made_and_awaited(cluster: bool) -> None:
    base = template("t", status="NotAvailable", cluster=cluster, profileId="pinned", env=[{"name": "A", "value": "1"}])
    cache = living(overridden(precision="fp16"), model(), base)
    plan = plan_for(cache)
    (made,) = plan.children
    assert (made.body["kind"], made.owned) == ("AIMServiceTemplate", False)
    assert made.name.startswith("t-ovr-fp16-")
    (reference,) = made.body["metadata"]["ownerReferences"]
    assert (reference["kind"], reference.get("controller")) == ("AIMService", None)
    assert made.body["metadata"]["labels"][labels.ORIGIN] == labels.ORIGIN_DERIVED
    assert made.body["metadata"]["labels"][labels.APP_MANAGED_BY] == "aim-engine"
    assert made.body["spec"]["precision"] == "fp16"
    assert "profileId" not in made.body["spec"]
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotReady"), "Pending")
    assert made.name in message_of(plan, "TemplateReady")
    run(cache)
    assert children_of(plan_for(cache), "AIMServiceTemplate") == []


@pytest.mark.spec("SV-110", "SV-266", "FW-213", "SV-P13", "FW-S53")
def test_users_of_a_derived_template_are_its_owners() -> None:
    base, first = template("t"), overridden(precision="fp16")
    second = aim_service("second", template={"name": "t"}, overrides={"precision": "fp16"})
    made = plan_for(serving_cache(first, model(), base)).children[0].body
    stamped = {**made["metadata"], "uid": "d", "resourceVersion": "7"}
    derived = {**made, "metadata": stamped, "status": {"status": "Ready"}}
    cache = serving_cache(first, second, model(), base, derived)
    assert plan_for(cache).patches == ()
    (patch,) = plan_for(cache, "second").patches
    assert [one["name"] for one in patch.body["metadata"]["ownerReferences"]] == ["qwen-chat", "second"]
    assert patch.resource_version == "7"
    former = {**STORED, "name": made["metadata"]["name"]}
    moved = aim_service(template={"name": "other"}, status={"resolvedTemplate": former})
    leaving = plan_for(serving_cache(moved, model(), base, derived, template("other")))
    assert [delete.uid for delete in leaving.deletes] == ["d"]
    running = workload(moved)
    running["metadata"]["labels"] = {labels.TEMPLATE: made["metadata"]["name"]}
    arrived = aim_service(template={"name": "other"}, status={"resolvedTemplate": {**STORED, "name": "other"}})
    around = [arrived, model(), base, derived, template("other")]
    assert plan_for(serving_cache(*around, running)).deletes == ()
    running["metadata"]["labels"] = {labels.TEMPLATE: "other"}
    assert [delete.uid for delete in plan_for(serving_cache(*around, running)).deletes] == ["d"]


@pytest.mark.spec("SV-265", "AT-159", "SV-P44")
def test_a_taken_derived_name_is_left_alone() -> None:
    service = overridden(precision="fp16")
    usual = plan_for(serving_cache(service, model(), template("t"))).children[0].name
    plan = plan_for(serving_cache(service, model(), template("t"), template(usual)))
    assert plan.children[0].name != usual
    assert plan.children[0].name.startswith("t-ovr-fp16-")


@pytest.mark.spec("SV-092", "SV-106", "SV-107", "AT-065", "SV-P12")
def test_overrides_with_selection() -> None:
    service = aim_service(overrides={"metric": "latency", "precision": "fp8"})
    plan = plan_for(serving_cache(service, model(), template(), node()))
    assert used(plan)["name"] == "qwen3-lat"
    derived = template("derived", precision="fp4", metadata={"labels": {labels.ORIGIN: labels.ORIGIN_DERIVED}})
    assert used(plan_for(serving_cache(aim_service(), model(), template(), derived, node())))["name"] == "qwen3-lat"
    empty = aim_service(template={"name": "t"}, overrides={"hardware": {"gpu": {"requests": 0}}})
    assert used(plan_for(serving_cache(empty, model(), template("t"))))["name"] == "t"
    more = aim_service(overrides={"hardware": {"cpu": {"requests": "8"}}})
    assert plan_for(serving_cache(more, model(), template(), node())).children[0].name.startswith("qwen3-lat-ovr-hw-")


@pytest.mark.spec("SV-310", "SV-106")
def test_precision_auto_is_no_preference_where_a_template_is_selected() -> None:
    templates = [template("a", precision="fp16"), template("b", precision="bf16"), template("c", precision="fp8")]
    ready = [model(), *templates, node()]
    assert used(plan_for(serving_cache(aim_service(overrides={"precision": "auto"}), *ready)))["name"] == "c"
    fast = template("fast", precision="fp16", metric="throughput")
    both = aim_service(overrides={"precision": "auto", "metric": "throughput"})
    assert used(plan_for(serving_cache(both, *ready, fast)))["name"] == "fast"
    later = aim_service(overrides={"precision": "auto"}, status={"resolvedTemplate": {**STORED, "name": "a"}})
    assert used(plan_for(serving_cache(later, *ready)))["name"] == "a", "a service that runs stays where it is"
    (made,) = plan_for(serving_cache(overridden(precision="auto"), model(), template("t"))).children
    assert made.body["spec"]["precision"] == "auto", "of a named template it is an override like any other"


WITHOUT: JsonObject = {
    **condition("ServiceTemplatesReady", True, "NoTemplatesExpected", since=NOW),
    "message": "image x has no label",
}


@pytest.mark.spec("DI-422", "SV-102")
@pytest.mark.parametrize("scope", ["namespace", "cluster"])
def test_a_model_that_makes_no_templates_is_the_cause_and_nothing_is_waited_for(scope: str) -> None:
    given = model() if scope == "namespace" else cluster_model()
    type_ = "ServiceTemplatesReady" if scope == "namespace" else "ClusterServiceTemplatesReady"
    reported = {**WITHOUT, "type": type_}
    without = {**given, "status": {**given["status"], "conditions": [reported]}}
    plan = plan_for(serving_cache(aim_service(), without))
    assert (condition_of(plan, "TemplateReady"), overall(plan)) == (("False", "TemplateNotFound"), "Failed")
    assert "qwen has no template and makes none: image x has no label" in message_of(plan, "TemplateReady")
    # One that a user makes is used.
    healed = plan_for(serving_cache(aim_service(), without, node(), template()))
    assert condition_of(healed, "TemplateReady") == ("True", "Resolved")


@pytest.mark.spec("DI-422")
def test_what_a_model_said_of_another_generation_does_not_count() -> None:
    given = model()
    reported = {**WITHOUT, "observedGeneration": 9}
    plan = plan_for(serving_cache(aim_service(), {**given, "status": {**given["status"], "conditions": [reported]}}))
    assert overall(plan) == "Pending"


@pytest.mark.spec("DI-422", "SV-252")
def test_that_a_model_makes_no_templates_wakes_its_services() -> None:
    given = model()
    cache = serving_cache(aim_service(), given)
    without = {**given, "status": {**given["status"], "conditions": [WITHOUT]}}
    assert woken(DEFINITION, cache, MODELS, given, without) == {"service:ml-team/qwen-chat"}
