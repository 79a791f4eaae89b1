"""Services of several namespaces on one gateway: who has a path, what each reports, what a free path enqueues."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import condition, make, owner
from support.deciding import decide
from support.woken import Awake, woken

from aim_domain import DivisibleSettings, labels
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, AIM_SERVICE, HTTP_ROUTE
from aim_domain.naming import http_route_name
from aim_domain.parts import HTTP_ROUTES, SERVICES
from aim_routing.address import paths_overlap
from aim_routing.conflict import address_in_effect
from aim_routing.service import definition
from controller_runtime import JsonObject, Key, Plan, timestamp
from controller_runtime.testing import NOW, BuiltCache, cache_of

ROUTING = definition(DivisibleSettings())
RECONCILER = ROUTING.reconcilers[0]
GATEWAY = {"name": "gw", "namespace": "infra"}
OLDER = "demo"
YOUNGER = "team-a"


def service(
    namespace: str, path: str = "/demo/chat", *, name: str = "chat", age: int = 0, **routing: Any
) -> JsonObject:
    """A routed service; the greater its age in hours, the older."""
    config = routing.pop("config", None)
    wanted = {"enabled": True, "gatewayRef": GATEWAY, "pathTemplate": path, **routing}
    spec = {"model": {"image": "a/b:1"}, "routing": wanted}
    named = {} if config is None else {"runtimeConfigName": config}
    return make(
        AIM_SERVICE,
        name,
        namespace=namespace,
        uid=f"{namespace}-{name}",
        created=NOW - timedelta(hours=age),
        spec={**spec, **named},
    )


def older(path: str = "/demo/chat", **members: Any) -> JsonObject:
    return service(OLDER, path, age=2, **members)


def younger(path: str = "/demo/chat", **members: Any) -> JsonObject:
    return service(YOUNGER, path, age=1, **members)


def pass_of(known: BuiltCache, obj: JsonObject, now: datetime = NOW) -> Plan:
    key = Key.of(obj)
    return decide(RECONCILER, known.object(SERVICES, key.namespace, key.name), known.view(), now)


def route_of(obj: JsonObject, **metadata: Any) -> JsonObject:
    """The route that the service gets when it is alone."""
    (child,) = pass_of(cache_of(ROUTING.consumes, obj, indexes=ROUTING.indexes), obj).children
    key = Key.of(child.body)
    members = {
        "uid": f"{key.namespace}-{key.name}",
        "owners": [owner(obj)],
        "created": NOW - timedelta(hours=1),
        "spec": child.body["spec"],
        **metadata,
    }
    return make(HTTP_ROUTE, key.name, namespace=key.namespace, **members)


def cache(*objects: JsonObject) -> BuiltCache:
    return cache_of(ROUTING.consumes, *objects, indexes=ROUTING.indexes)


def standing(*services: JsonObject, others: Iterable[JsonObject] = ()) -> BuiltCache:
    """The services, and a route of each."""
    return cache(*services, *(route_of(one) for one in services), *others)


def reported(plan: Plan) -> tuple[str, str]:
    assert plan.status is not None
    (only,) = plan.status["conditions"]
    return only["reason"], only["message"]


def is_refused(plan: Plan) -> bool:
    return plan.status is not None and reported(plan)[0] == "PathConflict"


@pytest.mark.spec("RT-122", "RT-S33")
@pytest.mark.parametrize("path", ["/demo/chat", "/demo/chat/v1", "/demo", "/", "/Demo//CHAT/"])
def test_the_younger_of_two_namespaces_gets_no_route(path: str) -> None:
    loser = younger(path)
    known = cache(older(), loser, route_of(older()))
    plan = pass_of(known, loser)
    assert (plan.children, plan.deletes) == ((), ())
    reason, message = reported(plan)
    assert reason == "PathConflict"
    assert f"namespace {OLDER}," in message
    assert "on Gateway infra/gw" in message
    assert plan.status is not None
    assert "routing" not in plan.status
    assert [event.reason for event in plan.events if event.type == "Warning"] == ["PathConflict"]
    assert not is_refused(pass_of(known, older()))


@pytest.mark.spec("RT-122")
def test_a_refused_tenant_learns_the_namespace_and_nothing_else() -> None:
    holder = older("/demo/hidden-name", name="secret-project")
    message = reported(pass_of(standing(holder, others=[younger("/demo")]), younger("/demo")))[1]
    assert message == (
        "path /demo on Gateway infra/gw equals, lies below or contains one of namespace demo, which has it; "
        "choose another pathTemplate or other hostnames"
    )


@pytest.mark.spec("RT-122")
@pytest.mark.parametrize("change", [{"kind": "Gadget"}, {"controller": False}])
def test_a_route_that_no_service_controls_is_no_conflict(change: JsonObject) -> None:
    loser, route = younger(), route_of(older())
    route["metadata"]["ownerReferences"][0].update(change)
    plan = pass_of(cache(older(), loser, route), loser)
    assert len(plan.children) == 1
    assert not is_refused(plan)


@pytest.mark.spec("RT-122")
@pytest.mark.parametrize(
    "other",
    [
        younger("/demo/chat-2"),
        younger(gatewayRef={"name": "gw", "namespace": "other"}),
        service(OLDER, "/demo/chat/v1", name="more"),
    ],
)
def test_neighbours_other_gateways_and_the_own_namespace_are_no_conflict(other: JsonObject) -> None:
    plan = pass_of(standing(older(), others=[other]), other)
    assert len(plan.children) == 1
    assert not is_refused(plan)


@pytest.mark.spec("RT-122")
def test_a_listener_is_no_gateway_of_its_own() -> None:
    other = younger(gatewayRef={**GATEWAY, "sectionName": "https"})
    assert is_refused(pass_of(standing(older(), others=[other]), other))


@pytest.mark.spec("RT-123")
def test_of_one_age_the_namespace_decides() -> None:
    services = [service(OLDER), service(YOUNGER)]
    known = standing(*services)
    plans = {one["metadata"]["namespace"]: pass_of(known, one) for one in services}
    assert not is_refused(plans[min(OLDER, YOUNGER)])
    assert is_refused(plans[max(OLDER, YOUNGER)])


@pytest.mark.spec("RT-210", "RT-212", "RT-S34")
@pytest.mark.parametrize("path", ["/demo/chat", "/demo", "/demo/chat/v1", "/Demo//CHAT/"])
def test_an_older_service_that_moves_never_takes_an_address_that_is_served(path: str) -> None:
    known = cache(older(path), route_of(older("/old")), younger(), route_of(younger()))
    plan = pass_of(known, older(path))
    assert (plan.children, plan.deletes) == ((), ())
    assert is_refused(plan)
    assert plan.status is not None
    assert plan.status["routing"] == {"path": "/old"}, "what it has stays in effect"
    kept = pass_of(known, younger())
    assert (len(kept.children), kept.deletes, is_refused(kept)) == (1, (), False)


@pytest.mark.spec("RT-210", "RT-212")
@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({"hostnames": ["a.example.com"]}, {"hostnames": ["b.example.com"]}),
        ({"hostnames": ["a.example.com"]}, {"hostnames": ["a.example.com", "b.example.com"]}),
        ({"hostnames": ["a.example.com"]}, {"hostnames": ["*.example.com"]}),
        ({"hostnames": ["a.example.com"]}, {}),
        ({"gatewayRef": {"name": "other", "namespace": "infra"}}, {"hostnames": ["b.example.com"]}),
    ],
)
def test_neither_another_host_nor_another_gateway_takes_what_is_served(before: JsonObject, now: JsonObject) -> None:
    holder, moving = younger(hostnames=["b.example.com"]), older(**now)
    known = cache(moving, route_of(older(**before)), holder, route_of(holder))
    plan = pass_of(known, moving)
    assert (is_refused(plan), plan.children, plan.deletes) == (True, (), ())
    assert not is_refused(pass_of(known, holder))


@pytest.mark.spec("RT-210")
def test_an_older_service_that_is_routed_later_takes_nothing() -> None:
    known = standing(younger(), others=[older()])
    assert is_refused(pass_of(known, older()))
    assert not is_refused(pass_of(known, younger()))


@pytest.mark.spec("RT-210", "RT-125")
def test_of_claims_of_one_second_the_older_service_wins() -> None:
    known = cache(younger(), route_of(younger(), created=NOW), older())
    taken = pass_of(known, older())
    assert len(taken.children) == 1
    known.put(HTTP_ROUTES, route_of(older(), created=NOW))
    given = pass_of(known, younger())
    (removed,) = given.deletes
    assert (removed.namespace, removed.why) == (YOUNGER, "the service may have none: PathConflict")
    assert is_refused(given)


@pytest.mark.spec("RT-211")
def test_a_move_is_recorded_on_the_route_and_decides_later() -> None:
    known = cache(older("/new"), route_of(older("/old"), created=NOW - timedelta(hours=5)))
    (child,) = pass_of(known, older("/new")).children
    assert child.body["metadata"]["annotations"] == {labels.ANNOTATION_ADDRESS_CLAIMED: timestamp(NOW)}
    moved = make(
        HTTP_ROUTE,
        child.name,
        namespace=OLDER,
        uid="moved",
        owners=[owner(older())],
        created=NOW - timedelta(hours=5),
        annotations=child.body["metadata"]["annotations"],
        spec=child.body["spec"],
    )
    known.put(HTTP_ROUTES, moved)
    later = NOW + timedelta(hours=1)
    (again,) = pass_of(known, older("/new"), later).children
    assert again.body["metadata"]["annotations"] == {labels.ANNOTATION_ADDRESS_CLAIMED: timestamp(NOW)}
    # A route that was made before the move, and that the move did not see, has the better right.
    known.put(SERVICES, younger("/new"))
    known.put(HTTP_ROUTES, route_of(younger("/new"), created=NOW - timedelta(seconds=1)))
    assert is_refused(pass_of(known, older("/new"), later))
    assert not is_refused(pass_of(known, younger("/new"), later))


@pytest.mark.spec("RT-211")
def test_a_route_without_a_record_is_as_old_as_its_creation() -> None:
    known = standing(younger())
    (child,) = pass_of(known, younger()).children
    assert "annotations" not in child.body["metadata"]


@pytest.mark.spec("RT-211")
@pytest.mark.parametrize("text", ["", "soon", "2020-01-01T00:00:00", "0"])
def test_a_record_that_is_no_time_counts_for_nothing(text: str) -> None:
    early = older("/demo")
    stamped = route_of(early, annotations={labels.ANNOTATION_ADDRESS_CLAIMED: text}, created=NOW - timedelta(minutes=1))
    known = cache(early, stamped, younger(), route_of(younger()))
    assert is_refused(pass_of(known, early))
    assert not is_refused(pass_of(known, younger()))


@pytest.mark.spec("RT-211", "RT-241")
@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize("stamp", [labels.ANNOTATION_ADDRESS_CLAIMED, labels.ANNOTATION_BACKENDS_CHANGED])
def test_a_time_at_the_end_of_the_calendar_fails_no_reconcile(stamp: str, text: str) -> None:
    """Tenants may edit their HTTPRoutes."""
    forger, other = older("/demo"), younger()
    known = cache(forger, route_of(forger, annotations={stamp: text}), other, route_of(other))
    assert sorted(is_refused(pass_of(known, one)) for one in (forger, other)) == [False, True]
    assert timestamp(datetime.fromisoformat(text)) == f"{text[:19]}Z"


@pytest.mark.spec("RT-211")
def test_no_claim_is_older_than_its_service() -> None:
    """Who may edit HTTPRoutes can write any time into the annotation."""
    record = {labels.ANNOTATION_ADDRESS_CLAIMED: "2001-01-01T00:00:00Z"}
    victim, forger = older("/demo"), younger()
    known = cache(victim, route_of(victim), forger, route_of(forger, annotations=record))
    assert not is_refused(pass_of(known, victim))


@pytest.mark.spec("RT-211")
def test_no_user_writes_the_age_of_a_claim() -> None:
    forged = older("/new", annotations={labels.ANNOTATION_ADDRESS_CLAIMED: "2020-01-01T00:00:00Z", "x": "y"})
    (first,) = pass_of(cache(forged), forged).children
    assert first.body["metadata"]["annotations"] == {"x": "y"}
    (moved,) = pass_of(cache(forged, route_of(older("/old"))), forged).children
    assert moved.body["metadata"]["annotations"] == {labels.ANNOTATION_ADDRESS_CLAIMED: timestamp(NOW), "x": "y"}


def accepted(obj: JsonObject, gateway: str = "infra/gw", generation: int = 1) -> JsonObject:
    """The service with the status that it has once the gateway has accepted its route."""
    route = route_of(obj)
    ready = condition(
        "HTTPRouteReady", True, "HTTPRouteAccepted", f"Gateway {gateway} accepted HTTPRoute {route['metadata']['name']}"
    )
    ready = {**ready, "lastTransitionTime": timestamp(NOW - timedelta(minutes=30)), "observedGeneration": generation}
    path = route["spec"]["rules"][0]["matches"][0]["path"]["value"]
    return {**obj, "status": {"routing": {"path": path}, "conditions": [ready]}}


@pytest.mark.spec("RT-213")
def test_a_route_that_is_deleted_by_others_gives_no_address_up() -> None:
    holder = accepted(younger())
    # The waiting service was faster.
    quick = route_of(older(), created=NOW - timedelta(seconds=2))
    known = cache(holder, older(), quick)
    (child,) = pass_of(known, holder).children
    assert child.body["metadata"]["annotations"] == {
        labels.ANNOTATION_ADDRESS_CLAIMED: timestamp(NOW - timedelta(minutes=30))
    }
    known.put(HTTP_ROUTES, route_of(younger(), created=NOW, annotations=child.body["metadata"]["annotations"]))
    assert len(pass_of(known, older()).deletes) == 1


@pytest.mark.spec("RT-213", "RT-186")
def test_a_route_that_is_changed_by_others_gives_no_address_up() -> None:
    holder = accepted(younger())
    known = cache(holder, route_of(younger("/elsewhere")), older(), route_of(older(), created=NOW))
    assert len(pass_of(known, holder).children) == 1


@pytest.mark.spec("RT-213")
@pytest.mark.parametrize(
    "not_held",
    [
        accepted(older(), gateway="infra/other"),
        accepted(older(), generation=0),
        {**accepted(older()), "status": {"routing": {"path": "/demo/chat"}}},
        {**accepted(older()), "status": {**accepted(older("/other"))["status"]}},
    ],
)
def test_what_is_not_reported_as_it_is_asked_for_is_a_first_claim(not_held: JsonObject) -> None:
    known = cache(not_held, younger(), route_of(younger(), created=NOW - timedelta(seconds=1)))
    assert is_refused(pass_of(known, not_held))


@pytest.mark.spec("RT-210", "RT-212")
@pytest.mark.parametrize("hosts", [None, ["a.example.com"]])
def test_in_its_own_namespace_an_older_service_takes_no_served_path_either(hosts: list[str] | None) -> None:
    wanted: dict[str, Any] = {} if hosts is None else {"hostnames": hosts}
    first = service(OLDER, "/demo/second", name="first", age=9, **wanted)
    second = service(OLDER, "/demo/second", name="second", age=1)
    known = cache(first, route_of(service(OLDER, "/demo/first", name="first", age=9)), second, route_of(second))
    plan = pass_of(known, first)
    assert (is_refused(plan), plan.children, plan.deletes) == (True, (), ())
    assert reported(plan)[1] == (
        "path /demo/second on Gateway infra/gw is that of AIMService demo/second; move that one to another "
        "pathTemplate first, or choose another one here"
    )
    assert plan.status is not None
    assert plan.status["routing"] == {"path": "/demo/first"}
    # The second step of the move: the holder is elsewhere.
    elsewhere = service(OLDER, "/demo/third", name="second", age=1)
    known.put(SERVICES, elsewhere)
    known.put(HTTP_ROUTES, route_of(elsewhere))
    assert len(pass_of(known, first).children) == 1


@pytest.mark.spec("RT-212", "RT-126")
def test_where_overlaps_are_allowed_a_move_still_takes_no_served_path() -> None:
    known = cache(older(), route_of(older("/old")), younger(), route_of(younger()), allowing())
    assert is_refused(pass_of(known, older()))
    known.put(SERVICES, older("/demo"))
    assert len(pass_of(known, older("/demo")).children) == 1


@pytest.mark.spec("RT-125")
@pytest.mark.parametrize("broken", [{"pathTemplate": "/{.spec.nope}"}, {"requestTimeout": "soon"}])
def test_a_route_that_is_kept_for_a_fault_gives_way_as_well(broken: JsonObject) -> None:
    faulty = younger(**broken)
    assert pass_of(cache(faulty, route_of(younger())), faulty).deletes == ()
    known = cache(faulty, route_of(younger()), older(), route_of(older()))
    plan = pass_of(known, faulty)
    assert len(plan.deletes) == 1
    assert is_refused(plan)


@pytest.mark.spec("RT-122", "RT-188", "RT-S33")
def test_whoever_waits_is_woken_when_the_path_is_free() -> None:
    known = standing(older(), others=[younger("/demo/chat/v1")])
    awake = Awake(ROUTING, known)
    found = awake.delete(HTTP_ROUTES, Key.of(route_of(older())))
    assert Key(YOUNGER, "chat") in found["routing"]
    assert len(pass_of(known, younger("/demo/chat/v1")).children) == 1


@pytest.mark.spec("RT-125", "RT-188")
def test_whoever_has_a_path_is_woken_when_another_claims_it() -> None:
    known = standing(younger("/demo/chat/v1"), others=[older()])
    found = Awake(ROUTING, known).put(HTTP_ROUTES, route_of(older()))
    assert Key(YOUNGER, "chat") in found["routing"]


@pytest.mark.spec("RT-125")
def test_the_route_of_a_service_that_is_gone_counts_until_it_goes() -> None:
    left = route_of(older(), created=NOW - timedelta(hours=2))
    assert is_refused(pass_of(cache(younger(), left), younger()))


def allowing(name: str = "default") -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, name, spec={"routing": {"namespaceOwnership": "InterNamespaceAllowed"}})


@pytest.mark.spec("RT-126", "RT-S35")
def test_a_cluster_config_may_allow_it() -> None:
    known = standing(older(), others=[younger(), allowing()])
    assert len(pass_of(known, younger()).children) == 1
    strict = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"routing": {"namespaceOwnership": "Strict"}})
    assert is_refused(pass_of(standing(older(), others=[younger(), strict]), younger()))


@pytest.mark.spec("RT-126")
def test_a_namespace_cannot_allow_it_for_itself() -> None:
    own = make(AIM_RUNTIME_CONFIG, "default", namespace=YOUNGER, spec=allowing()["spec"])
    theirs = make(AIM_RUNTIME_CONFIG, "default", namespace=OLDER, spec=allowing()["spec"])
    assert is_refused(pass_of(standing(older(), others=[younger(), own, theirs]), younger()))


@pytest.mark.spec("RT-126")
@pytest.mark.parametrize("configs", [("open", None), (None, "open")])
def test_both_sides_have_to_be_allowed(configs: tuple[str | None, str | None]) -> None:
    base = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={})
    mine, theirs = younger(config=configs[0]), older(config=configs[1])
    assert is_refused(pass_of(cache(theirs, route_of(older()), mine, base, allowing("open")), mine))


@pytest.mark.spec("RT-124", "RT-S36")
@pytest.mark.parametrize(
    ("theirs", "mine", "refused"),
    [
        (["a.example.com"], ["b.example.com"], False),
        (["a.example.com"], ["b.example.com", "a.example.com"], True),
        (["*.example.com"], ["a.example.com"], True),
        (["a.example.com"], ["*.example.com"], True),
        (["*.example.com"], ["example.com"], False),
        ([], ["a.example.com"], True),
        (["a.example.com"], [], True),
    ],
)
def test_the_rule_holds_for_each_hostname(theirs: list[str], mine: list[str], refused: bool) -> None:
    loser = younger("/chat", hostnames=mine)
    plan = pass_of(standing(older("/chat", hostnames=theirs), others=[loser]), loser)
    assert is_refused(plan) is refused
    if refused and mine:
        assert f"(hosts {', '.join(mine)})" in reported(plan)[1]


@pytest.mark.spec("RT-058", "RT-173")
def test_hostnames_are_on_the_route_and_in_the_status() -> None:
    named = older(hostnames=["a.example.com", "*.example.org", "a.example.com"])
    plan = pass_of(standing(named), named)
    assert plan.children[0].body["spec"]["hostnames"] == ["a.example.com", "*.example.org"]
    assert plan.status is not None
    assert plan.status["routing"] == {"path": "/demo/chat", "hostnames": ["a.example.com", "*.example.org"]}


@pytest.mark.spec("RT-058", "RT-006")
def test_hostnames_come_as_a_whole_from_the_nearest_level() -> None:
    def hosts(own: list[str] | None, local: list[str] | None, cluster: list[str] | None) -> object:
        def routing(names: list[str] | None) -> JsonObject:
            return {"routing": {} if names is None else {"hostnames": names}}

        given: dict[str, Any] = {} if own is None else {"hostnames": own}
        obj = older(**given)
        known = cache(
            obj,
            make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=routing(cluster)),
            make(AIM_RUNTIME_CONFIG, "default", namespace=OLDER, spec=routing(local)),
        )
        return pass_of(known, obj).children[0].body["spec"].get("hostnames")

    assert hosts(["a.io"], ["b.io"], ["c.io"]) == ["a.io"]
    assert hosts(None, ["b.io"], ["c.io"]) == ["b.io"]
    assert hosts(None, None, ["c.io"]) == ["c.io"]
    assert hosts([], ["b.io"], ["c.io"]) is None
    assert hosts(None, [], ["c.io"]) is None
    assert hosts(None, None, None) is None


@pytest.mark.spec("RT-147", "RT-173")
def test_what_was_said_of_other_hostnames_does_not_count() -> None:
    accepted = {
        "parents": [{"parentRef": GATEWAY, "conditions": [{**condition("Accepted", True), "observedGeneration": 1}]}]
    }
    named = older(hostnames=["a.example.com"])
    assert reported(pass_of(cache(named, route_of(named, status=accepted)), named))[0] == "HTTPRouteAccepted"
    assert reported(pass_of(cache(named, route_of(older(), status=accepted)), named))[0] == "HTTPRoutePending"


def shared_path(plan: Plan) -> list[str]:
    return [event.message for event in plan.events if event.reason == "RoutePathConflict"]


@pytest.mark.spec("RT-121")
def test_in_one_namespace_the_younger_is_reported_of_the_oldest_and_keeps_its_route() -> None:
    first = service(OLDER, name="first", age=3)
    second, third = service(OLDER, name="second", age=2), service(OLDER, name="third", age=1)
    known = standing(second, first, third)
    plan = pass_of(known, third)
    assert len(plan.children) == 1
    (message,) = shared_path(plan)
    assert message == (
        "path /demo/chat on gateway gw is also that of AIMService demo/first, which had it before; the gateway serves "
        "that one: choose another pathTemplate"
    )
    assert shared_path(pass_of(known, first)) == []


@pytest.mark.spec("RT-121")
@pytest.mark.parametrize(
    "routing",
    [
        {"gatewayRef": {**GATEWAY, "sectionName": "https"}},
        {"gatewayRef": {"name": "gw"}},
        {"hostnames": ["b.example.com"]},
        {"pathTemplate": "/demo/chat/v1"},
    ],
)
def test_in_one_namespace_only_the_same_requests_are_worth_telling(routing: JsonObject) -> None:
    first = service(
        OLDER, name="first", age=3, hostnames=["a.example.com"], gatewayRef={**GATEWAY, "sectionName": "http"}
    )
    same: dict[str, Any] = {"hostnames": ["a.example.com"], "gatewayRef": {**GATEWAY, "sectionName": "http"}}
    alike, other = service(OLDER, name="second", **same), service(OLDER, name="second", **{**same, **routing})
    assert shared_path(pass_of(standing(first, others=[alike]), alike)) != []
    assert shared_path(pass_of(standing(first, others=[other]), other)) == []


CLAIMS = st.lists(
    st.tuples(
        st.sampled_from(["n1", "n2", "n3"]),
        st.sampled_from(["/a", "/a/b", "/a/b/c", "/b", "/b/c"]),
        st.integers(min_value=0, max_value=2),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.spec("RT-123", "RT-204")
@settings(max_examples=30)
@given(CLAIMS, st.randoms(use_true_random=False))
def test_of_claims_of_one_second_the_same_services_win_in_every_order(
    claims: list[tuple[str, str, int]], order: Any
) -> None:
    services = [
        service(namespace, path, name=f"s{number}", age=age) for number, (namespace, path, age) in enumerate(claims)
    ]
    routes = {one["metadata"]["uid"]: route_of(one, created=NOW) for one in services}
    known = cache(*services)
    changed = True
    while changed:
        changed = False
        for one in order.sample(services, len(services)):
            plan, route = pass_of(known, one), routes[one["metadata"]["uid"]]
            entry = known.cache.get(HTTP_ROUTES, Key.of(route))
            if plan.children and entry is None:
                known.put(HTTP_ROUTES, route)
                changed = True
            elif plan.deletes:
                assert entry is not None
                known.cache.absorb_deleted(HTTP_ROUTES, entry.key, entry.version.uid, 0.0)
                changed = True
    served = {entry.key for entry in known.cache.all(HTTP_ROUTES)}
    assert served == {Key.of(routes[one["metadata"]["uid"]]) for one in _winners(services)}


MOVES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["/a", "/a/b", "/a/b/c", "/b", "/b/c", "/c"])), min_size=4, max_size=8
)
HOMES = ("n1", "n2", "n3", "n1")


@pytest.mark.spec("RT-210", "RT-212", "RT-204")
@settings(max_examples=20)
@given(MOVES, st.permutations(range(4)), st.randoms(use_true_random=False))
def test_whatever_moves_what_is_served_stays(moves: list[tuple[int, str]], ages: list[int], order: Any) -> None:
    known, clock = cache(), NOW
    wanted: dict[int, JsonObject] = {}
    for number, path in moves:
        clock += timedelta(minutes=1)
        before = {one: _served(known, obj) for one, obj in wanted.items() if one != number}
        wanted[number] = service(HOMES[number], path, name=f"s{number}", age=ages[number])
        known.put(SERVICES, wanted[number])
        for one in order.sample(list(wanted), len(wanted)) * 3:
            _carry_out(known, wanted[one], clock)
        for one, served in before.items():
            if served:
                assert _served(known, wanted[one]) == served


def _served(known: BuiltCache, obj: JsonObject) -> str:
    """The path of the service's route; empty without a route."""
    key = Key(obj["metadata"]["namespace"], http_route_name(obj["metadata"]["name"], obj["metadata"]["namespace"]))
    entry = known.cache.get(HTTP_ROUTES, key)
    route = None if entry is None else entry.object
    address = None if route is None else address_in_effect(route)
    return "" if address is None else address.path


