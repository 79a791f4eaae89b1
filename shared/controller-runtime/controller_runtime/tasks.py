"""Work in a task of its own, so that nothing can end it unseen."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import Any, Never, TypeVar

T = TypeVar("T")


class UnexpectedEndError(Exception):
    """Work that should have gone on ended; only a restart of it helps."""


async def in_own_task(work: Coroutine[Any, Any, T]) -> T:
    """Do the work in a task of its own, which is cancelled with this one, and return what it returns.

    Raises:
        UnexpectedEndError: the work was cancelled, although this task was not.
    """
    task = asyncio.create_task(work)
    try:
        return await task
    except asyncio.CancelledError:
        surrounding = asyncio.current_task()
        if surrounding is not None and surrounding.cancelling():
            raise
        raise UnexpectedEndError("cancelled unexpectedly; this is a bug, and restarting the process recovers") from None


async def run_forever(what: str, work: Coroutine[Any, Any, None]) -> Never:
    """Do work that ends only with this task.

    Raises:
        UnexpectedEndError: it ended by itself. What else it raises passes.
    """
    try:
        await in_own_task(work)
    except UnexpectedEndError as error:
        raise UnexpectedEndError(f"{what}: {error}") from error
    raise UnexpectedEndError(f"{what} ended unexpectedly; this is a bug, and restarting the process recovers")


async def within(seconds: float, waiting: Awaitable[object]) -> bool:
    """Whether something happened in time."""
    try:
        async with asyncio.timeout(seconds):
            await waiting
    except TimeoutError:
        return False
    return True
