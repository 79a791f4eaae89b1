"""Acceptance scenarios of templates: selected, overridden, derived (serving.md 19.3 and 19.4)."""

from typing import Any

import pytest
from support.builders import condition
from support.serving import (
    TEAM,
    aim_service,
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
from support.woken import woken

from aim_domain import AIMService, AIMServiceTemplate, Overrides, labels
from aim_domain.parts import TEMPLATES
from aim_serving.derived_template import derived_spec
from aim_serving.service import ServingSettings, definition
from controller_runtime import JsonObject, Plan
from controller_runtime.testing import NOW, BuiltCache


def chosen(*templates: JsonObject, nodes: tuple[JsonObject, ...] | None = None, **spec: Any) -> str:
    """The template that a service gets; empty when it gets none."""
    there = (node(), node("gpu-2", "74a5"), node("gpu-3", "740c")) if nodes is None else nodes
    return used(plan_for(serving_cache(aim_service(**spec), model(), *there, *templates)))


def used(plan: Plan) -> str:
    assert plan.status is not None
    return str((plan.status.get("resolvedTemplate") or {}).get("name", ""))


def reported(*templates: JsonObject, **spec: Any) -> str:
    return message_of(plan_for(serving_cache(aim_service(**spec), model(), node(), *templates)), "TemplateReady")


UNOPTIMIZED: JsonObject = {"template": {"allowUnoptimized": True}}


def overridden(gpu: JsonObject | None = None, **overrides: Any) -> JsonObject:
    return {"overrides": {**overrides, **({"hardware": {"gpu": gpu}} if gpu else {})}}


# Selected


@pytest.mark.spec("DI-394", "SV-083")
def test_a_cordon_moves_no_service_that_runs_to_another_template() -> None:
    repelled = condition("GPUReady", False, "GPUNotSchedulable", since=NOW)
    cordoned = template(status="NotAvailable", more_status={"conditions": [repelled]})
    stored = {"name": "qwen3-lat", "namespace": TEAM, "scope": "Namespace", "kind": "k", "uid": "u"}
    service = aim_service(status={"resolvedTemplate": stored})
    around = (model(), node(), node("gpu-2", "74a5"), cordoned, template("other", gpu="MI325X"))
    made = workload(service, ready=True)
    made["metadata"]["labels"] = {labels.TEMPLATE: "qwen3-lat"}
    running = plan_for(serving_cache(service, *around, made))
    assert used(running) == "qwen3-lat"
    assert used(plan_for(serving_cache(service, *around))) == "other", "nothing runs yet"


@pytest.mark.spec("AT-038", "SV-102")
def test_a_model_without_templates() -> None:
    plan = plan_for(serving_cache(aim_service(), model()))
    assert (condition_of(plan, "ModelReady"), overall(plan)) == (("True", "ModelResolved"), "Pending")
    assert condition_of(plan, "TemplateReady") == ("False", "TemplateNotFound")


@pytest.mark.spec("AT-039", "SV-095", "SV-102")
def test_only_ready_templates_are_candidates() -> None:
    failed = plan_for(serving_cache(aim_service(), model(), node(), template(status="Failed")))
    assert (condition_of(failed, "TemplateReady"), overall(failed)) == (("False", "TemplateNotReady"), "Pending")
    others = [template(f"t-{status}", status=status) for status in ("Failed", "NotAvailable")]
    assert chosen(template("a"), template("b", precision="fp16"), *others) == "a"


@pytest.mark.spec("AT-041", "AT-042", "AT-049")
def test_unoptimized_templates_have_to_be_allowed() -> None:
    kinds = [
        template(type_=one, name=one, precision=f"fp{bits}") for one, bits in (("unoptimized", 8), ("preview", 16))
    ]
    assert chosen(*kinds, template("best")) == "best"
    assert chosen(*kinds) == ""
    assert "all 2 ready" in reported(*kinds)
    assert "allowUnoptimized" in reported(*kinds)
    assert chosen(*kinds, **UNOPTIMIZED) == "preview"
    assert chosen(kinds[0], **UNOPTIMIZED) == "unoptimized"
    general = template(type_="general", name="general", precision="fp32")
    assert (chosen(general), chosen(*kinds, general, **UNOPTIMIZED)) == ("", "general")
    assert chosen(template("big", type_="unoptimized", gpu="MI325X"), template("small"), **UNOPTIMIZED) == "small"


@pytest.mark.spec("AT-043", "AT-044", "AT-045", "SV-097")
def test_overrides_narrow_the_selection() -> None:
    both = (template("lat"), template("thr", metric="throughput"))
    assert chosen(*both, **overridden(metric="latency")) == "lat"
    counts = (template("four", count=4), template("eight", count=8))
    assert chosen(*counts, **overridden({"requests": 4})) == "four"
    models = (template("x"), template("y", gpu="MI325X"))
    assert chosen(*models, **overridden({"model": "MI300X"})) == "x"
    three = (
        template("a", count=4, precision="fp16"),
        template("b", count=4, precision="fp16", gpu="MI325X"),
        template("c", count=4),
    )
    wanted = overridden({"model": "MI300X", "requests": 4}, precision="fp16", metric="latency")
    assert chosen(*three, **wanted) == "a"


@pytest.mark.spec("AT-046", "AT-047", "SV-041", "SV-042", "SV-258")
def test_only_gpus_of_the_cluster_count() -> None:
    nodes = (node(device_id="0x74a1"), node("gpu-2", "740c"))
    assert chosen(template("x", gpu="MI325X"), template("y", gpu="MI250X"), nodes=nodes) == "y"
    assert chosen(template("x", gpu="MI325X"), template("cpu", gpu="", count=0), nodes=nodes) == "cpu"
    for spelling in ("mi300x", "Instinct-MI300X", "MI300X (rev 2)"):
        assert chosen(template("x", gpu=spelling), nodes=nodes) == "x"
    assert chosen(template("x"), nodes=(node(device_id="74a1"),)) == "x"
    assert chosen(template("x"), nodes=()) == ""


@pytest.mark.spec("AT-048", "AT-050", "AT-051", "SV-098")
def test_what_is_preferred() -> None:
    assert chosen(template("far", gpu="MI325X", cluster=True), template("near")) == "near"
    assert chosen(template("lat"), template("thr", gpu="MI325X", metric="throughput")) == "thr"
    assert chosen(template("fp16", precision="fp16"), template("fp8")) == "fp8"


@pytest.mark.spec("SV-098", "SV-308", "SV-P33")
@pytest.mark.parametrize(
    ("better", "id_of_better", "worse", "id_of_worse"),
    [
        ("MI355X", "75a3", "MI210", "740f"),
        ("MI355X", "75a3", "MI325X", "74a5"),
        ("MI350X", "75a0", "MI325X", "74a5"),
        ("MI308X", "74a2", "MI250X", "740c"),
        ("AMD Instinct MI355X OAM", "75b3", "MI300X", "74a1"),
        ("MI210", "740f", "W7900", "7448"),
    ],
)
def test_the_newest_gpus_are_preferred(better: str, id_of_better: str, worse: str, id_of_worse: str) -> None:
    nodes = (node(device_id=id_of_better), node("gpu-2", id_of_worse))
    assert chosen(template("a", gpu=worse), template("b", gpu=better), nodes=nodes) == "b"
    assert chosen(template("a", gpu=better), template("b", gpu=worse), nodes=nodes) == "a"


@pytest.mark.spec("AT-053", "SV-083")
def test_a_tie_does_not_disturb_who_is_resolved() -> None:
    stored = {"resolvedTemplate": {"name": "b", "namespace": TEAM, "scope": "Namespace"}}
    cache = serving_cache(aim_service(status=stored), model(), node(), template("a"), template("b"))
    plan = plan_for(cache)
    assert (condition_of(plan, "TemplateReady"), used(plan)) == (("True", "Resolved"), "b")


@pytest.mark.spec("AT-054", "SV-094")
def test_the_type_of_the_spec_counts_first() -> None:
    declared = template(type_="unoptimized", type="optimized")
    assert chosen(declared) == "qwen3-lat"


@pytest.mark.spec("AT-141", "SV-252")
def test_a_template_that_becomes_ready_wakes_who_waits_for_it() -> None:
    def cache(status: str) -> BuiltCache:
        return serving_cache(aim_service(), model(), node(), template(status=status))

    waiting = cache("Progressing")
    assert condition_of(plan_for(waiting), "TemplateReady") == ("False", "TemplateNotReady")
    found = woken(definition(ServingSettings()), waiting, TEMPLATES, template(status="Progressing"), template())
    assert any(key.endswith("/qwen-chat") for key in found)
    assert used(plan_for(cache("Ready"))) == "qwen3-lat"


# Derived


def spec_of(wanted: JsonObject, base: JsonObject, **of_service: Any) -> JsonObject:
    service = AIMService.model_validate(aim_service(**of_service))
    return derived_spec(
        AIMServiceTemplate.model_validate(base), service, Overrides.model_validate(wanted), "resolved-model"
    )


@pytest.mark.spec("AT-058", "AT-059", "SV-105", "SV-109", "SV-114")
@pytest.mark.parametrize("cluster", [False, True])
def test_a_derived_template_is_made_awaited_and_used(cluster: bool) -> None:
    service = aim_service(template={"name": "t"}, overrides={"precision": "fp16"})
    cache = serving_cache(service, model(), template("t", cluster=cluster))
    plan = plan_for(cache)
    (made,) = children_of(plan, "AIMServiceTemplate")
    assert made["metadata"]["namespace"] == TEAM
    assert made["metadata"]["name"].startswith("t-ovr-fp16-")
    assert [one.get("controller") for one in made["metadata"]["ownerReferences"]] == [None]
    assert made["metadata"]["labels"][labels.APP_MANAGED_BY] == "aim-engine"
    assert made["metadata"]["labels"][labels.ORIGIN] == "derived"
    for status in ("", "Progressing"):
        known = serving_cache(service, model(), template("t", cluster=cluster), stamped(made, status))
        waiting = plan_for(known)
        assert (condition_of(waiting, "TemplateReady"), overall(waiting)) == (
            ("False", "TemplateNotReady"),
            "Pending",
        )
    ready = plan_for(serving_cache(service, model(), template("t", cluster=cluster), stamped(made, "Ready")))
    assert used(ready) == made["metadata"]["name"]


def stamped(made: JsonObject, status: str) -> JsonObject:
    """A made template as it is stored."""
    metadata = {**made["metadata"], "uid": "d", "resourceVersion": "7"}
    found = {**template()["status"], "status": status}
    return {**made, "metadata": metadata, "status": found if status else {}}


@pytest.mark.spec("AT-060", "AT-061", "AT-062", "SV-113")
def test_values_of_derived_templates() -> None:
    base = template(
        "t",
        "base-model",
        env=[{"name": "BASE_VAR", "value": "1"}],
        imagePullSecrets=[{"name": "base-secret"}],
        resources={"requests": {"memory": "16Gi"}},
        runtimeConfigName="of-base",
    )
    wanted = {"precision": "fp16"}
    plain = spec_of(wanted, base)
    assert plain["env"] == [{"name": "BASE_VAR", "value": "1"}]
    assert plain["imagePullSecrets"] == [{"name": "base-secret"}]
    assert plain["resources"] == {"requests": {"memory": "16Gi"}}
    own = spec_of(
        wanted, base, imagePullSecrets=[{"name": "service-secret"}], resources={"requests": {"memory": "32Gi"}}
    )
    assert own["imagePullSecrets"] == [{"name": "service-secret"}]
    assert own["resources"] == {"requests": {"memory": "32Gi"}}
    assert plain["modelName"] == "base-model"
    assert spec_of(wanted, template("t", ""))["modelName"] == "resolved-model"
    assert spec_of(wanted, base, runtimeConfigName="  my-config  ")["runtimeConfigName"] == "my-config"
    assert spec_of(wanted, base, runtimeConfigName="   ")["runtimeConfigName"] == "of-base"
    assert spec_of(wanted, template("t"), runtimeConfigName="   ")["runtimeConfigName"] == "default"


@pytest.mark.spec("AT-064", "SV-106", "SV-156")
def test_a_template_that_declares_the_overrides_is_used_itself() -> None:
    pinned = template(type_="unoptimized", precision="fp16", profileId="mi300x-fp16-latency-unopt")
    service = aim_service(overrides={"metric": "latency", "precision": "fp16"}, **UNOPTIMIZED)
    plan = plan_for(serving_cache(service, model(), node(), pinned, template_cache("c")))
    assert used(plan) == "qwen3-lat"
    assert children_of(plan, "AIMServiceTemplate") == []
    (body,) = children_of(plan, "InferenceService")
    env = {one["name"]: one["value"] for one in body["spec"]["predictor"]["containers"][0]["env"]}
    assert env["AIM_PROFILE_ID"] == "mi300x-fp16-latency-unopt"


@pytest.mark.spec("AT-066", "SV-113", "SV-P14")
@pytest.mark.parametrize("mode", ["Shared", "Dedicated"])
def test_a_derived_template_caches_nothing_itself(mode: str) -> None:
    caching = {"enabled": True, "env": [{"name": "HF_TOKEN", "value": "t"}]}
    overrides = {"precision": "fp16"}
    service = aim_service(template={"name": "t"}, overrides=overrides, caching={"mode": mode})
    cache = living(service, model(), template("t", caching=caching))
    (made,) = children_of(plan_for(cache), "AIMServiceTemplate")
    assert made["spec"]["caching"] == {**caching, "enabled": False}
    run(cache)
    ready = serving_cache(service, model(), template("t", caching=caching), stamped(made, "Ready"))
    (own,) = (child for child in plan_for(ready).children if child.body["kind"] == "AIMTemplateCache")
    assert own.body["spec"]["templateName"] == made["metadata"]["name"]
    assert own.owned is (mode == "Dedicated")
