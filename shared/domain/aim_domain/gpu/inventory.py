"""Which GPU models a cluster has, from the labels of its nodes (DI-174…DI-180, DI-186, DI-190)."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from aim_domain import labels
from aim_domain.api.aim_shapes import DEFAULT_GPU_RESOURCE
from aim_domain.gpu.devices import canonical_model, device_ids, model_of_device, static_vram, vram_bytes
from aim_domain.parts import NODES
from controller_runtime import Summary
from controller_runtime.core import Node

_DEVICE_KEYS: Final = (labels.GPU_DEVICE_ID, labels.BETA_GPU_DEVICE_ID)
_FAMILY_KEYS: Final = (labels.GPU_FAMILY, labels.BETA_GPU_FAMILY)
_VRAM_KEYS: Final = (labels.GPU_VRAM, labels.BETA_GPU_VRAM)


class GpuKind(BaseModel):
    """What nodes say of their GPUs, as far as a reader asks for it. Hundreds of nodes are of a few kinds.

    Attributes:
        model: canonical, or ``AMD-xxxx`` for a device that no table knows.
        vram: label of the memory; empty without one, and where no reader asks for memory.
        beta_only: the node can be selected by the ``beta.amd.com`` device label only (DI-336).
        terms: labels by which the node can be selected where no value of a device label does it: a key alone, or
            ``key=value`` (DI-392).
        taints: what keeps pods away that do not tolerate it, as ``key=value:effect``; a cordon is one (DI-394).
    """

    model_config = ConfigDict(frozen=True)

    model: str
    vram: str = ""
    beta_only: bool = False
    terms: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()


MODELS: Final = "models"
"""Group of `GPUS`: the names of all models."""
MEMORY: Final = "memory"
"""Group of `GPUS`: all models with everything that is said of them."""


def of_model(name: str) -> str:
    """Group of `GPUS`: one model, by its literal or its canonical name (DI-190), and how its nodes are selected."""
    return f"model/{name}"


class VramSource(StrEnum):
    """Where the memory size comes from."""

    LABEL = "label"
    STATIC = "static"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU model of the cluster.

    Attributes:
        name: canonical, or ``AMD-xxxx`` for a device that no table knows.
        vram: memory as the label or the table writes it; empty when unknown.
        beta_only: some node of it can be selected by the ``beta.amd.com`` device label only (DI-336).
        terms: further labels by which some node of it can be selected (DI-392).
        taints: the taints of its nodes, each combination once; empty for those of a node without any (DI-394).
    """

    name: str
    vram: str
    vram_source: VramSource
    resource_name: str = DEFAULT_GPU_RESOURCE
    beta_only: bool = False
    terms: tuple[str, ...] = ()
    taints: tuple[tuple[str, ...], ...] = ()

    @property
    def vram_bytes(self) -> int:
        return vram_bytes(self.vram)


