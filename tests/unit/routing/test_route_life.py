"""The life of a route on the API server: who owns it, what changes it, what is left alone (RT-180 to RT-203)."""

from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.builders import condition, make
from support.live import Live

from aim_domain import DivisibleSettings, labels
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_SERVICE
from aim_domain.kinds import GATEWAY as GATEWAY_KIND
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, GATEWAYS, HTTP_ROUTES, SERVICES
from aim_routing.service import definition
from controller_runtime import JsonObject, Plan

ROUTING = definition(DivisibleSettings())
GATEWAY: JsonObject = {"name": "gw", "namespace": "infra"}
ON: JsonObject = {"enabled": True, "gatewayRef": GATEWAY}
TEAM, NAME, ROUTE = "ml-team", "qwen-chat", "qwen-chat-a04542d9"


def service(routing: JsonObject | None = None, **metadata: Any) -> JsonObject:
    spec = {"model": {"image": "a/b:1"}, "routing": ON if routing is None else routing}
    return make(AIM_SERVICE, NAME, namespace=TEAM, spec=spec, **metadata)


def config(**routing: Any) -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"routing": routing})


def routed(*objects: JsonObject) -> Live:
    """A service whose route is made, so long ago that the gateway's silence is told."""
    live = Live(ROUTING, *objects, namespace=TEAM)
    settle(live)
    live.later(60)
    settle(live)
    assert live.names(HTTP_ROUTES) == [ROUTE]
    return live


def settle(live: Live) -> Plan:
    return live.settle(SERVICES, NAME)


def route(live: Live) -> JsonObject:
    return live.only(HTTP_ROUTES)


def make_owner(live: Live) -> JsonObject:
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "name": NAME,
        "uid": live.uid(SERVICES, NAME),
    }


def path_of(live: Live) -> str:
    return str(route(live)["spec"]["rules"][0]["matches"][0]["path"]["value"])


def reason(live: Live) -> str:
    (only,) = live.raw(SERVICES, NAME)["status"]["conditions"]
    return str(only["reason"])


def programmed(holds: bool) -> JsonObject:
    return {**condition("Programmed", holds, "Programmed" if holds else "NoResources"), "observedGeneration": 1}


def respond(live: Live, *conditions: JsonObject, parent: JsonObject | None = None) -> None:
    """Let the gateway report of the route as it is."""
    generation = route(live)["metadata"]["generation"]
    reported = [{**one, "observedGeneration": generation} for one in conditions]
    entry = {"parentRef": parent or GATEWAY, "controllerName": "example.com/gateway", "conditions": reported}
    live.change(HTTP_ROUTES, ROUTE, status={"parents": [entry]})


@pytest.mark.spec("RT-S12", "RT-040", "RT-044", "RT-048", "RT-060", "RT-202")
def test_a_route_has_one_owner_and_is_all_that_is_made() -> None:
    live = routed(service(uid="test-service-uid"))
    (owner,) = route(live)["metadata"]["ownerReferences"]
    uid = live.raw(SERVICES, NAME)["metadata"]["uid"]
    assert owner == {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "name": NAME,
        "uid": uid,
        "controller": True,
    }
    assert route(live)["metadata"]["labels"] == {
        "app.kubernetes.io/component": "routing",
        "app.kubernetes.io/managed-by": "aim-engine",
        "aim.eai.amd.com/service": NAME,
        "aim.eai.amd.com/service.name": NAME,
    }
    assert {part.kind.kind for part, _ in live.stored} == {"AIMService", "HTTPRoute"}
    written = live.raw(SERVICES, NAME)
    assert {one["type"] for one in written["status"]["conditions"]} == {"HTTPRouteReady"}
    assert set(written["status"]["routing"]) == {"path"}
    managers = {one["manager"] for one in written["metadata"]["managedFields"] if one.get("subresource") == "status"}
    assert managers == {"aim-routing"}


@pytest.mark.spec("RT-205", "RT-060", "FW-301")
def test_routing_writes_nothing_that_it_needs_no_permission_for() -> None:
    live = Live(ROUTING, service(), namespace=TEAM)
    for routing in (ON, {**ON, "pathTemplate": "/other"}, {"enabled": False}):
        live.change(SERVICES, NAME, spec={"model": {"image": "a/b:1"}, "routing": routing})
        settle(live)
        live.later(60)
        settle(live)
    assert live.requests() == {
        ("apply", "httproutes"),
        ("delete", "httproutes"),
        ("apply", "aimservices/status"),
        ("create", "events"),
    }


