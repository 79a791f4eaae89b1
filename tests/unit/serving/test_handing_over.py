"""What serving gives to the other services, takes from them, and leaves to them."""

import pytest
from support.deciding import decide
from support.predictors import USUAL
from support.serving import (
    ARTIFACT,
    CLAIM,
    GATEWAY,
    TEAM,
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
    template,
    template_cache,
    workload,
)

from aim_domain import DivisibleSettings
from aim_domain.parts import ARTIFACT_CLAIMS, INFERENCE_SERVICES, SERVICES, TEMPLATE_CACHES, TEMPLATES
from aim_routing.service import definition as routing
from aim_serving.service import SERVICE_RECONCILER
from controller_runtime import JsonObject, WriteMode
from controller_runtime.reconcile.events import EventRates
from controller_runtime.testing import NOW, cache_of

ROUTING = routing(DivisibleSettings())
OVERRIDDEN: JsonObject = {"template": {"name": "qwen3-lat"}, "overrides": {"precision": "fp16"}}


@pytest.mark.spec("SV-002")
@pytest.mark.parametrize(
    ("spec", "others", "made"),
    [
        ({}, (), "AIMModel"),
        (OVERRIDDEN, (model(), template()), "AIMServiceTemplate"),
        ({"template": {"name": "qwen3-lat"}}, (model(), template()), "AIMTemplateCache"),
        ({"template": {"name": "qwen3-lat"}}, (model(), template(), template_cache(USUAL)), "InferenceService"),
    ],
)
def test_work_for_others_is_handed_over_as_an_object(
    spec: JsonObject, others: tuple[JsonObject, ...], made: str
) -> None:
    plan = plan_for(serving_cache(aim_service(**spec), node(), *others))
    assert [child.body["kind"] for child in plan.children] == [made]
    assert (plan.effects, plan.patches, plan.deletes) == ((), (), ())


def routed(obj: JsonObject, *others: JsonObject) -> JsonObject:
    """The route that routing makes."""
    cache = cache_of(ROUTING.consumes, obj, *others, indexes=ROUTING.indexes)
    found = cache.object(SERVICES, obj["metadata"]["namespace"], obj["metadata"]["name"])
    (child,) = decide(ROUTING.reconcilers[0], found, cache.view(), NOW).children
    return child.body


@pytest.mark.spec("SV-005", "RT-043", "RT-052", "RT-053")
@pytest.mark.parametrize("name", ["qwen-chat", "a", "qwen-" + "very-long-" * 5 + "name"])
def test_the_backend_of_the_route_is_the_service_of_the_workload(name: str) -> None:
    given = aim_service(name, template={"name": "qwen3-lat"}, **GATEWAY)
    plan = plan_for(serving_cache(given, template(), model(), node(), template_cache(USUAL)), name)
    (made,) = children_of(plan, "InferenceService")
    route = routed(given)
    (backend,) = route["spec"]["rules"][0]["backendRefs"]
    assert backend == {
        "kind": "Service",
        "name": f"{made['metadata']['name']}-predictor",
        "namespace": TEAM,
        "port": 80,
    }
    assert len(f"{backend['name']}-{TEAM}") <= 63
    short = len(name) < 30
    assert (route["metadata"]["name"] == made["metadata"]["name"]) is short, "the two have limits of their own"


@pytest.mark.spec("RT-180")
def test_turning_routing_on_does_not_touch_the_workload() -> None:
    live = living(aim_service(template={"name": "qwen3-lat"}), template(), model(), node(), template_cache(USUAL))
    live.settle(SERVICES, "qwen-chat")
    before = live.only(INFERENCE_SERVICES)["metadata"]["resourceVersion"]
    live.change(SERVICES, "qwen-chat", spec={**live.raw(SERVICES, "qwen-chat")["spec"], **GATEWAY})
    live.settle(SERVICES, "qwen-chat")
    assert live.only(INFERENCE_SERVICES)["metadata"]["resourceVersion"] == before
    assert routed(live.raw(SERVICES, "qwen-chat"))


