"""Canonical names of GPU models (DI-189)."""

import re
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
