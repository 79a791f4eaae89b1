"""Component ``HTTPRoute``: taken from the condition that routing writes (FW-374…FW-376)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_domain.component_names import ComponentName
from controller_runtime import Category, ClassifiedError, Component, Condition, ConditionStatus, State

_BACKEND_MISSING: Final = (State.PROGRESSING, Category.MISSING_DOWNSTREAM)
_REJECTED: Final = (State.FAILED, Category.INVALID_SPEC)
_BY_REASON: Final[Mapping[str, tuple[State, Category | None]]] = MappingProxyType(
    {
        "HTTPRouteCreating": (State.PROGRESSING, None),
        "HTTPRoutePending": (State.PROGRESSING, None),
        "GatewayNotProgrammed": (State.PROGRESSING, None),
        "BackendNotFound": _BACKEND_MISSING,
        "RefNotPermitted": _BACKEND_MISSING,
        "InvalidKind": _BACKEND_MISSING,
        "UnsupportedProtocol": _BACKEND_MISSING,
        "RouteRefsUnresolved": _BACKEND_MISSING,
        "PathTemplateInvalid": (State.DEGRADED, None),
        "PathConflict": (State.DEGRADED, None),
        "PathReserved": (State.DEGRADED, None),
        "HTTPRouteFetchError": (State.DEGRADED, None),
    }
)
"""State and category of an untrue condition; what is not listed is a rejection."""


def route_component(condition: Condition | None, fault: ClassifiedError | None) -> Component:
    """How the route is doing, for a service with routing enabled.

    Args:
        condition: the stored ``HTTPRouteReady``.
        fault: of the routing configuration, which serving finds out itself and which blocks (FW-092).
    """
    if fault is not None:
        return _route(State.FAILED, fault.reason, fault.message, fault, is_input=True)
    if condition is None:
        return _route(State.PROGRESSING, "HTTPRouteCreating", "routing has not reported yet")
    if condition.status is ConditionStatus.TRUE:
        return _route(State.READY, condition.reason, condition.message)
    state, category = _BY_REASON.get(condition.reason, _REJECTED)
    error = None if category is None else ClassifiedError(category, condition.reason, condition.message)
    return _route(state, condition.reason, condition.message, error)


def _route(
    state: State, reason: str, message: str, error: ClassifiedError | None = None, *, is_input: bool = False
) -> Component:
    return Component(
        ComponentName.HTTP_ROUTE,
        state,
        reason,
        message,
        () if error is None else (error,),
        is_input=is_input,
        counted_only=True,
    )
