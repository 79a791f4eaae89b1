"""What a reconcile sees: look-ups in the cache, each of them remembered for the decision record.

A look-up never raises. What is found is a value, what is not found is ``None``, and what cannot be known (the
part is stale and the look-up found nothing, or the object cannot be decoded) is an error (FW-004, FW-019).
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from controller_runtime.api.meta import Resource
from controller_runtime.errors import Category, ClassifiedError
from controller_runtime.log.cache.indexes import Admits, Summary, WaitQueue
from controller_runtime.log.cache.store import Cache
from controller_runtime.log.wire.part import (
    Dependency,
    GroupId,
    Index,
    Key,
    Part,
    about_group,
    about_object,
    about_part,
)
from controller_runtime.log.wire.version import Entry, Version

T = TypeVar("T", bound=Resource)
E = TypeVar("E", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Lookup(Generic[T]):
    """Result of a look-up by name: an object, nothing, or the reason why it is not known."""

    value: T | None = None
    error: ClassifiedError | None = None


@dataclass(frozen=True, slots=True)
class Selection(Generic[T]):
    """Result of a look-up of many, sorted by namespace and name; ``error`` only when nothing was found."""

    items: tuple[T, ...] = ()
    error: ClassifiedError | None = None


@dataclass(frozen=True, slots=True)
class Summed(Generic[E]):
    """Result of looking at one group of a summary; ``error`` only when nothing was found."""

    items: tuple[E, ...] = ()
    error: ClassifiedError | None = None


class View(Protocol):
    """What reconcilers read from; live over a `Cache`, or rebuilt from a decision record.

    The asking object is enqueued when the answer changes (FW-500).
    """

    def get(self, part: Part[T], namespace: str | None, name: str) -> Lookup[T]:
        """One object by name; ``namespace`` is ignored (``None`` or empty) for cluster-scoped kinds."""
        ...

    def select(self, index: Index[T], value: str) -> Selection[T]:
        """The objects found under a value of an index."""
        ...

    def all(self, part: Part[T]) -> Selection[T]:
        """Every object of a part. Costs reads in the record: prefer an index."""
        ...

    def summary(self, summary: Summary[Any, E], group: str) -> Summed[E]:
        """What the objects of a part say together (FW-454)."""
        ...

    def first(self, queue: WaitQueue[T], most: int, admits: Admits) -> tuple[T, ...]:
        """Who stands first in a line, in its order, of those that count; at most so many. Never tracked."""
        ...

    @property
    def shard(self) -> int:
        """Index of the shard that the pass belongs to: whose facts it reads (FW-894)."""
        ...

    @property
    def untracked(self) -> "View":
        """The same cache, for look-ups that a declared mapping covers: a change of what they find enqueues nothing."""
        ...

    @property
    def failure(self) -> ClassifiedError | None:
        """The failed write of this object's previous plan, when this pass is to report it (FW-010)."""
        ...

    @property
    def failing_since(self) -> datetime | None:
        """When the first of the passes ended that are being retried without success (FW-094); in memory only."""
        ...


@dataclass(frozen=True, slots=True)
class ObjectRead:
    """One object that a pass read; ``version`` is ``None`` when it was found absent."""

    part: str
    key: Key
    version: Version | None


@dataclass(frozen=True, slots=True)
class IndexRead:
    """One look-up of many; an empty ``index`` stands for all objects of the part."""

    part: str
    index: str
    value: str
    keys: tuple[Key, ...]


@dataclass(slots=True)
class ReadLog:
    """What one pass read, in order and without repetition."""

    objects: dict[tuple[str, Key], ObjectRead] = field(default_factory=dict)
    indexes: dict[tuple[str, str, str], IndexRead] = field(default_factory=dict)
    summaries: dict[GroupId, tuple[BaseModel, ...]] = field(default_factory=dict)
    dependencies: set[Dependency] = field(default_factory=set)
    """Those of which another answer is worth another pass."""
    stale_parts: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    """Parts, not fresh, in which a look-up found nothing; no change tells that there really is nothing."""

    @property
    def parts(self) -> set[str]:
        """Names of the parts that the pass depended on."""
        return {part for part, _ in self.objects} | self.searched_parts

    @property
    def searched_parts(self) -> set[str]:
        """Names of the parts of which every object could have changed what the pass saw."""
        return {part for part, _, _ in (*self.indexes, *self.summaries)}


