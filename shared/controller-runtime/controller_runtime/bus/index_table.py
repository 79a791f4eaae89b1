"""One index of the world: values to keys, kept in step with the objects.

Most values lead to one key, and most objects are found under one value. There are ten indexes of some parts and ten
thousand objects, so neither of the two gets a collection of its own.
"""

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, TypeVar

from controller_runtime.api.meta import Resource
from controller_runtime.bus.part import Depth, GroupId, Index, Key
from controller_runtime.sharing import shared

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
