"""When a source is synced."""

from datetime import UTC, datetime, timedelta

import pytest

from aim_model_sync.schedule import (
    InvalidIntervalError,
    LastSync,
    fraction,
    interval_seconds,
    next_sync,
    start_of_overdue,
    sync_deadline,
)

T0 = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def wait(last: LastSync, interval: float = 3600.0, uid: str = "u") -> float:
    return (next_sync(last, interval, uid) - last.finished).total_seconds()


@pytest.mark.spec("MS-020", "MS-026", "MS-028", "MS-030")
@pytest.mark.parametrize(
    ("text", "seconds"), [("", 3600), ("0", 3600), ("0s", 3600), ("15m", 900), ("2h30m", 9000), ("90s", 90)]
)
def test_intervals(text: str, seconds: float) -> None:
    assert interval_seconds(text) == seconds


@pytest.mark.spec("MS-031", "MS-P25")
@pytest.mark.parametrize("text", ["-1h", "1d", "soon"])
def test_unusable_intervals(text: str) -> None:
    with pytest.raises(InvalidIntervalError, match=text):
        interval_seconds(text)


@pytest.mark.spec("MS-244", "MS-250")
def test_periodic_syncs_spread_over_a_tenth_of_the_interval() -> None:
    waits = {wait(LastSync(T0, 1), uid=str(number)) for number in range(50)}
    assert all(3600 <= one <= 3660 for one in waits)
    assert len(waits) > 40
    assert 100 <= wait(LastSync(T0, 1), 100.0) <= 110


@pytest.mark.spec("MS-254", "MS-P06")
@pytest.mark.parametrize(("attempts", "seconds"), [(1, 30), (2, 60), (3, 120), (5, 480), (6, 900), (5000, 900)])
def test_backoff_doubles_to_a_quarter_of_an_hour(attempts: int, seconds: float) -> None:
    assert seconds * 0.9 <= wait(LastSync(T0, 1, attempts)) <= seconds * 1.1


@pytest.mark.spec("MS-254")
def test_backoff_never_exceeds_the_interval() -> None:
    assert wait(LastSync(T0, 1, 9), 100.0) <= 110


@pytest.mark.spec("MS-257", "MS-S109")
def test_an_announced_wait_is_respected() -> None:
    assert wait(LastSync(T0, 1, 1, retry_after=1200)) == 1200


@pytest.mark.spec("MS-249")
def test_long_overdue_syncs_do_not_start_together() -> None:
    assert start_of_overdue(T0, T0 + timedelta(seconds=5), "u") is None
    late = T0 + timedelta(hours=2)
    starts = {start_of_overdue(T0, late, str(number)) for number in range(30)}
    assert len(starts) == 30
    assert all(start and late <= start <= late + timedelta(seconds=30) for start in starts)


@pytest.mark.spec("MS-149")
def test_deadline_of_a_sync() -> None:
    assert sync_deadline(600, 3600) == 600
    assert sync_deadline(600, 120) == 120
    assert sync_deadline(600, 10) == 60


def test_jitter_is_reproducible() -> None:
    assert fraction("a", 1) == fraction("a", 1) != fraction("a", 2)
