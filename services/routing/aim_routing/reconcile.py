"""The routing part of an AIMService: its HTTPRoute, ``HTTPRouteReady`` and ``status.routing`` (routing.md)."""

from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from aim_domain import AIMService, HTTPRoute, ParentReference, RoutingSettings, resolve_config, routing_settings
from aim_domain.kinds import AIM_SERVICE
from aim_domain.naming import http_route_name, inference_service_name
from aim_domain.parts import HTTP_ROUTES
from aim_routing.acceptance import BACKEND_NOT_FOUND, HTTP_ROUTE_READY, PENDING, acceptance, awaiting, broken, pending
from aim_routing.backend_name import older_namesake
from aim_routing.conflict import conflict_event
from aim_routing.path import PathProblem, path_of
from aim_routing.route import build_route
from controller_runtime import (
    BRIEFLY,
    GRACE_PERIOD,
    RETRIED_CATEGORIES,
    AimError,
    Child,
    ConditionStatus,
    Delete,
    Desired,
    Hold,
    JsonObject,
    Lookup,
    Plan,
    StatusValue,
    View,
    condition_json,
    events_of,
    find_condition,
    is_left_by_predecessor,
    settle,
)

ALREADY_EXISTS: Final = "AlreadyExists"
FETCH_ERROR: Final = "HTTPRouteFetchError"
_OVER: Final = MappingProxyType({PENDING: StatusValue.PROGRESSING})
"""What may stand while KServe is just making the predictor's Service behind a new route (RT-145)."""


def reconcile(service: AIMService, view: View, now: datetime) -> Plan:
    """Route and routing status of one service; other writers' status is never touched (FW-371)."""
    config = resolve_config(view, service.namespace, service.spec.runtime_config_name)
    if config.error is not None:
        # Without a config nobody knows whether a route is wanted: keep what there is (RT-008).
        return Plan(retry=_retried(config.error))
    settings = routing_settings(service, config.spec)
    found = view.get(HTTP_ROUTES, service.namespace, http_route_name(service.name, service.namespace))
    if not settings.enabled:
        return _without_route(service, found)
    if settings.fault is not None:
        return _report(service, broken(settings.fault.reason, settings.fault.message), found.value, now)
    error = view.failure or found.error
    if error is not None:
        return _failed(service, error, view.failing_since, found.value, now)
    if found.value is not None and not is_controlled_by(found.value, service):
        return _report(service, _occupied(found.value, service), None, now)
    namesake = older_namesake(view, service)
    if namesake is not None:
        return _unroutable(service, namesake, found.value, now)
    path = path_of(service, settings.path_template)
    if path.problem is not None:
        waiting = path.problem is PathProblem.NOT_YET and found.value is None
        desired = pending(path.message) if waiting else broken("PathTemplateInvalid", path.message)
        return _report(service, desired, found.value, now)
    child = build_route(service, settings, path.value, config.spec.label_propagation)
    desired = _condition(found.value, settings, child, path.value)
    early = _too_early_to_tell(service, desired, now)
    desired = replace(desired, keep=early is not None)
    plan = replace(_report(service, desired, found.value, now, child), requeue_after=early)
    conflict = conflict_event(view, service, settings, path.value)
    return plan if conflict is None else replace(plan, events=(*plan.events, conflict))


def is_controlled_by(route: HTTPRoute, service: AIMService) -> bool:
    """Whether the service made the route (RT-183, RT-184)."""
    return any(owner.uid == service.uid and owner.controller for owner in route.metadata.owner_references)


def _too_early_to_tell(service: AIMService, desired: Desired, now: datetime) -> float | None:
    """Seconds for which a missing backend is no news yet."""
    stored = find_condition(service.status.conditions, HTTP_ROUTE_READY)
    if desired.reason != BACKEND_NOT_FOUND or stored is None:
        return None
    hold = Hold(BRIEFLY, stored.last_transition_time or now, _OVER)
    return hold.left(now) if hold.covers(stored, now) else None


def _gateway(settings: RoutingSettings) -> ParentReference:
    assert settings.gateway is not None
    return settings.gateway


