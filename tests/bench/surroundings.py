"""What a benchmark runs against."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from bench.fakes import PLAYED

from aim_local.actors.settings import Weights
from aim_local.stack import ClusterKind, StackSettings

CRDS: Final = Path(__file__).parents[2] / "deploy" / "crds"
ACTOR_DELAY: Final = 0.02
"""Seconds that each step of a simulated component takes."""


class Surroundings(StrEnum):
    """Which API server there is, and who answers for what the platform writes.

    embedded: the control plane in memory; the simulated cluster plays everything.
    real: etcd, kube-apiserver, the controllers of Kubernetes, KServe.
    fakes: the same without KServe; InferenceServices, routes and downloads are done after 20 ms, by one write each.
    """

    EMBEDDED = "embedded"
    REAL = "real"
    FAKES = "fakes"


@dataclass(frozen=True, slots=True)
class _Choice:
    cluster: ClusterKind = ClusterKind.REAL
    actors: str | None = None
    nodes: int = 80
    """A real scheduler gives no accelerator away twice."""
    kserve: bool = True
    weights: Weights = Weights.SIMULATED


_CHOICES: Final = {
    Surroundings.EMBEDDED: _Choice(ClusterKind.EMBEDDED, nodes=1),
    Surroundings.REAL: _Choice(),
    Surroundings.FAKES: _Choice(actors=PLAYED, nodes=1, kserve=False, weights=Weights.NOTHING),
}


def stack_settings(folder: Path, services: tuple[str, ...], surroundings: Surroundings) -> StackSettings:
    """A stack with leader election, as in production."""
    choice = _CHOICES[surroundings]
    return StackSettings(
        folder,
        CRDS,
        services,
        choice.cluster,
        actors=choice.actors,
        nodes=choice.nodes,
        kserve=choice.kserve,
        weights=choice.weights,
        actor_delay=ACTOR_DELAY,
        leader_elect=True,
    )