@pytest.mark.spec("RT-057", "FW-209", "FW-200")
def test_a_route_of_the_existing_go_operator_becomes_ours() -> None:
    live = routed(service())
    spec = {**route(live)["spec"], "hostnames": ["old.example.com"]}
    live.remove(HTTP_ROUTES, ROUTE)
    owners = [{**make_owner(live), "controller": True}]
    live.apply(
        HTTP_ROUTES,
        ROUTE,
        {"spec": spec, "metadata": {"ownerReferences": owners, "labels": {"old": "yes"}}},
        "aim-service-controller",
    )
    settle(live)
    assert "hostnames" not in route(live)["spec"]
    assert "old" not in route(live)["metadata"]["labels"]
    assert [entry["manager"] for entry in route(live)["metadata"]["managedFields"]] == ["aim-routing"]


@pytest.mark.spec("RT-056", "RT-204")
def test_a_pass_that_changes_nothing_writes_nothing() -> None:
    live = routed(service())
    before = route(live)["metadata"]["resourceVersion"]
    assert {one["manager"] for one in route(live)["metadata"]["managedFields"]} == {"aim-routing"}
    for _ in range(3):
        live.run(SERVICES, NAME)
    assert route(live)["metadata"]["resourceVersion"] == before


@pytest.mark.spec("RT-181", "RT-120")
@pytest.mark.parametrize("of_config", [False, True])
@pytest.mark.parametrize(
    ("change", "where", "value"),
    [
        ({"gatewayRef": {"name": "other"}}, ("spec", "parentRefs"), "other"),
        ({"pathTemplate": "/elsewhere"}, ("spec", "rules"), "/elsewhere"),
        ({"requestTimeout": "90s"}, ("spec", "rules"), "1m30s"),
        ({"annotations": {"a.example.com/x": "y"}}, ("metadata", "annotations"), "y"),
    ],
)
def test_a_change_reaches_the_same_route(
    change: JsonObject, where: tuple[str, str], value: str, of_config: bool
) -> None:
    base = config(**({} if of_config else ON))
    live = routed(service({"enabled": True}) if of_config else service(), config(**ON) if of_config else base)
    before = route(live)["metadata"]
    if of_config:
        live.change(CLUSTER_RUNTIME_CONFIGS, "default", spec={"routing": {**ON, **change}})
    else:
        live.change(SERVICES, NAME, spec={"model": {"image": "a/b:1"}, "routing": {**ON, **change}})
    settle(live)
    after = route(live)
    assert (after["metadata"]["uid"], after["metadata"]["name"]) == (before["uid"], before["name"])
    assert value in str(after[where[0]][where[1]])


@pytest.mark.spec("RT-120", "RT-116")
def test_the_path_follows_what_its_template_reads() -> None:
    live = routed(service({**ON, "pathTemplate": "/t/{.metadata.labels['team']}"}, labels={"team": "nlp"}))
    assert path_of(live) == "/t/nlp"
    live.change(SERVICES, NAME, metadata={"labels": {"team": "cv"}})
    settle(live)
    assert path_of(live) == "/t/cv"
    assert len(route(live)["spec"]["rules"]) == 1, "the old path is served no more"


@pytest.mark.spec("RT-047")
def test_annotations_that_nobody_wants_any_more_go_and_those_of_others_stay() -> None:
    base = config(annotations={"a/cluster": "1"}, **ON)
    live = routed(service({"enabled": True, "annotations": {"a/own": "2"}}), base)
    assert {"a/cluster", "a/own"} <= set(route(live)["metadata"]["annotations"])
    live.apply(HTTP_ROUTES, ROUTE, {"metadata": {"annotations": {"b/foreign": "3"}}}, "somebody")
    live.change(CLUSTER_RUNTIME_CONFIGS, "default", spec={"routing": ON})
    live.change(SERVICES, NAME, spec={"model": {"image": "a/b:1"}, "routing": {"enabled": True}})
    settle(live)
    left = route(live)["metadata"]["annotations"]
    assert left["b/foreign"] == "3"
    assert not {"a/cluster", "a/own"} & set(left)


@pytest.mark.spec("RT-186", "RT-P12")
def test_what_somebody_changes_is_put_back_and_what_somebody_adds_is_kept() -> None:
    live = routed(service())
    mine = route(live)["spec"]
    theirs = {"spec": {"parentRefs": [{"name": "stolen"}], "hostnames": ["theirs.example.com"]}}
    live.apply(HTTP_ROUTES, ROUTE, theirs, "kubectl")
    assert route(live)["spec"] != mine
    settle(live)
    assert route(live)["spec"] == {**mine, "hostnames": ["theirs.example.com"]}


