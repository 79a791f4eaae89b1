"""The pods of an engine, and the LoRA adapters that each has loaded."""

from dataclasses import dataclass
from pathlib import Path
from typing import final

from aim_local.engine.program import Adapters


@dataclass(frozen=True, slots=True)
class EnginePod:
    """A pod whose engine answers.

    Attributes:
        life: differs after each restart of the container, which loses what was loaded.
        disk: folder behind the volume of the adapters; None without one.
        max_rank: highest rank of an adapter; None where the engine takes none.
    """

    name: str
    address: str = ""
    life: str = ""
    disk: Path | None = None
    max_rank: int | None = None


@final
class AdaptersOfPods:
    """The adapters of each engine."""

    def __init__(self) -> None:
        self._by_life: dict[str, Adapters] = {}

    def of(self, pod: EnginePod) -> Adapters:
        """Those of a pod."""
        return self._by_life.setdefault(pod.life, Adapters(pod.max_rank, pod.disk or Path()))
