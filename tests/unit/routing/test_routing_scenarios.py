"""Acceptance scenarios of routing.md that one reconciler decides, each from given objects to its plan."""

from typing import Any

import pytest
from support.builders import condition, make, owner
from support.deciding import decide

from aim_domain import AIMService, DivisibleSettings
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, AIM_SERVICE, HTTP_ROUTE
from aim_domain.naming import http_route_name
from aim_domain.parts import SERVICES
from aim_routing.path import path_of
from aim_routing.service import definition
from controller_runtime import JsonObject, Plan
from controller_runtime.testing import NOW, cache_of

ROUTING = definition(DivisibleSettings())
GATEWAY = {"name": "test-gateway", "namespace": "gateway-ns"}
ON: JsonObject = {"enabled": True, "gatewayRef": GATEWAY}
ROUTE = "qwen-chat-a04542d9"


def service(routing: JsonObject | None = None, namespace: str = "ml-team", **members: Any) -> JsonObject:
    spec = {"model": {"image": "a/b:1"}, **({} if routing is None else {"routing": routing})}
    return make(AIM_SERVICE, "qwen-chat", namespace=namespace, **{"spec": spec, **members})


def cluster(**routing: Any) -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"routing": routing})


def local(**routing: Any) -> JsonObject:
    return make(AIM_RUNTIME_CONFIG, "default", namespace="ml-team", spec={"routing": routing})


def plan(obj: JsonObject, *others: JsonObject) -> Plan:
    known = cache_of(ROUTING.consumes, obj, *others, indexes=ROUTING.indexes)
    found = known.object(SERVICES, obj["metadata"]["namespace"], obj["metadata"]["name"])
    return decide(ROUTING.reconcilers[0], found, known.view(), NOW)


def body(obj: JsonObject, *others: JsonObject) -> JsonObject:
    """The one route that is wanted."""
    (child,) = plan(obj, *others).children
    return child.body


def path(template: str | None, **members: Any) -> str:
    """Where service ``Testing/qwen-chat`` is served."""
    obj = AIMService.model_validate(service(ON, "Testing", uid="12345678-90ab", **members))
    return path_of(obj, template).value


def reason(found: Plan) -> str:
    assert found.status is not None
    (only,) = found.status["conditions"]
    return str(only["reason"])


def message(found: Plan) -> str:
    assert found.status is not None
    return str(found.status["conditions"][0]["message"])


def accepted_route(obj: JsonObject, *others: JsonObject) -> JsonObject:
    status = {
        "parents": [{"parentRef": GATEWAY, "conditions": [{**condition("Accepted", True), "observedGeneration": 1}]}]
    }
    spec = body(obj, *others)["spec"]
    return make(HTTP_ROUTE, ROUTE, namespace="ml-team", owners=[owner(obj)], spec=spec, status=status)


@pytest.mark.spec("RT-S01", "RT-160", "RT-172")
def test_off_by_default() -> None:
    assert plan(service()) == Plan(status={})


@pytest.mark.spec("RT-S02", "RT-S03")
@pytest.mark.parametrize("given", [(service(ON),), (service(), cluster(**ON))])
def test_enabled_on_the_service_or_by_its_config(given: tuple[JsonObject, ...]) -> None:
    route = body(*given)
    assert route["metadata"]["name"] == ROUTE
    (parent,) = route["spec"]["parentRefs"]
    assert (parent["name"], parent["namespace"]) == ("test-gateway", "gateway-ns")
    assert len(route["spec"]["rules"]) == 1


@pytest.mark.spec("RT-S04", "RT-S05", "RT-S06", "RT-005", "RT-003", "RT-P01")
@pytest.mark.parametrize(
    ("given", "routed"),
    [
        ((service({"enabled": False}), cluster(**ON)), False),
        ((service({"enabled": True}), cluster(enabled=False, gatewayRef=GATEWAY)), True),
        ((service(), cluster(**ON), local(enabled=False)), False),
        ((service({"gatewayRef": GATEWAY}), cluster(enabled=True)), True),
        ((service({"gatewayRef": GATEWAY}), cluster(enabled=False)), False),
    ],
)
def test_the_nearest_word_counts_also_a_false_one(given: tuple[JsonObject, ...], routed: bool) -> None:
    assert bool(plan(*given).children) is routed


