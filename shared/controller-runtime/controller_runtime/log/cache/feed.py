"""Feeds a cache from the log, and part by part from the Kubernetes API while the log cannot (FW-400, FW-401)."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import structlog

from controller_runtime.json import JsonObject
from controller_runtime.kube.reflector_state import Bookmark, Delete, Event, ListFrom, Restarted, Upsert
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.cache.projection import Projection, ProjectionStatistics
from controller_runtime.log.cache.store import Cache
from controller_runtime.log.freshness import FeedSettings, Link, Source, boot_seconds, direct_at
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.wire.part import Key, Part
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT, Layout, is_facts, is_facts_of_shard
from controller_runtime.log.wire.version import Change, Entry, Version

_log = structlog.get_logger(__name__)

_SLICE: Final = 100
"""Objects of a list that are taken in one step of the event loop."""


class Watch(Protocol):
    """A list-and-watch; `controller_runtime.kube.reflector.Reflector` is one."""

    def __aiter__(self) -> AsyncIterator[Event[SourceVersion]]: ...

    def relist(self, source: ListFrom) -> None:
        """Ask for another list, which comes as `Restarted`."""
        ...


ReflectorFactory = Callable[[Part[Any]], AbstractAsyncContextManager[Watch]]
"""Opens a list-and-watch of a part's selection, whose form is `controller_runtime.log.publish.source.published`."""


