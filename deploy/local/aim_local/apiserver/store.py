"""The in-memory store: versions, one global revision, a bounded window of events per collection, and watchers.

A stored object is never changed: a write stores a new one. So every reader and watcher shares the same decoded
object and the same encoded bytes, which are made once per version.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final

import orjson

from aim_local.apiserver.resources import Key
from aim_shared.json import JsonObject

WATCHER_BACKLOG: Final = 50_000
"""Events that a watcher may be behind before the server ends it, as the real server ends a slow one."""


class EventType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class Version:
    """One version of one object; `raw` is its JSON."""

    __slots__ = ("key", "obj", "raw", "revision")

    def __init__(self, key: Key, obj: JsonObject, revision: int) -> None:
        self.key = key
        self.obj = obj
        self.revision = revision
        self.raw = orjson.dumps(obj)

    def copy(self) -> JsonObject:
        """A deep copy that the caller may change."""
        decoded: JsonObject = orjson.loads(self.raw)
        return decoded

    @property
    def uid(self) -> str:
        """The object's UID."""
        return str(self.obj["metadata"]["uid"])


class Event:
    """A change of one object; lines that watchers send are encoded once and kept."""

    __slots__ = ("_departed", "_lines", "current", "previous", "type")

    def __init__(self, kind: EventType, current: Version, previous: Version | None) -> None:
        self.type = kind
        self.current = current
        self.previous = previous
        self._lines: dict[EventType, bytes] = {}
        self._departed: Version | None = None

    def departed(self) -> Version:
        """What a watcher sees when the object leaves its selection: the old content with the new revision."""
        if self._departed is None:
            assert self.previous is not None
            obj = with_revision(self.previous.obj, self.current.revision)
            self._departed = Version(self.current.key, obj, self.current.revision)
        return self._departed

    def line(self, kind: EventType, version: Version) -> bytes:
        """The watch line of a type; `version` must be the one that goes with that type in this event."""
        line = self._lines.get(kind)
        if line is None:
            line = self._lines[kind] = b'{"type":"' + kind.encode() + b'","object":' + version.raw + b"}\n"
        return line


class Watcher:
    """A queue of events of one collection; ended by `close`, or by the server when it falls behind too far."""

    def __init__(self, namespace: str) -> None:
        self.namespace: Final = namespace
        self.closed = False
        self._pending: deque[Event] = deque()
        self._wake = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Take an event if it is of the watched namespace."""
        if self.namespace and event.current.key[0] != self.namespace:
            return
        self._pending.append(event)
        if len(self._pending) > WATCHER_BACKLOG:
            self._pending.clear()
            self.closed = True
        self._wake.set()

    def preload(self, events: Iterable[Event]) -> None:
        """Take the events that happened before the watcher was made."""
        for event in events:
            self.offer(event)

    def close(self) -> None:
        """End the watch; its reader sees that at once."""
        self.closed = True
        self._wake.set()

    async def wait(self) -> None:
        """Wait until there are events to take or the watcher was closed."""
        await self._wake.wait()

    def take(self) -> list[Event]:
        """The events since the last call."""
        self._wake.clear()
        events = list(self._pending)
        self._pending.clear()
        return events


class Collection:
    """The objects of one storage with their recent events."""

    def __init__(self, window: int) -> None:
        self.objects: dict[Key, Version] = {}
        self.events: deque[Event] = deque()
        self.watchers: set[Watcher] = set()
        self.floor = 0
        self._window = window
        self._order: list[Key] | None = None

    def ordered(self) -> list[Key]:
        """All keys in the order of the real store; sorted again only when keys came or went."""
        if self._order is None:
            self._order = sorted(self.objects)
        return self._order

    def record(self, event: Event) -> None:
        """Apply an event to the objects and pass it to the watchers."""
        key = event.current.key
        if event.type is EventType.DELETED:
            del self.objects[key]
        else:
            self.objects[key] = event.current
        if event.type is not EventType.MODIFIED:
            self._order = None
        self.events.append(event)
        while len(self.events) > self._window:
            self.floor = self.events.popleft().current.revision
        for watcher in self.watchers:
            watcher.offer(event)

    def since(self, revision: int) -> list[Event]:
        """The events after a revision that is not below the floor."""
        found: list[Event] = []
        for event in reversed(self.events):
            if event.current.revision <= revision:
                break
            found.append(event)
        found.reverse()
        return found

    def at(self, revision: int) -> dict[Key, Version]:
        """The objects as they were at a revision that is not below the floor, in key order."""
        past = dict(self.objects)
        for event in reversed(self.since(revision)):
            if event.previous is None:
                past.pop(event.current.key, None)
            else:
                past[event.current.key] = event.previous
        return dict(sorted(past.items()))

    def forget(self, revision: int) -> None:
        """Drop all events up to a revision: reads of older versions answer 410 from now on."""
        while self.events and self.events[0].current.revision <= revision:
            self.events.popleft()
        self.floor = max(self.floor, revision)


class Store:
    """All collections under one revision counter, with indexes for the garbage collector."""

    def __init__(self, *, window: int) -> None:
        self.revision = 1
        self._window = window
        self._collections: dict[str, Collection] = {}
        self._observers: list[Callable[[str, Event], None]] = []

    def collection(self, storage: str) -> Collection:
        """The collection of a storage, made when first asked for."""
        found = self._collections.get(storage)
        if found is None:
            found = self._collections[storage] = Collection(self._window)
        return found

    def storages(self) -> list[str]:
        """The names of all collections that exist."""
        return list(self._collections)

    def observe(self, observer: Callable[[str, Event], None]) -> None:
        """Call `observer` with the storage and the event of every change, inside the write."""
        self._observers.append(observer)

    def get(self, storage: str, key: Key) -> Version | None:
        """The present version of an object."""
        return self.collection(storage).objects.get(key)

    def put(self, storage: str, key: Key, obj: JsonObject) -> Version:
        """Store `obj`, which the caller gives away; its resourceVersion is set here."""
        collection = self.collection(storage)
        previous = collection.objects.get(key)
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        version = Version(key, obj, self.revision)
        kind = EventType.ADDED if previous is None else EventType.MODIFIED
        self._publish(storage, collection, Event(kind, version, previous))
        return version

    def remove(self, storage: str, key: Key) -> Version:
        """Remove an object; returns its last content with the revision of the removal."""
        collection = self.collection(storage)
        previous = collection.objects[key]
        self.revision += 1
        last = Version(key, with_revision(previous.obj, self.revision), self.revision)
        self._publish(storage, collection, Event(EventType.DELETED, last, previous))
        return last

    def compact(self) -> None:
        """Forget the events of all collections, as an etcd compaction does."""
        for collection in self._collections.values():
            collection.forget(self.revision)

    def close_watchers(self, storage: str | None = None) -> None:
        """End the watches of one storage, or all."""
        for name, collection in self._collections.items():
            if storage in (None, name):
                for watcher in list(collection.watchers):
                    watcher.close()

    def _publish(self, storage: str, collection: Collection, event: Event) -> None:
        collection.record(event)
        for observer in self._observers:
            observer(storage, event)


def with_revision(obj: JsonObject, revision: int) -> JsonObject:
    """`obj` with another resourceVersion; everything else is shared with it."""
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": str(revision)}}
