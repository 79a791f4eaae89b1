"""What the simulated cluster can be told."""

from dataclasses import dataclass
from pathlib import Path

from aim_local.actors.actor_set import EVERY_ACTOR, Actor
from aim_local.actors.weights import Weights


@dataclass(frozen=True, slots=True)
class ActorSettings:
    """Times, places and identities; durations are seconds.

    Attributes:
        data: folder for what volumes hold; emptied volume by volume as claims go.
        delay: what each step of a real component takes (pulling, starting, binding, accepting).
        retry_delay: first wait before an image pull, a crashed container or a failed Job pod is tried again.
        node_count: nodes, named `mi300x-1` and so on.
        gpus: accelerators of each node.
        gpu_device_id: PCI device id of its accelerators; 74a1 is an MI300X.
        gpu_vram: memory of one accelerator, as in the node label.
        actors: which parts are played.
        kubelet_port: TCP port of the kubelets; 0 takes a free one.
        weights: what downloads bring.
        runtime: words of the program that runs the container of a download, given the pod as JSON; without it that is
            the downloader of this environment.
        hub_url: of the Hub of made-up models, where they come from there.
    """

    data: Path
    delay: float = 0.02
    retry_delay: float = 0.5
    node_count: int = 1
    gpus: int = 8
    gpu_device_id: str = "74a1"
    gpu_vram: str = "192G"
    actors: frozenset[Actor] = EVERY_ACTOR
    kubelet_port: int = 0
    weights: Weights = Weights.SIMULATED
    runtime: tuple[str, ...] = ()
    hub_url: str = ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(f"mi300x-{number + 1}" for number in range(self.node_count))
