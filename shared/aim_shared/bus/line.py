"""Lines: objects that wait for something, in their order, so that whose turn it is is read without looking at all."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Generic, TypeVar

from aim_shared.api import Resource
from aim_shared.bus.entry import Entry
from aim_shared.bus.part import Key, Part

T = TypeVar("T", bound=Resource)

Admits = Callable[[Key], bool]
"""Whether an object of the line counts for the one who asks."""


@dataclass(frozen=True, slots=True, eq=False)
class Line(Generic[T]):
    """Objects of a part that stand in line; of those that came at one moment the order is that of their keys.

    Attributes:
        since: pure: when an object joined the line, which may be later than now; ``None`` = it does not stand in it.
    """

    part: Part[T]
    name: str
    since: Callable[[T], datetime | None]

    def first(self, objects: Iterable[T], most: int, admits: Admits) -> tuple[Key, ...]:
        """Who stands first, found from scratch."""
        standing = sorted((since, obj.key) for obj in objects if (since := self.since(obj)) is not None)
        return _first(standing, most, admits)

    def __str__(self) -> str:
        return f"{self.part.name}[{self.name}]"


class LineTable:
    """One line of the world, in step with the objects."""

    def __init__(self, line: Line[Any]) -> None:
        self._line = line
        self._standing: list[tuple[datetime, Key]] = []
        self._since: dict[Key, datetime] = {}

    def first(self, most: int, admits: Admits) -> tuple[Key, ...]:
        """Who stands first; costs what is looked at until enough are found."""
        return _first(self._standing, most, admits)

    def put(self, entry: Entry[Any]) -> None:
        """Give an entry its place; one that can not be decoded does not stand in line."""
        obj = entry.object
        since = None if obj is None else self._line.since(obj)
        if since == self._since.get(entry.key):
            return
        self.remove(entry.key)
        if since is not None:
            self._since[entry.key] = since
            insort(self._standing, (since, entry.key))

    def remove(self, key: Key) -> None:
        """Forget a key."""
        since = self._since.pop(key, None)
        if since is not None:
            del self._standing[bisect_left(self._standing, (since, key))]


def _first(standing: Iterable[tuple[datetime, Key]], most: int, admits: Admits) -> tuple[Key, ...]:
    found: Iterator[Key] = (key for _, key in standing if admits(key))
    return tuple(islice(found, most))
