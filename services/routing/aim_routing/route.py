"""The HTTPRoute of a service, and what its gateway made of it (RT-140 to RT-148, RT-230, RT-231)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from aim_domain import (
    AIMService,
    Gateway,
    HTTPRoute,
    LabelPropagation,
    ParentReference,
    RouteParentStatus,
    RoutingSettings,
    child_labels,
    labels,
)
from aim_domain.component_names import ComponentName
from aim_domain.kinds import HTTP_ROUTE
from aim_domain.naming import http_route_name, inference_service_name, label_value, predictor_name
from aim_domain.parts import HTTP_ROUTES
from aim_routing.address import canonical_hostnames
from controller_runtime import (
    Child,
    Component,
    Condition,
    ConditionStatus,
    Event,
    EventType,
    JsonObject,
    StatusValue,
    find_condition,
    kind_of,
    parse_seconds,
    timestamp,
    to_json,
)

_WHOLE: Final = 100
HTTP_ROUTE_READY: Final = ComponentName.HTTP_ROUTE.condition
ACCEPTED: Final = "HTTPRouteAccepted"
PENDING: Final = "HTTPRoutePending"
GATEWAY_NOT_PROGRAMMED: Final = "GatewayNotProgrammed"
BACKEND_NOT_FOUND: Final = "BackendNotFound"
_BACKEND_REASONS: Final = frozenset({BACKEND_NOT_FOUND, "RefNotPermitted", "InvalidKind", "UnsupportedProtocol"})
_UNDECIDED_REASON: Final = "Pending"
_ADDRESS_REASONS: Final = frozenset({"AddressNotAssigned", "AddressNotUsable"})
"""Reasons of a Gateway that serves without the address that it asked for: a cluster may have no load balancers."""


def health(state: StatusValue, reason: str, message: str) -> Component:
    """How the route of an AIMService does."""
    return Component(ComponentName.HTTP_ROUTE, state, reason, message)


def pending(message: str, reason: str = PENDING) -> Component:
    """Nothing is wrong; another component still has to act."""
    return health(StatusValue.PROGRESSING, reason, message)


def broken(reason: str, message: str) -> Component:
    """A user has to correct something."""
    return health(StatusValue.FAILED, reason, message)


def awaiting(route: str, namespace: str, gateway: ParentReference) -> Component:
    """The gateway has said nothing yet; the same words before and after the route exists, to save a status write."""
    return pending(f"Gateway {gateway.namespace or namespace}/{gateway.name} has not accepted HTTPRoute {route} yet")


def accepted_message(gateway: str, route: str) -> str:
    """What the condition of an accepted route states; read again to know the gateway that the route had (RT-213)."""
    return f"{gateway} accepted HTTPRoute {route}"


def acceptance(route: HTTPRoute, gateway: ParentReference) -> Component:
    """What follows from the route's status; one accepting parent entry is enough."""
    entries = [entry for entry in route.status.parents if _is_about(entry, route, gateway)]
    by_entry = [_verdict_of(entry, route, gateway) for entry in entries]
    decided = [one for one in by_entry if one is not None]
    for wanted in (_is_accepted, _is_unresolved, _is_any):
        chosen = next((one for one in decided if wanted(one)), None)
        if chosen is not None:
            return chosen
    return awaiting(route.name, route.namespace, gateway)


def served(accepted: Component, gateway: Gateway | None, reference: ParentReference) -> Component:
    """How an accepted route does as far as its gateway serves (RT-230, RT-231).

    Args:
        accepted: what follows from the route alone.
        gateway: ``None`` where it is not known, which changes nothing.
    """
    fault = None if gateway is None or not _is_accepted(accepted) else _not_programmed(gateway, reference)
    if gateway is None or fault is None:
        return accepted
    said = f"{fault.reason}: {fault.message}" if fault.message else fault.reason
    if fault.reason in _ADDRESS_REASONS:
        return replace(accepted, message=f"{accepted.message}; the Gateway has no address of its own yet ({said})")
    name = f"{gateway.namespace}/{gateway.name}"
    return pending(f"Gateway {name} does not serve yet, though it accepted the route: {said}", GATEWAY_NOT_PROGRAMMED)


