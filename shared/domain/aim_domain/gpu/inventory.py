"""Which GPU models a cluster has, from the labels of its nodes (DI-174…DI-180, DI-186, DI-190)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict

from aim_domain import labels
from aim_domain.api.aim_shapes import DEFAULT_GPU_RESOURCE
from aim_domain.gpu.devices import model_of_device
from aim_domain.gpu.memory import static_vram, vram_bytes
from aim_domain.gpu.names import canonical_model
from aim_domain.parts import NODES
from controller_runtime import Summary
from controller_runtime.core import Node

_DEVICE_KEYS: Final = (labels.GPU_DEVICE_ID, labels.BETA_GPU_DEVICE_ID)
_FAMILY_KEYS: Final = (labels.GPU_FAMILY, labels.BETA_GPU_FAMILY)
_VRAM_KEYS: Final = (labels.GPU_VRAM, labels.BETA_GPU_VRAM)


class GpuKind(BaseModel):
    """What nodes say of their GPUs, as far as somebody asks for it. Hundreds of nodes are of a few kinds.

    Attributes:
        model: canonical, or ``AMD-xxxx`` for a device that no table knows.
        vram: label of the memory; empty without one, and where nobody asks for memory.
        beta_only: the node can be selected by the ``beta.amd.com`` device label only (DI-336).
    """

    model_config = ConfigDict(frozen=True)

    model: str
    vram: str = ""
    beta_only: bool = False


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
    """

    name: str
    vram: str
    vram_source: VramSource
    resource_name: str = DEFAULT_GPU_RESOURCE
    beta_only: bool = False

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


def gpu_kind(node: Node) -> GpuKind | None:
    """What a node says; ``None`` if it says nothing of GPUs. Readiness, taints and free GPUs do not count (DI-178)."""
    name = gpu_model_of(node)
    if not name:
        return None
    return GpuKind(model=name, vram=_value(node.metadata.labels, _VRAM_KEYS), beta_only=_is_beta_only(node))


def _contributions(node: Node) -> Iterator[tuple[str, GpuKind]]:
    """Each group tells no more than its readers ask for: what is not in it wakes nobody."""
    kind = gpu_kind(node)
    if kind is None:
        return
    yield MEMORY, kind
    yield MODELS, GpuKind(model=kind.model)
    for name in {kind.model, canonical_model(kind.model)}:
        yield of_model(name), GpuKind(model=kind.model, beta_only=kind.beta_only)


GPUS: Final = Summary(NODES, "gpus", GpuKind, _contributions)
"""The GPUs of the cluster (DI-174…DI-180)."""


def gpu_model_of(node: Node) -> str:
    """The GPU model of a node; empty when no label names one (DI-174)."""
    found = node.metadata.labels
    sources: tuple[tuple[Callable[[Mapping[str, str]], str], Callable[[str], str]], ...] = (
        (lambda given: _value(given, _DEVICE_KEYS), model_of_device),
        (lambda given: _counted(given, _DEVICE_KEYS), model_of_device),
        (lambda given: _value(given, _FAMILY_KEYS), canonical_model),
        (lambda given: _counted(given, _FAMILY_KEYS), canonical_model),
    )
    return next((name_of(text) for read, name_of in sources if (text := read(found))), "")


def _value(found: Mapping[str, str], keys: Iterable[str]) -> str:
    return next((text for key in keys if (text := found.get(key, "").strip())), "")


def _counted(found: Mapping[str, str], keys: Iterable[str]) -> str:
    """The alphabetically first value that is encoded in a label's key, with a count as the label's value (DI-175)."""
    return next((value for key in keys for value in sorted(_encoded(found, f"{key}."))), "")


def _encoded(found: Mapping[str, str], prefix: str) -> Iterator[str]:
    for key, count in found.items():
        if key.startswith(prefix) and count.strip() not in {"", "0"}:
            yield key.removeprefix(prefix)


def _entry(name: str, kinds: list[GpuKind]) -> GpuModel:
    vram, source = _vram(name, kinds)
    return GpuModel(name, vram, source, beta_only=any(kind.beta_only for kind in kinds))


def _vram(name: str, kinds: list[GpuKind]) -> tuple[str, VramSource]:
    labelled = [kind.vram for kind in kinds if kind.vram]
    if labelled:
        return max(labelled, key=lambda text: (vram_bytes(text), text)), VramSource.LABEL
    static = static_vram(name)
    return (static, VramSource.STATIC) if static else ("", VramSource.UNKNOWN)


def _is_beta_only(node: Node) -> bool:
    primary, beta = (bool(node.metadata.labels.get(key, "").strip()) for key in _DEVICE_KEYS)
    return beta and not primary
