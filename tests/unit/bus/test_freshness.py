"""When a part should be fed from the API server, and how old a checkpoint is."""

from datetime import UTC, datetime, timedelta

import pytest

from controller_runtime.log.freshness import BrokerClock, FeedSettings, Link, direct_at

SETTINGS = FeedSettings()
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.spec("FW-401")
@pytest.mark.parametrize(
    ("link", "stale_since", "expected"),
    [
        (Link(up=False, since=100, ever=False), 100, 101),
        (Link(up=False, since=100, ever=True), None, 115),
        (Link(up=False, since=100, ever=True), 50, 80),
        (Link(up=True, since=100, ever=True), None, None),
        (Link(up=True, since=100, ever=True), 120, 150),
        (Link(up=True, since=100, ever=True), 20, 50),
    ],
)
def test_when_to_change_over(link: Link, stale_since: float | None, expected: float | None) -> None:
    assert direct_at(link, stale_since, SETTINGS) == expected


def test_the_age_is_by_the_brokers_clock_whatever_the_own_clock_says() -> None:
    clock = BrokerClock()
    clock.observe(NOON, 1000.0)
    assert clock.age(NOON, 1000.0) == pytest.approx(0)
    assert clock.age(NOON - timedelta(seconds=5), 1002.0) == pytest.approx(7)


def test_a_slow_delivery_does_not_make_anything_younger() -> None:
    clock = BrokerClock()
    clock.observe(NOON, 1000.0)
    clock.observe(NOON - timedelta(seconds=20), 1001.0)
    assert clock.age(NOON, 1010.0) == pytest.approx(10)


def test_a_time_from_the_future_has_no_negative_age() -> None:
    clock = BrokerClock()
    clock.observe(NOON, 1000.0)
    assert clock.age(NOON + timedelta(seconds=5), 1000.0) == 0


def test_another_server_may_have_another_clock() -> None:
    clock = BrokerClock()
    clock.observe(NOON + timedelta(hours=1), 1000.0)
    clock.reset()
    clock.observe(NOON, 1000.0)
    assert clock.age(NOON, 1003.0) == pytest.approx(3)
