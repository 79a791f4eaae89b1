"""What the gateway made of a route, and whether it serves (RT-140…RT-148, RT-230, RT-231)."""

from dataclasses import replace
from typing import Final

from aim_domain import Gateway, HTTPRoute, ParentReference, RouteParentStatus
from controller_runtime import Condition, ConditionStatus, Desired, Observability, find_condition

HTTP_ROUTE_READY: Final = "HTTPRouteReady"
PENDING: Final = "HTTPRoutePending"
GATEWAY_NOT_PROGRAMMED: Final = "GatewayNotProgrammed"
BACKEND_NOT_FOUND: Final = "BackendNotFound"
_BACKEND_REASONS: Final = frozenset({BACKEND_NOT_FOUND, "RefNotPermitted", "InvalidKind", "UnsupportedProtocol"})
_UNDECIDED_REASON: Final = "Pending"
_ADDRESS_REASONS: Final = frozenset({"AddressNotAssigned", "AddressNotUsable"})
"""Reasons of a Gateway that serves without the address that it asked for: a cluster may have no load balancers."""


def verdict(status: ConditionStatus, reason: str, message: str, observe: Observability) -> Desired:
    """The condition of an AIMService about its route."""
    return Desired(HTTP_ROUTE_READY, status, reason, message, observe)


def pending(message: str, reason: str = PENDING) -> Desired:
    """Nothing is wrong, somebody still has to act."""
    return verdict(ConditionStatus.FALSE, reason, message, Observability.INFO)


def broken(reason: str, message: str) -> Desired:
    """Somebody has to correct something."""
    return verdict(ConditionStatus.FALSE, reason, message, Observability.ERROR)


def awaiting(route: str, namespace: str, gateway: ParentReference) -> Desired:
    """The gateway has said nothing yet; the same words before and after the route exists, to save a status write."""
    return pending(f"Gateway {gateway.namespace or namespace}/{gateway.name} has not accepted HTTPRoute {route} yet")


def accepted_message(gateway: str, route: str) -> str:
    """What the condition of an accepted route states; read again to know the gateway that the route had (RT-213)."""
    return f"{gateway} accepted HTTPRoute {route}"


def acceptance(route: HTTPRoute, gateway: ParentReference) -> Desired:
    """The condition that follows from the route's status; one accepting parent entry is enough."""
    entries = [entry for entry in route.status.parents if _is_about(entry, route, gateway)]
    by_entry = [_verdict_of(entry, route, gateway) for entry in entries]
    decided = [one for one in by_entry if one is not None]
    for wanted in (_is_accepted, _is_unresolved, _is_any):
        chosen = next((one for one in decided if wanted(one)), None)
        if chosen is not None:
            return chosen
    return awaiting(route.name, route.namespace, gateway)


def served(desired: Desired, gateway: Gateway | None, reference: ParentReference) -> Desired:
    """The condition of an accepted route as far as its gateway serves (RT-230, RT-231).

    Args:
        desired: what follows from the route alone.
        gateway: ``None`` where it is not known, which changes nothing.
    """
    fault = None if gateway is None or not _is_accepted(desired) else _not_programmed(gateway, reference)
    if gateway is None or fault is None:
        return desired
    said = f"{fault.reason}: {fault.message}" if fault.message else fault.reason
    if fault.reason in _ADDRESS_REASONS:
        return replace(desired, message=f"{desired.message}; the Gateway has no address of its own yet ({said})")
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


def _is_accepted(desired: Desired) -> bool:
    return desired.status is ConditionStatus.TRUE


def _is_unresolved(desired: Desired) -> bool:
    return desired.observe is not Observability.ERROR


def _is_any(_: Desired) -> bool:
    return True


def _verdict_of(entry: RouteParentStatus, route: HTTPRoute, gateway: ParentReference) -> Desired | None:
    current = tuple(one for one in entry.conditions if (one.observed_generation or 0) >= route.metadata.generation)
    accepted, resolved = find_condition(current, "Accepted"), find_condition(current, "ResolvedRefs")
    undecided = accepted is None or ConditionStatus.UNKNOWN is accepted.status or accepted.reason == _UNDECIDED_REASON
    if accepted is not None and not undecided and accepted.status is ConditionStatus.FALSE:
        # Before its references: whoever reads that a backend is missing would wait for nothing (RT-144).
        return broken(
            accepted.reason,
            f"Gateway {_name(route, gateway)} rejected HTTPRoute {route.name}: {accepted.message or accepted.reason}",
        )
    if resolved is not None and resolved.status is ConditionStatus.FALSE:
        return _unresolved(resolved)
    if undecided:
        return None
    message = accepted_message(f"Gateway {_name(route, gateway)}", route.name)
    return verdict(ConditionStatus.TRUE, "HTTPRouteAccepted", message, Observability.INFO)


def _unresolved(resolved: Condition) -> Desired:
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
