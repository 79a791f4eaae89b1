"""Everything on one machine as real processes: broker, control plane, registry, actors, gateway and the services."""

from aim_local.stack.process import Supervised
from aim_local.stack.settings import SERVICES, StackError, StackSettings
from aim_local.stack.stack import Stack

__all__ = ["SERVICES", "Stack", "StackError", "StackSettings", "Supervised"]
