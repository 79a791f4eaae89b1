"""What a cache keeps in step with its objects: indexes, summaries of a part, and wait queues."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel

from controller_runtime.api.meta import Resource
from controller_runtime.compact import shared
from controller_runtime.log.wire.part import Depth, GroupId, Index, Key, Part

D = TypeVar("D")

Values: TypeAlias = str | tuple[str, ...]
"""Under what an object is found: its one value, or all of them."""


class Table(Protocol[D]):
    """Something that is derived from the objects of a part. What it makes of an object is kept with the object, so
    that the table can take it out again without a second look. Its name is for people."""

    @property
    def depth(self) -> Depth:
        """How far it looks into the objects."""
        ...

    def derived(self, obj: Resource | None) -> D:
        """Pure: what becomes of an object; of one that cannot be decoded the same as of none."""
        ...

    def move(self, key: Key, before: D, now: D) -> Iterable[GroupId]:
        """Exchange what a key stands for; returns the values and groups under which something else is found now."""
        ...


class IndexTable:
    """Which keys are found under which value."""

    def __init__(self, index: Index[Any]) -> None:
        self._index = index
        self.depth = index.depth
        self._keys: dict[str, Key | dict[Key, None]] = {}

    def __str__(self) -> str:
        return str(self._index)

    def keys(self, value: str) -> Iterable[Key]:
        """Keys under the value, in the order in which they came."""
        return tuple(_several(self._keys.get(value, {})))

    def derived(self, obj: Resource | None) -> Values:
        """Under what an object is to be found; one that cannot be decoded is found by name only."""
        # Many objects share a value, and several indexes may have the same one.
        values = () if obj is None else tuple(dict.fromkeys(self._index.values(obj)))
        return _shared(values[0]) if len(values) == 1 else tuple(map(_shared, values))

    def move(self, key: Key, before: Values, now: Values) -> Iterable[GroupId]:
        """Find a key under other values; returns those that it left or joined."""
        if before == now:
            return ()
        self._remove(key, before)
        self._put(key, now)
        return map(self.group, set(_each(before)).symmetric_difference(_each(now)))

    def group(self, value: str) -> GroupId:
        """The identity of what is found under a value."""
        return (self._index.part.name, self._index.name, value)

    def groups(self, values: Values) -> Iterable[GroupId]:
        """The same of all values under which an object is found."""
        return map(self.group, _each(values))

    def _put(self, key: Key, values: Values) -> None:
        for value in _each(values):
            known = self._keys.get(value)
            if known is None:
                self._keys[value] = key
            else:
                several = _several(known)
                several[key] = None
                self._keys[value] = several

    def _remove(self, key: Key, values: Values) -> None:
        for value in _each(values):
            several = _several(self._keys[value])
            del several[key]
            if not several:
                del self._keys[value]

    def snapshot(self) -> dict[str, tuple[Key, ...]]:
        """All values with their keys, sorted."""
        return {value: tuple(sorted(_several(keys))) for value, keys in self._keys.items()}


def _shared(value: str) -> str:
    return shared(str(value))


def _each(values: Values) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else values


def _several(keys: Key | dict[Key, None]) -> dict[Key, None]:
    return keys if isinstance(keys, dict) else {keys: None}


T = TypeVar("T", bound=Resource)

Admits = Callable[[Key], bool]
"""Whether an object of the line counts for the one who asks."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitQueue(Generic[T]):
    """Objects of a part that stand in line; of those that came at one moment the order is that of their keys.

    Attributes:
        since: pure: when an object joined the line, which may be later than now; ``None`` = it does not stand in it.
    """

    part: Part[T]
    name: str
    since: Callable[[T], datetime | None]

    def __str__(self) -> str:
        return f"{self.part.name}[{self.name}]"


