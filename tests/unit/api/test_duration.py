"""Go-style durations, and the pattern that the CRD publishes for them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime import UNSIGNED_PATTERN, DurationError, parse_nanoseconds, parse_seconds
from controller_runtime.duration import NANOSECONDS, parse_timedelta

ASCII_AND_MU = st.characters(max_codepoint=0xFF)


@pytest.mark.spec("MS-028", "RT-131")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m", 900),
        ("2h30m", 9000),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        (".5s", 0.5),
        ("1.h", 3600),
        ("0", 0),
        ("0s", 0),
        ("-1m", -60),
        ("+1m", 60),
        ("30m1h", 5400),
        ("10us", 0.00001),
        ("10µs", 0.00001),
        ("10μs", 0.00001),
        ("1ns", 0.000000001),
    ],
)
def test_reading(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.spec("MS-028")
@pytest.mark.parametrize(
    "text", ["", "-", "1", "1d", "soon", "1h30", "h", ".s", "1 h", "--1s", "1h-1m", "300000000h", "٣s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(DurationError, match=re.escape(repr(text))):
        parse_seconds(text)


def test_timedelta_cuts_towards_zero() -> None:
    assert parse_timedelta("1h1500ns") == timedelta(hours=1, microseconds=1)
    assert parse_timedelta("-1500ns") == timedelta(microseconds=-1)


@given(st.lists(st.tuples(st.integers(0, 1000), st.sampled_from(sorted(NANOSECONDS))), min_size=1, max_size=6))
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_nanoseconds(text) == sum(number * NANOSECONDS[unit] for number, unit in parts)


@pytest.mark.spec("CC-111", "MS-029")
@pytest.mark.parametrize("text", ["1h", "2h30m", "0", "1.5h", "5µs"])
def test_pattern_accepts(text: str) -> None:
    assert re.search(UNSIGNED_PATTERN, text)


@pytest.mark.spec("CC-111", "MS-029")
@pytest.mark.parametrize("text", ["1d", "-1h", "+1h", "", "1", "1h ", "00"])
def test_pattern_refuses(text: str) -> None:
    assert not re.search(UNSIGNED_PATTERN, text)


@pytest.mark.spec("MS-029")
@given(
    st.from_regex(
        r"\A(0|((\d{1,4}(\.\d{0,3})?|\.\d{1,3})(h|ms|us|µs|ns|m|s)){1,4})\Z", fullmatch=True, alphabet=ASCII_AND_MU
    )
)
def test_what_the_pattern_accepts_can_be_read(text: str) -> None:
    assert re.search(UNSIGNED_PATTERN, text)
    assert parse_nanoseconds(text) >= 0
