"""Lines: objects that wait for something, in their order, so that whose turn it is is read without looking at all."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from controller_runtime.api.meta import Resource
from controller_runtime.bus.part import Depth, GroupId, Key, Part

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

    def __str__(self) -> str:
        return f"{self.part.name}[{self.name}]"


class LineTable:
    """One line of the world, in step with the objects."""

    depth: Final = Depth.WHOLE

    def __init__(self, line: Line[Any]) -> None:
        self._line = line
        self._standing: list[tuple[datetime, Key]] = []

    def __str__(self) -> str:
        return str(self._line)

    def first(self, most: int, admits: Admits) -> tuple[Key, ...]:
        """Who stands first; costs what is looked at until enough are found."""
        found: Iterator[Key] = (key for _, key in self._standing if admits(key))
        return tuple(islice(found, most))

    def derived(self, obj: Resource | None) -> datetime | None:
        """Since when an object stands in line.

        Raises:
            ValueError: the moment has no time zone, so it has no place among the others.
        """
        since = None if obj is None else self._line.since(obj)
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
