"""What a publisher is told of its part: the truth as the watch has it, and the versions that wait to be published."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from controller_runtime.bus.continuity import Continuity
from controller_runtime.bus.freshness import boot_seconds
from controller_runtime.bus.lanes import Lanes
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.source import Source, SourceVersion
from controller_runtime.kube.reflector_state import Delete, Event, ListFrom, Restarted, Upsert

KEPT_WHILE_AWAY: Final = 2_000
"""Versions of a part that wait for a broker that is away; beyond, only the newest of each object is kept (FW-580).

Brokers of three have a new leader within twenty seconds, and nobody is to notice. Packed, this is a megabyte.
"""


class Intake:
    """Takes in events and never waits; outlives the sessions of its publisher.

    Args:
        connected: whether the broker can be reached.
        relist: asks the reflector for a list, which comes as `Restarted`; ``None`` where Kubernetes knows nothing.
        held: whether the stream is known to hold something of an object.
        room: versions that wait for a broker that is away.

    Attributes:
        arrived: set when there may be something to publish.
        relisted: set when a list came that was not compared yet.
        moved: set when the newest version changed.
        doubted: set when somebody found that the stream holds something else than was published.
    """

    def __init__(
        self,
        part: Part[Any],
        connected: Callable[[], bool],
        relist: Callable[[ListFrom], None] | None,
        held: Callable[[Key], bool] = lambda _: True,
        room: int = KEPT_WHILE_AWAY,
    ) -> None:
        self.source = Source(part)
        self.lanes = Lanes()
        self.continuity = Continuity()
        self.arrived = asyncio.Event()
        self.relisted = asyncio.Event()
        self.moved = asyncio.Event()
        self.doubted = asyncio.Event()
        self._connected = connected
        self._relist = relist
        self._held = held
        self._room = room
        self._heard_at = boot_seconds()

    @property
    def silence(self) -> float:
        """Seconds since the watch brought anything."""
        return boot_seconds() - self._heard_at

    @property
    def can_relist(self) -> bool:
        """Whether there is a server to ask for a list."""
        return self._relist is not None

    def take(self, event: Event[SourceVersion]) -> None:
        """Take in an event of the reflector."""
        before = self._before(event)
        version = self.source.take(event)
        self._heard_at = boot_seconds()
        if isinstance(event, Restarted):
            # What follows may follow upon a version that the list folded; the comparison tells, and then it goes out.
            self.lanes.hold()
            self.continuity.listed()
            self.relisted.set()
        self.moved.set()
        if version is not None:
            self.continuity.changed(version.key, before, self.lanes.newest_of(version.key))
            self._enqueue(version)

    def _before(self, event: Event[SourceVersion]) -> SourceVersion | None:
        """What the object of an event was until then."""
        match event:
            case Upsert(version):
                return self.source.present.get(version.key)
            case Delete(obj):
                return self.source.present.get(Key.of(obj))
            case _:
                return None

    def put(self, version: SourceVersion) -> None:
        """Take in a version that no watch brought."""
        self._enqueue(self.source.put(version))

    def remove(self, key: Key, uid: str) -> None:
        """Take in a deletion that no watch brought."""
        self._enqueue(self.source.remove(key, uid, ""))

    def relist(self, source: ListFrom) -> None:
        """Ask for a list; where there is no server to ask, what is known counts as one."""
        if self._relist is not None:
            self._relist(source)
        else:
            self.relisted.set()

    def release(self) -> None:
        """Let versions go out, unless a list has to be compared before."""
        if not self.relisted.is_set():
            self.lanes.release()
        self.arrived.set()

    def shorten(self) -> None:
        """There is no broker: keep no more than what it takes to bridge a change of its leader."""
        if len(self.lanes) > self._room:
            self.lanes.collapse()

    def is_at(self, version: int) -> bool:
        """Whether the watch has reached a version."""
        return int(self.source.version) >= version

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that the watch brings."""
        while not condition():
            self.moved.clear()
            await self.moved.wait()

    def _enqueue(self, version: SourceVersion) -> None:
        crowded = not self._connected() and len(self.lanes) >= self._room
        if crowded and version.deleted and not self._held(version.key) and self.lanes.forget(version.key):
            # Nobody was told of the object, and without a broker there is no end to such. The session that comes finds
            # what the stream holds of it after all, and tells by a new epoch that versions are missing.
            self.continuity.forget(version.key)
            return
        # Then only the newest version of an object is kept; the next one tells that others are missing.
        self.lanes.add(version, latest_only=crowded)
        self.arrived.set()
