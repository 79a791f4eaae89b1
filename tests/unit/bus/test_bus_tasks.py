"""Work in a task of its own."""

import asyncio

import pytest

from controller_runtime.tasks import UnexpectedEndError, in_own_task, run_forever


async def _fail_in_the_exit_of_a_group() -> None:
    async def late() -> None:
        await asyncio.sleep(0)
        raise ValueError("late")

    async with asyncio.TaskGroup() as group:
        group.create_task(late())


async def test_a_failed_group_leaves_the_surrounding_task_as_it_was() -> None:
    with pytest.raises(ExceptionGroup):
        await in_own_task(_fail_in_the_exit_of_a_group())
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def _cancel_itself() -> None:
    raise asyncio.CancelledError


async def test_work_that_nobody_cancelled_never_ends_unseen() -> None:
    with pytest.raises(UnexpectedEndError, match="cancelled unexpectedly"):
        await in_own_task(_cancel_itself())
    with pytest.raises(UnexpectedEndError, match=r"^publish pods: cancelled unexpectedly"):
        await run_forever("publish pods", _cancel_itself())
    with pytest.raises(UnexpectedEndError, match="publish pods ended unexpectedly"):
        await run_forever("publish pods", asyncio.sleep(0))


async def test_the_work_is_cancelled_with_its_surroundings() -> None:
    cancelled = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(run_forever("work", work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled.is_set()
