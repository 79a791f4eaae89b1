"""The executor's way into the world: what is there, and what came back from own writes."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from controller_runtime.bus.entry import Change
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.world import World
from controller_runtime.json import JsonObject
from controller_runtime.reconcile.plan import Quota
from controller_runtime.telemetry.tracing import current_traceparent


class WorldAccess:
    """Reads children from the world and takes own writes into it; parts outside the world count as empty.

    Args:
        tell: takes the changes that own writes make, like those of the feed.
        clock: the clock of the world's feed, in seconds.
    """

    def __init__(
        self, world: World, tell: Callable[[Sequence[Change[Any]]], object], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._world = world
        self._tell = tell
        self._clock = clock
        self._parts = frozenset(part.name for part in world.parts)

    def live(self, part: Part[Any], key: Key) -> JsonObject | None:
        """The object as the world knows it."""
        entry = self._world.get(part, key) if part.name in self._parts else None
        return None if entry is None else entry.raw

    def taken(self, quota: Quota) -> int:
        """What the objects that the world knows take of a quota; one that cannot be decoded takes nothing."""
        found = (entry.object for entry in self._world.select(quota.index, quota.value))
        return sum(quota.taken_by(obj) for obj in found if obj is not None)

    def absorb(self, part: Part[Any], obj: JsonObject, *, gone: bool = False) -> None:
        """Take the API server's answer to an own write into the world (read your own writes).

        Args:
            gone: the write removed the object; then only its namespace, name and UID matter.
        """
        if part.name not in self._parts:
            return
        self._tell(self._deleted(part, obj) if gone else self._stored(part, obj))

    def _stored(self, part: Part[Any], obj: JsonObject) -> list[Change[Any]]:
        return self._world.absorb(part, obj, self._clock(), current_traceparent())

    def _deleted(self, part: Part[Any], obj: JsonObject) -> list[Change[Any]]:
        metadata = obj["metadata"]
        key = Key(str(metadata.get("namespace") or ""), str(metadata["name"]))
        return self._world.absorb_deleted(part, key, str(metadata["uid"]), self._clock())
