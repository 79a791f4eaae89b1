"""PCI device ids of AMD GPUs (DI-176, DI-181, DI-182), and which model is preferred to which (SV-098)."""

import re
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
GPUS_BY_PREFERENCE: Final = (
    *("MI355X", "MI350X", "MI325X", "MI300X", "MI308X", "MI300A", "MI250X", "MI210"),
    *("A100", "H100"),
    *("MI100", "W7900", "RX9070", "W7800", "V710", "RX7900"),
    *("W6900X", "W6800X", "W6800", "V620", "RX6900", "RX6800"),
)
"""All known models, the most capable first; a test holds it against the table of device ids (SV-308)."""
_INSTINCT: Final = re.compile(r"MI([0-9]{1,6})[A-Z]?")
_MODELS: Final = {device_id: model for model, ids in _IDS.items() for device_id in ids}


def model_of_device(device_id: str) -> str:
    """The model of a device id such as ``0x74A1``; ``AMD-`` and the id when it is not in the table."""
    plain = device_id.strip().lower().removeprefix("0x")
    return _MODELS.get(plain) or UNKNOWN_PREFIX + plain.upper()


def device_ids(model: str) -> tuple[str, ...]:
    """All ids of a model in any spelling, ascending; empty when it is not in the table."""
    return tuple(sorted(_IDS.get(canonical_model(model), ())))


def gpu_rank(model: str) -> tuple[int, int]:
    """Place of a canonical model in the preference, smaller is better (SV-098, SV-308).

    An Instinct that the table does not know stands before the first known one of a smaller number, so that a new
    generation does not wait for a release of the platform. All other unknown models come last and are equal.

    >>> sorted(["", "MI210", "MI455X", "MI355X", "MI250"], key=gpu_rank)
    ['MI455X', 'MI355X', 'MI250', 'MI210', '']
    """
    if model in GPUS_BY_PREFERENCE:
        return (2 * GPUS_BY_PREFERENCE.index(model) + 1, 0)
    number = _number(model)
    places = (place for place, known in enumerate(GPUS_BY_PREFERENCE) if 0 < _number(known) < number)
    place = next(places, len(GPUS_BY_PREFERENCE))
    return (2 * place, -number if place < len(GPUS_BY_PREFERENCE) else 0)


def _number(model: str) -> int:
    match = _INSTINCT.fullmatch(model)
    return int(match[1]) if match else 0
