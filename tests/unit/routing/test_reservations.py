"""Addresses that administrators keep for namespaces, and roots: who gets them, and what stays as it is."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import make, owner
from support.deciding import decide
from support.woken import woken

from aim_domain import DivisibleSettings
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, AIM_SERVICE, HTTP_ROUTE
from aim_domain.naming import http_route_name
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, SERVICES
from aim_routing.reservation import root_of
from aim_routing.service import definition
from controller_runtime import JsonObject, Plan
from controller_runtime.testing import NOW, BuiltCache, cache_of

ROUTING = definition(DivisibleSettings())
RECONCILER = ROUTING.reconcilers[0]
GATEWAY = {"name": "gw", "namespace": "infra"}
TEAM, OTHER = "team-a", "team-b"
TEMPLATE = "/models/{.metadata.namespace}/{.metadata.name}"


def service(path: str | None = "/chat", **routing: Any) -> JsonObject:
    named = {} if path is None else {"pathTemplate": path}
    spec = {"model": {"image": "a/b:1"}, "routing": {"enabled": True, "gatewayRef": GATEWAY, **named, **routing}}
    return make(AIM_SERVICE, "chat", namespace=TEAM, spec=spec)


def config(*reservations: JsonObject, name: str = "default", **routing: Any) -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, name, spec={"routing": {"reservations": list(reservations), **routing}})


def kept(*namespaces: str, paths: list[str] | None = None, hosts: list[str] | None = None) -> JsonObject:
    given = {"pathPrefixes": paths, "hostnames": hosts}
    return {"namespaces": list(namespaces), **{name: value for name, value in given.items() if value}}


def route(path: str) -> JsonObject:
    """The service's route, as it is stored."""
    match = {"path": {"type": "PathPrefix", "value": path}}
    return make(
        HTTP_ROUTE,
        http_route_name("chat", TEAM),
        namespace=TEAM,
        owners=[owner(service())],
        created=NOW - timedelta(hours=1),
        spec={"parentRefs": [GATEWAY], "rules": [{"matches": [match]}]},
    )


def cache(*objects: JsonObject) -> BuiltCache:
    return cache_of(ROUTING.consumes, *objects, indexes=ROUTING.indexes)


def pass_of(known: BuiltCache) -> Plan:
    return decide(RECONCILER, known.object(SERVICES, TEAM, "chat"), known.view(), NOW)


def refusal(plan: Plan) -> str:
    """The message of the refusal; empty when the service gets its route."""
    if plan.children:
        return ""
    assert plan.status is not None
    (only,) = plan.status["conditions"]
    assert (only["status"], only["reason"]) == ("False", "PathReserved")
    assert [one.reason for one in plan.events if one.type == "Warning"] == ["PathReserved"]
    return str(only["message"])


@pytest.mark.spec("RT-214")
@pytest.mark.parametrize(
    ("path", "hosts", "reservation", "refused"),
    [
        ("/team-b/chat", [], kept(OTHER, paths=["/team-b"]), True),
        ("/team-b", [], kept(OTHER, paths=["/team-b"]), True),
        ("/team", [], kept(OTHER, paths=["/team/b"]), True),
        ("/team-bc", [], kept(OTHER, paths=["/team-b"]), False),
        ("/team-b/chat", [], kept(OTHER, TEAM, paths=["/team-b"]), False),
        ("/x", ["b.example.com"], kept(OTHER, hosts=["b.example.com"]), True),
        ("/x", ["b.example.com"], kept(OTHER, hosts=["*.example.com"]), True),
        ("/x", ["*.example.com"], kept(OTHER, hosts=["b.example.com"]), True),
        ("/x", [], kept(OTHER, hosts=["b.example.com"]), True),
        ("/x", ["a.example.com"], kept(OTHER, hosts=["b.example.com"]), False),
        ("/x", ["a.example.com", "b.example.com"], kept(OTHER, hosts=["b.example.com"]), True),
        ("/x", ["b.example.com"], kept(OTHER, hosts=["b.example.com"], paths=["/y"]), False),
        ("/y/z", ["b.example.com"], kept(OTHER, hosts=["b.example.com"], paths=["/y"]), True),
    ],
)
def test_an_administrator_keeps_paths_and_hosts_for_namespaces(
    path: str, hosts: list[str], reservation: JsonObject, refused: bool
) -> None:
    found = refusal(pass_of(cache(service(path, hostnames=hosts), config(reservation))))
    assert bool(found) is refused


@pytest.mark.spec("RT-214")
def test_the_refusal_names_path_config_and_remedy() -> None:
    message = refusal(pass_of(cache(service("/team-b/chat"), config(kept(OTHER, paths=["/team-b"])))))
    assert message == (
        "path /team-b/chat on Gateway infra/gw equals, lies below or contains /team-b, which AIMClusterRuntimeConfig "
        "default reserves for other namespaces; choose another pathTemplate or other hostnames, or have an "
        "administrator add namespace team-a to that entry of spec.routing.reservations"
    )


@pytest.mark.spec("RT-214")
def test_a_service_does_not_escape_by_the_config_that_it_names() -> None:
    mine = service("/team-b/chat")
    mine["spec"]["runtimeConfigName"] = "free"
    free = make(AIM_CLUSTER_RUNTIME_CONFIG, "free", spec={})
    own = make(AIM_RUNTIME_CONFIG, "free", namespace=TEAM, spec={"routing": {"pathTemplate": "/team-b/chat"}})
    assert refusal(pass_of(cache(mine, free, own, config(kept(OTHER, paths=["/team-b"])))))