@pytest.mark.spec("SV-006", "RT-007", "RT-200", "RT-201")
def test_a_route_needs_nothing_but_the_service_and_its_config() -> None:
    assert {part.name for part in ROUTING.consumes} == {
        "aimservices",
        "aimruntimeconfigs",
        "aimclusterruntimeconfigs",
        "aimnamespaceconfigs",
        "kaiwoconfigs",
        "httproutes",
        "gateways",
        "facts",
    }
    assert [part.name for part in ROUTING.publishes] == ["httproutes", "gateways"]
    assert routed(aim_service(model={"name": "missing"}, template={"name": "missing"}, **GATEWAY))


@pytest.mark.spec("SV-008", "SV-009")
def test_weights_are_mounted_by_what_the_cache_says_and_nobody_is_asked_for_their_volume() -> None:
    given = aim_service(template={"name": "qwen3-lat"})
    cache = serving_cache(given, template(), model(), node(), template_cache(USUAL))
    cache.make_stale(ARTIFACT_CLAIMS)
    view = cache.view()
    plan = decide(SERVICE_RECONCILER, cache.object(SERVICES, TEAM, "qwen-chat"), view, NOW)
    (made,) = children_of(plan, "InferenceService")
    volumes = {one["name"]: one for one in made["spec"]["predictor"]["volumes"]}
    assert volumes[ARTIFACT] == {"name": ARTIFACT, "persistentVolumeClaim": {"claimName": CLAIM}}
    assert not {part for part, _ in view.reads.objects} & {ARTIFACT_CLAIMS.name}
    assert ARTIFACT_CLAIMS.name not in view.reads.parts


@pytest.mark.spec("AT-063", "SV-110", "SV-115", "SV-266", "FW-213")
def test_a_derived_template_lives_as_long_as_a_service_uses_it() -> None:
    first, second = aim_service("first", **OVERRIDDEN), aim_service("second", **OVERRIDDEN, runtimeConfigName="other")
    live = living(first, second, model(), template(), config("other"))

    def owners() -> list[tuple[str, object]]:
        found = live.raw(TEMPLATES, derived)["metadata"].get("ownerReferences", [])
        return sorted((one["name"], one.get("controller")) for one in found)

    made = run(live, "first")
    (child,) = made.children
    derived = child.name
    assert child.mode is WriteMode.CREATE, "what is there is never changed"
    before = live.raw(TEMPLATES, derived)["spec"]
    live.settle(SERVICES, "first")
    live.settle(SERVICES, "second")
    assert owners() == [("first", None), ("second", None)]
    assert live.raw(TEMPLATES, derived)["spec"] == before, "its own config did not reach the shared template"
    shared = template(derived, precision="fp16", metadata={"labels": {"aim.eai.amd.com/origin": "derived"}})
    live.change(TEMPLATES, derived, status=shared["status"])
    live.settle(SERVICES, "first")
    (made_cache,) = live.names(TEMPLATE_CACHES)
    live.change(TEMPLATE_CACHES, made_cache, status={"status": "Ready"})
    for name, left in (("first", ["second"]), ("second", [])):
        live.remove(SERVICES, name)
        run(live, name)
        assert live.find(SERVICES, name) is None
        assert [one for one, _ in owners()] == left if left else live.find(TEMPLATES, derived) is None
    assert live.names(TEMPLATE_CACHES) == [made_cache]


