"""Settings of a stack."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from aim_domain.services import SERVICES
from aim_local.actors.settings import Weights
from aim_local.supervision.process import Spawn, spawn

"""The five services, by the names of their processes."""


class ClusterKind(StrEnum):
    """Clusters that a stack brings along."""

    EMBEDDED = "embedded"
    REAL = "real"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class StackSettings:
    """How a stack runs; durations are seconds.

    Attributes:
        folder: logs, kubeconfig and data; what an earlier stack left there is replaced.
        crds: folder with the platform's definitions.
        services: which of the five run.
        cluster: what has the API server: one that comes along, or the kubeconfig of another.
        actors: parts of a cluster to play, as `--actors` takes them; ``None`` = those that the cluster lacks.
        nodes: simulated nodes, each with eight accelerators, which a real scheduler does not give away twice.
        kserve: whether a real cluster has KServe's controller; without, InferenceServices have no controller.
        keda: whether a real cluster has KEDA's operator.
        roles: whether a real cluster has the chart's roles from the start; without, the installation brings them.
        start_timeout: how long any process may take until it is ready.
        stop_patience: how long a process may take to end before it is killed.
        actor_delay: what each step of a simulated component takes.
        actor_retry_delay: first wait before simulated containers, pulls and Jobs are tried again.
        weights: what downloads bring.
        leader_elect: whether services use Leases.
        env: variables for all services, such as `AIM_LOG_LEVEL`.
        service_env: variables for single services, by name.
        broker: what is appended to the configuration of the broker, such as an ``authorization`` block.
        broker_url: where another broker listens, which is used instead of one of the stack's own.
        spawn: how processes are started.
    """

    folder: Path
    crds: Path
    services: tuple[str, ...] = SERVICES
    cluster: ClusterKind | Path = ClusterKind.EMBEDDED
    actors: str | None = None
    nodes: int = 1
    kserve: bool = True
    keda: bool = False
    roles: bool = True
    start_timeout: float = 60.0
    stop_patience: float = 5.0
    actor_delay: float = 0.02
    actor_retry_delay: float = 0.5
    weights: Weights = Weights.SIMULATED
    leader_elect: bool = False
    broker: str = ""
    broker_url: str = ""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    service_env: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))
    spawn: Spawn = spawn
