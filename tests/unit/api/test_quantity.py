"""Quantities: reading, comparing, writing, and the sizes made from them."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime import Quantity, QuantityError, format_binary, human_size, volume_size
from controller_runtime.quantity import LONGEST_TEXT, QUANTITY_PATTERN, canonical, parse, parse_or_none

GIB = 1 << 30
MIB = 1 << 20


@pytest.mark.spec("CC-020")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (4, "4"),
        ("4", "4"),
        ("1000m", "1"),
        ("-500m", "-0.5"),
        ("+1", "1"),
        (".5", "0.5"),
        ("1.", "1"),
        ("1.5Gi", str(3 * GIB // 2)),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("2E", "2000000000000000000"),
        ("2Ei", str(2 << 60)),
        ("100n", "0.0000001"),
        ("0.1n", "0.000000001"),
        ("-0.1n", "-0.000000001"),
        ("12e-1", "1.2"),
        ("0", "0"),
    ],
)
def test_reading(text: int | str, value: str) -> None:
    assert parse(text).value == Decimal(value)


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", "Gi", "1gi", "1K", "--1", "1e", "1e1.5", "٣", "1e9999", "1Gi\n"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(QuantityError, match=re.escape(repr(text))):
        parse(text)
    assert parse_or_none(text) is None


LARGEST = (1 << 63) - 1


@pytest.mark.spec("FW-479", "CC-020")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8Ei", LARGEST),
        ("-999Ei", -LARGEST),
        ("1e400", LARGEST),
        (10**30, LARGEST),
        ("9" * LONGEST_TEXT, LARGEST),
        (LARGEST, LARGEST),
        ("9223372036854775806", LARGEST - 1),
    ],
)
def test_amounts_beyond_64_bits_are_capped(text: int | str, value: int) -> None:
    assert parse(text).ceiling == value


@pytest.mark.spec("FW-479", "CC-312")
@pytest.mark.parametrize("text", ["9" * 65, "9" * 4301, "0." + "0" * 5000 + "1", "1e99999999999"])
def test_overlong_texts_are_no_quantities_and_quoted_in_short(text: str) -> None:
    with pytest.raises(QuantityError, match="not a quantity") as caught:
        parse(text)
    assert len(str(caught.value)) < 200
    assert parse_or_none(text) is None


def test_an_absent_quantity() -> None:
    assert parse_or_none(None) is None
    assert parse_or_none("1") == parse(1)


def test_comparison_is_by_value() -> None:
    assert parse("1") == parse("1000m")
    assert hash(parse("1")) == hash(parse("1000m"))
    assert parse("1Gi") > parse("1G")
    assert min([parse("2"), parse("1500m")]) == parse("1.5")
    assert not parse("0Gi")


@pytest.mark.spec("AR-203")
def test_bytes_are_rounded_up() -> None:
    assert parse("2.2Gi").ceiling == 2362232013
    assert parse("1500m").ceiling == 2
    assert parse("-1500m").ceiling == -1
    assert parse("1.0005").milli == 1001


@pytest.mark.parametrize(
    ("text", "written"),
    [("1000m", "1"), ("1500m", "1500m"), ("2048Mi", "2Gi"), ("0.5Gi", "512Mi"), ("1000", "1k"), ("0", "0"), (0, "0")],
)
def test_canonical_text(text: int | str, written: str) -> None:
    assert canonical(text) == written


@pytest.mark.spec("DI-270")
def test_binary_text_of_bytes() -> None:
    assert format_binary(GIB // 2) == "512Mi"
    assert format_binary(17244293693) == "17244293693"
    assert format_binary(0) == "0"


@pytest.mark.spec("AR-200", "AR-202", "AR-P10", "SC-040")
@pytest.mark.parametrize(
    ("size", "headroom", "request_"),
    [
        (1, 0, "1Gi"),
        (10 * MIB, 10, "1Gi"),
        (100 * MIB, 10, "1Gi"),
        (2 * GIB, 10, "3Gi"),
        (2362232013, 10, "3Gi"),
        (4 * GIB, 10, "5Gi"),
        (9094593249, 10, "10Gi"),
        (10 * GIB, 0, "10Gi"),
        (10 * GIB, 10, "11Gi"),
        (10 * GIB, 15, "12Gi"),
        (10 * GIB, 50, "15Gi"),
        (10 * GIB + 500 * MIB, 0, "11Gi"),
    ],
)
def test_volume_size(size: int, headroom: int, request_: str) -> None:
    assert volume_size(size, headroom) == request_


@pytest.mark.spec("AR-421", "AR-422", "FW-239", "SC-040")
@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (10 << 10, "10 KiB"),
        (MIB - 1, "1024 KiB"),
        (1536 << 10, "1.5 MiB"),
        (100 * MIB, "100 MiB"),
        (999 * MIB, "999 MiB"),
        (GIB + 1, "1 GiB"),
        (1280 * MIB, "1.3 GiB"),
        (1792 * MIB, "1.8 GiB"),
        (8704 * MIB, "8.5 GiB"),
        (10752 * MIB, "10.5 GiB"),
        (101888 * MIB, "99.5 GiB"),
        (102349 * MIB, "100 GiB"),
        (140 * GIB, "140 GiB"),
        ((1 << 40) - 1, "1024 GiB"),
        (1536 * GIB, "1.5 TiB"),
        (7 << 60, "7 EiB"),
    ],
)
def test_human_size(amount: int, text: str) -> None:
    assert human_size(amount) == text


@pytest.mark.spec("AR-421", "AR-423")
def test_human_size_of_quantities_and_out_of_range() -> None:
    assert human_size(parse("2.2Gi").ceiling) == "2.2 GiB"
    for amount in (-1, (7 << 60) + 1):
        with pytest.raises(QuantityError, match=str(amount)):
            human_size(amount)


_NANO = st.integers(-(10**27), 10**27)


@given(_NANO)
def test_written_quantities_read_back(nano: int) -> None:
    quantity = Quantity(Decimal(nano).scaleb(-9))
    assert parse(str(quantity)) == quantity
    assert re.fullmatch(QUANTITY_PATTERN, str(quantity))


@given(_NANO, _NANO)
def test_sums_are_exact(left: int, right: int) -> None:
    first, second = parse(f"{left}n"), parse(f"{right}n")
    assert first + second == parse(f"{left + right}n")
    assert (first < second) == (left < right)
    assert (first + second) - second == first


@given(st.integers(0, 7 << 60))
def test_binary_text_reads_back(amount: int) -> None:
    assert parse(format_binary(amount)).ceiling == amount


@given(st.from_regex(QUANTITY_PATTERN, fullmatch=True))
def test_what_the_schema_admits_never_breaks_the_reader(text: str) -> None:
    quantity = parse_or_none(text)
    assert quantity is None or parse(canonical(text)) == quantity
