"""Everything on one machine as real processes: broker, control plane, registry, actors, gateway and the services."""

from aim_local.stack.settings import ClusterKind, StackSettings
from aim_local.stack.stack import Stack
from aim_local.supervision.process import StackError, Supervised

__all__ = ["ClusterKind", "Stack", "StackError", "StackSettings", "Supervised"]
