"""PCI device ids of AMD GPUs (DI-176, DI-181, DI-182)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_domain.gpu.names import canonical_model

UNKNOWN_PREFIX: Final = "AMD-"
"""Starts the name of a device that the table does not know."""

_IDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "MI100": ("738c", "738e"),
        "MI210": ("740f", "7410"),
        "MI250X": ("7408", "740c"),
        "MI300A": ("74a0",),
        "MI300X": ("74a1", "74a9", "74b5", "74bd"),
        "MI308X": ("74a2", "74a8", "74b6"),
        "MI325X": ("74a5", "74b9"),
        "MI350X": ("75a0", "75b0"),
        "MI355X": ("75a3", "75b3"),
        "V620": ("73a1", "73ae"),
        "V710": ("7460", "7461"),
        "W6800": ("73a3",),
        "W6800X": ("73ab",),
        "W6900X": ("73a2",),
        "W7800": ("7449", "745e"),
        "W7900": ("7448", "744a"),
        "RX6800": ("73bf",),
        "RX6900": ("73af",),
        "RX7900": ("744c",),
        "RX9070": ("7550",),
    }
)
_MODELS: Final = {device_id: model for model, ids in _IDS.items() for device_id in ids}


def model_of_device(device_id: str) -> str:
    """The model of a device id such as ``0x74A1``; ``AMD-`` and the id when it is not in the table."""
    plain = device_id.strip().lower().removeprefix("0x")
    return _MODELS.get(plain) or UNKNOWN_PREFIX + plain.upper()


def device_ids(model: str) -> tuple[str, ...]:
    """All ids of a model in any spelling, ascending; empty when it is not in the table."""
    return tuple(sorted(_IDS.get(canonical_model(model), ())))
