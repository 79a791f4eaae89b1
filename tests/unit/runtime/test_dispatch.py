"""Changes are told in order, many at once piece by piece, and none to those who no longer listen."""

import asyncio
from typing import Any

import pytest
from support.cache_objects import entry_of, widget, widgets

from controller_runtime import Change
from controller_runtime.reconcile.enqueue import Dispatcher

PART = widgets()


def changes(first: int, count: int) -> list[Change[Any]]:
    entries = [entry_of(PART, widget(f"w{number}"), number) for number in range(first, first + count)]
    return [Change(PART, entry.key, None, entry) for entry in entries]


async def reported_all(dispatcher: Dispatcher) -> None:
    for _ in range(100):
        await asyncio.sleep(0)
    assert not dispatcher._unreported


def names(reported: list[Change[Any]]) -> list[str]:
    return [change.key.name for change in reported]


@pytest.mark.spec("FW-461")
async def test_others_run_while_thousands_of_changes_are_reported() -> None:
    dispatcher, reported, at_turn = Dispatcher(), list[Change[Any]](), list[int]()
    with dispatcher.listening(reported.append):
        dispatcher(changes(0, 1000))
        while len(reported) < 1000:
            assert len(at_turn) < 1000
            at_turn.append(len(reported))
            await asyncio.sleep(0)
    assert len(at_turn) >= 9
    assert names(reported) == [f"w{number}" for number in range(1000)]


async def test_what_comes_meanwhile_is_reported_behind() -> None:
    dispatcher, reported = Dispatcher(), list[Change[Any]]()

    def listen(change: Change[Any]) -> None:
        reported.append(change)
        if change.key.name == "w0":
            dispatcher(changes(1000, 1))

    with dispatcher.listening(listen):
        dispatcher(changes(0, 300))
        dispatcher(changes(2000, 1))
        await reported_all(dispatcher)
    assert names(reported) == [*(f"w{number}" for number in range(300)), "w1000", "w2000"]


@pytest.mark.spec("FW-432")
async def test_a_few_changes_are_reported_at_once_and_a_listener_that_stumbles_stops_nobody() -> None:
    dispatcher, reported = Dispatcher(), list[Change[Any]]()

    def stumble(_: Change[Any]) -> None:
        raise ValueError("not foreseen")

    with dispatcher.listening(stumble, reported.append):
        dispatcher(changes(0, 3))
    assert names(reported) == ["w0", "w1", "w2"]
    assert dispatcher.failed == {"widgets": 3}


async def test_who_listens_no_longer_is_reported_nothing() -> None:
    dispatcher, former, later = Dispatcher(), list[Change[Any]](), list[Change[Any]]()
    with dispatcher.listening(former.append):
        dispatcher(changes(0, 300))
    dispatcher(changes(300, 1))
    with dispatcher.listening(later.append):
        dispatcher(changes(400, 1))
        await reported_all(dispatcher)
    assert len(former) < 300
    assert names(later) == ["w400"]


@pytest.mark.spec("FW-890")
async def test_the_end_of_one_term_takes_no_change_from_another() -> None:
    dispatcher, stays, goes = Dispatcher(), list[Change[Any]](), list[Change[Any]]()
    with dispatcher.listening(stays.append):
        with dispatcher.listening(goes.append):
            dispatcher(changes(0, 300))
        await reported_all(dispatcher)
    assert names(stays) == [f"w{number}" for number in range(300)]
    assert len(goes) < 300
