"""What the history tells of the objects of a decision: those that were read, and all others as of its moment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from aim_shared.bus.chain import Chain, LoggedVersion, as_of, fact_at, find
from aim_shared.bus.decision import DecisionRecord
from aim_shared.bus.entry import Entry, Version
from aim_shared.bus.part import Index, Key, Part
from aim_shared.bus.recorded import RecordedObject
from aim_shared.bus.subjects import FACTS_PART


class NotLoadedError(BaseException):
    """Something was asked for that was not read from the history yet: read the part, and ask again from the start.

    Not an `Exception`, because whoever asks must not take it for an answer.
    """

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part


@dataclass(frozen=True, slots=True)
class Answer:
    """An object, its absence, or why neither can be told."""

    entry: Entry[Any] | None = None
    hole: str | None = None


class Past:
    """Everything that was read from the history so far; one for the replay of many decisions.

    What is decoded stays decoded: one version is read by many passes.
    """

    def __init__(self) -> None:
        self.begins = datetime.min.replace(tzinfo=UTC)
        """Since when the history is complete: of what is older, and gone since, it may hold no trace."""
        self._chains: dict[tuple[str, Key], Chain] = {}
        self._whole: dict[tuple[str, str], tuple[Key, ...]] = {}
        self._entries: dict[tuple[str, Key, str, int, Version], Entry[Any]] = {}
        self._values: dict[tuple[str, int], frozenset[str]] = {}

    def add(self, chains: Mapping[tuple[str, Key], Chain]) -> None:
        """Take in some objects."""
        self._chains.update(chains)

    def add_part(self, part: str, service: str, chains: Mapping[Key, Chain]) -> None:
        """Take in all objects of a part; of the facts, all of a service."""
        self._whole[part, _scope(part, service)] = tuple(sorted(chains))
        self.add({(part, key): chain for key, chain in chains.items()})

    def read(self, part: Part[Any], read: RecordedObject, at: datetime) -> Answer:
        """The version that a pass read."""
        wanted = read.version
        if wanted is None:
            return Answer()
        versions = self._chains.get((part.name, read.key), Chain()).versions
        fact = part.name == FACTS_PART and wanted.local
        found = fact_at(versions, at) if fact else find(versions, wanted)
        if found is None and part.read_only:
            found = _saying_the_same(versions, wanted)
        if found is None or found.deleted:
            return Answer(hole=f"{part}/{read.key}: version {wanted.resource_version or wanted.sequence} is not kept")
        return Answer(self._entry(part, found, wanted))

    def then(self, part: Part[Any], key: Key, record: DecisionRecord) -> Answer:
        """An object as the world of a decision held it, whether it was read or not."""
        own = _own(record).get((part.name, key))
        if own is not None:
            return self.read(part, own, record.at)
        position = record.world.position(part.name)
        if position is None:
            return Answer(hole=f"{part}/{key}: the record does not tell how far its world was with {part}")
        if position.sequence is None:
            return Answer(hole=f"{part}/{key}: the world was fed with {part} by something else than the bus")
        chain = self._chain(part.name, key, record.service)
        if not chain.versions and self.begins > record.at:
            return Answer(hole=f"{part}/{key}: {self._too_late}")
        told = as_of(chain, position, record.at)
        if told.hole is not None:
            return Answer(hole=f"{part}/{key}: {told.hole.value}")
        if told.version is None or told.version.deleted:
            return Answer()
        found = told.version
        return Answer(self._entry(part, found, Version(found.uid, found.resource_version, found.sequence, found.epoch)))

    def all_then(self, part: Part[Any], record: DecisionRecord) -> Iterable[Answer]:
        """Every object of a part that the world of a decision held, or may have held; in the order of their names."""
        known = self._whole.get((part.name, _scope(part.name, record.service)))
        if known is None:
            raise NotLoadedError(part.name)
        if self.begins > record.at:
            yield Answer(hole=f"{part}: {self._too_late}")
        own = {key for name, key in _own(record) if name == part.name}
        for key in sorted(own.union(known)):
            yield self.then(part, key, record)

    def values(self, index: Index[Any], entry: Entry[Any]) -> frozenset[str]:
        """Under which values an index finds an object."""
        # The entry lives as long as the cache, so that nothing else can take its place in memory.
        where = (str(index), id(entry))
        known = self._values.get(where)
        if known is None:
            obj = entry.object
            try:
                known = frozenset(() if obj is None else index.values(obj))
            except Exception:
                # As in the world of the decision: what an index stumbles over is not in it (FW-480).
                known = frozenset()
            self._values[where] = known
        return known

    @property
    def _too_late(self) -> str:
        return f"the history goes back to {self.begins:%Y-%m-%d %H:%M:%S} only, when the decision was taken already"

    def _chain(self, part: str, key: Key, service: str) -> Chain:
        chain = self._chains.get((part, key))
        if chain is None and (part, _scope(part, service)) not in self._whole:
            raise NotLoadedError(part)
        return chain or Chain()

    def _entry(self, part: Part[Any], found: LoggedVersion, version: Version) -> Entry[Any]:
        # Local versions of facts all look alike, so that the version alone does not tell which was found.
        where = (part.name, found.key, found.epoch, found.sequence, version)
        entry = self._entries.get(where)
        if entry is None:
            entry = self._entries[where] = Entry(part, found.key, found.data, version)
        return entry


def _saying_the_same(versions: Sequence[LoggedVersion], wanted: Version) -> LoggedVersion | None:
    """The version before one that says nothing new, and was therefore never published (FW-446)."""
    if not wanted.local:
        return None
    of_it = [one for one in versions if one.uid == wanted.uid and not one.deleted]
    return next((one for one in reversed(of_it) if int(one.resource_version) <= int(wanted.resource_version)), None)


def objects_of(record: DecisionRecord) -> Iterable[tuple[str, Key]]:
    """Part and key of every object that a record names."""
    for read in (*record.reads.objects, *record.world.own):
        if read.version is not None:
            yield read.part, read.key


def _own(record: DecisionRecord) -> Mapping[tuple[str, Key], RecordedObject]:
    return {(one.part, one.key): one for one in record.world.own}


def _scope(part: str, service: str) -> str:
    return service if part == FACTS_PART else ""
