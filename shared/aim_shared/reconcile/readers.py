"""Which objects read which groups of summaries in their last pass: reading is subscribing (FW-454)."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Generic, TypeVar

from aim_shared.bus.part import GroupId

K = TypeVar("K")


class Readers(Generic[K]):
    """Kept by pass and not by declaration, so it can not differ from what is really read.

    A leader begins with a pass of every object; from then on nobody is missing.
    """

    def __init__(self) -> None:
        self._groups: dict[K, frozenset[GroupId]] = {}
        self._readers: defaultdict[GroupId, dict[K, None]] = defaultdict(dict)

    def of(self, group: GroupId) -> Iterable[K]:
        """Whom a change of the group concerns."""
        return tuple(self._readers.get(group, ()))

    def note(self, key: K, groups: Iterable[GroupId]) -> None:
        """What the latest pass of an object read; nothing = it is not woken any more."""
        now, before = frozenset(groups), self._groups.get(key, frozenset())
        if now == before:
            return
        for group in before - now:
            del self._readers[group][key]
            if not self._readers[group]:
                del self._readers[group]
        for group in now - before:
            self._readers[group][key] = None
        if now:
            self._groups[key] = now
        else:
            del self._groups[key]