@pytest.mark.spec("RT-S07", "RT-029")
def test_a_missing_gateway_is_reported_until_there_is_one() -> None:
    found = plan(service({"enabled": True}))
    assert (reason(found), found.children) == ("GatewayNotConfigured", ())
    assert len(plan(service({"enabled": True}), local(gatewayRef=GATEWAY)).children) == 1


@pytest.mark.spec("RT-S08", "RT-S09", "RT-021", "RT-022", "RT-023", "RT-P02")
@pytest.mark.parametrize(
    ("own", "near", "far", "expected"),
    [
        (
            {"name": "own", "namespace": "svc-ns"},
            None,
            {"name": "far", "namespace": "x"},
            {"name": "own", "namespace": "svc-ns"},
        ),
        (None, None, {"name": "far", "namespace": "x"}, {"name": "far", "namespace": "x"}),
        (None, {"name": "b"}, {"name": "a", "namespace": "gw", "sectionName": "https", "port": 80}, {"name": "b"}),
        ({"name": "c"}, {"name": "b", "namespace": "n"}, None, {"name": "c"}),
    ],
)
def test_a_gateway_comes_as_a_whole_from_one_level(
    own: JsonObject | None, near: JsonObject | None, far: JsonObject | None, expected: JsonObject
) -> None:
    def named(gateway: JsonObject | None) -> JsonObject:
        return {} if gateway is None else {"gatewayRef": gateway}

    (parent,) = body(service({"enabled": True, **named(own)}), cluster(**named(far)), local(**named(near)))["spec"][
        "parentRefs"
    ]
    assert {name: value for name, value in parent.items() if name not in ("group", "kind")} == expected


@pytest.mark.spec("RT-S10", "RT-130")
@pytest.mark.parametrize(
    ("own", "base", "expected"),
    [
        ("30s", "60s", "30s"),
        (None, "60s", "1m0s"),
        (None, None, None),
        ("180s", None, "3m0s"),
        ("1.5s", None, "1s500ms"),
    ],
)
def test_timeouts(own: str | None, base: str | None, expected: str | None) -> None:
    def timed(value: str | None) -> JsonObject:
        return {} if value is None else {"requestTimeout": value}

    (rule,) = body(service({**ON, **timed(own)}), cluster(**timed(base)))["spec"]["rules"]
    assert rule.get("timeouts") == (None if expected is None else {"request": expected})


@pytest.mark.spec("RT-S11", "RT-046", "RT-P03")
def test_annotations_are_joined_key_by_key() -> None:
    given = {"nginx.ingress.kubernetes.io/ssl-redirect": "true", "custom-annotation": "value"}
    own = {"custom-annotation": "mine", "x": "y"}
    route = body(service({**ON, "annotations": own}), cluster(annotations=given))
    assert route["metadata"]["annotations"] == {**given, **own}


@pytest.mark.spec("RT-S13", "RT-S14", "RT-S15", "RT-S16", "RT-070", "RT-090", "RT-081")
def test_paths() -> None:
    labels = {"aim.silogen.ai/workload-id": "Workload-42"}
    template = "/{.metadata.namespace}/{.metadata.labels['aim.silogen.ai/workload-id']}/"
    assert path(template, labels=labels) == "/testing/workload-42"
    model = {"resolvedModel": {"name": "Meta/Llama-3-8B"}}
    assert path("/{.metadata.namespace}/{.status.resolvedModel.name}", status=model) == "/testing/meta-llama-3-8b"
    suffix = {"route.suffix": " Team-A/B "}
    assert path("/{.metadata.annotations['route.suffix']}", annotations=suffix) == "/team-a/b"
    assert path(None) == "/testing/12345678-90ab"
    assert path("/{.metadata.uid}") == "/12345678-90ab"