def _carry_out(known: BuiltCache, obj: JsonObject, now: datetime) -> None:
    plan = pass_of(known, obj, now)
    for one in plan.deletes:
        known.cache.absorb_deleted(HTTP_ROUTES, Key(one.namespace, one.name), one.uid, 0.0)
    for child in plan.children:
        entry = known.cache.get(HTTP_ROUTES, Key(child.namespace, child.name))
        before = None if entry is None else entry.object
        created = (None if before is None else before.metadata.creation_timestamp) or now
        known.put(
            HTTP_ROUTES,
            make(
                HTTP_ROUTE,
                child.name,
                namespace=child.namespace,
                uid=f"{child.namespace}-{child.name}",
                owners=[owner(obj)],
                created=created,
                annotations=child.body["metadata"].get("annotations") or {},
                spec=child.body["spec"],
            ),
        )


def _winners(services: list[JsonObject]) -> list[JsonObject]:
    """Oldest first, each that overlaps with no winner of another namespace."""

    def age(one: JsonObject) -> tuple[str, ...]:
        metadata = one["metadata"]
        return metadata["creationTimestamp"], metadata["namespace"], metadata["name"]

    def path(one: JsonObject) -> str:
        return str(one["spec"]["routing"]["pathTemplate"])

    won: list[JsonObject] = []
    for one in sorted(services, key=age):
        others = [rival for rival in won if rival["metadata"]["namespace"] != one["metadata"]["namespace"]]
        if not any(paths_overlap(path(one), path(rival)) for rival in others):
            won.append(one)
    return won


