"""The routing part of an AIMService: its HTTPRoute, ``HTTPRouteReady`` and ``status.routing`` (routing.md)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from aim_domain import (
    AIMService,
    HTTPRoute,
    LabelPropagation,
    ParentReference,
    RoutingSettings,
    disabled_by,
    labels,
    resolve_config,
    routing_settings,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import AIM_SERVICE
from aim_domain.naming import http_route_name, inference_service_name
from aim_domain.parts import GATEWAYS, HTTP_ROUTES
from aim_routing.address import Address
from aim_routing.conflict import (
    PATH_CONFLICT,
    Claim,
    Rivals,
    Tenure,
    address_in_effect,
    address_of,
    claim_of,
    older_namesake,
    rivals_of,
    shared_path_event,
)
from aim_routing.path import PathProblem, path_of
from aim_routing.reservation import NO_LIMITS, limits_of
from aim_routing.route import (
    ACCEPTED,
    BACKEND_NOT_FOUND,
    HTTP_ROUTE_READY,
    PENDING,
    acceptance,
    awaiting,
    backends_changed,
    broken,
    build_route,
    pending,
    served,
    stream_event,
)
from controller_runtime import (
    BRIEFLY,
    RETRIED_CATEGORIES,
    Child,
    ClassifiedError,
    Component,
    Delete,
    JsonObject,
    Lookup,
    Observability,
    Plan,
    StatusValue,
    View,
    assemble,
    condition_json,
    evaluate,
    find_condition,
    grace_left,
    is_left_by_predecessor,
    to_json,
)

ALREADY_EXISTS: Final = "AlreadyExists"
FETCH_ERROR: Final = "HTTPRouteFetchError"
ROUTING_DISABLED: Final = "RoutingDisabled"
_OVER: Final = MappingProxyType({PENDING: StatusValue.PROGRESSING})
"""What may stand while KServe is just making the predictor's Service behind a new route (RT-145)."""
_SERVED: Final = MappingProxyType({ACCEPTED: StatusValue.READY})
_TAKEN_UP: Final = timedelta(seconds=10)
"""How long a gateway may take to accept other weights; it divides the requests as before until then (RT-241)."""

_UNREPORTED_FOR: Final = MappingProxyType({PENDING: timedelta(seconds=10), BACKEND_NOT_FOUND: timedelta(seconds=60)})
"""How long the first steps of a new route go unreported: serving says meanwhile that it is being made (RT-174)."""


def reconcile(service: AIMService, view: View, now: datetime) -> Plan:
    """Route and routing status of one service; other writers' status is never touched (FW-371)."""
    config = resolve_config(view, service.namespace, service.spec.runtime_config_name)
    if config.error is not None:
        # Without a config it is unknown whether a route is wanted: keep what there is (RT-008).
        return Plan(retry=_retried(config.error))
    settings = routing_settings(service, config.spec)
    found = view.get(HTTP_ROUTES, service.namespace, http_route_name(service.name, service.namespace))
    if not settings.enabled:
        return _without_route(service, found, disabled_by(view, service), now)
    if settings.fault is not None:
        return _keeping(service, broken(settings.fault.reason, settings.fault.message), found.value, view, now)
    error = view.failure or found.error
    if error is not None:
        return _failed(service, error, view.failing_since, found.value, now)
    if found.value is not None and not is_controlled_by(found.value, service):
        return _report(service, _occupied(found.value, service), None, now)
    namesake = older_namesake(view, service)
    if namesake is not None:
        return _unroutable(service, _namesake(service, namesake), found.value, now)
    path = path_of(service, settings.path_template)
    if path.problem is not None:
        waiting = path.problem is PathProblem.NOT_YET and found.value is None
        health = pending(path.message) if waiting else broken("PathTemplateInvalid", path.message)
        return _keeping(service, health, found.value, view, now)
    wanted = _WantedRoute(settings, path.value, config.spec.label_propagation)
    return _at_address(service, wanted, found.value, view, now)


@dataclass(frozen=True, slots=True)
class _WantedRoute:
    """What the route shall be made from; the settings are without fault."""

    settings: RoutingSettings
    path: str
    propagation: LabelPropagation | None


