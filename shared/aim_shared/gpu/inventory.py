"""Which GPU models a cluster has, from the labels of its nodes (DI-174…DI-180, DI-186, DI-190)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from aim_shared.api import DEFAULT_GPU_RESOURCE, Node, labels
from aim_shared.gpu.devices import model_of_device
from aim_shared.gpu.memory import static_vram, vram_bytes
from aim_shared.gpu.names import canonical_model

_DEVICE_KEYS: Final = (labels.GPU_DEVICE_ID, labels.BETA_GPU_DEVICE_ID)
_FAMILY_KEYS: Final = (labels.GPU_FAMILY, labels.BETA_GPU_FAMILY)
_VRAM_KEYS: Final = (labels.GPU_VRAM, labels.BETA_GPU_VRAM)


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


def inventory_of(nodes: Iterable[Node]) -> GpuInventory:
    """The inventory; every node counts, whatever its readiness, taints or free GPUs (DI-178, DI-180)."""
    by_model: dict[str, list[Node]] = {}
    for node in nodes:
        name = gpu_model_of(node)
        if name:
            by_model.setdefault(name, []).append(node)
    return GpuInventory(tuple(_entry(name, by_model[name]) for name in sorted(by_model)))


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


def _entry(name: str, nodes: list[Node]) -> GpuModel:
    vram, source = _vram(name, nodes)
    return GpuModel(name, vram, source, beta_only=any(_is_beta_only(node) for node in nodes))


def _vram(name: str, nodes: list[Node]) -> tuple[str, VramSource]:
    labelled = [text for node in nodes if (text := _value(node.metadata.labels, _VRAM_KEYS))]
    if labelled:
        return max(labelled, key=lambda text: (vram_bytes(text), text)), VramSource.LABEL
    static = static_vram(name)
    return (static, VramSource.STATIC) if static else ("", VramSource.UNKNOWN)


def _is_beta_only(node: Node) -> bool:
    primary, beta = (bool(node.metadata.labels.get(key, "").strip()) for key in _DEVICE_KEYS)
    return beta and not primary