@pytest.mark.spec("RT-186")
def test_a_deleted_route_is_made_again() -> None:
    live = routed(service())
    before = route(live)["metadata"]["uid"]
    live.remove(HTTP_ROUTES, ROUTE)
    assert live.names(HTTP_ROUTES) == []
    settle(live)
    assert route(live)["metadata"]["uid"] != before


@pytest.mark.spec("RT-185")
def test_the_route_goes_with_its_service_and_no_finalizer_holds_that_up() -> None:
    live = routed(service())
    assert not live.raw(SERVICES, NAME)["metadata"].get("finalizers")
    live.remove(SERVICES, NAME)
    assert live.find(SERVICES, NAME) is None
    assert live.names(HTTP_ROUTES) == []


@pytest.mark.spec("RT-190", "RT-S32", "FW-002")
def test_a_paused_service_keeps_route_and_status_until_it_goes_on() -> None:
    live = routed(service())
    before, status = path_of(live), live.raw(SERVICES, NAME)["status"]
    live.change(SERVICES, NAME, metadata={"annotations": {labels.ANNOTATION_PAUSED: "true"}})
    live.change(SERVICES, NAME, spec={"model": {"image": "a/b:1"}, "routing": {**ON, "pathTemplate": "/new"}})
    settle(live)
    assert (path_of(live), live.raw(SERVICES, NAME)["status"]) == (before, status)
    live.change(SERVICES, NAME, metadata={"annotations": None})
    settle(live)
    assert path_of(live) == "/new"


@pytest.mark.spec("RT-025", "RT-026", "RT-189", "RT-142", "RT-144")
def test_a_gateway_decides_by_the_status_of_the_route() -> None:
    assert "ReferenceGrant" not in {part.kind.kind for part in ROUTING.consumes}
    live = routed(service())
    assert reason(live) == "HTTPRoutePending", "a gateway that does not exist says nothing"
    (parent,) = route(live)["spec"]["parentRefs"]
    assert (parent["namespace"], route(live)["metadata"]["namespace"]) == ("infra", TEAM)
    respond(live, condition("Accepted", False, "NotAllowedByListeners"))
    settle(live)
    assert reason(live) == "NotAllowedByListeners"
    respond(live, condition("Accepted", True, "Accepted"))
    settle(live)
    assert reason(live) == "HTTPRouteAccepted"


@pytest.mark.spec("RT-230")
def test_a_service_waits_for_a_gateway_that_does_not_serve_and_follows_its_event() -> None:
    listener = {"name": "web", "port": 80, "protocol": "HTTP"}
    spec = {"gatewayClassName": "any", "listeners": [listener]}
    gateway = make(GATEWAY_KIND, "gw", namespace="infra", spec=spec, status={"conditions": [programmed(False)]})
    live = Live(ROUTING, service(), gateway, namespace=TEAM)
    settle(live)
    respond(live, condition("Accepted", True, "Accepted"))
    settle(live)
    assert reason(live) == "GatewayNotProgrammed"
    live.change(GATEWAYS, "gw", "infra", status={"conditions": [programmed(True)]})
    settle(live)
    assert reason(live) == "HTTPRouteAccepted"


@pytest.mark.spec("RT-P10", "RT-134", "RT-132")
def test_a_malformed_timeout_harms_only_its_own_service() -> None:
    timed = {"model": {"image": "a/b:1"}, "routing": {**ON, "requestTimeout": "1.5s"}}
    other = make(AIM_SERVICE, "other", namespace=TEAM, spec=timed)
    live = Live(ROUTING, service({**ON, "requestTimeout": "soon"}), other, namespace=TEAM)
    settle(live)
    assert reason(live) == "InvalidSpec"
    live.settle(SERVICES, "other")
    (made,) = live.all(HTTP_ROUTES)
    assert made["spec"]["rules"][0]["timeouts"] == {"request": "1s500ms"}, "which the API server accepts"


@pytest.mark.spec("FW-534")
def test_a_route_that_the_service_does_not_declare_is_not_written() -> None:
    live = Live(replace(ROUTING, writes=()), service(), namespace=TEAM)
    with capture_logs() as logs, pytest.raises(ValueError, match="expected 1, got 0"):
        live.run(SERVICES, NAME)
    assert [one["event"] for one in logs] == ["reconcile failed unexpectedly"]
    assert live.names(HTTP_ROUTES) == []