def _condition(route: HTTPRoute | None, settings: RoutingSettings, child: Child, path: str) -> Desired:
    gateway = _gateway(settings)
    if route is None or path_in_effect(route) != path:
        # What the gateway said is about the former route; the plan that carries this applies the new one.
        return awaiting(child.name, child.namespace, gateway)
    return acceptance(route, gateway)


def path_in_effect(route: HTTPRoute) -> str | None:
    """The path prefix that the stored route serves (RT-171)."""
    matches = [match for rule in route.spec.rules for match in rule.matches]
    return matches[0].path.value if matches and matches[0].path else None


def _without_route(service: AIMService, found: Lookup[HTTPRoute]) -> Plan:
    route = found.value
    own = route is not None and is_controlled_by(route, service)
    deletes = (_removal(route, "routing is disabled"),) if own and route is not None and not route.deleting else ()
    return Plan(deletes=deletes, status={})


def _removal(route: HTTPRoute, why: str) -> Delete:
    return Delete(HTTP_ROUTES, route.namespace, route.name, route.uid, why)


def _occupied(route: HTTPRoute, service: AIMService) -> Desired:
    if is_left_by_predecessor(route, service, AIM_SERVICE):
        return pending(
            f"HTTPRoute {route.namespace}/{route.name} of an earlier AIMService {service.name} is still there"
        )
    return broken(
        ALREADY_EXISTS,
        f"HTTPRoute {route.namespace}/{route.name} exists and {_owner_of(route)}; delete it, or create this "
        "service under another name",
    )


def _owner_of(route: HTTPRoute) -> str:
    owner = next((one for one in route.metadata.owner_references if one.controller), None)
    return f"is controlled by {owner.kind} {owner.name}" if owner else "has no controller owner"


def _unroutable(service: AIMService, namesake: AIMService, route: HTTPRoute | None, now: datetime) -> Plan:
    """A route would lead to the model of another service: there must be none."""
    name = inference_service_name(service.name, service.namespace)
    desired = broken(
        ALREADY_EXISTS,
        f"AIMService {namesake.namespace}/{namesake.name}, which is older, has the same InferenceService name {name}; "
        "create this service under another name that differs in its first characters",
    )
    removed = () if route is None or route.deleting else (_removal(route, "its backend is another service's"),)
    return replace(_report(service, desired, None, now), deletes=removed)


def _failed(
    service: AIMService, error: AimError, since: datetime | None, route: HTTPRoute | None, now: datetime
) -> Plan:
    """A route that cannot be read or written: for a while a working one is still believed in (RT-141).

    Args:
        since: when it began; ``None`` when it does now.
    """
    retry = _retried(error)
    if retry is None:
        return _report(service, broken("InvalidSpec", error.message), route, now)
    stored = find_condition(service.status.conditions, HTTP_ROUTE_READY)
    left = GRACE_PERIOD - (now - (since or now))
    if stored is not None and stored.status is ConditionStatus.TRUE and left > timedelta():
        return Plan(retry=retry, retry_within=left.total_seconds())
    plan = _report(service, broken(FETCH_ERROR, error.message), route, now)
    return replace(plan, retry=retry)


def _report(
    service: AIMService, desired: Desired, route: HTTPRoute | None, now: datetime, child: Child | None = None
) -> Plan:
    stored = tuple(one for one in service.status.conditions if one.type == HTTP_ROUTE_READY)
    settled = settle([desired], stored, generation=service.metadata.generation, now=now)
    status: JsonObject = {"conditions": [condition_json(one) for one in settled]}
    path = _planned_path(child) if child is not None else path_in_effect(route) if route is not None else None
    if path is not None:
        status["routing"] = {"path": path}
    children = (child,) if child is not None else ()
    return Plan(children=children, status=status, events=events_of([desired], settled, stored))


def _planned_path(child: Child) -> str:
    return str(child.body["spec"]["rules"][0]["matches"][0]["path"]["value"])


def _retried(error: AimError) -> AimError | None:
    return error if error.category in RETRIED_CATEGORIES else None
