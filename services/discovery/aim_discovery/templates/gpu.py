"""The GPU that a template requires: where nodes have it, and whether pods reach it.

DI-191 to DI-201, DI-331 to DI-337, DI-392 to DI-396.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aim_domain import (
    CORDONED,
    DEFAULT_GPU_RESOURCE,
    GPUS,
    MEMORY,
    MODELS,
    GpuInventory,
    GpuModel,
    GpuRequirements,
    Hardware,
    PodSettings,
    ProfileMetadata,
    RuntimeConfigSpec,
    TemplateSpec,
    canonical_model,
    device_ids,
    inventory_of,
    labels,
    of_model,
    static_vram,
    tolerations,
    vram_bytes,
)
from aim_domain.bounds import MAX_GPU_MODEL
from aim_domain.component_names import ComponentName
from controller_runtime import Category, ClassifiedError, Component, JsonObject, State, View, quantity

_MOST: Final = 3
"""Taints that a message names."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What the pods of services tolerate, and which GPU models an autoscaler adds nodes for.

    Attributes:
        tolerations: of the pods, as in a pod; ``None`` where pods of several namespaces count, whose differ.
        provisionable: models in whatever spelling.
    """

    tolerations: tuple[JsonObject, ...] | None = ()
    provisionable: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: RuntimeConfigSpec, gpu_taint: str, *, is_of_cluster: bool = False) -> "Reach":
        """By the runtime config and the taint of GPU nodes, which pods with GPUs tolerate (RC-155).

        Args:
            is_of_cluster: for a template of the cluster; the config of a namespace may tolerate any taint.
        """
        settings: PodSettings | None = config.predictors
        gpus = config.gpus.provisionable if config.gpus is not None else ()
        tolerated = None if is_of_cluster else tuple(tolerations(settings, gpu_taint))
        return cls(tolerated, tuple(name for name in gpus if name.strip()))

    def takes(self, model: GpuModel) -> bool:
        """Whether a node with that model takes the pods."""
        return not model.taints or any(not self.repelled_by(taints) for taints in model.taints)

    def repelled_by(self, taints: Iterable[str]) -> tuple[str, ...]:
        """Those of the taints that the pods do not tolerate."""
        if self.tolerations is None:
            return tuple(taint for taint in taints if taint == CORDONED)
        return tuple(taint for taint in taints if not any(_tolerates(one, taint) for one in self.tolerations or ()))

    def obstacles(self, models: Iterable[GpuModel]) -> str:
        """What keeps pods from the models, for a message."""
        found = {taint for model in models for taints in model.taints for taint in self.repelled_by(taints)}
        return ", ".join(sorted(found)[:_MOST])

    def can_come(self, wanted: str, least: int) -> str:
        """The provisionable model that meets a requirement; empty for none.

        Args:
            wanted: a model in any spelling; empty for any.
            least: bytes of memory; 0 for any.
        """
        for name in self.provisionable:
            fits = not wanted or canonical_model(name) == canonical_model(wanted)
            if fits and (not least or vram_bytes(static_vram(name)) >= least):
                return name
        return ""


def _tolerates(toleration: JsonObject, taint: str) -> bool:
    """As the scheduler has it; an absent operator is Equal, an absent key with Exists is any."""
    key, _, rest = taint.partition("=")
    value, _, effect = rest.rpartition(":")
    if toleration.get("effect") not in (None, "", effect):
        return False
    wanted = toleration.get("key") or ""
    if toleration.get("operator") == "Exists":
        return wanted in ("", key)
    return bool(wanted == key and (toleration.get("value") or "") == value)


def resolved_hardware(spec: TemplateSpec, discovered: ProfileMetadata | None) -> JsonObject | None:
    """Discovery's values first, then the spec's; ``None`` when neither names any hardware.

    Args:
        discovered: metadata of the discovered profile; ``None`` for inline templates.
    """
    own_gpu = spec.hardware.gpu if spec.hardware is not None else None
    cpu = spec.hardware.cpu if spec.hardware is not None else None
    count, model = (own_gpu.requests, own_gpu.model) if own_gpu is not None else (None, None)
    if discovered is not None:
        count = discovered.gpu_count if discovered.gpu_count is not None else count
        # An earlier release stored longer ones, with which the API server refuses the status.
        model = discovered.gpu if 0 < len(discovered.gpu or "") <= MAX_GPU_MODEL else model
    resource = (own_gpu.resource_name or DEFAULT_GPU_RESOURCE) if own_gpu is not None else None
    vram = own_gpu.min_vram if own_gpu is not None else None
    result: JsonObject = {}
    if (count or 0) > 0 or model or resource:
        gpu: JsonObject = {
            "requests": count or 0,
            # The two exclude each other by the rule of the CRD, in status too (DI-326).
            "model": model if vram is None else None,
            "minVram": vram,
            "resourceName": resource or DEFAULT_GPU_RESOURCE,
        }
        result["gpu"] = {name: value for name, value in gpu.items() if value not in (None, "")}
    if cpu is not None:
        result["cpu"] = cpu.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return result or None


def hardware_summary(hardware: Hardware | None) -> str:
    """Hardware in a few words (DI-330).

    >>> hardware_summary(Hardware.model_validate({"gpu": {"requests": 2, "model": "MI300X"}}))
    '2 x MI300X'
    """
    if hardware is None:
        return ""
    gpu = hardware.gpu
    if gpu is not None and (gpu.requests or 0) > 0:
        return f"{gpu.requests} x {gpu.model or 'GPU'}"
    return "CPU" if gpu is None else gpu.model or "GPU"


_GIB = 1 << 30
_ANY_GPU: Final[tuple[JsonObject, ...]] = tuple(
    {"key": key, "operator": "Exists"}
    for key in (labels.GPU_DEVICE_ID, labels.BETA_GPU_DEVICE_ID, labels.GPU_FAMILY, labels.BETA_GPU_FAMILY)
)
"""The labels by which a node counts as one with GPUs (DI-174)."""


def effective_requirement(spec: TemplateSpec, resolved: Hardware | None) -> GpuRequirements | None:
    """The GPU requirement that counts: the spec's hardware when there is any, else what discovery found."""
    hardware = spec.hardware or resolved
    return None if hardware is None else hardware.gpu


