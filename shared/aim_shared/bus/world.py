"""The world: what one service knows of the cluster, in memory, with indexes.

Three rules keep it from going backwards, whatever order messages and answers arrive in:
an older version never replaces a newer one of the same object; the versions of deleted keys are remembered for
an hour, so that a late message can not bring them back; and a new epoch replaces instead of merging.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from aim_shared.api import Resource
from aim_shared.bus.entry import Change, Entry, Version
from aim_shared.bus.part import Index, Key, Part

T = TypeVar("T", bound=Resource)

DELETED_MEMORY_SECONDS: Final = 3600.0
"""How long the version of a deleted key is remembered."""


@dataclass(slots=True)
class _PartStore:
    """Everything of one part. Typed by the part alone, hence ``Any`` inside and casts at the public face."""

    part: Part[Any]
    entries: dict[Key, Entry[Any]] = field(default_factory=dict)
    deleted: dict[Key, tuple[Version, float]] = field(default_factory=dict)
    indexes: dict[str, tuple[Index[Any], dict[str, dict[Key, None]]]] = field(default_factory=dict)
    synced: bool = False
    fresh: bool = False


class World:
    """In-memory projection of the consumed parts.

    Not thread-safe; all calls come from one event loop and none of them waits.
    """

    def __init__(self, parts: Iterable[Part[Any]], indexes: Iterable[Index[Any]] = ()) -> None:
        self._stores = {part.name: _PartStore(part) for part in parts}
        for index in indexes:
            self._stores[index.part.name].indexes[index.name] = (index, defaultdict(dict))

    @property
    def parts(self) -> list[Part[Any]]:
        return [store.part for store in self._stores.values()]

    # Reading

    def get(self, part: Part[T], key: Key) -> Entry[T] | None:
        return cast("Entry[T] | None", self._stores[part.name].entries.get(key))

    def all(self, part: Part[T]) -> list[Entry[T]]:
        return list(self._stores[part.name].entries.values())

    def select(self, index: Index[T], value: str) -> list[Entry[T]]:
        store = self._stores[index.part.name]
        found = store.indexes[index.name][1].get(value, {})
        return [cast("Entry[T]", store.entries[key]) for key in found]

    def is_synced(self, part: Part[Any]) -> bool:
        """Whether the part's snapshot is complete and its marker was seen."""
        return self._stores[part.name].synced

    def is_fresh(self, part: Part[Any]) -> bool:
        """Whether what is missing here may be taken for missing in the cluster (FW-019)."""
        store = self._stores[part.name]
        return store.synced and store.fresh

    # Writing

    def mark(self, part: Part[Any], *, synced: bool | None = None, fresh: bool | None = None) -> None:
        """Record what the feeder of a part knows about its completeness."""
        store = self._stores[part.name]
        store.synced = store.synced if synced is None else synced
        store.fresh = store.fresh if fresh is None else fresh

    def put(self, entry: Entry[T], now: float) -> list[Change[T]]:
        """Take in a version unless something newer is known. ``now`` is any steadily rising clock, in seconds."""
        store = self._stores[entry.part.name]
        current = store.entries.get(entry.key)
        if current is not None and not self._replaces(entry.version, current.version):
            return []
        gone = store.deleted.get(entry.key)
        if gone is not None and now - gone[1] < DELETED_MEMORY_SECONDS and not self._replaces(entry.version, gone[0]):
            return []
        store.deleted.pop(entry.key, None)
        return self._set(store, entry)

    def delete(self, part: Part[T], key: Key, version: Version, now: float) -> list[Change[T]]:
        """Remove an object unless a newer version of it, or another object of that name, is known.

        ``version`` is that of the deletion; an equal version deletes as well.
        """
        store = self._stores[part.name]
        current = store.entries.get(key)
        if current is not None and (version.uid != current.version.uid or version.is_older_than(current.version)):
            return []
        store.deleted[key] = (version, now)
        return self._drop(store, key)

    def replace(self, part: Part[T], snapshot: Mapping[Key, Entry[T]], now: float) -> list[Change[T]]:
        """Swap in a complete snapshot; keys absent from it are deletions.

        An entry that this process got from its own write, newer than the snapshot's, stays.
        """
        store = self._stores[part.name]
        changes: list[Change[T]] = []
        for key in [key for key in store.entries if key not in snapshot]:
            store.deleted[key] = (store.entries[key].version, now)
            changes += self._drop(store, key)
        for key, entry in snapshot.items():
            current = store.entries.get(key)
            if current is None:
                store.deleted.pop(key, None)
                changes += self._set(store, entry)
            elif self._replaces(entry.version, current.version):
                changes += self._set(store, entry)
        return changes

    def forget_deleted(self, now: float) -> None:
        """Drop memories of deletions that are older than an hour."""
        for store in self._stores.values():
            old = [key for key, (_, at) in store.deleted.items() if now - at >= DELETED_MEMORY_SECONDS]
            for key in old:
                del store.deleted[key]

    @staticmethod
    def _replaces(new: Version, current: Version) -> bool:
        same = new.uid == current.uid and new.epoch == current.epoch
        if same and new.resource_version == current.resource_version:
            return new.sequence is not None and new.sequence != current.sequence
        return not new.is_older_than(current)

    def _set(self, store: _PartStore, entry: Entry[Any]) -> list[Change[Any]]:
        old = store.entries.get(entry.key)
        changes: list[Change[Any]] = []
        if old is not None and old.version.uid != entry.version.uid:
            changes += self._drop(store, entry.key)
            old = None
        self._unindex(store, old)
        store.entries[entry.key] = entry
        self._index(store, entry)
        if old is None or old.raw != entry.raw:
            changes.append(Change(entry.part, entry.key, old, entry))
        return changes

    def _drop(self, store: _PartStore, key: Key) -> list[Change[Any]]:
        old = store.entries.pop(key, None)
        if old is None:
            return []
        self._unindex(store, old)
        return [Change(old.part, key, old, None)]

    @staticmethod
    def _index(store: _PartStore, entry: Entry[Any]) -> None:
        obj = entry.object if store.indexes else None
        if obj is not None:
            for index, table in store.indexes.values():
                for value in index.values(obj):
                    table[value][entry.key] = None

    @staticmethod
    def _unindex(store: _PartStore, entry: Entry[Any] | None) -> None:
        obj = entry.object if entry is not None and store.indexes else None
        if entry is None or obj is None:
            return
        for index, table in store.indexes.values():
            for value in index.values(obj):
                table[value].pop(entry.key, None)
                if not table[value]:
                    del table[value]
