"""A runtime config that takes routing away from services: what is deleted, what they report, and until when."""

import pytest
from support.builders import make
from support.live import Live

from aim_domain import DivisibleSettings
from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, AIM_SERVICE
from aim_domain.parts import CLUSTER_RUNTIME_CONFIGS, HTTP_ROUTES, RUNTIME_CONFIGS, SERVICES
from aim_routing.service import definition
from controller_runtime import JsonObject

ROUTING = definition(DivisibleSettings())
ON: JsonObject = {"enabled": True, "gatewayRef": {"name": "gw", "namespace": "infra"}, "pathTemplate": "/demo/chat"}
QUOTA: JsonObject = {"artifactStorageQuota": {"clusterLimit": "50Ti"}}
TEAM, NAME = "demo", "chat"
REMEDY = "; restore spec.routing there, or set spec.routing.enabled on the AIMService"


def cluster(spec: JsonObject) -> JsonObject:
    return make(AIM_CLUSTER_RUNTIME_CONFIG, "default", spec=spec)


def local(spec: JsonObject) -> JsonObject:
    return make(AIM_RUNTIME_CONFIG, "default", namespace=TEAM, spec=spec)


def routed(*objects: JsonObject, routing: JsonObject | None = None) -> Live:
    spec = {"model": {"image": "a/b:1"}, **({} if routing is None else {"routing": routing})}
    live = Live(ROUTING, make(AIM_SERVICE, NAME, namespace=TEAM, spec=spec), *objects, namespace=TEAM)
    settle(live)
    live.later(60)
    settle(live)
    assert len(live.names(HTTP_ROUTES)) == 1
    return live


def settle(live: Live) -> None:
    live.settle(SERVICES, NAME)


def status(live: Live) -> JsonObject:
    found: JsonObject = live.raw(SERVICES, NAME).get("status") or {}
    return found


def lost(live: Live) -> str:
    """What the service reports of its route; empty when it reports nothing."""
    conditions = status(live).get("conditions") or []
    if not conditions:
        return ""
    (only,) = conditions
    assert (only["type"], only["status"], only["reason"]) == ("HTTPRouteReady", "False", "RoutingDisabled")
    return str(only["message"])


@pytest.mark.spec("RT-218")
def test_a_config_without_its_routing_takes_the_route_and_the_service_reports_it() -> None:
    live = routed(cluster({"routing": ON}))
    live.change(CLUSTER_RUNTIME_CONFIGS, "default", spec=QUOTA)
    settle(live)
    assert live.names(HTTP_ROUTES) == []
    assert "routing" not in status(live)
    assert lost(live) == (
        f"path /demo/chat is no longer served: AIMClusterRuntimeConfig default does not enable routing{REMEDY}"
    )


@pytest.mark.spec("RT-218")
@pytest.mark.parametrize(
    ("before", "cluster_after", "local_after", "cause"),
    [
        ((ON, None), {"routing": {**ON, "enabled": False}}, None, "AIMClusterRuntimeConfig default disables routing"),
        ((None, ON), {}, {"routing": {"enabled": False}}, "AIMRuntimeConfig demo/default disables routing"),
        (
            (ON, {}),
            QUOTA,
            {},
            "neither AIMRuntimeConfig demo/default nor AIMClusterRuntimeConfig default enables routing",
        ),
    ],
)
def test_the_report_names_the_config(
    before: tuple[JsonObject | None, JsonObject | None],
    cluster_after: JsonObject,
    local_after: JsonObject | None,
    cause: str,
) -> None:
    first, second = before
    objects = [cluster({} if first is None else {"routing": first})]
    objects += [] if second is None else [local({"routing": second} if second else {})]
    live = routed(*objects)
    live.change(CLUSTER_RUNTIME_CONFIGS, "default", spec=cluster_after)
    if local_after is not None:
        live.change(RUNTIME_CONFIGS, "default", spec=local_after)
    settle(live)
    assert lost(live) == f"path /demo/chat is no longer served: {cause}{REMEDY}"


@pytest.mark.spec("RT-218")
def test_a_config_that_is_deleted_is_named_as_well() -> None:
    live = routed(cluster({"routing": ON}))
    live.remove(CLUSTER_RUNTIME_CONFIGS, "default")
    settle(live)
    assert lost(live).startswith(
        "path /demo/chat is no longer served: no runtime config default, which enabled routing, exists; "
    )


@pytest.mark.spec("RT-218", "FW-760")
def test_one_warning_tells_and_the_report_stays() -> None:
    live = routed(cluster({"routing": ON}))
    live.change(CLUSTER_RUNTIME_CONFIGS, "default", spec=QUOTA)
    plan = live.run(SERVICES, NAME)
    assert [(one.type.value, one.reason) for one in plan.events] == [("Warning", "RoutingDisabled")]
    (removed,) = plan.deletes
    assert removed.why == lost(live)
    before = status(live)
    live.later(3600)
    again = live.run(SERVICES, NAME)
    assert (again.events, again.deletes, status(live)) == ((), (), before)


@pytest.mark.spec("RT-218", "RT-182", "RT-162")
@pytest.mark.parametrize("choice", [{"enabled": False}, ON])
def test_a_choice_of_the_service_ends_the_report(choice: JsonObject) -> None:
    live = routed(cluster({"routing": ON}))
    live.change(CLUSTER_RUNTIME_CONFIGS, "default", spec=QUOTA)
    settle(live)
    assert lost(live)
    live.change(SERVICES, NAME, spec={"model": {"image": "a/b:1"}, "routing": choice})
    settle(live)
    reasons = [one["reason"] for one in status(live).get("conditions") or []]
    assert reasons == (["HTTPRoutePending"] if choice["enabled"] else [])


@pytest.mark.spec("RT-218")
def test_a_config_that_enables_routing_again_ends_the_report() -> None:
    live = routed(cluster({"routing": ON}))
    live.change(CLUSTER_RUNTIME_CONFIGS, "default", spec=QUOTA)
    settle(live)
    live.change(CLUSTER_RUNTIME_CONFIGS, "default", spec={**QUOTA, "routing": ON})
    settle(live)
    assert status(live)["routing"] == {"path": "/demo/chat"}
    assert len(live.names(HTTP_ROUTES)) == 1


@pytest.mark.spec("RT-218", "RT-182")
def test_a_service_that_switches_routing_off_itself_has_lost_nothing() -> None:
    live = routed(cluster({"routing": ON}), routing=ON)
    live.change(SERVICES, NAME, spec={"model": {"image": "a/b:1"}, "routing": {"enabled": False}})
    settle(live)
    assert (lost(live), live.names(HTTP_ROUTES)) == ("", [])


@pytest.mark.spec("RT-218", "RT-001")
def test_a_service_that_never_had_a_route_has_lost_nothing() -> None:
    live = Live(ROUTING, make(AIM_SERVICE, NAME, namespace=TEAM, spec={"model": {"image": "a/b:1"}}), namespace=TEAM)
    settle(live)
    assert lost(live) == ""
