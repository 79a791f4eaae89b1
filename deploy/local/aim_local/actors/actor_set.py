"""Which parts of a cluster are played."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final


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
