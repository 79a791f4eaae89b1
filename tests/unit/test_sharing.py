"""Texts of which there is one copy, and none once nobody holds it."""

import sys

import pytest

from controller_runtime.compact import Texts, shared


def some(number: int) -> str:
    """A text that is equal to another one and not the same, as if it had been read."""
    return "".join(("12345678-", str(number)))


@pytest.mark.spec("FW-498")
def test_those_who_hold_a_text_hold_the_same_one() -> None:
    texts = Texts()
    held = [texts.shared(some(number)) for number in range(10_000)]
    for number in range(10_000, 50_000):
        texts.shared(some(number))
    assert all(texts.shared(some(number)) is one for number, one in enumerate(held))


@pytest.mark.spec("FW-498")
def test_the_table_grows_with_what_is_held_and_not_with_what_was() -> None:
    texts, held, most = Texts(), list[str](), 0
    for number in range(100_000):
        text = texts.shared(some(number))
        if number % 10 == 0 and number < 50_000:
            held.append(text)
        most = max(most, len(texts))
    assert len(held) == 5_000
    assert most <= 2 * (len(held) + 1), "and the one in hand"
    held.clear()
    for number in range(100_000):
        texts.shared(some(number))
    assert len(texts) <= 4_096


@pytest.mark.spec("FW-498")
def test_what_nobody_holds_is_not_kept() -> None:
    before = sys.getallocatedblocks()
    for number in range(20_000):
        shared(some(number))
    assert sys.getallocatedblocks() - before < 5_000


def test_what_is_no_text_of_ours_is_left_to_the_interpreter() -> None:
    """Its own table is never asked to grow: neither code nor attributes are named after objects of a cluster."""
    text = shared(some(7))
    assert sys.intern(some(7)) is not text
