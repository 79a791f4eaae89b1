"""An embedded Kubernetes API server over memory, for demos and tests. Never for production: no authentication, no disk.

Start it with `async with ControlPlane() as cp:`, or as a process with `python -m aim_local.apiserver`.
"""

from aim_local.apiserver.controlplane import EXTERNAL_CRDS, ControlPlane
from aim_local.apiserver.faults import FaultRule, Faults
from aim_local.apiserver.http import Handler, Middleware, Request
from aim_local.apiserver.status import ApiError
from aim_local.apiserver.store import Limits

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
