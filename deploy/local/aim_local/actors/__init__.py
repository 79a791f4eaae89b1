"""Plays the rest of a cluster against any API server: nodes, kubelet, Jobs, volumes, KServe, autoscaling, gateway.

Every actor is a plain Kubernetes client. It keeps what it needs from watches, acts on the key that changed, and
leaves behind exactly the objects and status that the real component would. For demos and tests, never for production.
"""

from aim_local.actors.cluster import SimulatedCluster
from aim_local.actors.failures import FAIL_ANNOTATION, Failure
from aim_local.actors.settings import ActorSettings

__all__ = ["FAIL_ANNOTATION", "ActorSettings", "Failure", "SimulatedCluster"]
