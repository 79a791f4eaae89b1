"""The in-memory store: versions under one global revision, a bounded window of events, and watchers.

A stored object is never changed: a write stores a new one, so readers and watchers share its JSON. What is kept beyond
the present objects is bounded three ways, as in the real server: events per collection (its watch cache), and age and
bytes of all former versions (the compaction of etcd). The decoded form of an object takes some ten times its JSON; only
those used last have one.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import orjson

from controller_runtime import JsonObject
from embedded_apiserver.resources import Key

WATCHER_BACKLOG: Final = 32 << 20
"""Bytes of objects that a watcher may be behind before the server ends it, as the real server ends a slow one. At least
the bytes of the window, so that a watch from any version in it can begin."""
WARM: Final = 256
"""Decoded objects, and events with encoded lines, that are kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is kept of the past; watches and pages from before answer 410.

    Args:
        events: of each collection.
        seconds: age of a former version. The real server compacts every 5 minutes what is older than that.
        size: bytes of all former versions together.
    """

    events: int = 4_000
    seconds: float = 300.0
    size: int = 32 << 20


class EventType(StrEnum):
    """The type of a watch event."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


class Version:
    """One version of one object; `raw` is its JSON."""

    __slots__ = ("_obj", "_warm", "key", "raw", "revision")

    def __init__(self, key: Key, obj: JsonObject, revision: int, warm: "Warm | None" = None) -> None:
        self.key = key
        self.revision = revision
        self.raw = orjson.dumps(obj)
        self._obj: JsonObject | None = obj
        self._warm = warm
        if warm is not None:
            warm.admit(self)

    @property
    def obj(self) -> JsonObject:
        """The decoded object, which must not be changed."""
        if self._obj is None:
            self._obj = self.copy()
            if self._warm is not None:
                self._warm.admit(self)
        return self._obj

    @property
    def decoded(self) -> bool:
        """Whether the decoded form is in memory."""
        return self._obj is not None

    def copy(self) -> JsonObject:
        """A deep copy that the caller may change."""
        decoded: JsonObject = orjson.loads(self.raw)
        return decoded

    def cool(self) -> None:
        """Keep the JSON alone."""
        self._obj = None

    @property
    def uid(self) -> str:
        """The object's UID."""
        return str(self.obj["metadata"]["uid"])


class Event:
    """A change of one object; lines that watchers send are encoded once while the event is young."""

    __slots__ = ("_cold", "_departed", "_lines", "current", "previous", "time", "type")

    def __init__(self, kind: EventType, current: Version, previous: Version | None, time: float) -> None:
        self.type = kind
        self.current = current
        self.previous = previous
        self.time = time
        self._lines: dict[EventType, bytes] = {}
        self._departed: Version | None = None
        self._cold = False

    @property
    def size(self) -> int:
        """Bytes of the former versions that only this event keeps."""
        previous = 0 if self.previous is None else len(self.previous.raw)
        return previous + (len(self.current.raw) if self.type is EventType.DELETED else 0)

    def departed(self) -> Version:
        """What a watcher sees when the object leaves its selection: the old content with the new revision."""
        if self._departed is not None:
            return self._departed
        assert self.previous is not None
        obj = with_revision(self.previous.obj, self.current.revision)
        departed = Version(self.current.key, obj, self.current.revision)
        if not self._cold:
            self._departed = departed
        return departed

    def line(self, kind: EventType, version: Version) -> bytes:
        """The watch line of a type; `version` must be the one that goes with that type in this event."""
        line = self._lines.get(kind)
        if line is None:
            line = b'{"type":"' + kind.encode() + b'","object":' + version.raw + b"}\n"
            if not self._cold:
                self._lines[kind] = line
        return line

    def cool(self) -> None:
        """Keep the versions alone; from now on who is late has its lines made for it."""
        self._cold = True
        self._lines.clear()
        self._departed = None


class Warm:
    """The versions and events with decoded or encoded forms; cools what has been among them the longest."""

    def __init__(self) -> None:
        self._members: deque[Version | Event] = deque()

    def __len__(self) -> int:
        return len(self._members)

    def admit(self, member: Version | Event) -> None:
        """Take one that just got such a form."""
        self._members.append(member)
        if len(self._members) > WARM:
            self._members.popleft().cool()


