"""How far back a stream reaches."""

from datetime import UTC, datetime, timedelta

import pytest

from controller_runtime import JsonObject
from controller_runtime.log.broker.retention import Contents, Pace, dropped_by, shortfall

HOUR = 3600 * 10**9
NOW = datetime(2026, 1, 2, tzinfo=UTC)
WEEK: JsonObject = {"max_bytes": 1 << 30, "max_age": 168 * HOUR}


def holding(messages: int = 10, size: int = 1000, first: int = 1, minutes: float = 0) -> Contents:
    """A stream that is a day old, some minutes from now."""
    last = first + messages - 1
    return Contents(messages, size, first, last, NOW - timedelta(days=1), NOW + timedelta(minutes=minutes))


@pytest.mark.spec("FW-448")
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_bytes": 2000, "max_age": 48 * HOUR}, None),
        ({"max_bytes": 400, "max_age": 48 * HOUR}, "the oldest 600 of 1000 bytes"),
        ({"max_bytes": -1, "max_age": 0}, None),
        ({"max_bytes": 2000, "max_age": HOUR}, "everything from 2026-01-01 00:00 to 2026-01-01 23:00"),
    ],
)
def test_what_other_limits_drop(limits: JsonObject, words: str | None) -> None:
    assert dropped_by(limits, holding()) == words


@pytest.mark.spec("FW-451")
def test_a_log_is_complete_from_its_oldest_message_on_once_something_was_dropped() -> None:
    assert holding(first=1).complete_since is None
    assert holding(first=7).complete_since == NOW - timedelta(days=1)
    assert Contents(0, 0, 8, 7, None, NOW).complete_since == NOW


@pytest.mark.spec("FW-449")
def test_the_pace_is_that_of_the_last_hour_whatever_is_dropped_meanwhile() -> None:
    pace = Pace()
    assert pace.observe(holding(messages=100, size=10_000)) is None
    assert pace.observe(holding(messages=200, size=20_000, minutes=10)) is None, "a burst is no pace"
    # From now on the stream is full: as much goes as comes.
    assert pace.observe(holding(messages=200, size=20_000, first=101, minutes=20)) == pytest.approx(20_000 / 1200)
    for minutes in range(30, 90, 10):
        pace.observe(holding(messages=200, size=20_000, first=101, minutes=minutes))
    assert pace.observe(holding(messages=200, size=20_000, first=101, minutes=90)) == 0


@pytest.mark.spec("FW-449")
def test_the_pace_begins_anew_with_a_stream_that_was_made_anew() -> None:
    pace = Pace()
    pace.observe(holding(messages=1000, size=100_000))
    pace.observe(holding(messages=2000, size=200_000, minutes=30))
    assert pace.observe(holding(messages=10, size=1000, minutes=40)) is None, "of another stream"
    assert pace.observe(holding(messages=20, size=2000, minutes=50)) is None, "a burst is no pace"
    assert pace.observe(holding(messages=30, size=3000, minutes=60)) == pytest.approx(2000 / 1200)


@pytest.mark.spec("FW-449")
@pytest.mark.parametrize(
    ("limits", "pace", "reach"),
    [
        (WEEK, (1 << 30) / (200 * 3600), None),
        (WEEK, (1 << 30) / (50 * 3600), timedelta(hours=50)),
        (WEEK, None, None),
        (WEEK, 0.0, None),
        (WEEK, -1e9, None),
        ({**WEEK, "max_bytes": -1}, 1e9, None),
        ({**WEEK, "max_age": 0}, 1e9, None),
    ],
)
def test_size_that_cuts_before_age_does_is_seen(
    limits: JsonObject, pace: float | None, reach: timedelta | None
) -> None:
    assert shortfall(limits, pace) == reach


@pytest.mark.spec("FW-449")
def test_a_broker_that_does_not_tell_its_clock_is_read_by_the_own_one() -> None:
    before = datetime.now(UTC)
    state = {"messages": 0, "bytes": 0, "first_seq": 1, "last_seq": 0}
    assert before <= Contents.of({"state": state}).now <= datetime.now(UTC)
