"""GPUs for the predictor: which nodes fit, and whether any is free (SV-287, SV-288)."""

import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from aim_domain import AIMService, InferenceService, gpu_model_of
from aim_domain.parts import NODES
from aim_serving import SERVICE_NAME
from controller_runtime import (
    ApiModel,
    ApiVerb,
    Category,
    ClassifiedError,
    Clients,
    Component,
    Effect,
    EffectError,
    EffectType,
    JsonObject,
    KubeClient,
    KubeError,
    Summary,
    View,
    access,
    quantity,
)
from controller_runtime.core import Node
from controller_runtime.kinds import POD

MOST_NODES: Final = 20
"""Nodes whose pods are read; in larger clusters the message says that there are more."""
_AGAIN: Final = timedelta(seconds=30)
_OUTDATED: Final = timedelta(minutes=2)
"""After that a reading is of an earlier wait, or no answer comes: it says nothing of now."""
_LISTED: Final = 5


def is_extended(resource: str) -> bool:
    """Whether device plugins advertise it, as they do all resources of GPUs of any vendor (RC-157)."""
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


SHARED_SECONDS: Final = 15.0
"""How long a reading of a node serves every service that waits."""
_MOST_PAGES: Final = 100
_ENDED: Final = frozenset({"Succeeded", "Failed"})

Held = Mapping[str, int]
"""GPUs that pods hold, by the resource's name."""


class GpuReader:
    """Runner of `GPU_FREE`; runs one at a time, so that what one has read serves the next.

    Args:
        clock: seconds that only go forward.
    """

    def __init__(self, kube: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._read: dict[str, tuple[float, Held]] = {}

    async def __call__(self, params: NodesParams) -> FreeGpus:
        """What is free on each node that is asked for.

        Raises:
            EffectError: the API server does not answer; it is read again.
        """
        self._forget_old()
        try:
            held = {name: await self._held_on(name) for name in params.allocatable}
        except KubeError as error:
            what = f"the pods of a node cannot be listed: {error}"
            raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "PodsNotListed", what)) from error
        resource = params.resource
        free = {name: max(0, count - held[name].get(resource, 0)) for name, count in params.allocatable.items()}
        return FreeGpus(**dict(params), free=free)

    async def _held_on(self, node: str) -> Held:
        known = self._read.get(node)
        if known is not None:
            return known[1]
        # From the server's cache, where pods are kept by node: a consistent read would look through all of them. It
        # answers with all of a node's pods at once; whatever stands before it may not.
        held, token = Counter[str](), ""
        for _ in range(_MOST_PAGES):
            page = await self._kube.list_in_form(
                POD,
                gpus_held,
                field_selector=f"spec.nodeName={node}",
                resource_version="" if token else "0",
                continue_token=token,
            )
            for one in page.items:
                held.update(one)
            token = page.continue_token
            if not token:
                break
        else:
            what = f"the list of the pods of node {node} does not end"
            raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "PodsNotListed", what))
        self._read[node] = (self._clock(), held)
        return held

    def _forget_old(self) -> None:
        oldest = self._clock() - SHARED_SECONDS
        self._read = {node: one for node, one in self._read.items() if one[0] > oldest}


def gpus_held(pod: JsonObject) -> Held:
    """What a pod's node sets aside for it: all that runs together, or the largest step before, if that is more."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return {}
    spec = pod.get("spec") or {}
    steps = spec.get("initContainers") or []
    beside = [one for one in steps if one.get("restartPolicy") == "Always"]
    together: Counter[str] = Counter()
    for container in (*(spec.get("containers") or []), *beside):
        together.update(_requested(container))
    alone = [_requested(one) for one in steps if one not in beside]
    names = {name for one in (together, *alone) for name in one}
    return {name: max(one.get(name, 0) for one in (together, *alone)) for name in names}


def _requested(container: JsonObject) -> Held:
    requests = (container.get("resources") or {}).get("requests") or {}
    amounts = ((name, quantity.parse_or_none(amount)) for name, amount in requests.items())
    return {name: one.ceiling for name, one in amounts if is_extended(name) and one is not None}


def _reader(clients: Clients) -> GpuReader:
    return GpuReader(clients.kube)


GPU_FREE: Final = EffectType("gpu-free", NodesParams, FreeGpus, _reader, 1, (access(POD, ApiVerb.LIST),))
"""Which GPUs of nodes no pod holds."""


def last_reading(view: View, service_uid: str, resource: str, now: datetime) -> FreeGpus | None:
    """What is known now; ``None`` when nothing is."""
    fact = GPU_FREE.look_up(view, SERVICE_NAME, service_uid).value
    found = GPU_FREE.result_of(fact)
    if fact is None or found is None or fact.observed_at < now - _OUTDATED:
        return None
    return found if found.resource == resource else None


def next_reading(view: View, service_uid: str, params: NodesParams) -> Effect:
    """Read the nodes' pods, again and again while the service waits."""
    fact = GPU_FREE.look_up(view, SERVICE_NAME, service_uid).value
    return GPU_FREE.ask(service_uid, params, None if fact is None else fact.observed_at + _AGAIN)


