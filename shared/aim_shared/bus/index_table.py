"""One index of the world: values to keys, kept in step with the objects."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from aim_shared.bus.entry import Entry
from aim_shared.bus.part import Index, Key


class IndexTable:
    """Which keys are found under which value.

    The values of each key are kept, so that removal needs no second look at the old object.
    """

    def __init__(self, index: Index[Any]) -> None:
        self._index = index
        self._keys: defaultdict[str, dict[Key, None]] = defaultdict(dict)
        self._values: dict[Key, tuple[str, ...]] = {}

    def keys(self, value: str) -> Iterable[Key]:
        """Keys under the value, in the order in which they came."""
        return tuple(self._keys.get(value, ()))

    def put(self, entry: Entry[Any]) -> None:
        """Index an entry anew; one that can not be decoded is found by name only."""
        obj = entry.object
        values = tuple(dict.fromkeys(self._index.values(obj))) if obj is not None else ()
        if values == self._values.get(entry.key, ()):
            return
        self.remove(entry.key)
        for value in values:
            self._keys[value][entry.key] = None
        if values:
            self._values[entry.key] = values

    def remove(self, key: Key) -> None:
        """Forget a key."""
        for value in self._values.pop(key, ()):
            keys = self._keys[value]
            del keys[key]
            if not keys:
                del self._keys[value]

    def snapshot(self) -> dict[str, tuple[Key, ...]]:
        """All values with their keys, sorted."""
        return {value: tuple(sorted(keys)) for value, keys in self._keys.items()}
