"""gateway.networking.k8s.io/v1 HTTPRoute: the route and its acceptance (RT-140 to RT-148)."""

from __future__ import annotations

from aim_shared.api.base import ApiModel, Items
from aim_shared.api.core_shapes import ParentReference
from aim_shared.api.meta import Condition, Resource


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