@pytest.mark.spec("RT-125", "FW-019")
def test_a_new_path_is_only_taken_by_whoever_can_see_that_it_is_free() -> None:
    known = cache(older("/new"), route_of(older("/old")))
    known.make_stale(HTTP_ROUTES)
    blind = pass_of(known, older("/new"))
    assert (blind.children, blind.deletes) == ((), ())
    assert blind.retry is not None
    known.put(SERVICES, older("/old"))
    assert len(pass_of(known, older("/old")).children) == 1


@pytest.mark.spec("RT-126", "RT-127")
def test_a_config_that_the_other_side_follows_wakes() -> None:
    known = standing(
        older(), others=[younger(), allowing("open"), make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={})]
    )
    assert f"routing:{YOUNGER}/chat" in woken(ROUTING, known, SERVICES, older(), older(config="open"))


@pytest.mark.spec("RT-121", "FW-125")
def test_a_shared_path_of_one_namespace_is_a_standing_warning() -> None:
    first, second = service(OLDER, name="first", age=3), service(OLDER, name="second", age=2)
    [event] = [one for one in pass_of(standing(second, first), second).events if one.reason == "RoutePathConflict"]
    assert event.standing


@pytest.mark.spec("RT-124")
@pytest.mark.parametrize("emptied", [{"parentRefs": []}, {"rules": []}])
def test_a_route_that_somebody_emptied_claims_nothing(emptied: JsonObject) -> None:
    route = route_of(older())
    empty = {**route, "spec": {**route["spec"], **emptied}}
    assert not is_refused(pass_of(cache(older(), younger(), empty), younger()))


@pytest.mark.spec("RT-126")
@pytest.mark.parametrize(("followed", "refused"), [("open", False), ("closed", True)])
def test_only_the_config_that_both_follow_by_name_allows_it(followed: str, refused: bool) -> None:
    closed = make(AIM_CLUSTER_RUNTIME_CONFIG, "closed", spec={})
    mine = younger(config=followed)
    both = (older(config=followed), route_of(older()), mine, allowing("open"), closed)
    assert is_refused(pass_of(cache(*both), mine)) == refused
    opposite = make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={}) if followed == "open" else allowing()
    assert is_refused(pass_of(cache(*both, opposite), mine)) == refused


@pytest.mark.spec("RT-122")
def test_a_conflict_is_reported_with_the_hostnames_of_the_service_itself() -> None:
    mine = younger(hostnames=["A.example.com", "b.example.com"])
    known = standing(older(hostnames=["*.example.com"]), others=[mine])
    message = reported(pass_of(known, mine))[1]
    assert message.startswith("path /demo/chat (hosts a.example.com, b.example.com) on Gateway infra/gw ")
    assert "*.example.com" not in message
