"""A cache under feed, for tests, and a cluster that it can be fed from directly."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from support.bus_source import Source

from controller_runtime import Cache, Change, Index, JsonObject, Key, Part
from controller_runtime.kube.reflector_state import Event, ListFrom, Restarted, Upsert
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.cache.feed import CacheFeed, FeedStatistics, ReflectorFactory
from controller_runtime.log.freshness import FeedSettings, boot_seconds
from controller_runtime.log.publish.source import SourceVersion, published
from controller_runtime.log.wire.subjects import Layout

QUICK = FeedSettings(
    heartbeat=0.5,
    checkpoint_lifetime=3.0,
    start_grace=0.2,
    outage_grace=0.6,
    stale_grace=0.6,
    catch_up=0.5,
    stream_check=0.5,
    retry=0.1,
    restage=0.3,
)


@dataclass
class Fed:
    """A running feed with the changes that it delivered."""

    cache: Cache
    changes: list[Change[Any]] = field(default_factory=list)
    batches: int = 0

    _feed: CacheFeed | None = None

    @property
    def feed(self) -> CacheFeed:
        assert self._feed is not None
        return self._feed

    def take(self, changes: Sequence[Change[Any]]) -> None:
        self.batches += 1
        self.changes.extend(changes)

    @property
    def statistics(self) -> FeedStatistics:
        return self.feed.statistics

    def content(self, part: Part[Any]) -> dict[Key, JsonObject]:
        return {entry.key: entry.raw for entry in self.cache.all(part)}

    def equals(self, source: Source, part: Part[Any]) -> bool:
        """Whether the cache is fresh and holds exactly what is true."""
        return self.cache.is_fresh(part) and self.content(part) == source.truth


@asynccontextmanager
async def feeding(
    connection: BusConnection,
    layout: Layout,
    parts: Sequence[Part[Any]],
    *,
    indexes: Sequence[Index[Any]] = (),
    reflect: ReflectorFactory | None = None,
    settings: FeedSettings = QUICK,
    service: str = "tester",
    clock: Callable[[], float] = boot_seconds,
    cluster: str = "",
) -> AsyncIterator[Fed]:
    """A feed that runs for as long as the body does."""
    cache = Cache(parts, indexes)
    fed = Fed(cache)
    fed._feed = CacheFeed(cache, connection, service, fed.take, reflect, layout=layout, settings=settings, clock=clock)
    task = asyncio.create_task(fed.feed.run(cluster))
    try:
        yield fed
    finally:
        task.cancel()
        results = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError), results


class Watched:
    """A list-and-watch whose lists a test makes: at once, and whenever another one is asked for."""

    def __init__(self, listing: Callable[[], Restarted[SourceVersion]]) -> None:
        self.asked: list[ListFrom] = []
        self.reported = 0
        self._listing = listing
        self._events: asyncio.Queue[Event[SourceVersion]] = asyncio.Queue()

    def put(self, event: Event[SourceVersion]) -> None:
        """Tell the reader."""
        self.reported += 1
        self._events.put_nowait(event)

    def relist(self, source: ListFrom) -> None:
        """Answer with another list."""
        self.asked.append(source)
        self.put(replace(self._listing(), from_store=source is ListFrom.STORE))

    async def __aiter__(self) -> AsyncIterator[Event[SourceVersion]]:
        while True:
            yield await self._events.get()


class DirectCluster:
    """Answers list-and-watch requests from what a `Source` says is true.

    Attributes:
        reachable: while it is not set, a list waits.
        listed: answer of a list, instead of the truth.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.listed: Restarted[JsonObject] | None = None
        self.opened = 0
        self.open = 0
        self.watches: list[Watched] = []
        self._form: Callable[[JsonObject], SourceVersion]

    def emit(self, event: Event[JsonObject]) -> None:
        """Tell all open watches."""
        for watch in self.watches:
            watch.put(self._formed(event))

    @asynccontextmanager
    async def reflect(self, part: Part[Any]) -> AsyncIterator[Watched]:
        """A `ReflectorFactory`."""
        assert part.name == self.source.part
        self.opened += 1
        self.open += 1
        self._form = published(part)
        watch = Watched(self.listing)
        self.watches.append(watch)
        first = asyncio.create_task(self._list_once_reachable(watch))
        try:
            yield watch
        finally:
            first.cancel()
            self.open -= 1
            self.watches.remove(watch)

    async def _list_once_reachable(self, watch: Watched) -> None:
        await self.reachable.wait()
        watch.put(self.listing())

    def listing(self) -> Restarted[SourceVersion]:
        """A list of what is true now, or what was prepared instead."""
        return self._restarted(self.listed or self.truth())

    def truth(self) -> Restarted[JsonObject]:
        """A list of what is true now."""
        return Restarted(tuple(self.source.truth.values()), self.source.resource_version)

    def _formed(self, event: Event[JsonObject]) -> Event[SourceVersion]:
        match event:
            case Restarted():
                return self._restarted(event)
            case Upsert(obj, version):
                return Upsert(self._form(obj), version)
            case other:
                return other

    def _restarted(self, listed: Restarted[JsonObject]) -> Restarted[SourceVersion]:
        return Restarted(
            tuple(map(self._form, listed.objects)), listed.resource_version, listed.rewound, listed.from_store
        )