@pytest.mark.spec("RT-S17", "RT-S18", "RT-S19", "RT-076", "RT-111", "RT-114", "RT-P11", "SV-P48")
@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("/{.metadata.labels['missing']}", "missing"),
        ("/" + "/".join("{.metadata.annotations['long']}" for _ in range(4)), "200"),
        ("/{.metadata[}", "invalid expression"),
        ("/{  }", "invalid expression"),
    ],
)
def test_a_template_that_cannot_be_rendered_is_reported_and_makes_no_route(template: str, why: str) -> None:
    found = plan(service({**ON, "pathTemplate": template}, annotations={"long": "x" * 104}))
    assert (reason(found), found.children, found.deletes) == ("PathTemplateInvalid", (), ())
    assert why in message(found)


@pytest.mark.spec("RT-S20")
def test_the_service_template_hides_that_of_the_config() -> None:
    base = cluster(pathTemplate="/ml/{.metadata.namespace}/{.metadata.labels['project']}")
    labels = {"project": "conversational-ai"}

    def at(routing: JsonObject) -> str:
        return str(body(service(routing, labels=labels), base)["spec"]["rules"][0]["matches"][0]["path"]["value"])

    assert at(ON) == "/ml/ml-team/conversational-ai"
    assert at({**ON, "pathTemplate": "/custom/{.metadata.name}"}) == "/custom/qwen-chat"


@pytest.mark.spec("RT-S23", "RT-S26")
@pytest.mark.parametrize(("generation", "expected"), [(1, "HTTPRouteAccepted"), (2, "HTTPRoutePending")])
def test_acceptance_of_the_present_route_counts(generation: int, expected: str) -> None:
    route = accepted_route(service(ON))
    route["metadata"] |= {"generation": generation, "creationTimestamp": "2026-11-01T12:00:00Z"}
    found = plan(service(ON), route)
    assert reason(found) == expected
    assert found.status is not None
    assert found.status["routing"] == {"path": "/ml-team/aimservice-qwen-chat-uid"}


@pytest.mark.spec("RT-S24", "RT-149", "RT-P04")
def test_a_rejected_route_can_be_corrected() -> None:
    route = accepted_route(service(ON))
    route["status"]["parents"][0]["conditions"][0] |= {"status": "False", "reason": "NotAllowedByListeners"}
    assert reason(plan(service(ON), route)) == "NotAllowedByListeners"
    moved = plan(service({**ON, "gatewayRef": {"name": "allowed"}}), route)
    assert moved.children[0].body["spec"]["parentRefs"][0]["name"] == "allowed"


@pytest.mark.spec("RT-S28", "RT-116")
def test_a_template_that_breaks_later_keeps_the_route_until_it_is_mended() -> None:
    routing = {**ON, "pathTemplate": "/t/{.metadata.labels['team']}"}
    route = accepted_route(service(routing, labels={"team": "nlp"}))
    broken = plan(service(routing), route)
    assert (reason(broken), broken.children, broken.deletes) == ("PathTemplateInvalid", (), ())
    assert broken.status is not None
    assert broken.status["routing"] == {"path": "/t/nlp"}
    reported = {"conditions": broken.status["conditions"]}
    mended = plan(service(routing, labels={"team": "cv"}, status=reported), route)
    assert mended.status is not None
    assert mended.status["routing"] == {"path": "/t/cv"}


@pytest.mark.spec("RT-S30", "RT-042")
def test_names_of_routes() -> None:
    assert http_route_name("my-svc", "default") == "my-svc-1080a608"
    assert http_route_name("qwen-chat", "ml-team") == ROUTE
    assert http_route_name("x" * 200, "default") == http_route_name("x" * 200, "default")
    assert len(http_route_name("x" * 200, "default")) <= 63


@pytest.mark.spec("RT-S31")
def test_a_route_without_owner_is_not_taken_over() -> None:
    foreign = {**accepted_route(service(ON))}
    foreign["metadata"] = {**foreign["metadata"], "ownerReferences": []}
    found = plan(service(ON), foreign)
    assert (reason(found), found.children, found.deletes) == ("AlreadyExists", (), ())
