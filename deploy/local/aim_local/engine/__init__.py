"""A small OpenAI-compatible inference engine that echoes: one server, one virtual backend per predictor Service."""

from aim_local.engine.adapters import EnginePod
from aim_local.engine.backends import Backend, Backends
from aim_local.engine.server import engine

__all__ = ["Backend", "Backends", "EnginePod", "engine"]
