"""Closed sets of values, open for reading.

An unknown value decodes to a member outside the set instead of failing (CC-014): it equals its text, `known` is false,
and it is in no table. Compare with `==` or look up in a table; `is` holds for members of the set only.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, Self


class OpenEnum(StrEnum):
    """A closed set whose reader survives values of other releases."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        member = str.__new__(cls, value)
        member._name_ = value
        member._value_ = value
        return member

    @property
    def known(self) -> bool:
        """Whether the value belongs to the set."""
        return self._value_ in self.__class__._value2member_map_

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The member with this value, or None: for values from outside the API (CC-311)."""
        member = cls(text)
        return member if member.known else None


class StatusValue(OpenEnum):
    """Overall status of an object (FW-020)."""

    PENDING = "Pending"
    STARTING = "Starting"
    PROGRESSING = "Progressing"
    READY = "Ready"
    RUNNING = "Running"
    DEGRADED = "Degraded"
    NOT_AVAILABLE = "NotAvailable"
    FAILED = "Failed"

    @property
    def priority(self) -> int:
        """Higher is better; unknown values count as 0 (FW-021)."""
        return _PRIORITY.get(self, 0)


_PRIORITY: Final = {
    StatusValue.RUNNING: 7,
    StatusValue.READY: 6,
    StatusValue.PROGRESSING: 5,
    StatusValue.STARTING: 4,
    StatusValue.PENDING: 3,
    StatusValue.DEGRADED: 2,
    StatusValue.NOT_AVAILABLE: 1,
    StatusValue.FAILED: 0,
}


def best_status(candidates: Iterable[StatusValue]) -> StatusValue | None:
    """The candidate with the highest priority, the first one on a tie, None without candidates (FW-025)."""
    return max(candidates, key=lambda status: status.priority, default=None)


def worst_status(candidates: Iterable[StatusValue]) -> StatusValue | None:
    """The candidate with the lowest priority, the first one on a tie, None without candidates (FW-025)."""
    return min(candidates, key=lambda status: status.priority, default=None)


class ConditionStatus(OpenEnum):
    """Status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class NodeOperator(OpenEnum):
    """Operator of a node selector requirement; the CRD schema leaves it open (CC-027)."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class PodPhase(OpenEnum):
    """Phase of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class ClaimPhase(OpenEnum):
    """Phase of a PersistentVolumeClaim."""

    PENDING = "Pending"
    BOUND = "Bound"
    LOST = "Lost"


class EventType(OpenEnum):
    """Type of a Kubernetes Event."""

    NORMAL = "Normal"
    WARNING = "Warning"
