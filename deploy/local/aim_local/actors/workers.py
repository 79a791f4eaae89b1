"""The framework's work queue, with a handler for its keys: never two at once for the same one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

import structlog

from controller_runtime import Key, KubeError
from controller_runtime.backoff import Backoff
from controller_runtime.reconcile.queue import WorkQueue
from controller_runtime.reconcile.retry_rate import TokenBucket

_log = structlog.get_logger(__name__)
_BACKOFF: Final = Backoff(base=0.5, cap=5.0, jitter=0.1)
_AT_ONCE: Final = 32
"""Keys that one actor handles at a time; were it all, nobody's pods would run before everybody's are made."""

Handler: TypeAlias = Callable[[Key], Awaitable[float | None]]
"""Brings the world of one key in order; returns the seconds after which to look again, if time alone matters."""


@final
class Workers:
    """Calls a handler for every added key."""

    def __init__(self, name: str, handler: Handler) -> None:
        self._name = name
        self._handler = handler
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._queue: WorkQueue[Key] = WorkQueue(backoff=_BACKOFF, rate=lambda: TokenBucket(rate=100, burst=1000))

    def add(self, key: Key) -> None:
        """Handle the key soon; if it is being handled, once more afterwards."""
        self._queue.add(key)

    async def run(self) -> None:
        """Handle keys until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._room.acquire()
                    key = (await self._queue.get()).key
                    group.create_task(self._work(key), name=f"{self._name} {key}")
        finally:
            self._queue.close()

    async def _work(self, key: Key) -> None:
        try:
            again = await self._handler(key)
        except KubeError as error:
            # The object changed or went away under us, or the server is briefly gone: look again with fresh eyes.
            _log.info("attempt failed; retrying", actor=self._name, object=str(key), error=str(error))
            self._queue.retry(key)
        else:
            self._queue.succeeded(key)
            if again is not None:
                self._queue.add_after(key, again)
        finally:
            self._queue.done(key)
            self._room.release()
