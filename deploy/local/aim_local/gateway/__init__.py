"""A local HTTP gateway that follows the accepted HTTPRoutes to the inference engine."""

from aim_local.gateway.routes import Route, RouteTable, Target, routes_of
from aim_local.gateway.server import gateway

__all__ = ["Route", "RouteTable", "Target", "gateway", "routes_of"]
