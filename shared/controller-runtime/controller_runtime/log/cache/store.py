"""The cache: what one service knows of the cluster, in memory, with indexes.

It never goes backwards, whatever order messages, snapshots and answers to own writes arrive in:

* an older version never replaces a newer one of the same UID; what does not compare (the cluster's store was
  restored) replaces instead of merging;
* deletions are remembered for an hour, so that a late message cannot bring an object back;
* two objects of one name are ordered by their sequence; once one UID replaced another, the other is gone for good;
* an own write enters at once and stays until the feed catches up with it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias, TypeVar, cast

import structlog
from pydantic import BaseModel

from controller_runtime.api.meta import Resource
from controller_runtime.compact import Packer
from controller_runtime.json import JsonObject
from controller_runtime.log.cache.indexes import (
    Admits,
    IndexTable,
    Summary,
    SummaryTable,
    Table,
    WaitQueue,
    WaitQueueTable,
)
from controller_runtime.log.wire.part import (
    Dependency,
    Depth,
    GroupId,
    Index,
    Key,
    Part,
    about_group,
    about_object,
    about_part,
    published_form,
)
from controller_runtime.log.wire.subjects import is_facts
from controller_runtime.log.wire.version import (
    DELETED_MEMORY_SECONDS,
    OWN_WRITE_SECONDS,
    CachePosition,
    Change,
    DeletedMemory,
    Entry,
    Evidence,
    OwnChange,
    Position,
    Version,
)

__all__ = ["DELETED_MEMORY_SECONDS", "OWN_WRITE_SECONDS", "Cache"]


T = TypeVar("T", bound=Resource)
E = TypeVar("E", bound=BaseModel)

Derived: TypeAlias = Index[Any] | Summary[Any, Any] | WaitQueue[Any]
"""What the cache derives from the objects of a part and keeps in step with them."""

_log = structlog.get_logger(__name__)


class Reader(Protocol):
    """Stands around everything that is made of an object when it arrives (FW-745)."""

    def take_in(self, entry: Entry[Any], derive: Callable[[], None]) -> bool:
        """Make it, or not; returns whether it was made."""
        ...

    def let_go(self, uid: str) -> None:
        """The object is gone."""
        ...


class _Unwatched:
    """For caches outside a service."""

    def take_in(self, _entry: Entry[Any], derive: Callable[[], None]) -> bool:
        derive()
        return True

    def let_go(self, _uid: str) -> None:
        return


UNWATCHED: Final[Reader] = _Unwatched()


@dataclass(slots=True)
class _PartStore:
    """Everything of one part. Typed by the part alone, hence ``Any`` inside and casts at the public face.

    Attributes:
        own: keys whose entry is an own write not seen in the feed yet, and when it was absorbed.
        removed: keys that are gone by an own deletion not seen in the feed yet, and when it was absorbed.
        sequence: of the state stream, up to which the feed was taken; ``None`` while something else feeds the part.
        epoch: the epoch of what arrived last; own writes happen in it.
        store_id: that of what arrived last.
        failed: keys whose object something derived could not be made of, with the UID and resource version.
        failures: how often that happened, counted once per version.
        depth: how far what is derived looks into the objects.
    """

    part: Part[Any]
    reader: Reader = UNWATCHED
    entries: dict[Key, Entry[Any]] = field(default_factory=dict)
    deleted: DeletedMemory = field(default_factory=DeletedMemory)
    indexes: dict[str, IndexTable] = field(default_factory=dict)
    summaries: dict[str, SummaryTable] = field(default_factory=dict)
    queues: dict[str, WaitQueueTable] = field(default_factory=dict)
    packer: Packer = field(default_factory=Packer)
    own: dict[Key, float] = field(default_factory=dict)
    removed: dict[Key, float] = field(default_factory=dict)
    sequence: int | None = None
    epoch: str = ""
    store_id: str = ""
    failed: dict[Key, tuple[str, str]] = field(default_factory=dict)
    failures: int = 0
    depth: Depth = Depth.METADATA
    synced: bool = False
    fresh: bool = False

    def keep(self, derived: Derived) -> None:
        """Keep this in step from now on."""
        if isinstance(derived, Index):
            self.indexes[derived.name] = IndexTable(derived)
        elif isinstance(derived, Summary):
            self.summaries[derived.name] = SummaryTable(derived)
        else:
            self.queues[derived.name] = WaitQueueTable(derived)
        self.depth = max(table.depth for table in self._tables())

    def look_at(self, entry: Entry[Any], *, whole: bool = True) -> None:
        """Note what is derived from an entry, so that neither taking it in nor taking it out looks at the object.

        Never raises: an unexpected object would end the service with every start (FW-480).

        Args:
            whole: all of the object, which each listener of changes reads anyway.
        """
        tables = self._tables()
        if not tables or entry.derived:
            return
        if not self.reader.take_in(entry, lambda: self._look_at(entry, tables, whole=whole)):
            entry.derived = tuple(table.derived(None) for table in tables)

    def _look_at(self, entry: Entry[Any], tables: tuple[Table[Any], ...], *, whole: bool) -> None:
        version = (entry.version.uid, entry.version.resource_version)
        # Snapshots tell of the same version again and again.
        reported = self.failed.get(entry.key) == version

        def failed(table: str) -> None:
            self.failed[entry.key] = version
            if not reported:
                self.failures += 1
                _log.exception("index cannot read an object", part=self.part.name, key=str(entry.key), table=table)

        decodes = True
        try:
            obj = entry.object_to(Depth.WHOLE if whole else self.depth)
        except Exception:
            obj, decodes = None, False
            failed("decode")
        derived: list[Any] = []
        for table in tables:
            try:
                # What cannot be read hides an object only from what looks at it: after an event as after a snapshot.
                seen = entry.object_to(table.depth) if obj is None and decodes else obj
                derived.append(table.derived(seen))
            except Exception:
                derived.append(table.derived(None))
                failed(str(table))
        entry.derived = tuple(derived)

    def derive(self, entry: Entry[Any], old: Entry[Any] | None) -> frozenset[GroupId]:
        """Bring everything derived in step with an entry that was looked at; returns what is answered otherwise."""
        tables = self._tables()
        before = tuple(table.derived(None) for table in tables) if old is None else old.derived
        moves = zip(tables, before, entry.derived, strict=True)
        return frozenset(group for table, was, now in moves for group in table.move(entry.key, was, now))

    def underive(self, old: Entry[Any]) -> frozenset[GroupId]:
        """Bring everything derived in step with the loss of an entry."""
        moves = zip(self._tables(), old.derived, strict=True)
        return frozenset(group for table, was in moves for group in table.move(old.key, was, table.derived(None)))

    def _tables(self) -> tuple[Table[Any], ...]:
        return (*self.indexes.values(), *self.summaries.values(), *self.queues.values())


class Cache:
    """In-memory projection of the consumed parts.

    Not thread-safe; all calls come from one event loop and none of them waits. ``now`` is any steadily rising
    clock, in seconds, the same in all calls.
    """

    def __init__(self, parts: Iterable[Part[Any]], indexes: Iterable[Derived] = (), reader: Reader = UNWATCHED) -> None:
        self._stores = {part.name: _PartStore(part, reader) for part in parts}
        for derived in indexes:
            self._stores[derived.part.name].keep(derived)

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
        return [cast("Entry[T]", store.entries[key]) for key in store.indexes[index.name].keys(value)]

    def summary(self, summary: Summary[Any, E], group: str) -> tuple[E, ...]:
        """The items of one group of a summary."""
        return self._stores[summary.part.name].summaries[summary.name].items(group)

    def first(self, queue: WaitQueue[T], most: int, admits: Admits) -> list[Entry[T]]:
        """Who stands first in a line, of those that count."""
        store = self._stores[queue.part.name]
        return [cast("Entry[T]", store.entries[key]) for key in store.queues[queue.name].first(most, admits)]

    def dependencies(self, change: Change[Any]) -> set[Dependency]:
        """The questions to which the object itself is an answer, or part of one, before or after a change."""
        store, part = self._stores[change.part.name], change.part.name
        found = {about_part(part), about_object(part, change.key)}
        for entry in (change.old, change.new):
            if entry is not None:
                # The tables of the indexes come first.
                for table, values in zip(store.indexes.values(), entry.derived, strict=False):
                    found.update(map(about_group, table.groups(values)))
        return found

    def count(self, part: Part[Any]) -> int:
        """Number of objects known of a part."""
        return len(self._stores[part.name].entries)

    def failures(self, part: Part[Any]) -> int:
        """How often an index, summary or line could make nothing of an object; once per version of it."""
        return self._stores[part.name].failures

    def epoch(self, part: Part[Any]) -> str:
        """The epoch that the part is in; empty before anything was fed."""
        return self._stores[part.name].epoch

    def store_id(self, part: Part[Any]) -> str:
        """The store id that the part is in: first epoch whose resource versions compare with the present ones."""
        return self._stores[part.name].store_id

    def is_synced(self, part: Part[Any]) -> bool:
        """Whether the part's snapshot is complete and its checkpoint was seen."""
        return self._stores[part.name].synced

    def is_fresh(self, part: Part[Any]) -> bool:
        """Whether what is missing here may be taken for missing in the cluster (FW-019)."""
        store = self._stores[part.name]
        return store.synced and store.fresh

    def position(self) -> CachePosition:
        """How far everything in here goes at this moment."""
        stores = self._stores.values()
        return CachePosition(
            {store.part.name: Position(store.epoch, store.sequence, len(store.entries)) for store in stores},
            tuple(change for store in stores if store.own or store.removed for change in _own_changes(store)),
            tuple(store.part.name for store in stores if not (store.synced and store.fresh)),
        )

    # Feeding

    def reached(self, part: Part[Any], sequence: int | None) -> None:
        """Record that the state stream was taken in up to a sequence; ``None`` = something else feeds the part now."""
        self._stores[part.name].sequence = sequence

    def mark(
        self,
        part: Part[Any],
        *,
        synced: bool | None = None,
        fresh: bool | None = None,
        epoch: str | None = None,
        store_id: str | None = None,
    ) -> None:
        """Record what the feeder of a part knows about its completeness and epoch."""
        store = self._stores[part.name]
        store.synced = store.synced if synced is None else synced
        store.fresh = store.fresh if fresh is None else fresh
        store.epoch = store.epoch if epoch is None else epoch
        store.store_id = store.store_id if store_id is None else store_id

    def put(self, entry: Entry[T], now: float) -> list[Change[T]]:
        """Take in a version from the feed unless something newer is known."""
        store = self._stores[entry.part.name]
        store.epoch, store.store_id = entry.version.epoch, entry.version.store_id
        current = store.entries.get(entry.key)
        if current is not None and _confirms(entry, current):
            store.own.pop(entry.key, None)
        return self._admit(store, entry, now)

    def delete(self, part: Part[T], key: Key, version: Version, now: float) -> list[Change[T]]:
        """Remove an object unless a newer version of it, or another object of that name, is known.

        ``version`` is that of the deletion; an equal version deletes as well. A fact that was gathered here and is not
        on the bus yet is newer than any deletion from there.
        """
        store = self._stores[part.name]
        store.removed.pop(key, None)
        store.deleted.remember(key, version, now, Evidence.MESSAGE)
        current = store.entries.get(key)
        if current is None or self._is_local_fact(current) or _survives(current.version, version):
            return []
        if current.version.uid != version.uid:
            store.deleted.remember(key, _at(current.version, version), now, Evidence.REPLACED)
        return self._drop(store, key)

    def prepare(self, entry: Entry[Any]) -> None:
        """Do the slow half of taking in an entry of a snapshot ahead of `replace`, which never waits."""
        store = self._stores[entry.part.name]
        current = store.entries.get(entry.key)
        if current is not None:
            entry.adopt(current)
        store.look_at(entry, whole=False)
        entry.pack(store.packer)

    def replace(
        self, part: Part[T], snapshot: Mapping[Key, Entry[T]], now: float, *, upto: Version | None = None
    ) -> list[Change[T]]:
        """Swap in a complete snapshot; keys absent from it are deletions.

        An own write that the snapshot cannot know yet stays, and so does what the API server answered directly and the
        publisher has not come to; as with own writes, only until the feed must have confirmed it. One that the
        snapshot has to know and does not hold is gone again.

        Args:
            upto: resource version, sequence, epoch and store id up to which the snapshot is complete; ``None`` =
                nothing is newer. What lies behind that sequence came later than the snapshot, which says nothing about
                it.
        """
        store = self._stores[part.name]
        ahead = {} if upto is None else self._ahead_of(store, upto)
        for key in [key for key in ahead if not _says_the_same(snapshot.get(key), store.entries[key])]:
            store.own.setdefault(key, now)
        living = {
            key: entry
            for key, entry in snapshot.items()
            if not store.deleted.bars_from_snapshot(key, entry.version, now)
            and not (key in ahead and ahead[key].is_after(entry.version) and ahead[key].uid != entry.version.uid)
        }
        store.removed = {key: at for key, at in store.removed.items() if key in snapshot}
        changes: list[Change[T]] = []
        for key in [key for key in store.entries if key not in living]:
            if not self._stays(store, key, now, upto):
                store.deleted.remember(key, store.entries[key].version, now, Evidence.ABSENCE)
                changes += self._drop(store, key)
        for key, entry in living.items():
            current = store.entries.get(key)
            if current is None or (not self._is_local_fact(current) and _replaces(entry.version, current.version)):
                changes += self._set(store, entry, now)
        return changes

    def forget_deleted(self, now: float) -> None:
        """Drop memories of deletions that are older than an hour."""
        for store in self._stores.values():
            store.deleted.forget_old(now)
            store.failed = {key: version for key, version in store.failed.items() if key in store.entries}
            # Of what was made and removed between two looks of its publisher, the bus never tells.
            store.removed = {key: at for key, at in store.removed.items() if now - at < OWN_WRITE_SECONDS}

    # Own writes

    def absorb(self, part: Part[T], obj: JsonObject, now: float, traceparent: str | None = None) -> list[Change[T]]:
        """Take in the API server's answer to an own write, trimmed as the publisher would (read your own writes).

        Also takes a fact that cannot be published now. The caller passes the changes on like those of the feed.
        """
        # The bus would pass an own version that says nothing new in silence, and `confirm` take the object for gone.
        assert not part.read_only, f"{part} is declared read-only, and a service has written it"
        store = self._stores[part.name]
        raw = published_form(part, obj)
        metadata = raw["metadata"]
        key = Key(str(metadata.get("namespace") or ""), str(metadata["name"]))
        uid, resource_version = str(metadata.get("uid") or ""), str(metadata.get("resourceVersion") or "")
        current = store.entries.get(key)
        if resource_version and current is not None:
            known = current.version
            if (known.uid, known.resource_version) == (uid, resource_version):
                return []
        entry = Entry.of(part, key, raw, Version(uid, resource_version, None, store.epoch, store.store_id), traceparent)
        changes = self._admit(store, entry, now)
        if store.entries.get(key) is entry:
            store.own[key] = now
        return changes

    def absorb_deleted(self, part: Part[T], key: Key, uid: str, now: float) -> list[Change[T]]:
        """Take in that the API server has removed this UID for us; nothing brings it back.

        A fact that was removed may be gathered again: it has no UID of its own.
        """
        store = self._stores[part.name]
        current = store.entries.get(key)
        known = current.version if current is not None and current.version.uid == uid else None
        version = Version(uid, "", None, store.epoch, store.store_id) if known is None else known
        evidence = Evidence.MESSAGE if is_facts(part.name) else Evidence.FINAL
        store.deleted.remember(key, version, now, evidence)
        if known is None:
            return []
        store.removed[key] = now
        return self._drop(store, key)

    def unconfirmed(self, part: Part[Any], now: float) -> bool:
        """Whether an own write stayed unseen in the feed for a minute: time for a new snapshot, which decides."""
        store = self._stores[part.name]
        return any(
            now - at >= OWN_WRITE_SECONDS
            for key, at in store.own.items()
            if not self._is_local_fact(store.entries[key])
        )

    def confirm(self, part: Part[T], upto: Version, now: float) -> list[Change[T]]:
        """Take in that the feed is complete up to a version: own writes that it lacks are gone again.

        The publisher need not have seen an object that was removed right after it was made.
        """
        store = self._stores[part.name]
        changes: list[Change[T]] = []
        for key in [key for key in store.own if _is_passed(store.entries[key].version, upto)]:
            store.deleted.remember(key, store.entries[key].version, now, Evidence.ABSENCE)
            changes += self._drop(store, key)
        return changes

    # Inside

    def _admit(self, store: _PartStore, entry: Entry[Any], now: float) -> list[Change[Any]]:
        current = store.entries.get(entry.key)
        if current is not None and not _replaces(entry.version, current.version):
            return []
        if store.deleted.bars(entry.key, entry.version, now):
            return []
        return self._set(store, entry, now)

    def _stays(self, store: _PartStore, key: Key, now: float, upto: Version | None) -> bool:
        entry, at = store.entries[key], store.own.get(key)
        # Dropping what the snapshot is too old to know would also bar the feed from telling of it again.
        if self._is_local_fact(entry) or (upto is not None and upto.precedes(entry.version)):
            return True
        passed = upto is not None and _is_passed(entry.version, upto)
        return at is not None and now - at < OWN_WRITE_SECONDS and not passed

    @staticmethod
    def _ahead_of(store: _PartStore, upto: Version) -> dict[Key, Version]:
        versions = ((key, entry.version) for key, entry in store.entries.items())
        return {key: version for key, version in versions if version.local and version.is_after(upto)}

    @staticmethod
    def _is_local_fact(entry: Entry[Any]) -> bool:
        # A fact made while the bus was away: its owner publishes it as soon as it can, and it is newer than what
        # the bus still holds.
        return entry.version.local and not entry.version.resource_version

    def _set(self, store: _PartStore, entry: Entry[Any], now: float) -> list[Change[Any]]:
        old = store.entries.get(entry.key)
        if old is not None:
            entry.adopt(old)
        # Before anything changes: what is in the cache can always be taken out of it again.
        store.look_at(entry)
        changes: list[Change[Any]] = []
        if old is not None and old.version.uid != entry.version.uid:
            replaced_on_bus = old.version.precedes(entry.version)
            if replaced_on_bus or entry.version.local:
                gone = _at(old.version, entry.version) if replaced_on_bus else old.version
                evidence = Evidence.REPLACED if replaced_on_bus else Evidence.OUTLIVED
                store.deleted.remember(entry.key, gone, now, evidence)
            changes += self._drop(store, entry.key)
            old = None
        store.deleted.forget(entry.key, entry.version.uid)
        store.own.pop(entry.key, None)
        store.removed.pop(entry.key, None)
        store.entries[entry.key] = entry
        groups = store.derive(entry, old)
        entry.pack(store.packer)
        if old is None or not entry.same_content(old):
            changes.append(Change(entry.part, entry.key, old, entry, groups))
        return changes

    @staticmethod
    def _drop(store: _PartStore, key: Key) -> list[Change[Any]]:
        store.own.pop(key, None)
        old = store.entries.pop(key, None)
        if old is None:
            return []
        store.reader.let_go(old.version.uid)
        return [Change(old.part, key, old, None, store.underive(old))]


