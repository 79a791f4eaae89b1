"""Declarations of the five services, with their settings as this process's environment gives them."""

from importlib import import_module
from typing import Final

from aim_shared.reconcile.reconciler import ServiceDefinition
from aim_shared.runtime.settings import Settings, load

_SETTINGS: Final = {
    "aim_model_sync": "ModelSyncSettings",
    "aim_discovery": "DiscoverySettings",
    "aim_artifacts": "ArtifactsSettings",
    "aim_serving": None,
    "aim_routing": None,
}
"""Package → its settings class in ``settings.py``; ``None`` = the common settings."""


def definitions() -> tuple[ServiceDefinition, ...]:
    """Import and declare all services. Takes about a second: only commands that decide anew need it."""
    return tuple(_definition(package, settings) for package, settings in _SETTINGS.items())


def _definition(package: str, settings: str | None) -> ServiceDefinition:
    chosen = Settings if settings is None else getattr(import_module(f"{package}.settings"), settings)
    declared = import_module(f"{package}.service").definition(load(chosen, []))
    assert isinstance(declared, ServiceDefinition)
    return declared