class WaitQueueTable:
    """One line of the cache, in step with the objects."""

    depth: Final = Depth.WHOLE

    def __init__(self, queue: WaitQueue[Any]) -> None:
        self._queue = queue
        self._standing: list[tuple[datetime, Key]] = []

    def __str__(self) -> str:
        return str(self._queue)

    def first(self, most: int, admits: Admits) -> tuple[Key, ...]:
        """Who stands first; costs what is looked at until enough are found."""
        found: Iterator[Key] = (key for _, key in self._standing if admits(key))
        return tuple(islice(found, most))

    def derived(self, obj: Resource | None) -> datetime | None:
        """Since when an object stands in line.

        Raises:
            ValueError: the moment has no time zone, so it has no place among the others.
        """
        since = None if obj is None else self._queue.since(obj)
        if since is not None and since.tzinfo is None:
            raise ValueError(f"{since.isoformat()} has no time zone")
        return since

    def move(self, key: Key, before: datetime | None, now: datetime | None) -> Iterable[GroupId]:
        """Give a key another place, or none."""
        if before != now:
            if before is not None:
                del self._standing[bisect_left(self._standing, (before, key))]
            if now is not None:
                insort(self._standing, (now, key))
        return ()


E = TypeVar("E", bound=BaseModel)


@dataclass(frozen=True, slots=True, eq=False)
class Summary(Generic[T, E]):
    """The distinct items that the objects of a part contribute, by group.

    Attributes:
        item: a small frozen model; equal items are one, regardless of their source.
        contributions: pure: what one object adds, each with the group that it is read by. How many objects say the same
            is no part of a summary: it would change with each of them.
        limit: pure: the items of a group that are read, of all that there are, such as the newest; the others enqueue
            no object and stand in no record. What it leaves out must not matter to it later:
            ``limit(limit(a) + b) == limit(a + b)``.
    """

    part: Part[T]
    name: str
    item: type[E]
    contributions: Callable[[T], Iterable[tuple[str, E]]]
    limit: Callable[[Iterable[E]], Iterable[E]] = iter

    def group(self, name: str) -> GroupId:
        """The identity of one of its groups."""
        return (self.part.name, self.name, name)

    def __str__(self) -> str:
        return f"{self.part.name}<{self.name}>"


class SummaryTable:
    """One summary of the cache, in step with the objects: each change costs what the changed object contributes."""

    depth: Final = Depth.WHOLE

    def __init__(self, summary: Summary[Any, Any]) -> None:
        self._summary = summary
        self._counts: dict[str, Counter[Any]] = {}
        self._items: dict[str, tuple[Any, ...]] = {}

    def __str__(self) -> str:
        return str(self._summary)

    def items(self, group: str) -> tuple[Any, ...]:
        """The items of a group, in an order that depends on them alone."""
        if group not in self._items and group in self._counts:
            self._items[group] = _in_order(self._summary.limit(self._counts[group]))
        return self._items.get(group, ())

    def derived(self, obj: Resource | None) -> frozenset[tuple[str, Any]]:
        """What an object contributes."""
        return frozenset() if obj is None else frozenset(self._summary.contributions(obj))

    def move(self, _: Key, before: frozenset[tuple[str, Any]], now: frozenset[tuple[str, Any]]) -> set[GroupId]:
        """Exchange contributions. Returns the groups that changed."""
        changed = {
            *(group for group, item in now - before if self._count(group, item, 1) == 1 and self._joins(group, item)),
            *(group for group, item in before - now if self._count(group, item, -1) == 0 and self._leaves(group, item)),
        }
        for group in changed:
            self._items.pop(group, None)
        return {self._summary.group(group) for group in changed}

    def _joins(self, group: str, item: object) -> bool:
        """Whether a new item is shown; costs what is shown already, not what there is."""
        known = self._items.get(group)
        return known is None or item in self._summary.limit((*known, item))

    def _leaves(self, group: str, item: object) -> bool:
        """Whether an item that is gone was shown."""
        known = self._items.get(group)
        return known is None or item in known

    def _count(self, group: str, item: object, change: int) -> int:
        counts = self._counts.setdefault(group, Counter())
        counts[item] += change
        left = counts[item]
        if not left:
            del counts[item]
        if not counts:
            del self._counts[group]
        return left


def _in_order(items: Iterable[E]) -> tuple[E, ...]:
    return tuple(sorted(items, key=lambda item: item.model_dump_json()))
