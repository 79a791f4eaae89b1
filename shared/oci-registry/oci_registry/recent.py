"""What is remembered of those things that were asked for last."""

from collections import OrderedDict
from typing import Final, Generic, TypeVar, final

K = TypeVar("K")
V = TypeVar("V")

HOSTS: Final = 1024
"""Hosts of which something is remembered: far more than a cluster's images come from, but whoever may create models may
name any number."""


@final
class Recent(Generic[K, V]):
    """Values by key, least recently used out first."""

    def __init__(self, capacity: int = HOSTS) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, key: K) -> V | None:
        """The value of a key, if it is remembered."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: K, value: V) -> None:
        """Remember a value, in place of the former one."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._capacity:
            self._kept.popitem(last=False)

    def forget(self, key: K) -> None:
        """Drop what is remembered, if anything is."""
        self._kept.pop(key, None)
