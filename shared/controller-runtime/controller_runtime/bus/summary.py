"""Summaries: what the objects of a part say together, kept while they change.

Many objects often say the same: hundreds of nodes are of a few kinds. A decision that needs only the kinds reads a
summary of them. It costs the same however many objects there are, stands in the decision record by value, and changes
only when somebody says something that nobody said before, or the last one stops saying it. So whoever read it is woken
then, and not by the heartbeat of every object.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from pydantic import BaseModel

from controller_runtime.api.meta import Resource
from controller_runtime.bus.part import Depth, GroupId, Key, Part

T = TypeVar("T", bound=Resource)
E = TypeVar("E", bound=BaseModel)


@dataclass(frozen=True, slots=True, eq=False)
class Summary(Generic[T, E]):
    """The distinct items that the objects of a part contribute, by group.

    Attributes:
        item: a small frozen model; equal items are one, whoever contributes them.
        contributions: pure: what one object adds, each with the group that it is read by. How many objects say the same
            is no part of a summary: it would change with each of them.
        shown: pure: the items of a group that are read, of all that there are, such as the newest; the others wake
            nobody and stand in no record. What it leaves out must not matter to it later:
            ``shown(shown(a) + b) == shown(a + b)``.
    """

    part: Part[T]
    name: str
    item: type[E]
    contributions: Callable[[T], Iterable[tuple[str, E]]]
    shown: Callable[[Iterable[E]], Iterable[E]] = iter

    def group(self, name: str) -> GroupId:
        """The identity of one of its groups."""
        return (self.part.name, self.name, name)

    def __str__(self) -> str:
        return f"{self.part.name}<{self.name}>"


class SummaryTable:
    """One summary of the world, in step with the objects: each change costs what the changed object contributes."""

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
            self._items[group] = _in_order(self._summary.shown(self._counts[group]))
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
        return known is None or item in self._summary.shown((*known, item))

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