@pytest.mark.spec("RT-214")
@pytest.mark.parametrize(
    ("reservations", "refused"),
    [
        ([kept(OTHER, paths=["/shared"]), kept(TEAM, paths=["/shared/a"])], False),
        ([kept(TEAM, paths=["/shared"]), kept(OTHER, paths=["/shared/a"])], True),
        ([kept(OTHER, paths=["/shared/a"]), kept(TEAM, paths=["/shared/a"])], False),
        ([kept(OTHER, paths=["/shared"]), kept(TEAM, hosts=["a.example.com"])], False),
        ([kept(TEAM, paths=["/shared"]), kept(OTHER, hosts=["a.example.com"])], True),
        ([kept(OTHER, hosts=["*.example.com"]), kept(TEAM, hosts=["a.example.com"])], False),
        ([kept(TEAM, hosts=["*.example.com"]), kept(OTHER, hosts=["a.example.com"])], True),
    ],
)
def test_of_nested_reservations_the_inner_decides(reservations: list[JsonObject], refused: bool) -> None:
    mine = service("/shared/a/chat", hostnames=["a.example.com"])
    assert bool(refusal(pass_of(cache(mine, config(*reservations))))) is refused


@pytest.mark.spec("RT-215")
@pytest.mark.parametrize(
    ("path", "template", "refused"),
    [
        ("/", None, True),
        ("/", TEMPLATE, True),
        ("/models", TEMPLATE, True),
        ("/Models/", TEMPLATE, True),
        ("/models/team-a", TEMPLATE, False),
        ("/model", TEMPLATE, False),
        ("/models", "/{.metadata.namespace}/{.metadata.name}", False),
        (None, TEMPLATE, False),
    ],
)
def test_a_root_is_not_for_tenants(path: str | None, template: str | None, refused: bool) -> None:
    other = config(name="other", **({} if template is None else {"pathTemplate": template}))
    assert bool(refusal(pass_of(cache(service(path), other)))) is refused


@pytest.mark.spec("RT-215")
@pytest.mark.parametrize("hosts", [["a.example.com"], ["*.example.com"], ["a.example.com", "b.example.com"]])
def test_a_root_of_hosts_is_given_by_an_administrator(hosts: list[str]) -> None:
    mine = service("/", hostnames=hosts)
    message = refusal(pass_of(cache(mine, config())))
    assert message.startswith(f"path / (hosts {', '.join(hosts)}) on Gateway infra/gw contains the paths of other ")
    assert "have an administrator reserve it for namespace team-a in spec.routing.reservations" in message
    assert not refusal(pass_of(cache(mine, config(kept(TEAM, hosts=hosts)))))
    assert refusal(pass_of(cache(mine, config(kept(TEAM, hosts=hosts[1:] or ["c.example.com"])))))


@pytest.mark.spec("RT-215")
def test_a_root_is_given_by_the_literal_template_of_a_cluster_config_only() -> None:
    assert not refusal(pass_of(cache(service(None), config(pathTemplate="/"))))
    tenants = make(AIM_RUNTIME_CONFIG, "default", namespace=TEAM, spec={"routing": {"pathTemplate": "/"}})
    assert refusal(pass_of(cache(service(None), tenants)))
    # What an expression leads to is the tenant's choice.
    escaped = make(AIM_SERVICE, "chat", namespace=TEAM, spec=service(None)["spec"], annotations={"x": "-/-"})
    template = "/models/{.metadata.annotations['x']}"
    assert refusal(pass_of(cache(escaped, config(pathTemplate=template))))


@pytest.mark.spec("RT-216")
@pytest.mark.parametrize("path", ["/", "/team-b/chat"])
def test_what_is_in_effect_stays_until_its_route_goes(path: str) -> None:
    mine, cluster = service(path), config(kept(OTHER, paths=["/team-b"]))
    assert not refusal(pass_of(cache(mine, cluster, route(path))))
    assert refusal(pass_of(cache(mine, cluster)))


@pytest.mark.spec("RT-216", "RT-212")
def test_a_move_into_a_reservation_keeps_the_former_route() -> None:
    plan = pass_of(cache(service("/team-b/chat"), config(kept(OTHER, paths=["/team-b"])), route("/old")))
    assert (plan.children, plan.deletes) == ((), ())
    assert plan.status is not None
    assert plan.status["routing"] == {"path": "/old"}


@pytest.mark.spec("RT-217")
def test_a_service_that_waits_is_reconciled_when_a_reservation_changes() -> None:
    before, after = config(kept(OTHER, paths=["/team-b"]), name="other"), config(name="other")
    known = cache(service("/team-b/chat"), before)
    assert refusal(pass_of(known))
    assert f"routing:{TEAM}/chat" in woken(ROUTING, known, CLUSTER_RUNTIME_CONFIGS, before, after)


@pytest.mark.spec("RT-217", "FW-019")
def test_no_new_address_is_taken_while_the_configs_are_stale() -> None:
    known = cache(service("/chat"))
    known.make_stale(CLUSTER_RUNTIME_CONFIGS)
    plan = pass_of(known)
    assert (plan.children, plan.deletes) == ((), ())


@pytest.mark.spec("RT-215")
@pytest.mark.parametrize(
    ("template", "root"),
    [
        (TEMPLATE, "/models"),
        ("/A_b//c/{.metadata.name}", "/a-b/c"),
        ("/{.metadata.name}", "/"),
        ("/m-{.metadata.name}", "/"),
        ("{.metadata.name}", "/"),
        ("/%2e/{.metadata.name}", "/"),
    ],
)
def test_the_root_of_a_template_ends_before_its_first_expression(template: str, root: str) -> None:
    assert root_of(template) == root
