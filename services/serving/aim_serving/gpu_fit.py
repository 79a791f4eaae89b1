"""On which nodes the GPUs of a pod that cannot be scheduled would fit (SV-284)."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, ConfigDict

from aim_domain import InferenceService, gpu_model_of, labels
from aim_domain.parts import NODES
from controller_runtime import Component, Summary, View, quantity
from controller_runtime.core import Node

_UNSCHEDULABLE: Final = "FailedScheduling"
_MOST: Final = 5
"""Kinds of nodes that a message lists; there are few, however many nodes."""


class GpuSize(BaseModel):
    """How many GPUs nodes of one kind have for pods, whether or not pods hold them."""

    model_config = ConfigDict(frozen=True)

    count: int
    model: str = ""


def _sizes(node: Node) -> Iterator[tuple[str, GpuSize]]:
    if node.spec.unschedulable:
        return
    for resource, amount in node.status.allocatable.items():
        parsed = quantity.parse_or_none(amount)
        if resource.startswith(labels.AMD_PREFIX) and parsed is not None and parsed:
            yield resource, GpuSize(count=parsed.ceiling, model=gpu_model_of(node))


GPU_SIZES: Final = Summary(NODES, "gpu-sizes", GpuSize, _sizes)
"""GPUs per node, by the resource's name."""


def with_gpu_fit(view: View, workload: InferenceService, pods: Component) -> Component:
    """The component of the pods; of one that no node takes also what a node would need, and what nodes have."""
    if pods.effective_reason != _UNSCHEDULABLE:
        return pods
    wanted = [one for one in _wanted(workload) if one[0] in pods.effective_message]
    told = [_told(view, resource, count) for resource, count in wanted]
    return replace(pods, message="; ".join((pods.effective_message, *told))) if told else pods


def _wanted(workload: InferenceService) -> Iterator[tuple[str, int]]:
    """GPUs of the serving container: all of them have to be on one node."""
    for container in workload.spec.predictor.containers[:1]:
        for resource, amount in container.resources.requests.items():
            parsed = quantity.parse_or_none(amount)
            if resource.startswith(labels.AMD_PREFIX) and parsed is not None and parsed:
                yield resource, parsed.ceiling


def _told(view: View, resource: str, count: int) -> str:
    nodes = view.summary(GPU_SIZES, resource)
    sizes = sorted(nodes.items, key=lambda one: (-one.count, one.model))
    listed = ", ".join(f"{one.count}{f' ({one.model})' if one.model else ''}" for one in sizes[:_MOST])
    needs = f"each replica needs {count} {resource} on one node"
    if nodes.error is not None:
        # What the nodes have is not known now, and an absence must not be told.
        return needs
    if not sizes:
        return f"{needs}, and no node has any"
    large = any(one.count >= count for one in sizes)
    verdict = "they are in use, or the node does not suit" if large else "no node is large enough"
    return f"{needs}; nodes have {listed}: {verdict}"