def _not_programmed(gateway: Gateway, reference: ParentReference) -> Condition | None:
    """`Programmed=False` of the gateway as it is now, or of the listener that the route names."""
    listeners = [one.conditions for one in gateway.status.listeners if one.name == reference.section_name]
    for conditions in (gateway.status.conditions, *listeners):
        found = find_condition(conditions, "Programmed")
        is_current = found is not None and (found.observed_generation or 0) >= gateway.metadata.generation
        if found is not None and is_current and found.status is ConditionStatus.FALSE:
            return found
    return None


def _is_accepted(route: Component) -> bool:
    return route.state is StatusValue.READY


def _is_unresolved(route: Component) -> bool:
    return route.state is not StatusValue.FAILED


def _is_any(_: Component) -> bool:
    return True


def _verdict_of(entry: RouteParentStatus, route: HTTPRoute, gateway: ParentReference) -> Component | None:
    current = tuple(one for one in entry.conditions if (one.observed_generation or 0) >= route.metadata.generation)
    accepted, resolved = find_condition(current, "Accepted"), find_condition(current, "ResolvedRefs")
    undecided = accepted is None or ConditionStatus.UNKNOWN is accepted.status or accepted.reason == _UNDECIDED_REASON
    if accepted is not None and not undecided and accepted.status is ConditionStatus.FALSE:
        # Before its references: a user who reads that a backend is missing would wait in vain (RT-144).
        return broken(
            accepted.reason or "Unknown",
            f"Gateway {_name(route, gateway)} rejected HTTPRoute {route.name}: {accepted.message or accepted.reason}",
        )
    if resolved is not None and resolved.status is ConditionStatus.FALSE:
        return _unresolved(resolved)
    if undecided:
        return None
    message = accepted_message(f"Gateway {_name(route, gateway)}", route.name)
    return health(StatusValue.READY, ACCEPTED, message)


def _unresolved(resolved: Condition) -> Component:
    if resolved.reason in _BACKEND_REASONS:
        said = resolved.message or resolved.reason
        hint = "; KServe creates it for the InferenceService" if resolved.reason == BACKEND_NOT_FOUND else ""
        return pending(f"{said}{hint}", resolved.reason)
    return pending(f"{resolved.reason}: {resolved.message}", "RouteRefsUnresolved")


def _is_about(entry: RouteParentStatus, route: HTTPRoute, gateway: ParentReference) -> bool:
    return _identity(entry.parent_ref, route) == _identity(gateway, route)


def _identity(parent: ParentReference, route: HTTPRoute) -> tuple[object, ...]:
    namespace = parent.namespace or route.namespace
    return (parent.group, parent.kind, namespace, parent.name, parent.section_name or None, parent.port)


def _name(route: HTTPRoute, gateway: ParentReference) -> str:
    return f"{gateway.namespace or route.namespace}/{gateway.name}"


STREAMS_LIMITED: Final = "StreamsLimited"
LONG_ANSWER_SECONDS: Final = 600
"""A long answer of a slow model takes minutes; a limit below this is worth a warning."""
BACKEND_PORT = 80
"""Port of the Service that KServe makes for the predictor (RT-052)."""

_STAMPS: Final = frozenset({labels.ANNOTATION_ADDRESS_CLAIMED, labels.ANNOTATION_BACKENDS_CHANGED})
"""What routing records on a route, whatever the user's annotations are."""


def recorded_time(route: HTTPRoute, stamp: str) -> datetime | None:
    """What the route records; ``None`` where it records nothing that is a time."""
    try:
        found = datetime.fromisoformat(route.metadata.annotations.get(stamp, ""))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def backends_changed(
    service: AIMService, settings: RoutingSettings, route: HTTPRoute | None, now: datetime
) -> datetime | None:
    """When the route got other backends or weights, where that was after its creation (RT-241)."""
    if route is None:
        return None
    present = [
        (one.name, 1 if one.weight is None else one.weight) for rule in route.spec.rules for one in rule.backend_refs
    ]
    wanted = [(one["name"], one.get("weight", 1)) for one in _backends(service, settings)]
    return recorded_time(route, labels.ANNOTATION_BACKENDS_CHANGED) if present == wanted else now


