"""Slots for which namespaces take turns."""

import asyncio

import pytest

from controller_runtime.fair import FairSlots, Turns


@pytest.mark.spec("FW-595")
async def test_a_slot_goes_to_whoever_has_waited_for_the_fewest_others() -> None:
    slots, order = FairSlots(1), list[str]()

    async def hold(lane: str, name: str) -> None:
        async with slots.slot(lane):
            order.append(name)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        for number in range(1_000):
            group.create_task(hold("flood", f"flood-{number}"))
        await asyncio.sleep(0)
        group.create_task(hold("team", "mine"))
    assert order.index("mine") <= 3
    assert order.index("flood-1") < order.index("flood-2")
    assert len(order) == 1_001


@pytest.mark.spec("FW-595")
@pytest.mark.parametrize("handed", [False, True], ids=["while it waits", "as it is handed a slot"])
async def test_who_is_cancelled_keeps_no_slot(handed: bool) -> None:
    slots, first = FairSlots(1), asyncio.Event()

    async def hold(until: asyncio.Event | None = None) -> str:
        async with slots.slot("team"):
            if until is not None:
                await until.wait()
            return "held"

    holder = asyncio.create_task(hold(first))
    await asyncio.sleep(0)
    leaving, staying = asyncio.create_task(hold()), asyncio.create_task(hold())
    await asyncio.sleep(0)
    if handed:
        first.set()
        await holder
    leaving.cancel()
    first.set()
    assert await staying == "held"
    await asyncio.gather(holder, leaving, return_exceptions=True)
    assert await hold() == "held"


@pytest.mark.spec("FW-595")
def test_what_no_longer_counts_costs_its_lane_no_turn() -> None:
    turns: Turns[str] = Turns()
    for lane, item in (("a", "old"), ("a", "new"), ("b", "other")):
        turns.add(lane, item)
    taken = [turns.take(lambda item: item != "old") for _ in range(3)]
    assert taken == ["new", "other", None]
