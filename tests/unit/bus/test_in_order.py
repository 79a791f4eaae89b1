"""What the broker numbered is handed on by number, once each, however it comes (FW-540)."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.log.broker.reading import DeliveryLostError, DeliveryPosition, InOrder


@dataclass(frozen=True)
class One:
    position: DeliveryPosition


def one(number: int, stream: int | None = None) -> One:
    return One(
        DeliveryPosition(stream_sequence=stream or 10 * number, consumer_sequence=number, nanoseconds=0, pending=0)
    )


def taken(order: InOrder[One], *numbers: int) -> list[int]:
    return [each.position.consumer_sequence for number in numbers for each in order.take(one(number))]


@pytest.mark.spec("FW-540")
@given(st.lists(st.integers(1, 3), min_size=1, max_size=60), st.randoms(use_true_random=False))
def test_any_order_and_any_number_of_copies(copies: list[int], chance: random.Random) -> None:
    numbers = [number for number, times in enumerate(copies, 1) for _ in range(times)]
    chance.shuffle(numbers)
    order = InOrder[One]()
    assert taken(order, *numbers) == list(range(1, len(copies) + 1))
    assert order.missing == ""


@pytest.mark.spec("FW-540")
def test_what_is_missing_is_named_until_it_comes() -> None:
    order = InOrder[One]()
    assert taken(order, 1, 3, 4) == [1]
    assert order.missing == "delivery 3 came after 1: messages were lost"
    assert taken(order, 2) == [2, 3, 4]
    assert order.missing == ""
    order.report(5)
    order.report(3)
    assert order.missing == "the broker delivered 5 messages, 4 arrived"
    assert taken(order, 5) == [5]
    assert order.missing == ""


@pytest.mark.spec("FW-540")
def test_what_waits_is_bounded() -> None:
    order = InOrder[One]()
    assert taken(order, *range(2, 514)) == []
    with pytest.raises(DeliveryLostError, match="delivery 2 came after 0"):
        order.take(one(514))


@pytest.mark.parametrize(("number", "stream"), [(3, 20), (3, 15), (2, 21)])
def test_a_position_that_does_not_fit_is_of_another_stream(number: int, stream: int) -> None:
    order = InOrder[One]()
    taken(order, 1, 2)
    with pytest.raises(DeliveryLostError, match="not the same stream"):
        order.take(one(number, stream))
