"""What metrics show of model sources (MS-351)."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from aim_domain.parts import MODEL_SOURCES
from aim_model_sync.outcome import SyncOutcome
from controller_runtime import Cache, Readings, Total


class SyncResult(StrEnum):
    """How a sync ended."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    """Some selectors failed, or found less than there is."""
    FAILED = "failed"
    ERROR = "error"
    """Kubernetes, not a registry, kept it from starting."""


def result_of(outcome: SyncOutcome) -> SyncResult:
    """The result of a sync that was carried out."""
    if outcome.all_failed:
        return SyncResult.FAILED
    return SyncResult.PARTIAL if any(one.code is not None for one in outcome.selectors) else SyncResult.SUCCEEDED


@dataclass(slots=True)
class SyncCounts:
    """Syncs since the start."""

    by_result: Counter[SyncResult] = field(default_factory=Counter)
    seconds: float = 0.0

    def count_sync(self, result: SyncResult, seconds: float) -> None:
        """Count one."""
        self.by_result[result] += 1
        self.seconds += seconds

    def readings(self) -> Readings:
        """Syncs by result, and how long they took."""
        return {
            "aim_model_syncs_total": [({"result": one.value}, float(self.by_result[one])) for one in SyncResult],
            "aim_model_sync_seconds": [({}, Total(self.by_result.total(), self.seconds))],
        }


_GAUGES: Final = {
    "aim_model_source_discovered_models": "discoveredModels",
    "aim_model_source_available_models": "availableModels",
    "aim_model_source_limit_reached": "modelsLimitReached",
}


def source_readings(cache: Cache) -> Readings:
    """The numbers in the statuses of the sources; a source that was never synced has none."""
    statuses = [(entry.key.name, entry.raw.get("status") or {}) for entry in cache.all(MODEL_SOURCES)]
    return {
        name: [({"source": source}, float(status[member])) for source, status in statuses if member in status]
        for name, member in _GAUGES.items()
    }
