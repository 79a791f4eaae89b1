"""What the simulated cluster can be told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aim_local.actors.actor_set import EVERY_ACTOR, Actor

SIMULATED_WEIGHTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AIM_DEBUG_SIMULATE_DOWNLOAD": "true",
        "AIM_DEBUG_DOWNLOAD_DURATION": "1",
        "AIM_DEBUG_VERIFY_DURATION": "0.2",
        "AIM_DEBUG_SIMULATE_SIZE_BYTES": "1048576",
        "PROGRESS_INTERVAL": "0.2",
    }
)
"""Switches of the downloader (AR-759) that make it work without a network; what the container sets itself wins."""

SIMULATED_SIZE: Final = 1 << 20
"""Bytes that a simulated download writes at most: real weights would fill the disk of a laptop."""


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
        downloader_env: environment of download containers beneath their own.
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
    downloader_env: Mapping[str, str] = field(default_factory=lambda: SIMULATED_WEIGHTS)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return tuple(f"mi300x-{number + 1}" for number in range(self.node_count))

    @property
    def simulates_downloads(self) -> bool:
        """Whether downloads write made-up data."""
        return bool(self.downloader_env.get("AIM_DEBUG_SIMULATE_DOWNLOAD"))
