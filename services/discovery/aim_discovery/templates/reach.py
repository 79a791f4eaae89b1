"""Which GPUs the pods of services can reach: nodes that take them (DI-394), and nodes that can come (DI-396). Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aim_domain import (
    CORDONED,
    GpuModel,
    PodSettings,
    RuntimeConfigSpec,
    canonical_model,
    static_vram,
    tolerations,
    vram_bytes,
)
from controller_runtime import JsonObject

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