def requires_gpu(requirement: GpuRequirements | None) -> bool:
    """Whether the node needs a GPU; zero requests that are written target GPU nodes as well (DI-192, DI-201)."""
    return requirement is not None and (
        requirement.requests is not None or bool((requirement.model or "").strip()) or min_vram(requirement) > 0
    )


def min_vram(requirement: GpuRequirements) -> int:
    """Smallest memory in bytes; 0 when none is asked for."""
    amount = quantity.parse_or_none(requirement.min_vram)
    return 0 if amount is None else amount.ceiling


def gpus_for(requirement: GpuRequirements | None, view: View) -> tuple[GpuInventory, ClassifiedError | None]:
    """The GPUs that matter to a requirement, and why they are not known.

    Nothing more is looked at: what a template reads enqueues it when it changes, and of thousands most name their
    model.
    """
    if requirement is None or not requires_gpu(requirement):
        return GpuInventory(), None
    if min_vram(requirement):
        memory = view.summary(GPUS, MEMORY)
        return inventory_of(memory.items), memory.error
    wanted = (requirement.model or "").strip()
    for name in dict.fromkeys((wanted.upper(), canonical_model(wanted)) if wanted else ()):
        found = view.summary(GPUS, of_model(name))
        if found.items or found.error is not None:
            return inventory_of(found.items), found.error
    others = view.summary(GPUS, MODELS)
    return inventory_of(others.items), others.error


def gpu_component(
    requirement: GpuRequirements | None,
    inventory: GpuInventory,
    error: ClassifiedError | None,
    reach: Reach = Reach(),
) -> Component | None:
    """The component ``GPU``; ``None`` when no GPU is required (DI-192).

    Args:
        error: why the nodes are not known.
        reach: which nodes take the pods of services, and which can come.
    """
    if requirement is None or not requires_gpu(requirement):
        return None
    if error is not None:
        fault = ClassifiedError(
            Category.INFRASTRUCTURE, "GPUCheckFailed", f"the cluster's nodes are unknown: {error.message}"
        )
        return Component(ComponentName.GPU, State.DEGRADED, errors=(fault,))
    needed, wanted = min_vram(requirement), (requirement.model or "").strip()
    fitting = _fitting(inventory, wanted, needed)
    if any(reach.takes(model) for model in fitting):
        return Component(ComponentName.GPU, State.READY, "GPUAvailable", f"{wanted or 'A GPU'} is in the cluster")
    coming = reach.can_come(wanted, needed)
    if coming:
        message = f"no node has GPU {coming} now; one is added when a pod waits for it (gpus.provisionable)"
        return Component(ComponentName.GPU, State.READY, "GPUProvisionable", message)
    if fitting:
        return Component(ComponentName.GPU, State.NOT_AVAILABLE, "GPUNotSchedulable", _repelled(fitting, wanted, reach))
    if needed and not inventory.with_vram(needed):
        return Component(ComponentName.GPU, State.NOT_AVAILABLE, "VRAMNotAvailable", _too_small(needed, inventory))
    available = ", ".join(inventory.names) or "none"
    message = f"no node has GPU {wanted or 'of any model'}; available: {available}"
    return Component(ComponentName.GPU, State.NOT_AVAILABLE, "GPUNotAvailable", message)