class DirectFeed:
    """One part, fed from the API server. Create, then `run`; cancel to stop.

    A list may be behind what the cache knows already. It is held back then, and the watch followed, until it has caught
    up; if it does not, the store itself is asked, which alone tells whether the cluster went back.
    """

    def __init__(
        self,
        cache: Cache,
        part: Part[Any],
        factory: ReflectorFactory,
        sink: Callable[[Sequence[Change[Any]]], None],
        completed: Callable[[], None],
        *,
        catch_up: float,
        clock: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._part = part
        self._factory = factory
        self._sink = sink
        self._completed = completed
        self._catch_up = catch_up
        self._clock = clock
        self._floor = 0
        self._floor_at_store = 0
        self._watch: Watch | None = None
        self._stage: dict[Key, Entry[Any]] | None = None
        self._epoch, self._store_id = cache.epoch(part), cache.store_id(part)
        self._giving_up: asyncio.TimerHandle | None = None
        self._complete = False
        self._heard_at = clock()
        self._asked_at = float("-inf")

    async def run(self) -> None:
        """Feed until cancelled. What goes wrong with the API server is the reflector's to retry."""
        try:
            async with self._factory(self._part) as self._watch:
                async for event in self._watch:
                    await self._take(event)
                    # A list is the largest thing there is; the next event may be a minute away.
                    del event
        finally:
            self.abandon()

    def silence(self, now: float) -> float | None:
        """Seconds since the watch brought anything, be it a bookmark; ``None`` before the first list was complete.

        A watch whose connection is half open, or whose server stands still, looks exactly like a quiet one.
        """
        return now - self._heard_at if self._complete else None

    def ask_for_list(self, now: float) -> None:
        """Have the API server prove that it still answers, once per `catch_up` seconds."""
        if self._watch is not None and now - self._asked_at >= self._catch_up:
            self._asked_at = now
            _log.warning("watch is silent; listing again", part=self._part.name)
            self._watch.relist(ListFrom.FLOOR)

    def abandon(self) -> None:
        """Do nothing to the cache from now on."""
        self._stage = None
        self._expect_catch_up()

    def _expect_catch_up(self) -> None:
        """Bound the time for which a list is held back."""
        if self._stage is None and self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        elif self._stage is not None and self._giving_up is None:
            self._giving_up = asyncio.get_running_loop().call_later(self._catch_up, self._ask_store)

    async def _take(self, event: Event[SourceVersion]) -> None:
        match event:
            case Restarted(objects, version, rewound, from_store):
                fell = from_store and _number(version) < self._floor_at_store
                await self._restart(objects, rewound=rewound or fell)
            case Upsert(version, _):
                self._upsert(self._entry(version))
            case Delete(obj, resource_version):
                self._delete(obj, resource_version)
            case Bookmark():
                pass
        if self._stage is not None and _number(event.resource_version) >= self._floor:
            self._swap(event.resource_version)
        self._expect_catch_up()
        if self._stage is None:
            # A list that is held back comes from a cache that lags behind, and proves nothing.
            silent = self._clock() - self._heard_at
            self._heard_at = self._clock()
            if silent > self._catch_up:
                self._completed()

    async def _restart(self, objects: Sequence[SourceVersion], *, rewound: bool) -> None:
        if rewound:
            _log.warning("cluster store was restored to an older state; following it", part=self._part.name)
            self._epoch, self._store_id = _new_epoch(), ""
        self._floor_at_store = 0
        # A list that is still held back is outdated.
        self._stage = None
        self._expect_catch_up()
        stage: dict[Key, Entry[Any]] = {}
        for number, found in enumerate(objects):
            entry = self._entry(found)
            self._cache.prepare(entry)
            stage[entry.key] = entry
            # Without this a long list would keep everybody else waiting.
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
        self._stage = stage
        self._floor = 0 if rewound else self._newest_known()

    def _upsert(self, entry: Entry[Any]) -> None:
        if self._stage is not None:
            self._stage[entry.key] = entry
        else:
            self._notify(self._cache.put(entry, self._clock()))

    def _delete(self, obj: JsonObject, resource_version: str) -> None:
        key = Key.of(obj)
        version = Version(str(obj["metadata"].get("uid") or ""), resource_version, None, self._epoch, self._store_id)
        if self._stage is not None:
            self._stage.pop(key, None)
        elif self._complete:
            self._notify(self._cache.delete(self._part, key, version, self._clock()))

    def _ask_store(self) -> None:
        if self._stage is None or self._watch is None:
            return
        _log.warning("list from the API server cache is outdated; listing from its store", part=self._part.name)
        # What is absorbed from now on may be newer than the list from the store.
        self._floor_at_store = self._floor
        self._watch.relist(ListFrom.STORE)

    def _swap(self, version: str) -> None:
        stage, self._stage = self._stage, None
        upto = Version("", version, None, self._epoch, self._store_id)
        changes = self._cache.replace(self._part, stage or {}, self._clock(), upto=upto)
        self._cache.mark(self._part, synced=True, fresh=True, epoch=self._epoch, store_id=self._store_id)
        self._complete = True
        self._heard_at = self._clock()
        self._notify(changes)
        self._completed()

    def _notify(self, changes: Sequence[Change[Any]]) -> None:
        if changes:
            self._sink(changes)

    def _entry(self, found: SourceVersion) -> Entry[Any]:
        version = Version(found.uid, found.resource_version, None, self._epoch, self._store_id)
        return Entry(self._part, found.key, found.held, version, found.traceparent)

    def _newest_known(self) -> int:
        ours = Version("", "", None, self._epoch, self._store_id)
        versions = (entry.version for entry in self._cache.all(self._part))
        return max((_number(v.resource_version) for v in versions if v.compares_with(ours)), default=0)


def _number(resource_version: str) -> int:
    return int(resource_version) if resource_version.isdecimal() else 0


def _new_epoch() -> str:
    return f"direct-{uuid.uuid4().hex[:12]}"


DEFAULT_SETTINGS: Final = FeedSettings()
_IDLE_SECONDS: Final = 5.0
_FORGET_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class PartStatus:
    """How well a part is known, for readiness and metrics.

    Attributes:
        age: seconds since the bus last confirmed the part (its checkpoint); since the watch last showed signs of life,
            when fed directly; ``None`` when neither happened.
        objects: number of objects known.
        foreign: UID of another cluster that publishes the part under the same names; else empty.
    """

    part: str
    source: Source
    synced: bool
    fresh: bool
    age: float | None
    objects: int
    foreign: str = ""


@dataclass(frozen=True, slots=True)
class FeedStatistics:
    """A moment of the feed.

    Attributes:
        switches: how often a part changed over to the API server.
    """

    parts: tuple[PartStatus, ...]
    projection: ProjectionStatistics
    switches: int

    @property
    def direct(self) -> tuple[str, ...]:
        """Names of the parts that are fed from the API server."""
        return tuple(part.part for part in self.parts if part.source is Source.DIRECT)


@dataclass(slots=True)
class _Direct:
    """A part that is fed directly; facts have no feed, they stay in memory (FW-402)."""

    task: asyncio.Task[None] | None
    feed: DirectFeed | None
    since: float

    def age(self, now: float) -> float | None:
        """Seconds since the watch showed signs of life; ``None`` before its list was complete."""
        if self.feed is None:
            return now - self.since
        return self.feed.silence(now)

    def stop(self) -> None:
        if self.task is not None and self.feed is not None:
            self.feed.abandon()
            self.task.cancel()


def _ignored(_: object) -> None:
    pass


class _Listener(NamedTuple):
    contradicted: Callable[[Part[Any]], None]
    freshened: Callable[[set[str]], None]


@dataclass(frozen=True, slots=True, eq=False)
class Confirmation:
    """What a term waits for before it reconciles.

    Attributes:
        own: parts that it publishes itself, which have to be fresh.
        others: parts that another process may publish, which have to be confirmed after ``since``, by the feed's clock.
    """

    own: tuple[Part[Any], ...]
    others: tuple[Part[Any], ...]
    since: float


class CacheFeed:
    """Feeds a cache.

    Args:
        sink: receives changes after they happened, in order; called from the event loop, must not wait.
        reflect: opens a list-and-watch; ``None`` = never ask the API server, the part goes stale (FW-403).
    """

    def __init__(
        self,
        cache: Cache,
        connection: BusConnection,
        service: str,
        sink: Callable[[Sequence[Change[Any]]], None],
        reflect: ReflectorFactory | None,
        *,
        layout: Layout = DEFAULT_LAYOUT,
        settings: FeedSettings = DEFAULT_SETTINGS,
        clock: Callable[[], float] = boot_seconds,
    ) -> None:
        self._cache = cache
        self._connection = connection
        self._sink = sink
        self._reflect = reflect
        self._settings = settings
        self._clock = clock
        self._projection = Projection(
            cache, connection, service, sink, self, layout=layout, settings=settings, clock=clock
        )
        self._link = Link(up=False, since=clock(), ever=False)
        self._direct: dict[str, _Direct] = {}
        self._stale_since: dict[str, float] = {part.name: self._link.since for part in cache.parts}
        self._switches = 0
        self._forgot_at = self._link.since
        self._wakeup = asyncio.Event()
        self._synced = asyncio.Event()
        self._reviewed = asyncio.Event()
        self._awaited: list[Confirmation] = []
        self._fresh: set[str] = set()
        self._listeners: tuple[_Listener, ...] = ()

    # What others ask

    @property
    def statistics(self) -> FeedStatistics:
        """Current numbers."""
        now = self._clock()
        parts = tuple(self._status(part, now) for part in self._cache.parts)
        return FeedStatistics(parts, self._projection.statistics, self._switches)

    @property
    def synced(self) -> bool:
        """Whether every part was complete once; before that no pass may run (FW-019)."""
        return self._synced.is_set()

    async def wait_synced(self) -> None:
        """Wait until every part was complete once."""
        await self._synced.wait()

    async def wait_confirmed(self, publishers: Mapping[str, str], others: Iterable[Part[Any]] = ()) -> None:
        """Wait until certain publishers have confirmed their parts, or these are read from the API server (FW-485).

        What others confirm of these parts counts for nothing, before this call and until it returns.

        Args:
            publishers: source of its publisher, by part; what the cache does not hold is not waited for.
            others: parts that any publisher has to confirm from now on, by which it proves to be alive (FW-893).
        """
        own = tuple(part for part in self._cache.parts if part.name in publishers)
        awaited = Confirmation(own, tuple(part for part in others if part in self._cache.parts), self._clock())
        self._awaited.append(awaited)
        for part in own:
            self._projection.trust_only(part, publishers[part.name])
            if part.name not in self._direct and self._projection.checkpoint_age(part, self._clock()) is None:
                self._cache.mark(part, fresh=False)
        self.wakeup()
        try:
            while self._lacking(awaited):
                self._reviewed.clear()
                await self._reviewed.wait()
        finally:
            self._awaited.remove(awaited)
            for part in own:
                self._projection.trust_any(part)

    def _lacking(self, awaited: Confirmation) -> list[str]:
        """Names of the parts that are not confirmed yet."""
        own = [part.name for part in awaited.own if not self._cache.is_fresh(part)]
        return own + [part.name for part in awaited.others if not self._is_confirmed(part, awaited.since)]

    def _is_confirmed(self, part: Part[Any], since: float) -> bool:
        if not self._cache.is_fresh(part) or part.name in self._direct:
            return self._cache.is_fresh(part)
        age = self._projection.checkpoint_age(part, now := self._clock())
        return age is not None and now - age >= since

    @property
    def awaited(self) -> list[str]:
        """The parts that `wait_confirmed` still waits for."""
        return list(dict.fromkeys(name for one in self._awaited for name in self._lacking(one)))

    @contextmanager
    def listening(
        self,
        contradicted: Callable[[Part[Any]], None] = _ignored,
        freshened: Callable[[set[str]], None] = _ignored,
    ) -> Iterator[None]:
        """Tell what happens to parts until the block is left, from the event loop; others may listen as well.

        Args:
            contradicted: the stream of a part is not what its publisher confirms.
            freshened: the parts of these names were not fresh, and are.
        """
        listener = _Listener(contradicted, freshened)
        self._listeners = (*self._listeners, listener)
        try:
            yield
        finally:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

    def _status(self, part: Part[Any], now: float) -> PartStatus:
        direct = self._direct.get(part.name)
        age = self._projection.checkpoint_age(part, now) if direct is None else direct.age(now)
        return PartStatus(
            part.name,
            Source.BUS if direct is None else Source.DIRECT,
            self._cache.is_synced(part),
            self._cache.is_fresh(part),
            age,
            self._cache.count(part),
            self._projection.foreign_cluster(part),
        )

    # Running

    async def run(self, cluster: str = "") -> None:
        """Feed until cancelled.

        Args:
            cluster: UID of kube-system; what another cluster publishes is left alone. Empty = not checked.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._projection.run(cluster))
            group.create_task(self._follow_link())
            while True:
                wait = self._review(group)
                self._wakeup.clear()
                try:
                    async with asyncio.timeout(wait):
                        await self._wakeup.wait()
                except TimeoutError:
                    pass

    async def _follow_link(self) -> None:
        self._link = Link(up=False, since=self._clock(), ever=False)
        while True:
            session = await self._connection.wait_connected()
            self._link = Link(up=True, since=self._clock(), ever=True)
            self.wakeup()
            await self._connection.wait_lost(session)
            self._link = Link(up=False, since=self._clock(), ever=True)
            self.wakeup()

    def _review(self, group: asyncio.TaskGroup) -> float:
        """Bring every part to where it belongs; returns the seconds until the next look."""
        now = self._clock()
        if now - self._forgot_at >= _FORGET_SECONDS:
            self._forgot_at = now
            self._cache.forget_deleted(now)
        deadlines = [self._review_part(part, now, group) for part in self._cache.parts]
        # The facts of a shard, which may have no leader yet, are waited for by its term (FW-893).
        if all(self._cache.is_synced(part) for part in self._cache.parts if not is_facts_of_shard(part.name)):
            self._synced.set()
        known, self._fresh = self._fresh, {part.name for part in self._cache.parts if self._cache.is_fresh(part)}
        if again := self._fresh - known:
            for listener in self._listeners:
                listener.freshened(again)
        self._reviewed.set()
        return max(0.0, min(deadlines, default=now + _IDLE_SECONDS) - now)

    def _review_part(self, part: Part[Any], now: float, group: asyncio.TaskGroup) -> float:
        """Review one part; returns the clock at which time alone may change something."""
        if (direct := self._direct.get(part.name)) is not None:
            return self._review_direct(part, direct, now)
        age = self._projection.checkpoint_age(part, now)
        lifetime = self._settings.checkpoint_lifetime
        fresh = age is not None and age < lifetime and self._projection.is_attached(part)
        self._cache.mark(part, fresh=fresh)
        if fresh:
            self._stale_since.pop(part.name, None)
        else:
            self._stale_since.setdefault(part.name, now)
        foreign = bool(self._projection.foreign_cluster(part))
        switch_at = direct_at(self._link, self._stale_since.get(part.name), self._settings, foreign=foreign)
        if switch_at is not None and switch_at <= now and self._may_go_direct(part):
            self._go_direct(part, now, group)
            return now + _IDLE_SECONDS
        deadlines = [now + _IDLE_SECONDS]
        if fresh and age is not None:
            deadlines.append(now + lifetime - age)
        if switch_at is not None and switch_at > now:
            deadlines.append(switch_at)
        return min(deadlines)

    def _review_direct(self, part: Part[Any], direct: _Direct, now: float) -> float:
        """A directly fed part is fresh for as long as its watch shows signs of life."""
        silence = None if direct.feed is None else direct.feed.silence(now)
        if direct.feed is None or silence is None:
            return now + _IDLE_SECONDS
        fresh = silence < self._settings.watch_silence
        self._cache.mark(part, fresh=fresh)
        if not fresh:
            direct.feed.ask_for_list(now)
            return now + _IDLE_SECONDS
        return now + min(_IDLE_SECONDS, self._settings.watch_silence - silence)

    def _may_go_direct(self, part: Part[Any]) -> bool:
        return self._reflect is not None or is_facts(part.name)

    def _go_direct(self, part: Part[Any], now: float, group: asyncio.TaskGroup) -> None:
        _log.warning(
            "reading a part from the API server instead of the message broker", part=part.name, broker_up=self._link.up
        )
        self._switches += 1
        self._projection.detach(part)
        if is_facts(part.name) or self._reflect is None:
            # No other process knows the facts: they are what is in memory.
            self._cache.mark(part, synced=True, fresh=True)
            self._direct[part.name] = _Direct(None, None, now)
            return
        # What is known stays unproven until the list is there (FW-019).
        self._cache.mark(part, fresh=False)
        feed = DirectFeed(
            self._cache,
            part,
            self._reflect,
            self._sink,
            self.wakeup,
            catch_up=self._settings.catch_up,
            clock=self._clock,
        )
        self._direct[part.name] = _Direct(group.create_task(feed.run()), feed, now)

    # What the projection tells

    def attach(self, part: Part[Any]) -> None:
        """The bus takes over a part."""
        direct = self._direct.pop(part.name, None)
        if direct is not None:
            direct.stop()
            _log.info("reading a part from the message broker again", part=part.name)

    def contradicted(self, part: Part[Any]) -> None:
        """The versions of a part differ from its publisher's checkpoint."""
        for listener in self._listeners:
            listener.contradicted(part)

    def wakeup(self) -> None:
        """Something about freshness may have changed."""
        self._wakeup.set()
