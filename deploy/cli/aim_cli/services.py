"""Today's code of the five services."""

from collections.abc import Iterator, Mapping
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


class _Services(Mapping[str, ServiceCode]):
    """Imports a service when it is asked for: one takes up to half a second, and most answers need one or two."""

    def __getitem__(self, name: str) -> ServiceCode:
        package, settings = f"aim_{name.replace('-', '_')}", _SETTINGS[name]
        chosen = AimSettings if settings is None else getattr(import_module(f"{package}.settings"), settings)
        return ServiceCode(chosen, import_module(f"{package}.service").definition)

    def __iter__(self) -> Iterator[str]:
        return iter(_SETTINGS)

    def __len__(self) -> int:
        return len(_SETTINGS)


def services() -> Mapping[str, ServiceCode]:
    """Each service by its name."""
    return _Services()
