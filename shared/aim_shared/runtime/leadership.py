"""Who leads: the holder of the Lease ``aim-<service>``, or always this process when elections are off (FW-281)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog

from aim_shared.bus.publisher_state import SupersededError
from aim_shared.kube.lease import LeaderElector

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

    async def run(self, term: Callable[[], Awaitable[None]]) -> None:
        """Run a term whenever this process leads, until cancelled."""
        ...


class AlwaysLeading:
    """Leadership without elections: for one replica whose platform never runs two at a time."""

    leads = True

    def may_write(self) -> bool:
        return True

    async def run(self, term: Callable[[], Awaitable[None]]) -> None:
        while True:
            if await _superseded(term()):
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

    async def run(self, term: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._elector.run())
            while True:
                await self._elector.gained()
                _log.info("leading")
                superseded = await self._until_lost(term)
                if superseded and not await self._elector.confirm():
                    await asyncio.sleep(_PAUSE)

    async def _until_lost(self, term: Callable[[], Awaitable[None]]) -> bool:
        lost = asyncio.ensure_future(self._elector.lost())
        serving = asyncio.ensure_future(_superseded(term()))
        try:
            await asyncio.wait((lost, serving), return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                return serving.result()
            _log.info("leadership lost")
            return False
        finally:
            for task in (lost, serving):
                task.cancel()
            await asyncio.wait((lost, serving))


async def _superseded(term: Awaitable[None]) -> bool:
    """Run a term; whether it ended because another process publishes the same parts."""
    superseded: list[BaseException] = []
    try:
        await term
    except* SupersededError as group:
        superseded.extend(group.exceptions)
    if superseded:
        _log.error("another process publishes the same parts; asking the Lease again", why=str(superseded[0]))
    return bool(superseded)