def _fitting(inventory: GpuInventory, wanted: str, needed: int) -> tuple[GpuModel, ...]:
    """The models of the cluster that meet a requirement; memory comes first (DI-194)."""
    large = inventory.with_vram(needed) if needed else inventory.models
    if not wanted:
        return large
    found = inventory.find(wanted) if large else None
    return (found,) if found is not None else ()


def _repelled(models: Iterable[GpuModel], wanted: str, reach: Reach) -> str:
    return (
        f"no schedulable node has GPU {wanted or 'of any model'}: all of them are cordoned or have taints that pods of "
        f"services do not tolerate ({reach.obstacles(models)}); uncordon a node, or set predictors.tolerations of the "
        "runtime config"
    )


def _too_small(needed: int, inventory: GpuInventory) -> str:
    best = inventory.best
    found = "no GPU was detected" if best is None else f"the best is {best.name} with {best.vram_bytes // _GIB}Gi"
    return f"no GPU has {needed // _GIB}Gi of memory; {found}"


def node_affinity(
    requirement: GpuRequirements | None,
    inventory: GpuInventory,
    reach: Reach = Reach(),
    stored: JsonObject | None = None,
) -> JsonObject | None:
    """Nodes that have the required GPU, by device id (DI-334…DI-336), else by another label (DI-392), or any (DI-380).

    A cordon or a taint changes nothing of it, nor does a node that goes: pods that run would be replaced.

    Args:
        stored: the affinity in the status; it stays while it has every alternative of the present nodes.
    """
    affinity = _affinity(requirement, inventory, reach)
    if affinity is None or stored is None:
        return affinity
    had, has = _alternatives(stored), _alternatives(affinity)
    return stored if all(one in had for one in has) else affinity


def _alternatives(affinity: JsonObject) -> list[JsonObject]:
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


def _affinity(requirement: GpuRequirements | None, inventory: GpuInventory, reach: Reach) -> JsonObject | None:
    if requirement is None or not requires_gpu(requirement):
        return None
    wanted, needed = (requirement.model or "").strip(), min_vram(requirement)
    if not wanted and not needed:
        # Requested GPUs choose the node themselves.
        encoded = [one for one in _by_other_labels(inventory.models) if one["operator"] == "Exists"]
        return None if requirement.requests else _required([*_ANY_GPU, *encoded])
    found = [inventory.find(wanted)] if wanted else inventory.with_vram(needed) if needed else ()
    models = [model for model in found if model is not None]
    coming = [] if wanted else [name for name in reach.provisionable if vram_bytes(static_vram(name)) >= needed]
    names = [wanted] if wanted else [*(model.name for model in models), *coming]
    ids = sorted({device_id for name in names for device_id in device_ids(name)})
    keys = [labels.GPU_DEVICE_ID, *([labels.BETA_GPU_DEVICE_ID] if any(m.beta_only for m in models) else [])]
    by_id: list[JsonObject] = [{"key": key, "operator": "In", "values": ids} for key in keys] if ids else []
    alternatives = [*by_id, *_by_other_labels(models)]
    return _required(alternatives) if alternatives else None


def _by_other_labels(models: Iterable[GpuModel]) -> list[JsonObject]:
    """Alternatives for nodes whose GPU no value of a device label names, sorted (DI-392)."""
    terms = (term.partition("=") for term in sorted({term for model in models for term in model.terms}))
    return [
        {"key": key, "operator": "In", "values": [value]} if equals else {"key": key, "operator": "Exists"}
        for key, equals, value in terms
    ]


def _required(alternatives: Iterable[JsonObject]) -> JsonObject:
    terms = [{"matchExpressions": [expression]} for expression in alternatives]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