@dataclass(frozen=True, slots=True)
class GpuInventory:
    """All GPU models of the cluster, sorted by name."""

    models: tuple[GpuModel, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(model.name for model in self.models)

    @property
    def best(self) -> GpuModel | None:
        """The model with most memory."""
        return max(self.models, key=lambda model: model.vram_bytes, default=None)

    def find(self, wanted: str) -> GpuModel | None:
        """The model that a request in any spelling means; unknown devices are asked for literally (DI-190)."""
        literal, canonical = wanted.strip().upper(), canonical_model(wanted)
        return next(
            (model for model in self.models if model.name == literal or canonical_model(model.name) == canonical), None
        )

    def with_vram(self, threshold: int) -> tuple[GpuModel, ...]:
        """Models with at least that many bytes."""
        return tuple(model for model in self.models if model.vram_bytes >= threshold)


def inventory_of(kinds: Iterable[GpuKind]) -> GpuInventory:
    """The inventory of the kinds that were looked at."""
    by_model: dict[str, list[GpuKind]] = {}
    for kind in kinds:
        by_model.setdefault(kind.model, []).append(kind)
    return GpuInventory(tuple(_entry(name, by_model[name]) for name in sorted(by_model)))


def gpu_kinds(node: Node) -> tuple[GpuKind, ...]:
    """What a node says, one for each of its models; readiness and free GPUs do not count (DI-178, DI-393)."""
    models = _models(node.metadata.labels)
    taints = taints_of(node)
    vram = _vram_label(node.metadata.labels) if len(models) == 1 else ""
    return tuple(
        GpuKind(model=name, vram=vram, beta_only=found.beta_only, terms=found.terms, taints=taints)
        for name, found in sorted(models.items())
    )


_CORDON: Final = "node.kubernetes.io/unschedulable"
CORDONED: Final = f"{_CORDON}=:NoSchedule"
"""The taint of a cordoned node, as in `GpuModel.taints`."""
_REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
_PASSING: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints by which Kubernetes says how a node is; what they say passes, and readiness does not count (DI-178)."""


def taints_of(node: Node) -> tuple[str, ...]:
    """Taints that keep pods away for good, sorted; a cordoned node has one, whether or not it is written yet."""
    lasting = {
        f"{taint.key}={taint.value or ''}:{taint.effect}"
        for taint in node.spec.taints
        if taint.effect in _REPELLING and not taint.key.startswith(_PASSING)
    }
    return tuple(sorted(lasting | ({CORDONED} if node.spec.unschedulable else set())))


def _contributions(node: Node) -> Iterator[tuple[str, GpuKind]]:
    """Each group tells no more than its readers ask for: what is not in it enqueues no object."""
    for kind in gpu_kinds(node):
        yield MEMORY, kind
        yield MODELS, GpuKind(model=kind.model, terms=kind.terms, taints=kind.taints)
        for name in {kind.model, canonical_model(kind.model)}:
            yield of_model(name), kind.model_copy(update={"vram": ""})


GPUS: Final = Summary(NODES, "gpus", GpuKind, _contributions)
"""The GPUs of the cluster (DI-174…DI-180)."""


def gpu_model_of(node: Node) -> str:
    """The GPU model of a node, the alphabetically first of several; empty when no label names one (DI-174)."""
    return min(_models(node.metadata.labels), default="")


@dataclass(frozen=True, slots=True)
class _Selected:
    """How nodes of a model are selected."""

    beta_only: bool = False
    terms: tuple[str, ...] = ()


def _models(found: Mapping[str, str]) -> dict[str, _Selected]:
    """The models of a node: by device ids, as values and in keys; else by families; else by accelerators (DI-174)."""
    by_device = _by(found, _DEVICE_KEYS, model_of_device)
    return by_device or _by(found, _FAMILY_KEYS, canonical_model) or dict(_accelerators(found))


_NO_MODEL: Final = re.compile(r"GPU|CPU|EPYC.*|.*\..*")
"""What follows the prefix of an accelerator and is no model of a GPU: families, CPUs, vendors, partitions (DI-395)."""


def _accelerators(found: Mapping[str, str]) -> Iterator[tuple[str, _Selected]]:
    for named in sorted(_encoded(found, labels.ACCELERATOR_PREFIX)):
        model = "" if _NO_MODEL.fullmatch(named) else canonical_model(named)
        if model:
            yield model, _Selected(terms=(f"{labels.ACCELERATOR_PREFIX}{named}",))


def _by(found: Mapping[str, str], keys: tuple[str, str], name_of: Callable[[str], str]) -> dict[str, _Selected]:
    selected: dict[str, _Selected] = {}
    value, written = _value(found, keys), next((key for key in keys if found.get(key, "").strip()), "")
    if value and (name := name_of(value)):
        by_id = keys == _DEVICE_KEYS and bool(device_ids(name))
        terms: tuple[str, ...] = () if by_id else (f"{written}={found[written]}",)
        selected[name] = _Selected(by_id and written == labels.BETA_GPU_DEVICE_ID, terms)
    for key in keys:
        for encoded in sorted(_encoded(found, f"{key}.")):
            name = name_of(encoded)
            known = selected.get(name)
            if name and (known is None or (known.terms and "=" not in known.terms[0])):
                terms = known.terms if known is not None else ()
                selected[name] = _Selected(terms=(*terms, f"{key}.{encoded}"))
    return selected


def _vram_label(found: Mapping[str, str]) -> str:
    """The memory of the only model: as a value, else from a key; of several sizes the smallest is sure (DI-393)."""
    encoded = (size for key in _VRAM_KEYS for size in _encoded(found, f"{key}."))
    return _value(found, _VRAM_KEYS) or min(encoded, key=lambda text: (vram_bytes(text), text), default="")


def _value(found: Mapping[str, str], keys: Iterable[str]) -> str:
    return next((text for key in keys if (text := found.get(key, "").strip())), "")


def _encoded(found: Mapping[str, str], prefix: str) -> Iterator[str]:
    for key, count in found.items():
        if key.startswith(prefix) and count.strip() not in {"", "0"}:
            yield key.removeprefix(prefix)


def _entry(name: str, kinds: list[GpuKind]) -> GpuModel:
    vram, source = _vram(name, kinds)
    terms = tuple(sorted({term for kind in kinds for term in kind.terms}))
    taints = tuple(sorted({kind.taints for kind in kinds}))
    return GpuModel(name, vram, source, beta_only=any(kind.beta_only for kind in kinds), terms=terms, taints=taints)


def _vram(name: str, kinds: list[GpuKind]) -> tuple[str, VramSource]:
    labelled = [kind.vram for kind in kinds if kind.vram]
    if labelled:
        return max(labelled, key=lambda text: (vram_bytes(text), text)), VramSource.LABEL
    static = static_vram(name)
    return (static, VramSource.STATIC) if static else ("", VramSource.UNKNOWN)
