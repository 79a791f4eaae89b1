"""Who leads: the holder of the Lease ``aim-<service>``, or always this process when elections are off (FW-281)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from aim_shared.bus.connection import raise_if_cancelled
from aim_shared.bus.publisher_state import SupersededError
from aim_shared.kube.lease import LeaderElector
from aim_shared.runtime.failure import leaves

_log = structlog.get_logger(__name__)

FRESH_SECONDS: Final = 10.0
"""A write needs a Lease that was renewed less than this ago (FW-407)."""
_PAUSE: Final = 2.0


class Leadership(Protocol):
    """Whether this process leads."""

    @property
    def leads(self) -> bool: ...

    def may_write(self) -> bool:
        """Whether a write is allowed at this moment (FW-407)."""
        ...

    def guard(self) -> None:
        """Asked by the Kubernetes client right before each write.

        Raises:
            NotLeaderError: `may_write` says no.
        """
        ...

    async def run(self, term: Callable[[], Awaitable[None]]) -> None:
        """Run a term whenever this process leads, until cancelled."""
        ...


class AlwaysLeading:
    """Leadership without elections: for one replica whose platform never runs two at a time."""

    leads = True

    def may_write(self) -> bool:
        return True

    def guard(self) -> None:
        """Never forbids."""

    async def run(self, term: Callable[[], Awaitable[None]]) -> None:
        while True:
            await _superseded(term())
            await asyncio.sleep(_PAUSE)


class Elected:
    """Leadership by Lease."""

    def __init__(self, elector: LeaderElector) -> None:
        self._elector = elector

    @property
    def leads(self) -> bool:
        return self._elector.is_leader

    def may_write(self) -> bool:
        return self._elector.renewed_within(FRESH_SECONDS)

    def guard(self) -> None:
        self._elector.guard()

    async def run(self, term: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._elector.run())
            while True:
                await self._elector.gained()
                if await self._until_lost(term):
                    await self._elector.confirm()
                    # Also when the Lease is ours: two that supersede each other must not do so as fast as they can.
                    await asyncio.sleep(_PAUSE)

    async def _until_lost(self, term: Callable[[], Awaitable[None]]) -> bool:
        lost = asyncio.ensure_future(self._elector.lost())
        serving = asyncio.ensure_future(_superseded(term()))
        try:
            await asyncio.wait((lost, serving), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (lost, serving):
                task.cancel()
            await asyncio.wait((lost, serving))
        return not serving.cancelled() and serving.result()


async def _superseded(term: Awaitable[None]) -> bool:
    """Run a term; whether it ended because another process publishes the same parts."""
    superseded: list[BaseException] = []
    try:
        await term
    except* SupersededError as group:
        superseded.extend(leaves(group))
    # A task group that fails and is cancelled at the same time reports the failure alone.
    raise_if_cancelled()
    if superseded:
        _log.error("another process publishes the same parts; asking the Lease again", why=str(superseded[0]))
    return bool(superseded)
