"""Who leads: the holder of the Lease ``aim-<service>``, or always this process when elections are off (FW-281)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, TypeAlias

import structlog

from controller_runtime.bus.publisher_state import SupersededError
from controller_runtime.kube.guard import unguarded
from controller_runtime.kube.lease import LeaderElector
from controller_runtime.manager.failure import leaves

_log = structlog.get_logger(__name__)

_PAUSE: Final = 2.0

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Does the work of a leader until cancelled."""


class Leadership(Protocol):
    """Whether this process leads."""

    @property
    def leads(self) -> bool: ...

    def guard(self) -> float:
        """The `WriteGuard` of everything that a leader writes (FW-407)."""
        ...

    async def run(self, work: Work) -> None:
        """Work whenever this process leads, until cancelled."""
        ...


class AlwaysLeading:
    """Leadership without elections: for one replica whose platform never runs two at a time."""

    leads = True

    def guard(self) -> float:
        return unguarded()

    async def run(self, work: Work) -> None:
        while True:
            await _superseded(work)
            await asyncio.sleep(_PAUSE)


class Elected:
    """Leadership by Lease."""

    def __init__(self, elector: LeaderElector) -> None:
        self._elector = elector

    @property
    def leads(self) -> bool:
        return self._elector.is_leader

    def guard(self) -> float:
        return self._elector.guard()

    async def run(self, work: Work) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._elector.run())
            while True:
                await self._elector.gained()
                if await self._until_lost(work):
                    await self._elector.confirm()
                    # Also when the Lease is ours: two that supersede each other must not do so as fast as they can.
                    await asyncio.sleep(_PAUSE)

    async def _until_lost(self, work: Work) -> bool:
        async with _in_background(self._elector.lost()) as lost:
            return await _superseded(work, lost)


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """A task that has ended, one way or the other, when the block is left."""
    task = asyncio.ensure_future(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def _superseded(work: Work, *until: asyncio.Task[None]) -> bool:
    """Run a term, to its end or until a task ends; whether another process publishes the same parts.

    The term has a task of its own, because a task group that failed while it waited for its last members leaves a
    request for cancellation in its task (up to Python 3.12), and there are more terms to come.
    """
    async with _in_background(work()) as serving:
        await asyncio.wait((serving, *until), return_when=asyncio.FIRST_COMPLETED)
    if serving.cancelled():
        return False
    superseded: list[BaseException] = []
    try:
        serving.result()
    except* SupersededError as group:
        superseded.extend(leaves(group))
    if superseded:
        _log.error("another process publishes the same parts; checking the Lease", why=str(superseded[0]))
    return bool(superseded)
