"""Memory of AMD GPUs (DI-183…DI-188)."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from aim_domain.gpu.devices import device_ids
from aim_domain.gpu.names import canonical_model

STATIC_VRAM: Final[Mapping[str, str]] = MappingProxyType(
    {
        "MI355X": "288G",
        "MI350X": "288G",
        "MI325X": "256G",
        "MI308X": "128G",
        "MI300X": "192G",
        "MI300A": "128G",
        "MI250X": "128G",
        "MI210": "64G",
        "MI100": "32G",
        "V710": "32G",
        "V620": "32G",
        "W7900": "48G",
        "W7800": "32G",
        "W6900X": "32G",
        "W6800": "32G",
        "W6800X": "32G",
        "RX9070": "16G",
        "RX7900": "24G",
        "RX6900": "16G",
        "RX6800": "16G",
    }
)
"""Memory per model, for nodes whose labels do not tell it."""

VRAM_TIERS: Final = ("16G", "24G", "32G", "48G", "64G", "128G", "192G", "256G", "288G")
"""All sizes of `STATIC_VRAM`, ascending (DI-187)."""

_TEXT: Final = re.compile(r"([0-9]+)([GT]?)")
_FACTORS: Final = {"G": 1 << 30, "T": 1 << 40}
_SMALLEST_BYTES: Final = 1 << 20
"""A bare number below this can only be MiB, as the node labeller writes it (DI-185)."""


def vram_bytes(text: str) -> int:
    """Bytes of a memory label; 0 for what is none.

    >>> vram_bytes("192G"), vram_bytes("196608"), vram_bytes("abc")
    (206158430208, 206158430208, 0)
    """
    match = _TEXT.fullmatch(text.strip().upper())
    if match is None:
        return 0
    number, unit = int(match[1]), match[2]
    if unit:
        return number * _FACTORS[unit]
    return number << 20 if number < _SMALLEST_BYTES else number


def static_vram(model: str) -> str:
    """Memory of a model in any spelling by the table; empty when it is not in the table."""
    return STATIC_VRAM.get(canonical_model(model), "")


def tiers_from(threshold: int) -> tuple[str, ...]:
    """Tiers of at least that many bytes, ascending (DI-187)."""
    return tuple(tier for tier in VRAM_TIERS if vram_bytes(tier) >= threshold)


def models_from(threshold: int) -> tuple[str, ...]:
    """Models of the table with at least that many bytes, sorted (DI-188)."""
    return tuple(sorted(model for model, vram in STATIC_VRAM.items() if vram_bytes(vram) >= threshold))


def device_ids_from(threshold: int, model: str = "") -> tuple[str, ...]:
    """Device ids of the models with at least that many bytes, or of the named one if it has them (DI-188)."""
    if model:
        vram = static_vram(model)
        return device_ids(model) if not vram or vram_bytes(vram) >= threshold else ()
    return tuple(sorted(device_id for found in models_from(threshold) for device_id in device_ids(found)))