def _at_address(service: AIMService, wanted: _WantedRoute, route: HTTPRoute | None, view: View, now: datetime) -> Plan:
    """The route at its address, unless that is another's or reserved."""
    settings, gateway = wanted.settings, _gateway(wanted.settings)
    address = address_of(gateway, service.namespace, settings.hostnames, wanted.path)
    in_effect = None if route is None else address_in_effect(route)
    claim = claim_of(service, route, address, now)
    rivals = rivals_of(view, service, claim)
    # What is in effect stays; an administrator ends it by deleting the route (RT-216).
    limits = limits_of(view, service, address, settings.path_template) if in_effect != address else NO_LIMITS
    refusal = _refusal(service, claim, rivals) or limits.refusal
    if refusal is not None:
        return _keeping(service, refusal, route, view, now)
    unknown = rivals.error or limits.error
    if unknown is not None and in_effect != address:
        # An address is only taken by a process that can see that it is free; one that is served stays.
        return _failed(service, unknown, view.failing_since, route, now)
    changed = backends_changed(service, settings, route, now)
    stamps = {labels.ANNOTATION_ADDRESS_CLAIMED: claim.stamp, labels.ANNOTATION_BACKENDS_CHANGED: changed}
    child = build_route(service, settings, wanted.path, wanted.propagation, stamps)
    # What the gateway said is about the route as it was; the plan that carries this applies the new one.
    reported = None if in_effect != address else route
    health = (
        awaiting(child.name, child.namespace, gateway) if reported is None else _acceptance(reported, gateway, view)
    )
    health = _with_hold(service, health, route, now, None if reported is None else changed)
    notes = (shared_path_event(rivals, service, gateway, wanted.path), stream_event(settings.request_timeout, route))
    plan = _report(service, health, route, now, child)
    # What is said of the wish does not wait until there is news of the route.
    return replace(plan, events=(*plan.events, *(one for one in notes if one is not None)))


def _acceptance(route: HTTPRoute, gateway: ParentReference, view: View) -> Component:
    accepted = acceptance(route, gateway)
    if accepted.state is not StatusValue.READY:
        return accepted
    # A gateway that cannot be read changes nothing: what it accepted, it most likely serves.
    found = view.get(GATEWAYS, gateway.namespace or route.namespace, gateway.name)
    return served(accepted, found.value, gateway)


def is_controlled_by(route: HTTPRoute, service: AIMService) -> bool:
    """Whether the service made the route (RT-183, RT-184)."""
    return any(owner.uid == service.uid and owner.controller for owner in route.metadata.owner_references)


def _with_hold(
    service: AIMService, health: Component, route: HTTPRoute | None, now: datetime, changed: datetime | None
) -> Component:
    """Held while it is usual of a new or changed route, which ends by itself (RT-174, RT-145, RT-241).

    Args:
        changed: when the route got other backends or weights at the address that it has.
    """
    stored = find_condition(service.status.conditions, HTTP_ROUTE_READY)
    if stored is None:
        made = None if route is None else route.metadata.creation_timestamp
        span = _UNREPORTED_FOR.get(health.effective_reason)
        return health if span is None else health.hold_for(span, since=made or now, whole=True)
    if health.reason == BACKEND_NOT_FOUND:
        return health.hold_for(BRIEFLY, since=stored.last_transition_time or now, over=_OVER)
    if health.reason == PENDING and changed is not None:
        return health.hold_for(_TAKEN_UP, since=changed, over=_SERVED)
    return health


def _gateway(settings: RoutingSettings) -> ParentReference:
    assert settings.gateway is not None
    return settings.gateway


def _without_route(service: AIMService, found: Lookup[HTTPRoute], disabled: str, now: datetime) -> Plan:
    """No route; a service that lost its own by a runtime config reports so until it makes a choice itself (RT-218).

    Args:
        disabled: which runtime config took routing away; empty where the service itself did.
    """
    route = found.value if found.value is not None and is_controlled_by(found.value, service) else None
    lost = _lost_route(service, route, disabled) if disabled else None
    why = lost.effective_message if lost is not None else "routing is disabled"
    deletes = () if route is None or route.deleting else (_removal(route, why),)
    return (
        Plan(deletes=deletes, status={})
        if lost is None
        else replace(_report(service, lost, None, now), deletes=deletes)
    )


def _lost_route(service: AIMService, route: HTTPRoute | None, disabled: str) -> Component | None:
    stored = find_condition(service.status.conditions, HTTP_ROUTE_READY)
    address = None if route is None else address_in_effect(route)
    reported = service.status.routing.path if service.status.routing else None
    path = address.path if address is not None else reported
    if path:
        remedy = "restore spec.routing there, or set spec.routing.enabled on the AIMService"
        message = f"path {path} is no longer served: {disabled}; {remedy}"
    elif stored is not None and stored.reason == ROUTING_DISABLED:
        message = stored.message
    else:
        return None
    return Component(
        ComponentName.HTTP_ROUTE, StatusValue.DEGRADED, ROUTING_DISABLED, message, observe=Observability.WARNING
    )


def _removal(route: HTTPRoute, why: str) -> Delete:
    return Delete(HTTP_ROUTES, route.namespace, route.name, route.uid, why)


