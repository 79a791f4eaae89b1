"""Whatever happens in whatever order: no key is lost, none is in two hands."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.virtual_clock import VirtualClock

from controller_runtime.reconcile.queue import Priority, WorkQueue

KEYS = st.sampled_from("abc")
Action = Callable[["Model"], Awaitable[None]]


class Model:
    """A queue, and what is true of it: keys that are owed a pass, now or later, and keys in a worker's hands."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.queue: WorkQueue[str] = WorkQueue(self.clock)
        self.owed: set[str] = set()
        self.due: dict[str, float] = {}
        self.held: set[str] = set()

    async def add(self, key: str, priority: Priority) -> None:
        self.owed.add(key)
        self.queue.add(key, priority)

    async def later(self, key: str, seconds: int) -> None:
        self.queue.add_after(key, seconds)
        self._expect(key, seconds)

    async def retry(self, key: str) -> None:
        self._expect(key, self.queue.retry(key, within=5))

    async def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        fired = {key for key, when in self.due.items() if when <= self.clock.now}
        self.owed |= fired
        self.due = {key: when for key, when in self.due.items() if key not in fired}

    async def take(self) -> str | None:
        try:
            async with asyncio.timeout(0):
                taken = await self.queue.get()
        except TimeoutError:
            assert self.owed <= self.held, "a key that is ready was not handed out"
            return None
        assert taken.key not in self.held, "two workers have one key"
        self.held.add(taken.key)
        self.owed.remove(taken.key)
        self.due.pop(taken.key, None)
        return taken.key

    async def done(self, key: str) -> None:
        if key in self.held:
            self.held.remove(key)
            self.queue.done(key)

    async def settle(self) -> None:
        """Let every worker finish and every timer run; then nothing may be owed."""
        for key in list(self.held):
            await self.done(key)
        await self.wait(60)
        while await self.take() is not None:
            pass
        assert not self.owed

    def _expect(self, key: str, seconds: float) -> None:
        self.due[key] = min(self.due.get(key, self.clock.now + seconds), self.clock.now + seconds)


async def _take(model: Model) -> None:
    await model.take()


def _add(key: str, priority: Priority) -> Action:
    return lambda model: model.add(key, priority)


def _later(key: str, seconds: int) -> Action:
    return lambda model: model.later(key, seconds)


def _retry(key: str) -> Action:
    return lambda model: model.retry(key)


def _done(key: str) -> Action:
    return lambda model: model.done(key)


def _wait(seconds: int) -> Action:
    return lambda model: model.wait(seconds)


ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(_add, KEYS, st.sampled_from(list(Priority))),
    st.builds(_later, KEYS, st.integers(1, 5)),
    st.builds(_retry, KEYS),
    st.builds(_done, KEYS),
    st.builds(_wait, st.integers(1, 5)),
    st.just(_take),
)


async def play(actions: list[Action]) -> None:
    model = Model()
    for action in actions:
        await action(model)
    await model.settle()


@pytest.mark.spec("FW-015")
@given(st.lists(ACTIONS, max_size=30))
@settings(max_examples=60)
def test_no_key_is_lost_and_none_is_in_two_hands(actions: list[Action]) -> None:
    asyncio.run(play(actions))
