"""The routing part of an AIMService, pass by pass."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from support.builders import condition, make, owner
from support.deciding import decide
from support.woken import woken

from aim_domain import DivisibleSettings, labels
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_SERVICE, HTTP_ROUTE
from aim_domain.naming import inference_service_name
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, HTTP_ROUTES, SERVICES
from aim_routing.service import definition
from controller_runtime import Category, Change, ClassifiedError, JsonObject, Key, Plan, timestamp
from controller_runtime.testing import NOW, BuiltCache, cache_of

ROUTING = definition(DivisibleSettings())
RECONCILER = ROUTING.reconcilers[0]
GATEWAY = {"name": "gw", "namespace": "infra"}
ROUTE = "qwen-chat-a04542d9"


def service(routing: JsonObject | None = None, **members: Any) -> JsonObject:
    spec = {"model": {"image": "a/b:1"}, **({} if routing is None else {"routing": routing})}
    return make(AIM_SERVICE, "qwen-chat", namespace="ml-team", **{"spec": spec, **members})


def config(routing: JsonObject) -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"routing": routing})


def cache(*objects: JsonObject) -> BuiltCache:
    return cache_of(ROUTING.consumes, *objects, indexes=ROUTING.indexes)


def passes(known: BuiltCache, failure: ClassifiedError | None = None, failing_since: datetime | None = None) -> Plan:
    view = known.view(failure, failing_since)
    return decide(RECONCILER, known.object(SERVICES, "ml-team", "qwen-chat"), view, NOW)


def stored_route(plan: Plan, *parents: JsonObject, owner_of: JsonObject | None = None, **metadata: Any) -> JsonObject:
    body = plan.children[0].body
    owners = [owner(owner_of or service())]
    labels = body["metadata"]["labels"]
    return make(
        HTTP_ROUTE,
        ROUTE,
        namespace="ml-team",
        owners=owners,
        labels=labels,
        spec=body["spec"],
        status={"parents": list(parents)},
        **{"created": NOW - timedelta(hours=1), **metadata},
    )


def parent(*conditions: JsonObject, ref: JsonObject | None = None) -> JsonObject:
    return {
        "parentRef": ref or GATEWAY,
        "controllerName": "x",
        "conditions": [{**one, "observedGeneration": 1} for one in conditions],
    }


def ready_of(plan: Plan) -> tuple[str, str]:
    assert plan.status is not None
    (only,) = plan.status["conditions"]
    assert only["type"] == "HTTPRouteReady"
    return only["status"], only["reason"]


@pytest.mark.spec("RT-001", "RT-002", "RT-004")
@pytest.mark.parametrize(
    ("own", "base", "on"),
    [
        (None, None, False),
        (None, False, False),
        (None, True, True),
        (True, None, True),
        (True, False, True),
        (True, True, True),
        (False, None, False),
        (False, False, False),
        (False, True, False),
    ],
)
def test_when_routing_is_enabled(own: bool | None, base: bool | None, on: bool) -> None:
    routing = {} if own is None else {"enabled": own}
    known = cache(service(routing), config({"gatewayRef": GATEWAY, **({} if base is None else {"enabled": base})}))
    assert bool(passes(known).children) is on


@pytest.mark.spec(
    "RT-007",
    "RT-024",
    "RT-040",
    "RT-041",
    "RT-044",
    "RT-045",
    "RT-049",
    "RT-050",
    "RT-051",
    "RT-052",
    "RT-053",
    "RT-055",
)
def test_the_route_is_made_while_nothing_else_is_ready() -> None:
    labels = {"aim.eai.amd.com/team": "x", "other": "y"}
    plan = passes(cache(service({"enabled": True}, labels=labels), config({"gatewayRef": GATEWAY})))
    (child,) = plan.children
    assert child.owned
    assert child.body["metadata"] == {
        "name": ROUTE,
        "namespace": "ml-team",
        "labels": {
            "aim.eai.amd.com/team": "x",
            "app.kubernetes.io/component": "routing",
            "app.kubernetes.io/managed-by": "aim-engine",
            "aim.eai.amd.com/service": "qwen-chat",
            "aim.eai.amd.com/service.name": "qwen-chat",
        },
    }
    assert child.body["spec"] == {
        "parentRefs": [GATEWAY],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/ml-team/aimservice-qwen-chat-uid"}}],
                "filters": [
                    {
                        "type": "URLRewrite",
                        "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}},
                    }
                ],
                "backendRefs": [{"kind": "Service", "name": f"{ROUTE}-predictor", "namespace": "ml-team", "port": 80}],
            }
        ],
    }


@pytest.mark.spec("RT-240")
@pytest.mark.parametrize(
    ("stated", "rolls_out", "weights"),
    [
        ({"weight": 30, "candidate": "chat-next"}, True, [70, 30]),
        ({"weight": 100, "candidate": "chat-next"}, True, [0, 100]),
        ({"candidate": "chat-next"}, True, [None]),
        ({"weight": 30}, True, [None]),
        ({"weight": 30, "candidate": "chat-next"}, False, [None]),
    ],
)
def test_a_rollout_divides_the_requests(stated: JsonObject, rolls_out: bool, weights: list[int | None]) -> None:
    one = service({"enabled": True}, status={"rollout": stated})
    if rolls_out:
        one["spec"]["rollout"] = {"steps": [{"weight": 30}]}
    (child,) = passes(cache(one, config({"gatewayRef": GATEWAY}))).children
    [rule] = child.body["spec"]["rules"]
    found = [(ref["name"], ref.get("weight")) for ref in rule["backendRefs"]]
    beside = f"{inference_service_name('chat-next', 'ml-team')}-predictor"
    assert found == list(zip((f"{ROUTE}-predictor", beside), weights, strict=False))


@pytest.mark.spec("RT-142", "RT-170", "FW-370", "FW-371", "RT-P08", "FW-373", "RT-140")
def test_what_is_reported_is_pending_and_the_path_and_nothing_of_others() -> None:
    seventh = service({"enabled": True})
    seventh["metadata"]["generation"] = 7
    known = cache(seventh, config({"gatewayRef": GATEWAY}))
    known.put(HTTP_ROUTES, stored_route(passes(known)))
    plan = passes(known)
    assert plan.status is not None
    assert plan.status["conditions"][0]["observedGeneration"] == 7
    assert set(plan.status) == {"conditions", "routing"}
    assert plan.status["routing"] == {"path": "/ml-team/aimservice-qwen-chat-uid"}
    assert ready_of(plan) == ("False", "HTTPRoutePending")


@pytest.mark.spec("RT-143", "RT-144", "RT-145", "RT-146", "RT-147", "RT-148", "RT-S25", "RT-P06")
@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        (
            [parent(condition("Accepted", True, "Accepted"), condition("ResolvedRefs", True))],
            ("True", "HTTPRouteAccepted"),
        ),
        ([parent(condition("Accepted", True))], ("True", "HTTPRouteAccepted")),
        ([parent(condition("Accepted", False, "NotAllowedByListeners"))], ("False", "NotAllowedByListeners")),
        ([parent(condition("Accepted", False, "Pending"))], ("False", "HTTPRoutePending")),
        ([parent(condition("Accepted", "Unknown", "Whatever"))], ("False", "HTTPRoutePending")),
        (
            [parent(condition("Accepted", True), condition("ResolvedRefs", False, "BackendNotFound"))],
            ("False", "BackendNotFound"),
        ),
        (
            [parent(condition("Accepted", True), condition("ResolvedRefs", False, "Odd"))],
            ("False", "RouteRefsUnresolved"),
        ),
        (
            [parent(condition("Accepted", False, "NoMatchingParent"), ref={"name": "old"})],
            ("False", "HTTPRoutePending"),
        ),
        ([], ("False", "HTTPRoutePending")),
    ],
)
def test_what_the_gateway_says_becomes_the_condition(parents: list[JsonObject], expected: tuple[str, str]) -> None:
    known = cache(service({"enabled": True}), config({"gatewayRef": GATEWAY}))
    known.put(HTTP_ROUTES, stored_route(passes(known), *parents))
    assert ready_of(passes(known)) == expected


@pytest.mark.spec("RT-174", "RT-140", "RT-172")
@pytest.mark.parametrize(("reason", "seconds"), [("HTTPRoutePending", 10), ("BackendNotFound", 60)])
def test_of_a_new_route_nothing_is_reported_while_the_usual_may_follow(reason: str, seconds: int) -> None:
    missing = parent(condition("Accepted", True), condition("ResolvedRefs", False, "BackendNotFound"))
    said = [missing] if reason == "BackendNotFound" else []

    def after(age: float, *reported: JsonObject) -> Plan:
        known = cache(service({"enabled": True, "gatewayRef": GATEWAY}, status={"conditions": list(reported)}))
        route = stored_route(passes(known), *said, created=NOW - timedelta(seconds=age))
        known.put(HTTP_ROUTES, route)
        return passes(known)

    quiet = after(seconds - 1)
    assert (quiet.status, quiet.events, quiet.requeue_after) == (None, (), 1.0)
    assert len(quiet.children) == 1, "it is applied all the same"
    assert ready_of(after(seconds)) == ("False", reason)
    accepted = condition("HTTPRouteReady", True, "HTTPRouteAccepted")
    assert ready_of(after(1, accepted)) == ("False", reason), "of what was told, every change is"


@pytest.mark.spec("RT-174")
def test_the_pass_that_makes_the_route_tells_nothing() -> None:
    plan = passes(cache(service({"enabled": True, "gatewayRef": GATEWAY})))
    assert (plan.status, plan.requeue_after, len(plan.children)) == (None, 10.0, 1)


@pytest.mark.spec("RT-145")
def test_a_backend_that_kserve_is_just_making_is_reported_after_two_seconds() -> None:
    missing = parent(condition("Accepted", True), condition("ResolvedRefs", False, "BackendNotFound"))

    def since(seconds: float) -> Plan:
        waiting = condition("HTTPRouteReady", False, "HTTPRoutePending", since=NOW - timedelta(seconds=seconds))
        known = cache(service({"enabled": True, "gatewayRef": GATEWAY}, status={"conditions": [waiting]}))
        known.put(HTTP_ROUTES, stored_route(passes(known), missing))
        return passes(known)

    assert ready_of(since(1)) == ("False", "HTTPRoutePending")
    assert since(1).requeue_after == 1.0
    assert ready_of(since(2)) == ("False", "BackendNotFound")


@pytest.mark.spec("RT-147")
def test_conditions_about_an_older_route_are_ignored() -> None:
    known = cache(service({"enabled": True}), config({"gatewayRef": GATEWAY}))
    known.put(HTTP_ROUTES, stored_route(passes(known), parent(condition("Accepted", True)), generation=2))
    assert ready_of(passes(known)) == ("False", "HTTPRoutePending")


@pytest.mark.spec("RT-027", "RT-028")
def test_without_gateway_nothing_is_made_and_both_places_are_named() -> None:
    plan = passes(cache(service({"enabled": True})))
    assert plan.children == ()
    assert ready_of(plan) == ("False", "GatewayNotConfigured")
    assert plan.status is not None
    message = plan.status["conditions"][0]["message"]
    assert "spec.routing.gatewayRef" in message
    assert "runtime config" in message


@pytest.mark.spec("RT-054", "RT-P09")
def test_a_namespace_that_is_too_long_is_an_input_error() -> None:
    routed = make(AIM_SERVICE, "s", namespace="n" * 43, spec={"routing": {"enabled": True, "gatewayRef": GATEWAY}})
    known = cache(routed)
    plan = decide(RECONCILER, known.object(SERVICES, "n" * 43, "s"), known.view(), NOW)
    assert plan.children == ()
    assert ready_of(plan) == ("False", "InvalidSpec")


@pytest.mark.spec("CC-307", "RT-134")
@pytest.mark.parametrize("timeout", ["soon", "-1s", "1us", "100000h"])
def test_an_unusable_timeout_is_an_input_error(timeout: str) -> None:
    plan = passes(cache(service({"enabled": True, "gatewayRef": GATEWAY, "requestTimeout": timeout})))
    assert plan.children == ()
    assert ready_of(plan) == ("False", "InvalidSpec")


@pytest.mark.spec("RT-134")
@pytest.mark.parametrize(("own", "named"), [("5q", False), (None, True)])
def test_an_unusable_timeout_of_a_runtime_config_is_reported_as_its_own(own: str | None, named: bool) -> None:
    routing = {"enabled": True, "gatewayRef": GATEWAY, **({} if own is None else {"requestTimeout": own})}
    plan = passes(cache(service(routing), config({"requestTimeout": "5q"})))
    assert plan.status is not None
    (message,) = (one["message"] for one in plan.status["conditions"] if one["type"] == "HTTPRouteReady")
    assert message.startswith("spec.routing.requestTimeout of its runtime config: '5q'") is named


@pytest.mark.spec("RT-110", "RT-112", "RT-171")
def test_a_template_error_keeps_the_route_as_it_is() -> None:
    known = cache(service({"enabled": True, "gatewayRef": GATEWAY}))
    known.put(HTTP_ROUTES, stored_route(passes(known), parent(condition("Accepted", True))))
    known.put(SERVICES, service({"enabled": True, "gatewayRef": GATEWAY, "pathTemplate": "/{.spec.nope}"}))
    plan = passes(known)
    assert plan.children == ()
    assert plan.deletes == ()
    assert ready_of(plan) == ("False", "PathTemplateInvalid")
    assert plan.status is not None
    assert plan.status["routing"] == {"path": "/ml-team/aimservice-qwen-chat-uid"}


@pytest.mark.spec("RT-182", "RT-183", "RT-162", "FW-372", "RT-S27", "RT-P07")
def test_turning_routing_off_deletes_the_own_route_and_clears_the_status() -> None:
    known = cache(service({"enabled": True, "gatewayRef": GATEWAY}))
    known.put(HTTP_ROUTES, stored_route(passes(known)))
    known.put(SERVICES, service({"enabled": False}))
    plan = passes(known)
    assert [(one.name, one.uid) for one in plan.deletes] == [(ROUTE, f"httproute-{ROUTE}-uid")]
    assert plan.status == {}


@pytest.mark.spec("RT-183", "RT-184")
def test_a_route_of_somebody_else_is_left_alone() -> None:
    other = make(AIM_SERVICE, "other", namespace="ml-team", uid="other-uid")
    known = cache(service({"enabled": True, "gatewayRef": GATEWAY}))
    known.put(HTTP_ROUTES, stored_route(passes(known), owner_of=other))
    plan = passes(known)
    assert plan.children == ()
    assert ready_of(plan) == ("False", "AlreadyExists")
    assert plan.status is not None
    assert "exists and is controlled by AIMService other; delete it" in plan.status["conditions"][0]["message"]
    known.put(SERVICES, service({"enabled": False}))
    assert passes(known).deletes == ()


@pytest.mark.spec("RT-184")
def test_the_route_of_an_earlier_service_of_this_name_is_waited_for() -> None:
    known = cache(service({"enabled": True, "gatewayRef": GATEWAY}))
    earlier = make(AIM_SERVICE, "qwen-chat", namespace="ml-team", uid="earlier-uid")
    known.put(HTTP_ROUTES, stored_route(passes(known), owner_of=earlier))
    plan = passes(known)
    assert (ready_of(plan), plan.children, plan.deletes) == (("False", "HTTPRoutePending"), (), ())
    assert [one for one in plan.events if one.type == "Warning"] == []


@pytest.mark.spec("RT-008")
def test_a_config_that_can_not_be_resolved_changes_nothing() -> None:
    spec = {"model": {"image": "a/b:1"}, "runtimeConfigName": "gone", "routing": {"enabled": True}}
    plan = passes(cache(service(spec=spec)))
    assert plan == Plan()


@pytest.mark.spec("RT-141", "FW-863")
def test_a_working_route_is_believed_in_while_the_api_is_away() -> None:
    known = cache(
        service({"enabled": True, "gatewayRef": GATEWAY}, status={"conditions": [condition("HTTPRouteReady", True)]})
    )
    away = ClassifiedError(Category.INFRASTRUCTURE, "Timeout", "apply HTTPRoute: timed out")
    plan = passes(known, away)
    assert plan.status is None
    assert (plan.retry, plan.retry_within) == (away, 10)
    still = passes(known, away, NOW - timedelta(seconds=9))
    assert (still.status, still.retry_within) == (None, 1)
    given_up = passes(known, away, NOW - timedelta(seconds=10))
    assert (ready_of(given_up), given_up.retry) == (("False", "HTTPRouteFetchError"), away)
    assert passes(known, away, NOW + timedelta(hours=1)) == given_up, "the clock was set back"
    rejected = passes(known, ClassifiedError(Category.INVALID_SPEC, "InvalidSpec", "refused"))
    assert ready_of(rejected) == ("False", "InvalidSpec")
    assert rejected.retry is None


@pytest.mark.spec("RT-141", "FW-062")
@pytest.mark.parametrize("stored", [[], [condition("HTTPRouteReady", False, "HTTPRoutePending")]])
def test_a_condition_stays_as_it_is_while_the_api_is_away_for_a_moment(stored: list[JsonObject]) -> None:
    known = cache(service({"enabled": True, "gatewayRef": GATEWAY}, status={"conditions": stored}))
    away = ClassifiedError(Category.INFRASTRUCTURE, "Timeout", "apply HTTPRoute: timed out")
    assert passes(known, away) == Plan(retry=away, retry_within=10)
    assert ready_of(passes(known, away, NOW - timedelta(seconds=10))) == ("False", "HTTPRouteFetchError")


@pytest.mark.spec("RT-204")
def test_the_same_cache_gives_the_same_plan() -> None:
    known = cache(service({"enabled": True}), config({"gatewayRef": GATEWAY, "annotations": {"b": "1", "a": "2"}}))
    assert passes(known) == passes(known)


@pytest.mark.spec("FW-378")
def test_status_changes_of_serving_wake_nothing_but_resolved_references_do() -> None:
    known = cache(service({"enabled": True}))
    before = known.cache.get(SERVICES, Key("ml-team", "qwen-chat"))

    def ignored(**status: object) -> bool:
        known.put(SERVICES, service({"enabled": True}, status=status))
        after = known.cache.get(SERVICES, Key("ml-team", "qwen-chat"))
        return RECONCILER.ignores(Change(SERVICES, Key("ml-team", "qwen-chat"), before, after))

    assert ignored(conditions=[condition("ModelReady", True)])
    assert not ignored(resolvedModel={"name": "m"})
    assert not ignored(conditions=[condition("HTTPRouteReady", True)])


@pytest.mark.spec("RT-187", "RT-188", "RT-S29")
def test_configs_and_routes_wake_their_services() -> None:
    known = cache(service({"enabled": True}), config({"gatewayRef": GATEWAY}))
    before, after = config({"gatewayRef": GATEWAY}), config({"gatewayRef": {**GATEWAY, "name": "other"}})
    assert woken(ROUTING, known, CLUSTER_RUNTIME_CONFIGS, None, before) == {"routing:ml-team/qwen-chat"}
    assert woken(ROUTING, known, CLUSTER_RUNTIME_CONFIGS, before, after) == {"routing:ml-team/qwen-chat"}
    assert woken(ROUTING, known, CLUSTER_RUNTIME_CONFIGS, before, {**before, "status": {"conditions": []}}) == set()
    route = stored_route(passes(known))
    accepted = {**route, "status": {"parents": [{"parentRef": GATEWAY, "conditions": [condition("Accepted", True)]}]}}
    assert woken(ROUTING, known, HTTP_ROUTES, route, accepted) == {"routing:ml-team/qwen-chat"}


@pytest.mark.spec("RT-184", "RT-188")
def test_a_foreign_route_wakes_who_needs_its_name_when_it_goes() -> None:
    known = cache(service({"enabled": True}), config({"gatewayRef": GATEWAY}))
    foreign = {**make(AIM_SERVICE, "other", namespace="ml-team"), "kind": "Gadget"}
    route = stored_route(passes(known), owner_of=foreign)
    assert woken(ROUTING, known, HTTP_ROUTES, route, None) == {"routing:ml-team/qwen-chat"}
    assert woken(ROUTING, known, HTTP_ROUTES, route, route) == set()


NAMESAKES = [f"qwen3-32b-customer-{last}" for last in ("support", "suggest")]


def namesakes(**of_older: Any) -> tuple[JsonObject, JsonObject]:
    """Two services whose InferenceServices would have one name, the older first."""
    older, younger = (
        make(
            AIM_SERVICE,
            name,
            namespace="ml-platform-production",
            created=NOW + timedelta(hours=hour),
            spec={"routing": {"enabled": True, "gatewayRef": GATEWAY}},
            **members,
        )
        for hour, (name, members) in enumerate(zip(NAMESAKES, (of_older, {}), strict=True))
    )
    return older, younger


def plan_of(known: BuiltCache, name: str) -> Plan:
    found = known.object(SERVICES, "ml-platform-production", name)
    return decide(RECONCILER, found, known.view(), NOW)


@pytest.mark.spec("RT-191")
def test_nobody_is_routed_to_the_model_of_a_namesake() -> None:
    older, younger = namesakes()
    known = cache(older, younger)
    assert len(plan_of(known, NAMESAKES[0]).children) == 1
    refused = plan_of(known, NAMESAKES[1])
    assert refused.children == ()
    assert ready_of(refused) == ("False", "AlreadyExists")
    assert refused.status is not None
    assert NAMESAKES[0] in refused.status["conditions"][0]["message"]
    found = woken(ROUTING, known, SERVICES, older, None)
    assert f"routing:ml-platform-production/{NAMESAKES[1]}" in found


@pytest.mark.spec("RT-191")
def test_a_route_to_the_model_of_an_older_namesake_is_deleted() -> None:
    older, younger = namesakes()
    (child,) = plan_of(cache(younger), NAMESAKES[1]).children
    made = {"namespace": "ml-platform-production", "owners": [owner(younger)], "spec": child.body["spec"]}
    route = make(HTTP_ROUTE, child.name, **made)
    refused = plan_of(cache(older, younger, route), NAMESAKES[1])
    assert [(one.name, one.uid) for one in refused.deletes] == [(child.name, route["metadata"]["uid"])]
    assert refused.status is not None
    assert "routing" not in refused.status


@pytest.mark.spec("RT-191")
def test_a_namesake_that_goes_away_keeps_nobody_from_a_route() -> None:
    known = cache(*namesakes(deleting=NOW))
    assert len(plan_of(known, NAMESAKES[1]).children) == 1


@pytest.mark.spec("RT-071")
def test_an_empty_template_of_the_service_hides_that_of_the_config() -> None:
    base = config({"gatewayRef": GATEWAY, "pathTemplate": "/of/the/config"})
    uid = service()["metadata"]["uid"]
    plan = passes(cache(service({"enabled": True, "pathTemplate": ""}), base))
    (rule,) = plan.children[0].body["spec"]["rules"]
    assert rule["matches"][0]["path"]["value"] == f"/ml-team/{uid}"


@pytest.mark.spec("RT-115")
def test_a_status_field_that_is_gone_is_an_error_once_there_is_a_route() -> None:
    wanted = {"enabled": True, "gatewayRef": GATEWAY, "pathTemplate": "/{.status.resolvedModel.name}"}
    known = {"resolvedModel": {"name": "qwen"}}
    route = stored_route(passes(cache(service(wanted, status=known))))
    assert ready_of(passes(cache(service(wanted)))) == ("False", "HTTPRoutePending")
    assert ready_of(passes(cache(service(wanted), route))) == ("False", "PathTemplateInvalid")


@pytest.mark.spec("RT-044")
def test_a_name_that_is_no_label_value_is_cut_to_one() -> None:
    long = service({"enabled": True, "gatewayRef": GATEWAY})
    long["metadata"]["name"] = f"{'x' * 62}.chat"
    found = decide(
        RECONCILER, (known := cache(long)).object(SERVICES, "ml-team", f"{'x' * 62}.chat"), known.view(), NOW
    )
    assert found.children[0].body["metadata"]["labels"]["aim.eai.amd.com/service"] == "x" * 62


@pytest.mark.spec("RT-219")
@pytest.mark.parametrize(
    ("timeout", "reported"),
    [
        (None, "Normal"),
        ("15s", "Warning"),
        ("120s", "Warning"),
        ("599s", "Warning"),
        ("10m", None),
        ("1h", None),
        ("0s", None),
    ],
)
def test_a_limit_that_ends_streams_is_reported_once(timeout: str | None, reported: str | None) -> None:
    routing = {"enabled": True, "gatewayRef": GATEWAY, **({} if timeout is None else {"requestTimeout": timeout})}
    known = cache(service(routing))
    first = passes(known)
    events = [one for one in first.events if one.reason == "StreamsLimited"]
    assert [one.type.value for one in events] == ([] if reported is None else [reported])
    assert all("streamed answers included" in one.message for one in events)
    assert all("spec.routing.requestTimeout: 0s" in one.message for one in events)
    known.put(HTTP_ROUTES, stored_route(first))
    assert [one for one in passes(known).events if one.reason == "StreamsLimited"] == []
    known.put(SERVICES, service({**routing, "requestTimeout": "30s"}))
    assert [one.type.value for one in passes(known).events if one.reason == "StreamsLimited"] == ["Warning"]


def accepted_route(plan: Plan, *, generation: int, **annotations: str) -> JsonObject:
    """A route that the gateway accepted when its generation was 1."""
    stamps = {f"aim.eai.amd.com/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return stored_route(plan, parent(condition("Accepted", True)), generation=generation, annotations=stamps)


def rolling_out(weight: int) -> JsonObject:
    status = {
        "conditions": [condition("HTTPRouteReady", True, "HTTPRouteAccepted", "as before")],
        "rollout": {"weight": weight, "candidate": "chat-next"},
    }
    one = service({"enabled": True, "gatewayRef": GATEWAY}, status=status)
    one["spec"]["rollout"] = {"steps": [{"weight": 30}]}
    return one


def stamps_of(plan: Plan) -> dict[str, str]:
    (child,) = plan.children
    found: dict[str, str] = child.body["metadata"].get("annotations", {})
    return found


@pytest.mark.spec("RT-241")
def test_a_change_of_the_weights_is_recorded_and_nothing_else_is() -> None:
    known = cache(rolling_out(10))
    assert stamps_of(passes(known)) == {}, "a new route"
    known.put(HTTP_ROUTES, accepted_route(passes(known), generation=1))
    assert stamps_of(passes(known)) == {}, "nothing changed"
    unweighted = service({"enabled": True, "gatewayRef": GATEWAY})
    plain = cache(unweighted)
    for weight in (1, None):
        stored = accepted_route(passes(plain), generation=1)
        stored["spec"]["rules"][0]["backendRefs"][0]["weight"] = weight
        plain.put(HTTP_ROUTES, stored)
        assert stamps_of(passes(plain)) == {}, "the API server's default"
    known.put(SERVICES, rolling_out(30))
    changed = passes(known)
    assert stamps_of(changed) == {labels.ANNOTATION_BACKENDS_CHANGED: timestamp(NOW)}
    assert ready_of(changed) == ("True", "HTTPRouteAccepted")
    former = timestamp(NOW - timedelta(minutes=1))
    known.put(HTTP_ROUTES, accepted_route(changed, generation=2, backends_changed=former))
    assert stamps_of(passes(known)) == {labels.ANNOTATION_BACKENDS_CHANGED: former}, "kept"
    known.put(HTTP_ROUTES, accepted_route(changed, generation=2, backends_changed="yesterday"))
    assert stamps_of(passes(known)) == {}, "no time"


@pytest.mark.spec("RT-241", "RT-142")
@pytest.mark.parametrize(
    ("age", "expected", "requeue"),
    [
        (0, ("True", "HTTPRouteAccepted"), 10.0),
        (9, ("True", "HTTPRouteAccepted"), 1.0),
        (10, ("False", "HTTPRoutePending"), None),
        (-60, ("False", "HTTPRoutePending"), None),
    ],
)
def test_a_gateway_that_takes_up_other_weights_is_no_news_for_ten_seconds(
    age: int, expected: tuple[str, str], requeue: float | None
) -> None:
    known = cache(rolling_out(30))
    changed = timestamp(NOW - timedelta(seconds=age))
    known.put(HTTP_ROUTES, accepted_route(passes(known), generation=2, backends_changed=changed))
    plan = passes(known)
    assert (ready_of(plan), plan.requeue_after) == (expected, requeue)
    assert bool(plan.events) == (expected[0] == "False")


@pytest.mark.spec("RT-241", "RT-144")
def test_a_gateway_that_rejects_other_weights_is_reported_at_once() -> None:
    known = cache(rolling_out(30))
    rejected = parent(condition("Accepted", False, "UnsupportedValue"))
    stamp = {labels.ANNOTATION_BACKENDS_CHANGED: timestamp(NOW)}
    known.put(HTTP_ROUTES, stored_route(passes(known), rejected, annotations=stamp))
    assert ready_of(passes(known)) == ("False", "UnsupportedValue")


@pytest.mark.spec("RT-241", "RT-147")
def test_another_change_of_the_route_waits_for_the_gateway_as_ever() -> None:
    known = cache(rolling_out(30))
    known.put(HTTP_ROUTES, accepted_route(passes(known), generation=2))
    assert ready_of(passes(known)) == ("False", "HTTPRoutePending")


@pytest.mark.spec("RT-241")
def test_a_route_that_moves_beside_a_step_of_the_weights_waits_for_the_gateway() -> None:
    known = cache(rolling_out(30))
    known.put(HTTP_ROUTES, accepted_route(passes(known), generation=1, backends_changed=timestamp(NOW)))
    moved = rolling_out(30)
    moved["spec"]["routing"]["pathTemplate"] = "/elsewhere"
    known.put(SERVICES, moved)
    assert ready_of(passes(known)) == ("False", "HTTPRoutePending")
