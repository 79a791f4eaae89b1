"""Kubernetes quantities, exactly: `parse`, compare by value, write in canonical form.

The models keep a quantity as the text or integer that was stored (`QuantityText`), because CEL compares text (CC-165)
and a reader must never rewrite it. Arithmetic uses `Quantity`, a decimal without rounding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Annotated, Final, TypeAlias

from controller_runtime.api.schema import Schema
from controller_runtime.texts import quoted

QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
"""Pattern of the CRD schema (CC-020)."""

LONGEST_TEXT: Final = 64
"""Characters of a quantity; more say nothing more, and the cost of reading digits grows with their square."""

QuantityText: TypeAlias = Annotated[
    int | str, Schema(int_or_string=True, pattern=QUANTITY_PATTERN, max_length=LONGEST_TEXT)
]
"""A quantity as it is stored: an integer or a string."""

_BINARY: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50, "Ei": 1 << 60}
_DECIMAL_EXPONENTS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX_OF_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_TEXT: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]+))?"
)
_LONGEST_EXPONENT: Final = 3
# Kubernetes caps amounts there without a word; further on its own arithmetic would overflow.
_LARGEST: Final = Decimal((1 << 63) - 1)
# Wide enough that no sum or product of quantities that Kubernetes accepts is ever rounded.
_EXACT: Final = Context(prec=200)
_NANO: Final = Decimal("1e-9")
_GIB: Final = 1 << 30
_HUMAN_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_LARGEST_HUMAN: Final = 7 << 60


class QuantityError(ValueError):
    """A text that is no quantity; the message quotes it."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount. Compares by value: `1` equals `1000m`."""

    value: Decimal

    @property
    def ceiling(self) -> int:
        """The amount as an integer, rounded up; for storage the number of bytes (AR-203)."""
        return int(self.value.to_integral_value(rounding=ROUND_CEILING))

    @property
    def milli(self) -> int:
        """The amount in thousandths, rounded up; for CPU the millicores."""
        return int(_EXACT.multiply(self.value, Decimal(1000)).to_integral_value(rounding=ROUND_CEILING))

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(_EXACT.add(self.value, other.value))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(_EXACT.subtract(self.value, other.value))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __str__(self) -> str:
        return format_decimal(self.value)


def parse(text: int | str) -> Quantity:
    """Read a quantity; as in Kubernetes, what is finer than a billionth is rounded up, what exceeds 64 bits is capped.

    Raises:
        QuantityError: the text is no quantity.
    """
    if isinstance(text, int):
        return Quantity(_capped(Decimal(text)))
    match = _TEXT.fullmatch(text) if len(text) <= LONGEST_TEXT else None
    if match is None or len((match["exponent"] or "").lstrip("+-")) > _LONGEST_EXPONENT:
        raise QuantityError(
            f"{quoted(text)} is not a quantity; expected a number with a suffix such as 500m, 4 or 10Gi"
        )
    number = Decimal(match["number"])
    value = _EXACT.multiply(number, _scale(match["suffix"] or "", match["exponent"]))
    return Quantity(_rounded_to_nano(_capped(value)))


def parse_or_none(text: int | str | None) -> Quantity | None:
    """Read a quantity; None when it is absent or malformed (for values that must not stop a pass, CC-312)."""
    if text is None:
        return None
    try:
        return parse(text)
    except QuantityError:
        return None


def _scale(suffix: str, exponent: str | None) -> Decimal:
    if suffix in _BINARY:
        return Decimal(_BINARY[suffix])
    power = int(exponent) if exponent else _DECIMAL_EXPONENTS[suffix]
    return Decimal(1).scaleb(power, _EXACT)


def _capped(value: Decimal) -> Decimal:
    return max(-_LARGEST, min(_LARGEST, value))


def _rounded_to_nano(value: Decimal) -> Decimal:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -9:
        return value
    # Away from zero, so that a tiny request never becomes nothing.
    rounding = ROUND_CEILING if value > 0 else ROUND_FLOOR
    return value.quantize(_NANO, rounding=rounding, context=_EXACT)


def format_decimal(value: Decimal) -> str:
    """Canonical decimal text: the largest decimal suffix that leaves an integer, such as `1500m` or `2G`."""
    for exponent in range(18, -10, -3):
        scaled = value.scaleb(-exponent, _EXACT)
        if scaled == scaled.to_integral_value():
            return f"{int(scaled)}{_SUFFIX_OF_EXPONENT[exponent] if value else ''}"
    raise QuantityError(f"{value} is finer than a billionth")


def format_binary(amount: int) -> str:
    """Canonical binary text: the largest binary suffix that leaves an integer, such as `512Mi`; else plain digits."""
    for suffix, factor in reversed(_BINARY.items()):
        if amount and amount % factor == 0:
            return f"{amount // factor}{suffix}"
    return str(amount)


def canonical(text: int | str) -> str:
    """Canonical text of a quantity, in binary when it was written with a binary suffix.

    Raises:
        QuantityError: the text is no quantity.
    """
    quantity = parse(text)
    integral = quantity.value == quantity.value.to_integral_value()
    if isinstance(text, str) and text.endswith("i") and integral:
        return format_binary(int(quantity.value))
    return str(quantity)


def volume_size(effective_bytes: int, headroom_percent: int) -> str:
    """Storage request for that many bytes plus headroom, in whole GiB and at least one (AR-200)."""
    with_headroom = effective_bytes * (100 + headroom_percent) // 100
    return f"{max(1, -(-with_headroom // _GIB))}Gi"


def human_size(amount: int) -> str:
    """A size in bytes for people, such as `42.5 GiB` (AR-421, FW-239).

    Raises:
        QuantityError: negative, or above 7 EiB.
    """
    if not 0 <= amount <= _LARGEST_HUMAN:
        raise QuantityError(f"{amount} bytes is outside 0 to 7 EiB and has no display size")
    power = max(0, (amount.bit_length() - 1) // 10)
    exact = Fraction(amount, 1 << (10 * power))
    decimals = Decimal(1) if exact >= 100 else Decimal("0.1")
    number = (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(decimals, rounding=ROUND_HALF_UP)
    return f"{number.normalize():f} {_HUMAN_UNITS[power]}"