def _occupied(route: HTTPRoute, service: AIMService) -> Component:
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


def _namesake(service: AIMService, namesake: AIMService) -> Component:
    name = inference_service_name(service.name, service.namespace)
    return broken(
        ALREADY_EXISTS,
        f"AIMService {namesake.namespace}/{namesake.name}, which is older, has the same InferenceService name {name}; "
        "create this service under another name that differs in its first characters",
    )


def _unroutable(service: AIMService, health: Component, route: HTTPRoute | None, now: datetime) -> Plan:
    """A route would lead to the model of another service, or take another's requests: there must be none."""
    why = f"the service may have none: {health.reason}"
    removed = () if route is None or route.deleting else (_removal(route, why),)
    return replace(_report(service, health, None, now), deletes=removed)


def _refusal(service: AIMService, claim: Claim, rivals: Rivals) -> Component | None:
    """Why the service gets no route at the address (RT-122, RT-212)."""
    if rivals.namespace:
        return _path_conflict(claim.address, rivals.namespace)
    # An older route would take the requests of the younger one; a new route does not (RT-121).
    if rivals.service and claim.tenure is Tenure.MOVED:
        return _path_taken(claim.address, service, rivals.service)
    return None


def _path_taken(address: Address, service: AIMService, holder: str) -> Component:
    return broken(
        PATH_CONFLICT,
        f"path {address.path} on {address.gateway} is that of AIMService {service.namespace}/{holder}; move that one "
        "to another pathTemplate first, or choose another one here",
    )


def _path_conflict(address: Address, namespace: str) -> Component:
    """Of the other service only the namespace is named: its path and name are not everybody's business (RT-122)."""
    hosts = f" (hosts {', '.join(address.hostnames)})" if address.hostnames else ""
    return broken(
        PATH_CONFLICT,
        f"path {address.path}{hosts} on {address.gateway} equals, lies below or contains one of namespace {namespace}, "
        "which has it; choose another pathTemplate or other hostnames",
    )


def _keeping(service: AIMService, health: Component, route: HTTPRoute | None, view: View, now: datetime) -> Plan:
    """The route stays while what it shall be is not known or is refused, unless its path is another's (RT-125)."""
    address = address_in_effect(route) if route is not None and is_controlled_by(route, service) else None
    held = None if address is None else claim_of(service, route, address, now)
    namespace = "" if held is None else rivals_of(view, service, held).namespace
    if address is not None and namespace:
        return _unroutable(service, _path_conflict(address, namespace), route, now)
    return _report(service, health, route, now)


def _failed(
    service: AIMService, error: ClassifiedError, since: datetime | None, route: HTTPRoute | None, now: datetime
) -> Plan:
    """A route that cannot be read or written: for a while the condition stays as it is (RT-141).

    Args:
        since: when it began; ``None`` when it does now.
    """
    retry = _retried(error)
    if retry is None:
        return _report(service, broken("InvalidSpec", error.message), route, now)
    left = grace_left(since or now, now)
    if left is not None:
        return Plan(retry=retry, retry_within=left.total_seconds())
    plan = _report(service, broken(FETCH_ERROR, error.message), route, now)
    return replace(plan, retry=retry)


def _report(
    service: AIMService, health: Component, route: HTTPRoute | None, now: datetime, child: Child | None = None
) -> Plan:
    """The plan that reports how the route does, and applies it if a child is given."""
    evaluation = evaluate(
        (ComponentName.HTTP_ROUTE,),
        (health,),
        generation=service.metadata.generation,
        stored=[one for one in service.status.conditions if one.type == HTTP_ROUTE_READY],
        stored_status=None,
        now=now,
        sums_up=False,
    )
    spec = child.body["spec"] if child is not None else to_json(route.spec) if route is not None else None
    routing = {} if spec is None else _routing_status(spec)
    conditions = [condition_json(one) for one in evaluation.conditions]
    status: JsonObject = {"conditions": conditions, **({"routing": routing} if routing else {})}
    return assemble(evaluation, status=status, children=() if child is None else (child,))


def _routing_status(spec: JsonObject) -> JsonObject:
    """Where the route is served (RT-170, RT-173); an emptied one is left out."""
    matches = [match for rule in spec.get("rules") or () for match in rule.get("matches") or ()]
    if not matches or not matches[0].get("path"):
        return {}
    path, hostnames = {"path": matches[0]["path"]["value"]}, spec.get("hostnames")
    return {**path, "hostnames": hostnames} if hostnames else path


def _retried(error: ClassifiedError) -> ClassifiedError | None:
    return error if error.category in RETRIED_CATEGORIES else None
