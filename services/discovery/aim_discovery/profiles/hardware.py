"""Which nodes have the accelerator of a profile, and how its pods are led there (PR-020 to PR-026)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict

from aim_discovery.templates.gpu import Reach
from aim_domain import (
    DEFAULT_GPU_RESOURCE,
    UNPARTITIONED,
    AcceleratorType,
    AnyProfile,
    GpuModel,
    VramSource,
    accelerator_of,
    accelerator_summary,
    canonical_model,
    device_ids,
    gpu_kinds,
    gpu_resource,
    labels,
    partition_resources,
    taints_of,
)
from aim_domain.component_names import ComponentName
from aim_domain.parts import NODES
from controller_runtime import Category, ClassifiedError, Component, JsonObject, State, Summary, View, quantity
from controller_runtime.core import Node

AVAILABLE: Final = "HardwareAvailable"
"""Type of the condition, and its reason where the hardware is there."""
NOT_AVAILABLE: Final = "HardwareNotAvailable"
UNSPECIFIED: Final = "NoAcceleratorSpecified"
UNKNOWN: Final = "NodeListFailed"

_SCHEME: Final = f"{labels.ACCELERATOR_PREFIX}partitioning-scheme."
_WHOLE: Final = "default"
_WHOLE_MODE: Final = "SPX-NPS1"
_PARTITIONED: Final = "partitioned"
_DEVICE_KEYS: Final = (labels.GPU_DEVICE_ID, labels.BETA_GPU_DEVICE_ID)
_COUNTED_KEYS: Final = tuple(f"{key}." for key in _DEVICE_KEYS)
"""What older labellers write: the device id is in the key, and the value is a number of GPUs."""
_MOST: Final = 5
"""Nodes that a message names."""


class AcceleratorNode(BaseModel):
    """What a node says of one accelerator.

    Attributes:
        is_labelled: it has the label of the detector; otherwise a device id says what it has.
        schemes: of its partitioning; `default` for none.
        amounts: allocatable extended resources, as ``name=amount``.
        taints: what keeps pods away that do not tolerate it.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    is_labelled: bool
    schemes: tuple[str, ...] = ()
    amounts: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()

    def allocatable(self, resource: str) -> int | None:
        """Its amount of a resource; ``None`` when it does not report the resource."""
        for text in self.amounts:
            name, _, amount = text.partition("=")
            if name == resource:
                parsed = quantity.parse_or_none(amount)
                return None if parsed is None else int(parsed.value)
        return None


def _contributions(node: Node) -> Iterator[tuple[str, AcceleratorNode]]:
    given = node.metadata.labels
    named = (key.removeprefix(labels.ACCELERATOR_PREFIX) for key in given if key.startswith(labels.ACCELERATOR_PREFIX))
    labelled = {name for name in named if "." not in name}
    schemes = tuple(sorted(key.removeprefix(_SCHEME) for key in given if key.startswith(_SCHEME)))
    amounts = tuple(sorted(f"{name}={amount}" for name, amount in node.status.allocatable.items() if "/" in name))
    for model in sorted(labelled | set(_models_by_device(node))):
        is_labelled = model in labelled
        yield (
            model,
            AcceleratorNode(
                name=node.name, is_labelled=is_labelled, schemes=schemes, amounts=amounts, taints=taints_of(node)
            ),
        )


def _models_by_device(node: Node) -> Iterator[str]:
    """Those that `node_affinity` selects by device id, as the value of a label or in its key."""
    for kind in gpu_kinds(node):
        if device_ids(kind.model) and all(term.startswith(_COUNTED_KEYS) for term in kind.terms):
            yield kind.model


ACCELERATORS: Final = Summary(NODES, "accelerators", AcceleratorNode, _contributions)
"""The nodes by accelerator: by the labels of the detector, else by the device ids of GPUs (PR-020)."""


@dataclass(frozen=True, slots=True)
class HardwareMatch:
    """Where a profile can run.

    Attributes:
        nodes: how many nodes have the hardware; ``None`` when none is asked for.
        affinity: JSON of ``status.resolvedNodeAffinity``.
        resource: extended resource of the accelerator on these nodes; empty without any.
    """

    component: Component
    nodes: int | None = None
    affinity: JsonObject | None = None
    resource: str = ""

    @property
    def is_there(self) -> bool:
        """Whether pods of the profile find a node."""
        return self.component.effective_state is State.READY


def match_hardware(profile: AnyProfile, view: View, reach: Reach) -> HardwareMatch:
    """Look for the accelerator among the nodes (PR-021 to PR-026).

    Args:
        reach: what the pods of services tolerate, and which models an autoscaler adds nodes for.
    """
    spec, kind = profile.spec, accelerator_of(profile)
    wanted = (spec.accelerator_model or "").strip()
    if kind is None or not wanted:
        message = "the profile names no model of an accelerator: its pods go where their requests fit"
        return HardwareMatch(Component(ComponentName.NODES, State.READY, UNSPECIFIED, message))
    affinity = node_affinity(wanted, kind, spec.accelerator_partitioning_mode)
    found, error = _nodes_with(wanted, kind, view)
    if error is not None:
        message = f"the cluster's nodes are unknown: {error.message}"
        fault = ClassifiedError(Category.INFRASTRUCTURE, UNKNOWN, message)
        return HardwareMatch(Component(ComponentName.NODES, State.DEGRADED, errors=(fault,)), affinity=affinity)
    obstacles = {one.name: _obstacle(one, profile, kind, reach) for one in found}
    fitting = [_resource_on(one, profile, kind) for one in found if not obstacles[one.name]]
    if fitting:
        message = f"{accelerator_summary(profile)} is in the cluster"
        # A pod asks for one resource, and nodes that name it otherwise are none for it.
        usual = gpu_resource(spec)
        resource = usual if usual in fitting else min(fitting)
        there = Component(ComponentName.NODES, State.READY, AVAILABLE, message)
        return HardwareMatch(there, fitting.count(resource), affinity, resource)
    coming = reach.can_come(wanted, 0) if spec.accelerator_partitioning_mode == UNPARTITIONED else ""
    if coming:
        message = f"no node has GPU {coming} now; one is added when a pod waits for it (gpus.provisionable)"
        return HardwareMatch(Component(ComponentName.NODES, State.READY, AVAILABLE, message), 0, affinity)
    message = f"no node has {accelerator_summary(profile)}: {_why(wanted, obstacles)}"
    return HardwareMatch(Component(ComponentName.NODES, State.NOT_AVAILABLE, NOT_AVAILABLE, message), 0, affinity)


