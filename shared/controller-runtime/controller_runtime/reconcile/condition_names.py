"""Types of the conditions that the state engine writes (FW-035, FW-070)."""

from enum import StrEnum


class ParentCondition(StrEnum):
    """Conditions that sum up the errors of all components (FW-070)."""

    DEPENDENCIES_REACHABLE = "DependenciesReachable"
    AUTH_VALID = "AuthValid"
    CONFIG_VALID = "ConfigValid"
    READY = "Ready"


def condition_type(component: str) -> str:
    """Type of a component's condition (FW-035)."""
    return f"{component}Ready"
