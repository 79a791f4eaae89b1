"""AMD GPUs: canonical names, PCI device ids, which model is preferred to which, and memory (DI-176, DI-181…DI-189)."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_SEPARATORS: Final = re.compile(r"[-\s/:]+")
_NOISE: Final = frozenset({"AMD", "INSTINCT"})
_INSTINCT: Final = "INSTINCT"
# The known prefixes of section 8.4 are all letters, so "prefix, letters, digit, rest" is this one pattern.
_MODEL: Final = re.compile(r"[A-Z]*[0-9][A-Z0-9]*")


def canonical_model(text: str) -> str:
    """The canonical name of a GPU model in whatever spelling; empty stays empty.

    >>> canonical_model("AMD_Instinct_MI300X_OAM"), canonical_model("RX7900-XTX"), canonical_model("UNKNOWN-GPU")
    ('MI300X', 'RX7900', 'UNKNOWN')
    """
    tokens = [token for token in _SEPARATORS.split(text.strip().replace("_", "-").upper()) if token]
    significant = [token for token in tokens if token not in _NOISE] or tokens
    named = (token.removeprefix(_INSTINCT) for token in significant if _MODEL.fullmatch(token))
    return next(named, significant[0] if significant else "")


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
        "MI350P": ("75a8",),
        "MI355X": ("75a3", "75b3"),
        "V620": ("73a1", "73ae"),
        "V710": ("7460", "7461"),
        "W6800": ("73a3",),
        "W6800X": ("73ab",),
        "W6900X": ("73a2",),
        "W7800": ("7449", "745e"),
        "W7900": ("7448", "744a", "744b"),
        "R9700": ("7551",),
        "RX6800": ("73bf",),
        "RX6900": ("73af",),
        "RX7900": ("744c",),
        "RX9070": ("7550",),
    }
)
GPUS_BY_PREFERENCE: Final = (
    *("MI355X", "MI350X", "MI350P", "MI325X", "MI300X", "MI308X", "MI300A", "MI250X", "MI210"),
    *("A100", "H100"),
    *("MI100", "W7900", "R9700", "RX9070", "W7800", "V710", "RX7900"),
    *("W6900X", "W6800X", "W6800", "V620", "RX6900", "RX6800"),
)
"""All known models, the most capable first; a test holds it against the table of device ids (SV-308)."""
_DIGITS_OF_INSTINCT: Final = re.compile(r"MI([0-9]{1,6})[A-Z]?")
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
    match = _DIGITS_OF_INSTINCT.fullmatch(model)
    return int(match[1]) if match else 0


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
        "R9700": "32G",
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