def _nodes_with(
    wanted: str, kind: AcceleratorType, view: View
) -> tuple[tuple[AcceleratorNode, ...], ClassifiedError | None]:
    found: dict[str, AcceleratorNode] = {}
    for name in _spellings(wanted, kind):
        nodes = view.summary(ACCELERATORS, name)
        if nodes.error is not None:
            return (), nodes.error
        # A label says more than a device id: the partitioning is known.
        found |= {one.name: one for one in nodes.items if one.is_labelled or one.name not in found}
    return tuple(found.values()), None


def _spellings(wanted: str, kind: AcceleratorType) -> tuple[str, ...]:
    """As the profile writes the model, and as labels do; keys of labels are the same in every letter alone."""
    canonical = canonical_model(wanted) if kind is AcceleratorType.GPU else ""
    return tuple(name for name in dict.fromkeys((wanted, canonical)) if name)


def _obstacle(node: AcceleratorNode, profile: AnyProfile, kind: AcceleratorType, reach: Reach) -> str:
    """Why the node does not fit; empty when it does."""
    spec, mode = profile.spec, profile.spec.accelerator_partitioning_mode
    if kind is AcceleratorType.GPU and not _is_partitioned_so(node, mode):
        has = ", ".join(node.schemes).lower() or "no label of its partitioning"
        return f"is not {mode} ({has})"
    resource = _resource_on(node, profile, kind)
    has_amount = node.allocatable(resource)
    if has_amount is not None and has_amount < (spec.accelerator_count or 0):
        return f"has {has_amount} allocatable {resource}"
    model = GpuModel(spec.accelerator_model or "", "", VramSource.UNKNOWN, taints=(node.taints,))
    if node.taints and not reach.takes(model):
        return f"has a taint that pods of services do not tolerate ({reach.obstacles((model,))})"
    return ""


def _resource_on(node: AcceleratorNode, profile: AnyProfile, kind: AcceleratorType) -> str:
    """What the node calls the accelerator: the usual resource, or that of a mode, where it has that alone (PR-033)."""
    spec, mode = profile.spec, profile.spec.accelerator_partitioning_mode
    if kind is AcceleratorType.CPU:
        return "cpu"
    usual = gpu_resource(spec)
    if usual != DEFAULT_GPU_RESOURCE or node.allocatable(usual):
        return usual
    modes = {UNPARTITIONED: (_WHOLE_MODE,), _PARTITIONED: node.schemes}.get(mode.lower(), (mode,))
    return next((name for name in partition_resources(modes) if node.allocatable(name)), usual)


def _is_partitioned_so(node: AcceleratorNode, mode: str) -> bool:
    """A node that only a device id speaks for has whole GPUs, as far as anything says (PR-022)."""
    wanted = mode.lower()
    if not node.is_labelled:
        return wanted == UNPARTITIONED
    if wanted == UNPARTITIONED:
        return _WHOLE in node.schemes
    if wanted == _PARTITIONED:
        return _WHOLE not in node.schemes
    return mode.upper() in node.schemes


def _why(wanted: str, obstacles: dict[str, str]) -> str:
    if not obstacles:
        label = f"{labels.ACCELERATOR_PREFIX}{wanted}"
        return f"no node has the label {label}, nor a device id of {wanted}"
    named = [f"node {name} {why}" for name, why in sorted(obstacles.items())[:_MOST]]
    more = len(obstacles) - _MOST
    return "; ".join(named) + (f"; and {more} more" if more > 0 else "")


def node_affinity(wanted: str, kind: AcceleratorType, mode: str) -> JsonObject:
    """Nodes by the labels of the detector, else, where that does not run, by device ids (PR-023, PR-024)."""
    keys = [f"{labels.ACCELERATOR_PREFIX}{name}" for name in _spellings(wanted, kind)]
    partitioned = [_partitioning(mode)] if kind is AcceleratorType.GPU else []
    terms = [[{"key": key, "operator": "Exists"}, *partitioned] for key in keys]
    ids = device_ids(wanted) if kind is AcceleratorType.GPU and mode.lower() == UNPARTITIONED else ()
    if ids:
        absent = [{"key": key, "operator": "DoesNotExist"} for key in keys]
        terms += [[{"key": key, "operator": "In", "values": list(ids)}, *absent] for key in _DEVICE_KEYS]
        counted = (f"{key}{one}" for key in _COUNTED_KEYS for one in ids)
        terms += [[{"key": key, "operator": "Exists"}, *absent] for key in counted]
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": expressions} for expressions in terms]
        }
    }


def _partitioning(mode: str) -> JsonObject:
    wanted = mode.lower()
    whole = f"{_SCHEME}{_WHOLE}"
    if wanted == UNPARTITIONED:
        return {"key": whole, "operator": "Exists"}
    if wanted == _PARTITIONED:
        return {"key": whole, "operator": "DoesNotExist"}
    return {"key": f"{_SCHEME}{mode.upper()}", "operator": "Exists"}
