"""HTTPRoute and Gateway of gateway.networking.k8s.io/v1: the route and what it relies on (RT-140…RT-148, RT-230)."""

from __future__ import annotations

from typing import Annotated, Final

from controller_runtime import DEFAULTED, REQUIRED, ApiModel, Condition, Int32, Items, Resource, Schema


class ListenerStatus(ApiModel):
    """The state of one listener."""

    name: str = ""
    conditions: Items[Condition] = ()


class GatewayStatus(ApiModel):
    """What the controller of the gateway reports."""

    conditions: Items[Condition] = ()
    listeners: Items[ListenerStatus] = ()


class Gateway(Resource):
    """gateway.networking.k8s.io/v1 Gateway, whose status alone is read."""

    api_version: str = "gateway.networking.k8s.io/v1"
    kind: str = "Gateway"
    status: GatewayStatus = GatewayStatus()


_DNS_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


class ParentReference(ApiModel):
    """A Gateway, or another parent of a route."""

    group: Annotated[str, DEFAULTED, Schema(max_length=253, pattern=rf"^$|^{_DNS_SUBDOMAIN}$")] = (
        "gateway.networking.k8s.io"
    )
    """API group of the parent."""
    kind: Annotated[
        str, DEFAULTED, Schema(min_length=1, max_length=63, pattern=r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$")
    ] = "Gateway"
    """Kind of the parent."""
    name: Annotated[str, REQUIRED, Schema(min_length=1, max_length=253)] = ""
    """Name of the parent."""
    namespace: Annotated[
        str | None, Schema(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    ] = None
    """Namespace of the parent; defaults to the namespace of the HTTPRoute."""
    section_name: Annotated[str | None, Schema(min_length=1, max_length=253, pattern=rf"^{_DNS_SUBDOMAIN}$")] = None
    """Name of the listener."""
    port: Annotated[Int32 | None, Schema(minimum=1, maximum=65535)] = None
    """Port of the listener."""


class PathMatch(ApiModel):
    """Condition on the path of a request."""

    type: str = "PathPrefix"
    value: str = "/"


class RouteMatch(ApiModel):
    """Condition on a request."""

    path: PathMatch | None = None


class BackendRef(ApiModel):
    """Where requests go."""

    group: str = ""
    kind: str = "Service"
    name: str = ""
    namespace: str | None = None
    port: int | None = None
    weight: int | None = None


class RouteTimeouts(ApiModel):
    """Timeouts of a rule, as Gateway API durations."""

    request: str | None = None
    backend_request: str | None = None


class RouteRule(ApiModel):
    """One rule of a route."""

    matches: Items[RouteMatch] = ()
    backend_refs: Items[BackendRef] = ()
    timeouts: RouteTimeouts | None = None


class HTTPRouteSpec(ApiModel):
    """What is routed where."""

    parent_refs: Items[ParentReference] = ()
    hostnames: Items[str] = ()
    rules: Items[RouteRule] = ()


class RouteParentStatus(ApiModel):
    """What one parent made of the route."""

    parent_ref: ParentReference = ParentReference()
    controller_name: str = ""
    conditions: Items[Condition] = ()


class HTTPRouteStatus(ApiModel):
    """What the parents made of the route."""

    parents: Items[RouteParentStatus] = ()


class HTTPRoute(Resource):
    """gateway.networking.k8s.io/v1 HTTPRoute."""

    api_version: str = "gateway.networking.k8s.io/v1"
    kind: str = "HTTPRoute"
    spec: HTTPRouteSpec = HTTPRouteSpec()
    status: HTTPRouteStatus = HTTPRouteStatus()
