"""What every own kind declares beside its fields: columns, components of its health, the scale subresource."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from aim_domain.component_names import ComponentName
from controller_runtime import Resource


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


AGE: Final = Column("Age", ".metadata.creationTimestamp", ColumnType.DATE)
STATUS: Final = Column("Status", ".status.status")


class OwnResource(Resource):
    """An object of one of the platform's own kinds.

    Attributes:
        columns: of `kubectl get`, in their order; without any, the API server shows name and age.
        components: all that take part in the aggregation of FW-076, in this order (FW-080).
        scale: where a kind that can be scaled has its replicas.
    """

    columns: ClassVar[tuple[Column, ...]] = ()
    components: ClassVar[tuple[ComponentName, ...]] = ()
    scale: ClassVar[Scale | None] = None
