"""One sequential worker per key, made on demand and gone when idle."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

import structlog

from aim_local.keys import Key
from controller_runtime import KubeError

_log = structlog.get_logger(__name__)
_RETRY_SECONDS: Final = 0.5
_AT_ONCE: Final = 32
"""Keys that one actor handles at a time; were it all, nobody's pods would run before everybody's are made."""

Handler: TypeAlias = Callable[[Key], Awaitable[float | None]]
"""Brings the world of one key in order; returns the seconds after which to look again, if time alone matters."""


@final
class Workers:
    """Calls a handler for every added key, never twice at once for the same one."""

    def __init__(self, name: str, handler: Handler) -> None:
        self._name = name
        self._handler = handler
        self._group: asyncio.TaskGroup | None = None
        self._dirty: set[Key] = set()
        self._running: set[Key] = set()
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._room = asyncio.Semaphore(_AT_ONCE)

    def add(self, key: Key) -> None:
        """Handle the key soon; if it is being handled, once more afterwards."""
        self._dirty.add(key)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if self._group is not None and key not in self._running:
            self._running.add(key)
            self._group.create_task(self._work(key), name=f"{self._name} {key}")

    async def run(self) -> None:
        """Handle keys until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                for key in tuple(self._dirty):
                    self.add(key)
                await asyncio.get_running_loop().create_future()
        finally:
            self._group = None
            for timer in self._timers.values():
                timer.cancel()

    async def _work(self, key: Key) -> None:
        try:
            again: float | None = None
            while key in self._dirty:
                self._dirty.discard(key)
                again = await self._handle(key)
        finally:
            self._running.discard(key)
        if again is not None:
            self._timers[key] = asyncio.get_running_loop().call_later(again, self.add, key)

    async def _handle(self, key: Key) -> float | None:
        try:
            async with self._room:
                return await self._handler(key)
        except KubeError as error:
            # The object changed or went away under us, or the server is briefly gone: look again with fresh eyes.
            _log.info("will try again", actor=self._name, object=str(key), error=str(error))
            return _RETRY_SECONDS
