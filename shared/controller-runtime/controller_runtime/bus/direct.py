"""Feeds a part of a world straight from the Kubernetes API, while the bus cannot (FW-400, FW-401).

The same reflector, trimming and merge rules as the publisher's, another sink: into the same world, so that what did
not change causes no change. Objects keep the epoch that the part was in, and compare by resource version with what
came over the bus; a server that went back in time (a restored store) starts an epoch of its own.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol

import structlog

from controller_runtime.bus.entry import Change, Entry, Version
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.source import SourceVersion
from controller_runtime.bus.world import World
from controller_runtime.json import JsonObject
from controller_runtime.kube.reflector_state import Bookmark, Delete, Event, ListFrom, Restarted, Upsert

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
"""Opens a list-and-watch of a part's selection, whose form is `controller_runtime.bus.source.published`."""


class DirectFeed:
    """One part, fed from the API server. Create, then `run`; cancel to stop.

    A list may be behind what the world knows already. It is held back then, and the watch followed, until it has caught
    up; if it does not, the store itself is asked, which alone tells whether the cluster went back.
    """

    def __init__(
        self,
        world: World,
        part: Part[Any],
        factory: ReflectorFactory,
        sink: Callable[[Sequence[Change[Any]]], None],
        completed: Callable[[], None],
        *,
        catch_up: float,
        clock: Callable[[], float],
    ) -> None:
        self._world = world
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
        self._epoch, self._era = world.epoch(part), world.era(part)
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
        """Do nothing to the world from now on."""
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
            self._epoch, self._era = _new_epoch(), ""
        self._floor_at_store = 0
        # A list that is still held back is outdated.
        self._stage = None
        self._expect_catch_up()
        stage: dict[Key, Entry[Any]] = {}
        for number, found in enumerate(objects):
            entry = self._entry(found)
            self._world.prepare(entry)
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
            self._tell(self._world.put(entry, self._clock()))

    def _delete(self, obj: JsonObject, resource_version: str) -> None:
        key = Key.of(obj)
        version = Version(str(obj["metadata"].get("uid") or ""), resource_version, None, self._epoch, self._era)
        if self._stage is not None:
            self._stage.pop(key, None)
        elif self._complete:
            self._tell(self._world.delete(self._part, key, version, self._clock()))

    def _ask_store(self) -> None:
        if self._stage is None or self._watch is None:
            return
        _log.warning("list from the API server cache is outdated; listing from its store", part=self._part.name)
        # What is absorbed from now on may be newer than the list from the store.
        self._floor_at_store = self._floor
        self._watch.relist(ListFrom.STORE)

    def _swap(self, version: str) -> None:
        stage, self._stage = self._stage, None
        upto = Version("", version, None, self._epoch, self._era)
        changes = self._world.replace(self._part, stage or {}, self._clock(), upto=upto)
        self._world.mark(self._part, synced=True, fresh=True, epoch=self._epoch, era=self._era)
        self._complete = True
        self._heard_at = self._clock()
        self._tell(changes)
        self._completed()

    def _tell(self, changes: Sequence[Change[Any]]) -> None:
        if changes:
            self._sink(changes)

    def _entry(self, found: SourceVersion) -> Entry[Any]:
        version = Version(found.uid, found.resource_version, None, self._epoch, self._era)
        return Entry(self._part, found.key, found.held, version, found.traceparent)

    def _newest_known(self) -> int:
        ours = Version("", "", None, self._epoch, self._era)
        versions = (entry.version for entry in self._world.all(self._part))
        return max((_number(v.resource_version) for v in versions if v.compares_with(ours)), default=0)


def _number(resource_version: str) -> int:
    return int(resource_version) if resource_version.isdecimal() else 0


def _new_epoch() -> str:
    return f"direct-{uuid.uuid4().hex[:12]}"
