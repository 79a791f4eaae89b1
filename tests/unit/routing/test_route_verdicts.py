"""What is said about a route and its path, word for word where somebody acts on it."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import condition, make
from support.deciding import decide

from aim_domain import AIMService, DivisibleSettings, Gateway, HTTPRoute, ParentReference
from aim_domain.kinds import AIM_SERVICE, HTTP_ROUTE
from aim_domain.kinds import GATEWAY as GATEWAY_KIND
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, HTTP_ROUTES, SERVICES
from aim_domain.path_template import PathTemplateError
from aim_domain.trim import gateway
from aim_routing.path import PathProblem, normalise, path_of, render
from aim_routing.route import acceptance, served
from aim_routing.service import definition
from controller_runtime import Component, Delete, JsonObject, Plan, StatusValue
from controller_runtime.testing import NOW, cache_of

GATEWAY = {"name": "gw", "namespace": "infra"}


def said(*entries: JsonObject, gateway: JsonObject | None = None, **metadata: Any) -> Component:
    """What follows from these parent entries of a route in the namespace ml-team."""
    route = make(HTTP_ROUTE, "chat", namespace="ml-team", status={"parents": list(entries)}, **metadata)
    return acceptance(HTTPRoute.model_validate(route), ParentReference.model_validate(gateway or GATEWAY))


def parent(*conditions: JsonObject, **ref: object) -> JsonObject:
    return {"parentRef": {**GATEWAY, **ref}, "conditions": [{**one, "observedGeneration": 1} for one in conditions]}


def unresolved(reason: str, message: str) -> JsonObject:
    return parent(condition("ResolvedRefs", False, reason, message))


@pytest.mark.spec("RT-143")
def test_an_accepted_route_names_gateway_and_route() -> None:
    accepted = said(parent(condition("Accepted", True)))
    assert (accepted.state, accepted.reason) == (StatusValue.READY, "HTTPRouteAccepted")
    assert accepted.message == "Gateway infra/gw accepted HTTPRoute chat"


def of_gateway(*conditions: JsonObject, section: str | None = None, generation: int = 1, **listener: Any) -> Component:
    """What follows of an accepted route where the Gateway has these conditions."""
    observed = [{**one, "observedGeneration": 1} for one in conditions]
    status = {"conditions": observed, "listeners": [listener] if listener else []}
    found = make(GATEWAY_KIND, "gw", namespace="infra", status=status, generation=generation)
    reference = {**GATEWAY, "sectionName": section} if section else GATEWAY
    accepted = said(parent(condition("Accepted", True), **reference), gateway=reference)
    return served(accepted, Gateway.model_validate(gateway(found)), ParentReference.model_validate(reference))


@pytest.mark.spec("RT-230")
def test_a_route_of_a_gateway_that_does_not_serve_is_not_ready() -> None:
    waiting = of_gateway(condition("Programmed", False, "NoResources", "0 of 2 proxies are ready"))
    assert (waiting.state, waiting.reason) == (StatusValue.PROGRESSING, "GatewayNotProgrammed")
    assert waiting.message == (
        "Gateway infra/gw does not serve yet, though it accepted the route: NoResources: 0 of 2 proxies are ready"
    )


@pytest.mark.spec("RT-230")
@pytest.mark.parametrize(
    "conditions",
    [
        (),
        (condition("Programmed", True),),
        (condition("Programmed", "Unknown", "Pending"),),
        (condition("Accepted", False, "Invalid"),),
    ],
)
def test_a_gateway_that_does_not_report_the_opposite_serves(conditions: tuple[JsonObject, ...]) -> None:
    assert of_gateway(*conditions).reason == "HTTPRouteAccepted"


@pytest.mark.spec("RT-230")
def test_what_a_gateway_reports_of_its_former_specification_changes_nothing() -> None:
    assert of_gateway(condition("Programmed", False, "Invalid"), generation=2).reason == "HTTPRouteAccepted"


@pytest.mark.spec("RT-230")
@pytest.mark.parametrize(("section", "reason"), [("web", "GatewayNotProgrammed"), ("other", "HTTPRouteAccepted")])
def test_the_listener_that_the_route_names_decides_too(section: str, reason: str) -> None:
    failing = {**condition("Programmed", False, "Invalid", "no certificate"), "observedGeneration": 1}
    found = of_gateway(condition("Programmed", True), section=section, name="web", conditions=[failing])
    assert found.reason == reason


@pytest.mark.spec("RT-231")
@pytest.mark.parametrize("reason", ["AddressNotAssigned", "AddressNotUsable"])
def test_a_gateway_without_a_load_balancer_serves_and_the_message_states_what_it_lacks(reason: str) -> None:
    found = of_gateway(condition("Programmed", False, reason, "no address"))
    assert (found.state, found.reason) == (StatusValue.READY, "HTTPRouteAccepted")
    assert found.message == (
        f"Gateway infra/gw accepted HTTPRoute chat; the Gateway has no address of its own yet ({reason}: no address)"
    )


@pytest.mark.spec("RT-232")
def test_the_count_of_attached_routes_is_not_published() -> None:
    def published(attached: int) -> JsonObject:
        """The status alone: the log compares versions without their resourceVersion (FW-446)."""
        listener = {"name": "web", "attachedRoutes": attached, "conditions": [condition("Programmed", True)]}
        return dict(gateway(make(GATEWAY_KIND, "gw", namespace="infra", status={"listeners": [listener]}))["status"])

    assert published(1) == published(2)
    assert published(1)["listeners"][0]["name"] == "web"


@pytest.mark.spec("RT-144")
@pytest.mark.parametrize(("message", "why"), [("no listener", "no listener"), ("", "NotAllowedByListeners")])
def test_a_rejection_is_reported_with_what_the_gateway_says(message: str, why: str) -> None:
    rejected = said(parent(condition("Accepted", False, "NotAllowedByListeners", message)))
    assert (rejected.state, rejected.reason) == (StatusValue.FAILED, "NotAllowedByListeners")
    assert rejected.message == f"Gateway infra/gw rejected HTTPRoute chat: {why}"


@pytest.mark.spec("RT-144", "FW-107")
def test_a_rejection_without_a_reason_has_one() -> None:
    assert said(parent(condition("Accepted", False, ""))).reason == "Unknown"


@pytest.mark.spec("RT-144", "RT-145")
def test_a_rejection_is_not_hidden_by_a_missing_backend() -> None:
    missing = condition("ResolvedRefs", False, "BackendNotFound")
    assert (
        said(parent(condition("Accepted", False, "NotAllowedByListeners"), missing)).reason == "NotAllowedByListeners"
    )
    assert said(parent(condition("Accepted", False, "Pending"), missing)).reason == "BackendNotFound"
    assert said(parent(condition("Accepted", "Unknown", "Odd"), missing)).reason == "BackendNotFound"


@pytest.mark.spec("RT-073")
@pytest.mark.parametrize(
    "expression",
    [
        ".metadata.resourceVersion",
        ".metadata.managedFields[0].manager",
        '.status.conditions[?(@.type=="Ready")].status',
        "$['status'].observedGeneration",
        ".status.routing.path",
    ],
)
def test_a_path_cannot_follow_what_never_rests(expression: str) -> None:
    metadata = {"resourceVersion": "7", "managedFields": [{"manager": "x"}]}
    status = {"conditions": [condition("Ready", True)], "observedGeneration": 1, "routing": {"path": "/a"}}
    with pytest.raises(PathTemplateError, match="invalid expression, a path cannot follow"):
        render(f"/{{{expression}}}", {"metadata": metadata, "status": status})


@pytest.mark.spec("RT-090")
def test_white_space_around_a_value_is_no_part_of_it() -> None:
    values: JsonObject = {"metadata": {"annotations": {"a": " x/y\n"}, "labels": {"a": " x "}}}
    assert render("/v-{.metadata.annotations['a']}-{.metadata.labels['a']}", values) == "/v-x/y-x"


@pytest.mark.spec("RT-093")
@pytest.mark.parametrize("value", ["", "  ", "---", "/"])
def test_a_value_of_which_nothing_is_left_is_an_error(value: str) -> None:
    with pytest.raises(PathTemplateError, match="the value is empty"):
        render("/{.metadata.labels['a']}", {"metadata": {"labels": {"a": value}}})


@pytest.mark.spec("RT-145")
@pytest.mark.parametrize(
    ("reason", "message", "reported"),
    [
        (
            "BackendNotFound",
            "no service",
            ("BackendNotFound", "no service; KServe creates it for the InferenceService"),
        ),
        ("BackendNotFound", "", ("BackendNotFound", "BackendNotFound; KServe creates it for the InferenceService")),
        ("RefNotPermitted", "no grant", ("RefNotPermitted", "no grant")),
        ("InvalidKind", "no such kind", ("InvalidKind", "no such kind")),
        ("UnsupportedProtocol", "no h2c", ("UnsupportedProtocol", "no h2c")),
        ("Odd", "of its own", ("RouteRefsUnresolved", "Odd: of its own")),
    ],
)
def test_unresolved_references_keep_the_reason_where_users_know_it(
    reason: str, message: str, reported: tuple[str, str]
) -> None:
    waiting = said(unresolved(reason, message))
    assert (waiting.reason, waiting.message) == reported
    assert waiting.state is StatusValue.PROGRESSING


@pytest.mark.spec("RT-142")
@pytest.mark.parametrize(("gateway", "name"), [(GATEWAY, "infra/gw"), ({"name": "gw"}, "ml-team/gw")])
def test_a_silent_gateway_is_named_with_its_namespace(gateway: JsonObject, name: str) -> None:
    assert said(gateway=gateway).message == f"Gateway {name} has not accepted HTTPRoute chat yet"


@pytest.mark.spec("RT-143", "RT-144")
def test_one_accepting_entry_is_enough_and_an_open_one_comes_before_a_rejection() -> None:
    rejected = parent(condition("Accepted", False, "NotAllowedByListeners"))
    assert said(rejected, parent(condition("Accepted", True))).reason == "HTTPRouteAccepted"
    assert said(rejected, unresolved("InvalidKind", "x")).reason == "InvalidKind"
    assert said(unresolved("InvalidKind", "x"), parent(condition("Accepted", True))).reason == "HTTPRouteAccepted"


@pytest.mark.spec("RT-147")
def test_a_condition_counts_from_the_generation_of_the_route_on() -> None:
    accepted = parent(condition("Accepted", True))
    assert said(accepted, generation=1).reason == "HTTPRouteAccepted"
    assert said(accepted, generation=2).reason == "HTTPRoutePending"
    without = {"parentRef": GATEWAY, "conditions": [condition("Accepted", True)]}
    assert said(without, generation=1).reason == "HTTPRoutePending"


@pytest.mark.spec("RT-148")
@pytest.mark.parametrize(
    "other", [{"group": "x"}, {"kind": "Service"}, {"namespace": "b"}, {"name": "b"}, {"sectionName": "b"}, {"port": 8}]
)
def test_an_entry_of_another_gateway_says_nothing(other: JsonObject) -> None:
    assert said(parent(condition("Accepted", True), **other)).reason == "HTTPRoutePending"


@pytest.mark.spec("RT-148")
def test_the_namespace_of_a_gateway_defaults_to_the_routes() -> None:
    entry = {"parentRef": {"name": "gw"}, "conditions": [{**condition("Accepted", True), "observedGeneration": 1}]}
    assert said(entry, gateway={"name": "gw", "namespace": "ml-team"}).reason == "HTTPRouteAccepted"
    assert said(entry).reason == "HTTPRoutePending"


def path(template: str, **members: Any) -> tuple[str, PathProblem | None]:
    service = AIMService.model_validate(make(AIM_SERVICE, "chat", namespace="ml-team", **members))
    outcome = path_of(service, template)
    return outcome.value, outcome.problem


@pytest.mark.spec("RT-115")
@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        (".status.resolvedModel.name", PathProblem.NOT_YET),
        (".status.cache.templateCacheRef.name", PathProblem.NOT_YET),
        (".status.resolvedModel.nothing", PathProblem.INVALID),
        (".status.status.nothing", PathProblem.INVALID),
        (".spec.model.name", PathProblem.INVALID),
    ],
)
def test_only_status_fields_of_the_schema_are_waited_for(expression: str, problem: PathProblem) -> None:
    assert path(f"/{{{expression}}}", spec={"model": {"image": "a/b:1"}}) == ("", problem)


@pytest.mark.spec("RT-106")
def test_two_hundred_characters_are_a_path_and_one_more_is_none() -> None:
    longest = "/" + "/".join(["x" * 49] * 4)
    assert len(longest) == 200
    assert normalise(longest) == longest
    assert normalise(longest.removeprefix("/")) == longest
    with pytest.raises(PathTemplateError):
        normalise(f"{longest}y")


VALUES: JsonObject = {
    "list": [
        {"n": "one", "size": 1, "on": True, "in": {"deep": "x"}},
        {"n": "two", "size": 2, "on": False, "in": {"deep": "y"}},
    ],
    "text": "word", "number": 3, "none": None, "map": {"a": "b"},
}  # fmt: skip


@pytest.mark.spec("RT-077", "RT-079")
@pytest.mark.parametrize(
    ("expression", "value"),
    [
        (".list[?(@.size < 2)].n", "one"),
        (".list[?(@.size <= 1)].n", "one"),
        (".list[?(@.size > 1)].n", "two"),
        (".list[?(@.size >= 2)].n", "two"),
        (".list[?(@.size != 1)].n", "two"),
        (".list[?(@.n == 'two')].size", "2"),
        ('.list[?(@.n != "two")].size', "1"),
        (".list[?(@.on == true)].n", "one"),
        (".list[?(@.on == false)].n", "two"),
        (".list[?(@.in.deep == y)].n", "two"),
        (".list[0:1].n", "one"),
        (".list[1:].n", "two"),
        (".list[:1].n", "one"),
        (".list[-2].n", "one"),
    ],
)
def test_filters_and_slices_find_one_value(expression: str, value: str) -> None:
    assert render(f"{{{expression}}}", VALUES) == value


@pytest.mark.spec("RT-079", "RT-113")
@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        (".list[2].n", "no result"),
        (".list[-3].n", "no result"),
        (".text[0]", "no result"),
        (".text.n", "no result"),
        (".list[?(@.on < 2)].n", "no result"),
        (".list[?(@.n < 2)].n", "no result"),
        (".list[?(@.size < two)].n", "no result"),
        (".list[?(@.none == 1)].n", "no result"),
        (".list[?(@.n.deep == 1)].n", "no result"),
        (".list[:].n", "several results, exactly one is needed"),
        (".map", "the value is not a string, number or boolean"),
        (".none", "the value is not a string, number or boolean"),
        (" ", "invalid expression, it is empty"),
        (".text[*]", "invalid expression at"),
    ],
)
def test_what_leads_to_no_single_value_is_named(expression: str, cause: str) -> None:
    with pytest.raises(PathTemplateError, match=cause) as raised:
        render(f"{{{expression}}}", VALUES)
    assert f"expression {{{expression.strip()}" in str(raised.value)


@pytest.mark.spec("RT-091", "RT-113")
def test_annotations_and_labels_are_named_when_they_are_missing() -> None:
    empty: JsonObject = {"metadata": {"annotations": {"a": "x/y"}, "labels": {"a": "x/y"}}}
    assert render("{.metadata.annotations['a']}", empty) == "x/y"
    assert render("{.metadata.labels['a']}", empty) == "x-y"
    with pytest.raises(PathTemplateError, match="annotation 'b' not found on the AIMService"):
        render("{.metadata.annotations['b']}", empty)
    with pytest.raises(PathTemplateError, match="label 'b' not found on the AIMService"):
        render("{.metadata.labels.b}", empty)


ROUTING = definition(DivisibleSettings())


def plan(service: JsonObject, *others: JsonObject) -> Plan:
    known = cache_of(ROUTING.consumes, service, *others, indexes=ROUTING.indexes)
    found = known.object(SERVICES, "ml-team", service["metadata"]["name"])
    return decide(ROUTING.reconcilers[0], found, known.view(), NOW)


def routed(name: str = "chat", *, enabled: bool = True, gateway: JsonObject | None = None) -> JsonObject:
    routing = {"enabled": enabled, "gatewayRef": gateway or {"name": "gw"}, "pathTemplate": "/same"}
    spec = {"model": {"image": "a/b:1"}, "routing": routing}
    return make(AIM_SERVICE, name, namespace="ml-team", spec=spec)


def route_of(service: JsonObject, **metadata: Any) -> JsonObject:
    (child,) = plan(service).children
    name = child.body["metadata"]["name"]
    reference = {"kind": "AIMService", "name": service["metadata"]["name"], "uid": service["metadata"]["uid"]}
    owners = [{**reference, "apiVersion": service["apiVersion"], "controller": True}]
    return make(HTTP_ROUTE, name, namespace="ml-team", owners=owners, spec=child.body["spec"], **metadata)


@pytest.mark.spec("RT-007", "RT-187")
def test_turning_routing_off_deletes_this_very_route() -> None:
    route = route_of(routed())
    name, uid = route["metadata"]["name"], route["metadata"]["uid"]
    off = routed(enabled=False)
    assert plan(off, route).deletes == (Delete(HTTP_ROUTES, "ml-team", name, uid, "routing is disabled"),)
    assert (
        plan(off, {**route, "metadata": {**route["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}).deletes
        == ()
    )


@pytest.mark.spec("RT-183")
def test_a_route_of_somebody_else_is_reported_with_its_controller() -> None:
    own = route_of(routed())
    other = {**own["metadata"]["ownerReferences"][0], "kind": "Gadget", "name": "g", "uid": "x"}
    by_hand = {**own["metadata"]["ownerReferences"][0], "uid": "y", "controller": False}
    for owners, said in (([by_hand, other], "is controlled by Gadget g"), ([by_hand], "has no controller owner")):
        theirs = {**own, "metadata": {**own["metadata"], "ownerReferences": owners}}
        found = plan(routed(), theirs)
        assert found.status is not None
        [ready] = found.status["conditions"]
        assert ready["message"].startswith(f"HTTPRoute ml-team/{own['metadata']['name']} exists and {said};")


def test_a_new_route_is_reported_by_its_name_and_its_gateway() -> None:
    known = routed()
    found = plan(known, route_of(known, created=NOW - timedelta(seconds=10)))
    assert found.status is not None
    [ready], [child] = found.status["conditions"], found.children
    assert ready["message"] == f"Gateway ml-team/gw has not accepted HTTPRoute {child.name} yet"


@pytest.mark.spec("RT-008", "FW-019")
def test_without_a_view_of_the_config_the_pass_is_tried_again() -> None:
    known = cache_of(ROUTING.consumes, routed(), indexes=ROUTING.indexes)
    known.make_stale(CLUSTER_RUNTIME_CONFIGS)
    found = decide(ROUTING.reconcilers[0], known.object(SERVICES, "ml-team", "chat"), known.view(), NOW)
    assert (found.children, found.status) == ((), None)
    assert found.retry is not None