class Watcher:
    """A queue of events of one collection; ended by `close`, or by the server when it falls behind too far."""

    def __init__(self, namespace: str) -> None:
        self.namespace: Final = namespace
        self.closed = False
        self._pending: deque[Event] = deque()
        self._size = 0
        self._wake = asyncio.Event()

    def offer(self, event: Event) -> None:
        """Take an event if it is of the watched namespace."""
        if self.namespace and event.current.key[0] != self.namespace:
            return
        self._pending.append(event)
        self._size += len(event.current.raw)
        if self._size > WATCHER_BACKLOG:
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
        self._size = 0
        return events


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """What is in memory: objects and former versions, in numbers and bytes of JSON."""

    objects: int
    object_bytes: int
    events: int
    event_bytes: int


class Collection:
    """The objects of one storage with their recent events."""

    def __init__(self, window: int) -> None:
        self.objects: dict[Key, Version] = {}
        self.events: deque[Event] = deque()
        self.size = 0
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
        self.size += event.size
        if len(self.events) > self._window:
            self.drop_oldest()
        for watcher in self.watchers:
            watcher.offer(event)

    def drop_oldest(self) -> int:
        """Drop the oldest event; returns the bytes that were kept for it."""
        event = self.events.popleft()
        self.floor = event.current.revision
        self.size -= event.size
        return event.size

    def memory(self) -> MemoryUse:
        """What this collection has in memory."""
        objects = sum(len(version.raw) for version in self.objects.values())
        return MemoryUse(len(self.objects), objects, len(self.events), self.size)

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
        if not (later := self.since(revision)):
            # The next page of a quiet kind.
            return {key: self.objects[key] for key in self.ordered()}
        past = dict(self.objects)
        for event in reversed(later):
            if event.previous is None:
                past.pop(event.current.key, None)
            else:
                past[event.current.key] = event.previous
        return dict(sorted(past.items()))

    def forget(self, revision: int) -> None:
        """Drop all events up to a revision: reads of older versions answer 410 from now on."""
        while self.events and self.events[0].current.revision <= revision:
            self.drop_oldest()
        self.floor = max(self.floor, revision)


class Store:
    """All collections under one revision counter.

    Args:
        limits: what is kept of the past.
        clock: the wall clock in seconds; former versions age by it.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self.revision = 1
        self._limits = limits
        self._clock = clock
        self._warm = Warm()
        self._collections: dict[str, Collection] = {}
        self._observers: list[Callable[[str, Event], None]] = []

    def collection(self, storage: str) -> Collection:
        """The collection of a storage, made when first asked for."""
        found = self._collections.get(storage)
        if found is None:
            found = self._collections[storage] = Collection(self._limits.events)
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
        version = Version(key, obj, self.revision, self._warm)
        kind = EventType.ADDED if previous is None else EventType.MODIFIED
        self._publish(storage, collection, kind, version, previous)
        return version

    def remove(self, storage: str, key: Key) -> Version:
        """Remove an object; returns its last content with the revision of the removal."""
        collection = self.collection(storage)
        previous = collection.objects[key]
        self.revision += 1
        last = Version(key, with_revision(previous.obj, self.revision), self.revision, self._warm)
        self._publish(storage, collection, EventType.DELETED, last, previous)
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

    def trim(self) -> None:
        """Forget what is too old or, with all collections together, too much; called now and then and at each write."""
        oldest_time = self._clock() - self._limits.seconds
        size = sum(collection.size for collection in self._collections.values())
        while True:
            oldest = min(filter(_has_events, self._collections.values()), key=_first_revision, default=None)
            if oldest is None or (size <= self._limits.size and oldest.events[0].time >= oldest_time):
                return
            size -= oldest.drop_oldest()

    def memory(self) -> dict[str, MemoryUse]:
        """What is in memory, by storage."""
        return {name: collection.memory() for name, collection in sorted(self._collections.items())}

    def _publish(
        self, storage: str, collection: Collection, kind: EventType, version: Version, previous: Version | None
    ) -> None:
        event = Event(kind, version, previous, self._clock())
        self._warm.admit(event)
        collection.record(event)
        self.trim()
        for observer in self._observers:
            observer(storage, event)


def _has_events(collection: Collection) -> bool:
    return bool(collection.events)


def _first_revision(collection: Collection) -> int:
    return collection.events[0].current.revision


def with_revision(obj: JsonObject, revision: int) -> JsonObject:
    """`obj` with another resourceVersion; everything else is shared with it."""
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": str(revision)}}
