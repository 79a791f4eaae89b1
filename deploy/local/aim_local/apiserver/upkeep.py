"""What time alone brings to an end: former versions, and Events, which the real server stores with a TTL."""

import asyncio
from collections.abc import Callable
from typing import Final

from aim_local.apiserver.resources import Key
from aim_local.apiserver.store import Event, EventType, Store

EVENT_SECONDS: Final = 3600.0
"""How long an Event lives after it was last written: `--event-ttl` of the real server, by default."""
EVENTS_KEPT: Final = 5_000
"""Events that may be there at once; the oldest go first. The real server has a disk instead."""
INTERVAL: Final = 5.0
_EVENTS: Final = "events"


class Upkeep:
    """Ends what is old; `run` does so every few seconds.

    Args:
        store: whose Events and former versions are looked after.
        clock: the wall clock in seconds.
    """

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock
        # In order of the last write, because each write moves its key to the end.
        self._written: dict[Key, float] = {}
        store.observe(self._observe)

    async def run(self) -> None:
        """Look after the store until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL)
            self.look()

    def look(self) -> None:
        """End what is over now."""
        oldest = self._clock() - EVENT_SECONDS
        while self._written:
            key, written = next(iter(self._written.items()))
            if written >= oldest and len(self._written) <= EVENTS_KEPT:
                break
            self._store.remove(_EVENTS, key)
        self._store.trim()

    def _observe(self, storage: str, event: Event) -> None:
        if storage != _EVENTS:
            return
        self._written.pop(event.current.key, None)
        if event.type is not EventType.DELETED:
            self._written[event.current.key] = self._clock()
