"""core/v1 Node: labels and resources of GPU nodes (DI-174 to DI-190)."""

from __future__ import annotations

from pydantic import Field

from controller_runtime.api.base import ApiModel, Items, MapOf
from controller_runtime.api.meta import Resource
from controller_runtime.quantity import QuantityText


class Taint(ApiModel):
    """What keeps pods away that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(ApiModel):
    """Settings of the node."""

    unschedulable: bool = False
    taints: Items[Taint] = ()


class NodeStatus(ApiModel):
    """What the node offers."""

    capacity: MapOf[QuantityText] = Field(default_factory=dict)
    allocatable: MapOf[QuantityText] = Field(default_factory=dict)


class Node(Resource):
    """core/v1 Node."""

    api_version: str = "v1"
    kind: str = "Node"
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()
