"""The executor's way into the world: what is there, and what came back from own writes."""

import time
from collections.abc import Callable
from typing import Any

from aim_shared.bus.entry import Change
from aim_shared.bus.part import Key, Part
from aim_shared.bus.world import World
from aim_shared.json import JsonObject
from aim_shared.telemetry.tracing import current_traceparent


class WorldAccess:
    """Reads children from the world and takes own writes into it; parts outside the world count as empty.

    Args:
        dispatch: takes the changes that own writes make, like those of the feed.
        clock: the clock of the world's feed, in seconds.
    """

    def __init__(
        self, world: World, dispatch: Callable[[Change[Any]], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._world = world
        self._dispatch = dispatch
        self._clock = clock
        self._parts = frozenset(part.name for part in world.parts)

    def live(self, part: Part[Any], key: Key) -> JsonObject | None:
        """The object as the world knows it."""
        entry = self._world.get(part, key) if part.name in self._parts else None
        return None if entry is None else entry.raw

    def absorb(self, part: Part[Any], obj: JsonObject) -> None:
        """Take the API server's answer into the world (read your own writes)."""
        if part.name not in self._parts:
            return
        for change in self._world.absorb(part, obj, self._clock(), current_traceparent()):
            self._dispatch(change)