def _at(version: Version, position: Version) -> Version:
    """A version, as of another position on the bus."""
    return replace(version, sequence=position.sequence, epoch=position.epoch, store_id=position.store_id)


def _own_changes(store: _PartStore) -> Iterable[OwnChange]:
    name = store.part.name
    yield from (OwnChange(name, key, store.entries[key].version) for key in store.own)
    yield from (OwnChange(name, key, None) for key in store.removed)


def _confirms(entry: Entry[Any], current: Entry[Any]) -> bool:
    """Whether a version from the bus shows that the bus has come to the one known here.

    A version of another UID may be a late one of the object that the own write followed, so it confirms nothing.
    """
    same_object = entry.version.uid == current.version.uid
    return (same_object and not entry.version.is_older_than(current.version)) or _says_the_same(entry, current)


def _says_the_same(reported: Entry[Any] | None, current: Entry[Any]) -> bool:
    # Of a read-only part no later version with this content will be published; waiting for it would end in `confirm`.
    return (
        reported is not None
        and reported.part.read_only
        and reported.version.uid == current.version.uid
        and reported.same_content(current)
    )


def _replaces(new: Version, current: Version) -> bool:
    if new.uid == current.uid:
        return new.is_newer_than(current)
    # The bus conflates: the end of one UID and the start of the next may both have been skipped.
    return not new.precedes(current)


def _is_passed(own: Version, upto: Version) -> bool:
    """Whether an own write happened no later than a version of the cluster's store, which facts have none of."""
    same = own.resource_version == upto.resource_version != ""
    return upto.is_after(own) or (same and own.compares_with(upto))


def _survives(current: Version, deletion: Version) -> bool:
    if current.uid == deletion.uid:
        return deletion.is_older_than(current)
    # Not the UID that was deleted: when the deletion is later on the bus, this one went unseen before it.
    return not current.precedes(deletion)
