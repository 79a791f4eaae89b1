"""A real node on one machine: Kubernetes of real programs whose pods are containers. It needs Linux and root."""

from aim_local.node.node import Node
from aim_local.node.requirements import NodeError
from aim_local.node.settings import NodeSettings

__all__ = ["Node", "NodeError", "NodeSettings"]
