"""Types of the conditions that the state engine writes (FW-035, FW-070)."""

from enum import StrEnum
from typing import Final


class ParentCondition(StrEnum):
    """Conditions that sum up the errors of all components (FW-070)."""

    DEPENDENCIES_REACHABLE = "DependenciesReachable"
    AUTH_VALID = "AuthValid"
    CONFIG_VALID = "ConfigValid"
    READY = "Ready"


RECONCILED: Final = "Reconciled"
"""Condition that is only there while an object is not reconciled: its passes fail (FW-477), or another manager keeps
overwriting what they apply (FW-814); the next good pass drops it (FW-038)."""


def condition_type(component: str) -> str:
    """Type of a component's condition (FW-035)."""
    return f"{component}Ready"
