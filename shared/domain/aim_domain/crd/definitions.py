"""What a CRD says beyond the types of its objects: printer columns and the scale subresource (CC-003, CC-060)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from aim_domain import kinds
from controller_runtime import Kind


class ColumnType(StrEnum):
    """How the API server prints a column."""

    STRING = "string"
    INTEGER = "integer"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class Column:
    """One printer column; priority 1 shows in wide output only (CC-062)."""

    name: str
    path: str
    type: ColumnType = ColumnType.STRING
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Scale:
    """Paths of the scale subresource."""

    spec_replicas: str
    status_replicas: str
    label_selector: str


CATEGORIES: Final = ("aim", "all")
_AGE: Final = Column("Age", ".metadata.creationTimestamp", ColumnType.DATE)
_STATUS: Final = Column("Status", ".status.status")

_MODEL_COLUMNS: Final = (
    _STATUS,
    Column("Source", ".status.sourceType"),
    Column("Image", ".spec.image"),
    Column("Model", ".status.imageMetadata.model.canonicalName"),
    _AGE,
)
_TEMPLATE_COLUMNS: Final = (
    Column("Model", ".spec.modelName"),
    _STATUS,
    Column("Hardware", ".status.hardwareSummary"),
    Column("Metric", ".status.profile.metadata.metric"),
    Column("Precision", ".status.profile.metadata.precision"),
    _AGE,
)

COLUMNS: Final[dict[Kind[Any], tuple[Column, ...]]] = {
    kinds.AIM_SERVICE: (
        _STATUS,
        Column("Model", ".status.resolvedModel.name"),
        Column("Template", ".status.resolvedTemplate.name"),
        Column("Replicas", ".status.runtime.replicas"),
        _AGE,
    ),
    kinds.AIM_MODEL: _MODEL_COLUMNS,
    kinds.AIM_CLUSTER_MODEL: _MODEL_COLUMNS,
    kinds.AIM_SERVICE_TEMPLATE: _TEMPLATE_COLUMNS,
    kinds.AIM_CLUSTER_SERVICE_TEMPLATE: _TEMPLATE_COLUMNS,
    kinds.AIM_CLUSTER_MODEL_SOURCE: (
        _STATUS,
        Column("Models", ".status.discoveredModels", ColumnType.INTEGER),
        Column("LastSync", ".status.lastSyncTime", ColumnType.DATE),
        _AGE,
    ),
    kinds.AIM_ARTIFACT: (
        _STATUS,
        Column("Mode", ".status.mode"),
        Column("Model Size", ".status.displaySize"),
        Column("Progress", ".status.progress.displayPercentage"),
        Column("Protocol", ".status.download.protocol", priority=1),
        Column("Attempt", ".status.download.attempt", priority=1),
        _AGE,
    ),
    kinds.AIM_TEMPLATE_CACHE: (
        Column("Template", ".spec.templateName"),
        Column("Mode", ".spec.mode"),
        _STATUS,
        Column("Kind", ".status.resolvedTemplateKind"),
        _AGE,
    ),
}
"""Columns in their order; the runtime configs have none, so the API server shows name and age."""

SCALES: Final[dict[Kind[Any], Scale]] = {
    kinds.AIM_SERVICE: Scale(".spec.replicas", ".status.runtime.currentReplicas", ".status.runtime.selector"),
}