@pytest.mark.spec("AT-103", "RT-S22", "SV-249", "SV-250", "SV-052")
def test_labels_that_the_cluster_config_names_are_on_everything() -> None:
    given = aim_service(template={"name": "qwen3-lat"}, **GATEWAY)
    wanted = {"team-alpha": "frontend", "cost-center": "cc-12345"}
    given["metadata"]["labels"] = {**wanted, "env": "test"}
    base = config(cluster=True, labelPropagation={"enabled": True, "match": ["team-*", "cost-center"]})
    of_cache = plan_for(serving_cache(given, template(), model(), node(), base)).children
    of_workload = plan_for(serving_cache(given, template(), model(), node(), base, template_cache(USUAL))).children
    found = [*(child.body for child in (*of_cache, *of_workload)), routed(given, base)]
    assert [one["kind"] for one in found] == ["AIMTemplateCache", "InferenceService", "HTTPRoute"]
    for one in found:
        assert {key: one["metadata"]["labels"].get(key) for key in given["metadata"]["labels"]} == {
            **wanted,
            "env": None,
        }


@pytest.mark.spec("AT-127", "RT-027", "FW-375", "FW-376")
def test_routing_without_a_gateway_is_an_error_of_the_input() -> None:
    given = aim_service(template={"name": "qwen3-lat"}, routing={"enabled": True})
    reported = {"type": "HTTPRouteReady", "status": "False", "reason": "GatewayNotConfigured", "message": "m"}
    given["status"] = {"conditions": [{**reported, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    plan = plan_for(serving_cache(given, template(), model(), node(), template_cache(USUAL)))
    assert (condition_of(plan, "ConfigValid"), overall(plan)) == (("False", "InvalidSpec"), "Failed")
    assert plan.children == ()
    cache = cache_of(ROUTING.consumes, given, indexes=ROUTING.indexes)
    own = decide(ROUTING.reconcilers[0], cache.object(SERVICES, TEAM, "qwen-chat"), cache.view(), NOW)
    assert own.status is not None
    assert (own.status["conditions"][0]["reason"], own.children) == ("GatewayNotConfigured", ())


@pytest.mark.spec("AT-151", "SV-179")
def test_what_a_user_adds_to_the_workload_survives() -> None:
    live = living(aim_service(template={"name": "qwen3-lat"}), template(), model(), node(), template_cache(USUAL))
    run(live)
    name = live.only(INFERENCE_SERVICES)["metadata"]["name"]
    own = live.only(INFERENCE_SERVICES)["metadata"]["annotations"]
    live.change(INFERENCE_SERVICES, name, metadata={"annotations": {**own, "team.example.com/note": "mine"}})
    live.change(SERVICES, "qwen-chat", spec={**live.raw(SERVICES, "qwen-chat")["spec"], "replicas": 3})
    live.settle(SERVICES, "qwen-chat")
    found = live.only(INFERENCE_SERVICES)
    assert found["spec"]["predictor"]["minReplicas"] == 3
    assert found["metadata"]["annotations"] == {**own, "team.example.com/note": "mine"}


@pytest.mark.spec("SV-243", "FW-125")
def test_an_unchanged_problem_makes_no_new_event() -> None:
    live = living(aim_service(model={"name": "missing"}))
    rates = EventRates()
    posted = []
    for _ in range(4):
        plan = run(live)
        assert overall(plan) == "Failed"
        posted.append([one for one in plan.events if rates.admit("u", one, live.timers.now) is not None])
        live.later(60)
    assert [bool(one) for one in posted] == [True, False, False, False]
    live.later(300)
    repeated = [one for one in run(live).events if rates.admit("u", one, live.timers.now) is not None]
    assert {(one.type.value, one.reason) for one in repeated} == {
        ("Warning", "ModelNotFound"),
        ("Warning", "ReferenceNotFound"),
    }


@pytest.mark.spec("SV-274")
@pytest.mark.parametrize("observed", [1, 9])
def test_the_generation_that_a_workload_observed_is_not_its_own(observed: int) -> None:
    given = aim_service(template={"name": "qwen3-lat"})
    running = workload(given, ready=True)
    running["metadata"]["generation"] = 5
    running["status"]["observedGeneration"] = observed
    plan = plan_for(serving_cache(given, template(), model(), node(), template_cache(USUAL), running))
    assert condition_of(plan, "InferenceServiceReady") == ("True", "RuntimeReady")
