"""gateway.networking.k8s.io/v1 Gateway: what routes may rely on (RT-230)."""

from __future__ import annotations

from controller_runtime import ApiModel, Condition, Items, Resource


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