def describe_free(found: FreeGpus, wanted: int) -> str:
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
    return f"; {freest[0]} has enough; another constraint excludes it"


_UNSCHEDULABLE: Final = "FailedScheduling"
_MOST: Final = 5
"""Kinds of nodes that a message lists; there are few, however many nodes."""
_SHARES: Final = 16
"""Shares in which nodes are read by name, so that the record of a pass need not hold all of a large cluster."""


class GpuSize(BaseModel):
    """How many GPUs nodes of one kind have for pods, whether or not pods hold them."""

    model_config = ConfigDict(frozen=True)

    count: int
    model: str = ""


class GpuNode(BaseModel):
    """A node and how many GPUs it has for pods."""

    model_config = ConfigDict(frozen=True)

    name: str
    count: int


def _allocated(node: Node) -> Iterator[tuple[str, int]]:
    if node.spec.unschedulable:
        return
    for resource, amount in node.status.allocatable.items():
        parsed = quantity.parse_or_none(amount)
        if is_extended(resource) and parsed is not None and parsed:
            yield resource, parsed.ceiling


def _sizes(node: Node) -> Iterator[tuple[str, GpuSize]]:
    for resource, count in _allocated(node):
        yield resource, GpuSize(count=count, model=gpu_model_of(node))


def _names(node: Node) -> Iterator[tuple[str, GpuNode]]:
    share = zlib.crc32(node.name.encode()) % _SHARES
    for resource, count in _allocated(node):
        yield _share(resource, share), GpuNode(name=node.name, count=count)


def _share(resource: str, number: int) -> str:
    return f"{resource}/{number}"


GPU_SIZES: Final = Summary(NODES, "gpu-sizes", GpuSize, _sizes)
"""GPUs per node, by the resource's name."""
GPU_NODES: Final = Summary(NODES, "gpu-nodes", GpuNode, _names)
"""Nodes with GPUs, by the resource's name and a share of all nodes. Only who waits for GPUs reads it."""


def with_gpu_fit(
    view: View, service: AIMService, workload: InferenceService, pods: Component, now: datetime
) -> tuple[Component, tuple[Effect, ...]]:
    """The component of the pods; of one that no node takes also what a node would need, and what nodes have.

    Besides, what has to be read to know more.
    """
    if pods.effective_reason != _UNSCHEDULABLE:
        return pods, ()
    wanted = next((one for one in _gpu_requests(workload) if _is_named(one[0], pods.effective_message)), None)
    if wanted is None:
        return pods, ()
    resource, count = wanted
    said, large = _of_nodes(view, resource, count)
    effects: tuple[Effect, ...] = ()
    if large:
        found = last_reading(view, service.uid, resource, now)
        said = said if found is None else describe_free(found, count)
        effects = (next_reading(view, service.uid, _large_nodes(view, resource, count)),)
    needs = f"each replica needs {count} {resource} on one node"
    return replace(pods, message="; ".join(filter(None, (pods.effective_message, needs, said)))), effects


def _gpu_requests(workload: InferenceService) -> Iterator[tuple[str, int]]:
    """GPUs of the serving container: all of them have to be on one node."""
    for container in workload.spec.predictor.containers[:1]:
        for resource, amount in container.resources.requests.items():
            parsed = quantity.parse_or_none(amount)
            if is_extended(resource) and parsed is not None and parsed:
                yield resource, parsed.ceiling


def _is_named(resource: str, text: str) -> bool:
    """Whether the text names just this resource, not one whose name goes on."""
    return re.search(rf"{re.escape(resource)}(?![\w-])", text) is not None


def _of_nodes(view: View, resource: str, count: int) -> tuple[str, bool]:
    """What nodes have, and whether one is large enough."""
    nodes = view.summary(GPU_SIZES, resource)
    if nodes.error is not None:
        # What the nodes have is not known now, and an absence must not be reported.
        return "", False
    sizes = sorted(nodes.items, key=lambda one: (-one.count, one.model))
    if not sizes:
        return "no node has any", False
    listed = ", ".join(f"{one.count}{f' ({one.model})' if one.model else ''}" for one in sizes[:_MOST])
    large = sizes[0].count >= count
    verdict = "they are in use, or the node does not suit" if large else "no node is large enough"
    return f"nodes have {listed}: {verdict}", large


def _large_nodes(view: View, resource: str, count: int) -> NodesParams:
    """Nodes that are large enough, as many as are looked at."""
    found: list[GpuNode] = []
    for number in range(_SHARES):
        found += (one for one in view.summary(GPU_NODES, _share(resource, number)).items if one.count >= count)
        if len(found) > MOST_NODES:
            break
    chosen = sorted(found, key=lambda one: one.name)[:MOST_NODES]
    return NodesParams(
        resource=resource,
        allocatable={one.name: one.count for one in chosen},
        is_all=len(chosen) == len(found),
    )
