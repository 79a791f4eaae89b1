"""The present of the platform as the broker tells it, in the memory of this process (FW-630).

No request to the API server: whatever the five services know of the cluster, this knows from the same streams.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aim_cli.connecting import broker, layout
from aim_cli.parts import PARTS
from aim_cli.refs import JsonObject, Ref
from aim_cli.resources import Resource
from controller_runtime import Key
from controller_runtime.bus.connection import BusConnection
from controller_runtime.bus.entry import Change, Entry
from controller_runtime.bus.feed import WorldFeed
from controller_runtime.bus.history import History
from controller_runtime.bus.subjects import FACTS_PART
from controller_runtime.bus.world import World

SHOWN: Final = tuple(part for part in PARTS if part.name != FACTS_PART)


@dataclass(frozen=True, slots=True)
class PartLine:
    """How much is known of one part.

    Attributes:
        known: whether it was ever complete; of kinds that the cluster does not have it never is.
        age: seconds since its publisher last vouched for it; ``None`` if it never did.
    """

    name: str
    objects: int
    known: bool
    fresh: bool
    age: float | None


class Mirror:
    """What there is, and how often that changed.

    Attributes:
        version: rises with every change.
        lost_at: since when the broker has not answered; ``None`` while it does.
    """

    def __init__(self, connection: BusConnection) -> None:
        self.version = 0
        self.lost_at: datetime | None = None
        self.history = History(connection, layout())
        self._connection = connection
        self._world = World(SHOWN)
        self._feed = WorldFeed(self._world, connection, "console", self._changed, None, layout=layout())
        self._moved = asyncio.Event()
        self._parts = {part.name: part for part in SHOWN}

    def _changed(self, changes: Sequence[Change[Any]]) -> None:
        if changes:
            self._move()

    def _move(self) -> None:
        self.version += 1
        self._moved.set()

    async def run(self) -> None:
        """Follow the broker until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._feed.run())
            group.create_task(self._follow_connection())

    async def _follow_connection(self) -> None:
        while True:
            session = await self._connection.wait_connected()
            self.lost_at = None
            self._move()
            await self._connection.wait_lost(session)
            self.lost_at = datetime.now(UTC)
            self._move()

    async def wait_changed(self, version: int) -> int:
        """Wait until the version is another one; returns it."""
        while self.version == version:
            self._moved.clear()
            await self._moved.wait()
        return self.version

    @property
    def complete(self) -> bool:
        """Whether every part that the services need is known."""
        return all(line.known for line in self.parts if not self._parts[line.name].optional)

    @property
    def parts(self) -> tuple[PartLine, ...]:
        """Each part, by name."""
        lines = (PartLine(one.part, one.objects, one.synced, one.fresh, one.age) for one in self._feed.statistics.parts)
        return tuple(sorted(lines, key=lambda line: line.name))

    @property
    def namespaces(self) -> set[str]:
        """Namespaces with an object of any kind."""
        return {entry.key.namespace for part in SHOWN for entry in self._world.all(part) if entry.key.namespace}

    def holds(self, kind: Resource) -> bool:
        """Whether objects of a kind are published at all."""
        return any(part.kind.resource == kind.resource for part in SHOWN)

    def object(self, ref: Ref) -> JsonObject | None:
        """One object."""
        key = Key(ref.namespace, ref.name)
        for part in SHOWN:
            if part.kind.resource == ref.kind.resource and (entry := self._world.get(part, key)) is not None:
                return _json(entry, ref.kind)
        return None

    def objects(self, kind: Resource) -> Iterable[JsonObject]:
        """All objects of a kind."""
        for part in SHOWN:
            if part.kind.resource == kind.resource:
                yield from (_json(entry, kind) for entry in self._world.all(part))


def _json(entry: Entry[Any], kind: Resource) -> JsonObject:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **entry.raw}


@asynccontextmanager
async def mirror(nats_url: str) -> AsyncIterator[Mirror]:
    """A mirror that follows the broker.

    Raises:
        UnreachableError: the broker does not answer.
    """
    async with broker(nats_url) as connection:
        found = Mirror(connection)
        following = asyncio.ensure_future(found.run())
        try:
            yield found
        finally:
            following.cancel()
            await asyncio.wait((following,))