def build_route(
    service: AIMService,
    settings: RoutingSettings,
    path: str,
    propagation: LabelPropagation | None,
    stamps: Mapping[str, datetime | None],
) -> Child:
    """The complete desired route; settings must be without fault.

    Args:
        stamps: annotations that record a moment; without one, the route has none.
    """
    metadata: JsonObject = {
        "name": http_route_name(service.name, service.namespace),
        "namespace": service.namespace,
        "labels": _labels(service, propagation),
    }
    # A user who could write the time of the claim could make it older than others'.
    annotations = {name: text for name, text in settings.annotations if name not in _STAMPS}
    annotations |= {name: timestamp(moment) for name, moment in stamps.items() if moment is not None}
    if annotations:
        metadata["annotations"] = annotations
    assert settings.gateway is not None
    spec: JsonObject = {"parentRefs": [to_json(settings.gateway)], "rules": [_rule(service, settings, path)]}
    if settings.hostnames:
        spec["hostnames"] = list(canonical_hostnames(settings.hostnames))
    return Child(HTTP_ROUTES, kind_of({"metadata": metadata, "spec": spec}, HTTP_ROUTE))


def stream_event(timeout: str | None, route: HTTPRoute | None) -> Event | None:
    """The event of a new limit that ends streamed answers; none once the route has it (RT-219).

    Args:
        timeout: as a Gateway API duration; ``None`` where the route has none.
        route: as it is stored.
    """
    rule = route.spec.rules[0] if route is not None and route.spec.rules else None
    if rule is not None and (rule.timeouts.request if rule.timeouts else None) == timeout:
        return None
    remedy = "spec.routing.requestTimeout: 0s has none"
    if timeout is None:
        limit = "the gateway's own limit ends requests, streamed answers included (15s with Envoy Gateway)"
        return Event(EventType.NORMAL, STREAMS_LIMITED, f"the route has no requestTimeout: {limit}; {remedy}")
    if not 0 < parse_seconds(timeout) < LONG_ANSWER_SECONDS:
        return None
    message = f"requestTimeout {timeout} ends each request after that time, streamed answers included; {remedy}"
    return Event(EventType.WARNING, STREAMS_LIMITED, message)


def _labels(service: AIMService, propagation: LabelPropagation | None) -> dict[str, str]:
    own = {
        labels.APP_COMPONENT: labels.APP_COMPONENT_ROUTING,
        labels.APP_MANAGED_BY: labels.APP_MANAGED_BY_ENGINE,
        labels.SERVICE: label_value(service.name),
    }
    # Routing acts for the controller of AIMServices (FW-201).
    return child_labels(own, parent=service, controller="service", propagation=propagation)


def _rule(service: AIMService, settings: RoutingSettings, path: str) -> JsonObject:
    rewrite = {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}
    rule: JsonObject = {
        "matches": [{"path": {"type": "PathPrefix", "value": path}}],
        "filters": [rewrite],
        "backendRefs": _backends(service, settings),
    }
    if settings.request_timeout is not None:
        rule["timeouts"] = {"request": settings.request_timeout}
    return rule


def _backends(service: AIMService, settings: RoutingSettings) -> list[JsonObject]:
    """The predictor; while a new version is rolled out its predictor, too, by their weights (RT-240)."""
    rollout = service.status.rollout
    weight = 0 if rollout is None or service.spec.rollout is None else rollout.weight or 0
    own = _backend(settings.inference_service, service.namespace)
    if rollout is None or not rollout.candidate or not weight:
        return [own]
    beside = _backend(inference_service_name(rollout.candidate, service.namespace), service.namespace)
    return [{**own, "weight": _WHOLE - weight}, {**beside, "weight": weight}]


def _backend(inference_service: str, namespace: str) -> JsonObject:
    return {
        "kind": "Service",
        "name": predictor_name(inference_service),
        "namespace": namespace,
        "port": BACKEND_PORT,
    }
