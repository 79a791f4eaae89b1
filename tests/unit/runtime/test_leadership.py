"""Terms of leadership end cleanly, whatever ended them."""

import asyncio

import pytest
from support.nats import eventually

from controller_runtime.log.publish.state import SupersededError
from controller_runtime.manager import leadership
from controller_runtime.manager.leadership import AlwaysLeading


@pytest.fixture
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leadership, "_PAUSE", 0.0)


@pytest.mark.usefixtures("_no_pause")
@pytest.mark.spec("FW-407")
async def test_a_superseded_term_is_followed_by_another_one() -> None:
    terms = 0

    async def fail() -> None:
        await asyncio.sleep(0)
        raise SupersededError("somebody else")

    async def term() -> None:
        nonlocal terms
        terms += 1
        # The group fails while it waits for its last member, which leaves a cancellation behind.
        async with asyncio.TaskGroup() as group:
            group.create_task(fail())

    running = asyncio.ensure_future(AlwaysLeading().run(term))
    await eventually(lambda: terms >= 3, "three terms", interval=0)
    assert not running.done()
    running.cancel()
    await asyncio.wait((running,))
    assert running.cancelled()


async def test_other_failures_are_not_hidden() -> None:
    async def term() -> None:
        raise ExceptionGroup("", [SupersededError("somebody else"), ValueError("a bug")])

    with pytest.raises(ExceptionGroup) as failed:
        await AlwaysLeading().run(term)
    assert failed.group_contains(ValueError)
    assert not failed.group_contains(SupersededError)


async def test_stopping_waits_for_the_clean_up_of_the_term() -> None:
    cleaned = asyncio.Event()
    begun = asyncio.Event()

    async def term() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    running = asyncio.ensure_future(AlwaysLeading().run(term))
    await begun.wait()
    running.cancel()
    await asyncio.wait((running,))
    assert cleaned.is_set()
