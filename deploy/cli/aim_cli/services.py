"""Today's code of the five services."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from aim_domain import AimSettings
from controller_runtime.replay import ServiceCode

_SETTINGS: Final = {
    "model-sync": "ModelSyncSettings",
    "discovery": "DiscoverySettings",
    "artifacts": "ArtifactsSettings",
    "serving": None,
    "routing": None,
}
"""Service → its settings class in ``settings.py`` of its package; ``None`` = the common settings."""


def services() -> Mapping[str, ServiceCode]:
    """Import all services. Takes about a second: only commands that decide anew need it."""
    return {name: _code(f"aim_{name.replace('-', '_')}", settings) for name, settings in _SETTINGS.items()}


def _code(package: str, settings: str | None) -> ServiceCode:
    chosen = AimSettings if settings is None else getattr(import_module(f"{package}.settings"), settings)
    return ServiceCode(chosen, import_module(f"{package}.service").definition)