class CacheView:
    """A `View` over the live cache that remembers what was read."""

    def __init__(
        self,
        cache: Cache,
        failure: ClassifiedError | None = None,
        failing_since: datetime | None = None,
        *,
        shard: int = 0,
        untracked: ReadLog | None = None,
    ) -> None:
        """``untracked``: where to note what is read without being tracked."""
        self.shard = shard
        self._cache = cache
        self._failure = failure
        self._failing_since = failing_since
        self._tracked = untracked is None
        self.reads = ReadLog() if untracked is None else untracked

    @property
    def untracked(self) -> "CacheView":
        return CacheView(self._cache, self._failure, self._failing_since, shard=self.shard, untracked=self.reads)

    @property
    def failure(self) -> ClassifiedError | None:
        return self._failure

    @property
    def failing_since(self) -> datetime | None:
        return self._failing_since

    def get(self, part: Part[T], namespace: str | None, name: str) -> Lookup[T]:
        key = Key((namespace or "") if part.kind.namespaced else "", name)
        entry = self._cache.get(part, key)
        self._note(part, key, entry)
        self._track(about_object(part.name, key))
        return self._lookup(part, key, entry)

    def select(self, index: Index[T], value: str) -> Selection[T]:
        self._track(about_group((index.part.name, index.name, value)))
        return self._selection(index.part, index.name, value, self._cache.select(index, value))

    def all(self, part: Part[T]) -> Selection[T]:
        self._track(about_part(part.name))
        return self._selection(part, "", "", self._cache.all(part))

    def summary(self, summary: Summary[Any, E], group: str) -> Summed[E]:
        items = self._cache.summary(summary, group)
        self._track(about_group(summary.group(group)))
        self.reads.summaries[summary.group(group)] = items
        return Summed(items, self._stale_error(summary.part, group, found=bool(items)))

    def first(self, queue: WaitQueue[T], most: int, admits: Admits) -> tuple[T, ...]:
        found = self._cache.first(queue, most, admits)
        for entry in found:
            self._note(queue.part, entry.key, entry)
        self._stale_error(queue.part, queue.name, found=bool(found))
        keys = tuple(entry.key for entry in found)
        value = first_of(most)
        self.reads.indexes[queue.part.name, queue.name, value] = IndexRead(queue.part.name, queue.name, value, keys)
        return tuple(obj for entry in found if (obj := entry.object) is not None)

    def _track(self, dependency: Dependency) -> None:
        if self._tracked:
            self.reads.dependencies.add(dependency)

    def _stale_error(self, part: Part[Any], what: str, *, found: bool) -> ClassifiedError | None:
        """Remember whether the part is fresh; if it is not and nothing was found, that is no answer."""
        if self._cache.is_fresh(part):
            return None
        self.reads.stale_parts.add(part.name)
        if found:
            return None
        self.reads.unanswered.add(part.name)
        return stale_error(part, what)

    def _note(self, part: Part[Any], key: Key, entry: Entry[Any] | None) -> None:
        self.reads.objects[part.name, key] = ObjectRead(part.name, key, entry.version if entry else None)

    def _lookup(self, part: Part[T], key: Key, entry: Entry[T] | None) -> Lookup[T]:
        error = self._stale_error(part, str(key), found=entry is not None)
        if entry is None:
            return Lookup(error=error)
        decoded = entry.decode()
        return Lookup(error=decoded) if isinstance(decoded, ClassifiedError) else Lookup(decoded)

    def _selection(self, part: Part[T], index: str, value: str, found: list[Entry[T]]) -> Selection[T]:
        found = sorted(found, key=lambda entry: entry.key)
        for entry in found:
            self._note(part, entry.key, entry)
        keys = tuple(entry.key for entry in found)
        self.reads.indexes[part.name, index, value] = IndexRead(part.name, index, value, keys)
        items = tuple(obj for entry in found if (obj := entry.object) is not None)
        return Selection(items, self._stale_error(part, value or "any", found=bool(items)))


def first_of(most: int) -> str:
    """How the record names a look at the head of a line."""
    return f"first {most}"


def stale_error(part: Part[Any], what: str) -> ClassifiedError:
    """The error of a look-up that found nothing in a part that is not fresh (FW-019)."""
    return ClassifiedError(
        Category.INFRASTRUCTURE,
        "ViewStale",
        f"{part.kind.kind} {what} was not found, but the view of {part.name} is stale: "
        "its publisher or the message broker is unavailable; waiting for it",
    )
