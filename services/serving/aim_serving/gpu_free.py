"""How many GPUs are free on which node, asked for while a service waits for them (SV-287, SV-288)."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from pydantic import Field

from aim_serving import SERVICE_NAME
from controller_runtime import FACTS, ApiModel, Effect, View, get_fact, to_json

GPU_FREE: Final = "gpu-free"
MOST_NODES: Final = 20
"""Nodes whose pods are read; in larger clusters the message says that there are more."""
_AGAIN: Final = timedelta(seconds=30)
_OUTDATED: Final = timedelta(minutes=2)
"""After that a reading is of an earlier wait, or nobody answers: it says nothing of now."""
_LISTED: Final = 5


def is_extended(resource: str) -> bool:
    """Whether it is one that device plugins tell of, as all resources of GPUs are, whoever makes them (RC-157)."""
    return "/" in resource


class NodesParams(ApiModel):
    """Which nodes are looked at.

    Attributes:
        allocatable: by node, how many of the resource it has for pods.
        is_all: whether these are all that are large enough.
    """

    resource: str
    allocatable: Mapping[str, int] = Field(default_factory=dict)
    is_all: bool = True


class FreeGpus(NodesParams):
    """What a reading found.

    Attributes:
        free: by node, how many no pod holds.
    """

    free: Mapping[str, int] = Field(default_factory=dict)


def last_reading(view: View, service_uid: str, resource: str, now: datetime) -> FreeGpus | None:
    """What is known now; ``None`` when nothing is."""
    fact = get_fact(view, FACTS, SERVICE_NAME, GPU_FREE, service_uid).value
    found = None if fact is None else fact.read(FreeGpus)
    if fact is None or found is None or fact.observed_at < now - _OUTDATED:
        return None
    return found if found.resource == resource else None


def next_reading(view: View, service_uid: str, params: NodesParams) -> Effect:
    """Read the nodes' pods, again and again while the service waits."""
    fact = get_fact(view, FACTS, SERVICE_NAME, GPU_FREE, service_uid).value
    return Effect(GPU_FREE, service_uid, to_json(params), None if fact is None else fact.observed_at + _AGAIN)


def told(found: FreeGpus, wanted: int) -> str:
    """The freest nodes by name, and what follows from them."""
    freest = sorted(found.free, key=lambda name: (-found.free[name], name))
    listed = ", ".join(f"{found.free[name]} of {found.allocatable[name]} on {name}" for name in freest[:_LISTED])
    return f"free: {listed}{_rest(found, len(freest))}{_verdict(found, freest, wanted)}"


def _rest(found: FreeGpus, looked_at: int) -> str:
    if not found.is_all:
        return f" (the freest of {looked_at} nodes; others of this size were not looked at)"
    return f", no more on {looked_at - _LISTED} others" if looked_at > _LISTED else ""


def _verdict(found: FreeGpus, freest: Sequence[str], wanted: int) -> str:
    if found.free[freest[0]] < wanted:
        return ""
    return f"; {freest[0]} has enough, so it does not suit for another reason"
