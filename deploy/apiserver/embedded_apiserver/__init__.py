"""An embedded Kubernetes API server over memory, for demos and tests. Never for production: no authentication, no disk.

Start it with `async with ControlPlane() as cp:`, or as a process with `python -m embedded_apiserver`.
"""

from embedded_apiserver.controlplane import EXTERNAL_CRDS, ControlPlane
from embedded_apiserver.faults import FaultRule, Faults
from embedded_apiserver.http import Handler, Middleware, Request
from embedded_apiserver.status import ApiError
from embedded_apiserver.store import Limits

__all__ = [
    "EXTERNAL_CRDS",
    "ApiError",
    "ControlPlane",
    "FaultRule",
    "Faults",
    "Handler",
    "Limits",
    "Middleware",
    "Request",
]
