"""Settings of the simulated cluster: which parts are played, and what is downloaded."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aim_local import hub


class Actor(StrEnum):
    """A part of a cluster; one process can play any of them."""

    NODES = "nodes"
    KUBELET = "kubelet"
    SCHEDULER = "scheduler"
    VOLUMES = "volumes"
    BINDER = "binder"
    JOBS = "jobs"
    DEPLOYMENTS = "deployments"
    KSERVE = "kserve"
    KEDA = "keda"
    HPA = "hpa"
    GATEWAY = "gateway"


EVERY_ACTOR: Final = frozenset(Actor)
"""Everything but the API server: for the embedded control plane."""
HARDWARE_ACTORS: Final = frozenset({Actor.NODES, Actor.KUBELET, Actor.VOLUMES, Actor.GATEWAY})
"""What needs hardware: beside a real controller manager, scheduler and KServe."""


class UnknownActorError(ValueError):
    """A name that is none; the text says which there are."""


def parse_actors(text: str) -> frozenset[Actor]:
    """Actors from names separated by commas; `all` and `hardware` name the two usual sets.

    Raises:
        UnknownActorError: a name is none of them, or there is none at all.
    """
    sets: dict[str, Iterable[Actor]] = {"all": EVERY_ACTOR, "hardware": HARDWARE_ACTORS}
    names = [name.strip() for name in text.split(",") if name.strip()]
    chosen: set[Actor] = set()
    for name in names:
        if name in sets:
            chosen.update(sets[name])
        elif name in EVERY_ACTOR:
            chosen.add(Actor(name))
        else:
            raise UnknownActorError(f"actors: {name!r} is none; choose from {', '.join([*sets, *Actor])}")
    if not chosen:
        raise UnknownActorError(f"actors: none is named; choose from {', '.join([*sets, *Actor])}")
    return frozenset(chosen)


_PROGRESS: Final = {"PROGRESS_INTERVAL": "0.2"}
_SIMULATED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AIM_DEBUG_SIMULATE_DOWNLOAD": "true",
        "AIM_DEBUG_DOWNLOAD_DURATION": "1",
        "AIM_DEBUG_VERIFY_DURATION": "0.2",
        "AIM_DEBUG_SIMULATE_SIZE_BYTES": str(hub.WEIGHTS),
        **_PROGRESS,
    }
)
"""Switches of the downloader (AR-759) that make it work without a network."""
_CHOICES: Final = (
    "AIM_DEBUG_CAUSE_HANG",
    "AIM_DEBUG_CAUSE_FAILURE",
    "AIM_DEBUG_SIMULATE_DOWNLOAD",
    "AIM_DEBUG_SIMULATE_HF_DOWNLOAD",
    "HF_ENDPOINT",
    "AWS_ENDPOINT_URL",
    "S3_ENDPOINT",
)
"""Variables by which a container says itself where its weights come from."""
_HUB_SCHEME: Final = "hf://"


class Weights(StrEnum):
    """Where weights come from, unless a container says it itself."""

    SIMULATED = "simulated"
    HUB = "hub"
    SOURCE = "source"
    NOTHING = "nothing"
    """Downloads succeed at once, and no downloader runs."""


def variables(weights: Weights, hub_url: str, own: Mapping[str, str], source: str) -> dict[str, str]:
    """The environment of a download container.

    Real weights would fill the disk of a laptop, so made-up ones are a MiB, also where more was asked for.

    Args:
        hub_url: of the Hub of made-up models.
        own: what the container sets.
        source: the URI that it is asked for.
    """
    if weights is Weights.SOURCE or any(own.get(name) for name in _CHOICES):
        return dict(own)
    given = {"HF_ENDPOINT": hub_url, **_PROGRESS} if weights is Weights.HUB and source.startswith(_HUB_SCHEME) else {}
    reported = own.get("EXPECTED_SIZE_BYTES", "")
    expected = min(int(reported), hub.WEIGHTS) if reported.isdecimal() else hub.WEIGHTS
    return {**(given or _SIMULATED), **own, "EXPECTED_SIZE_BYTES": str(expected)}


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
