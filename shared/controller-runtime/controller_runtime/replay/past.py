"""What the history says of the objects of a decision: those that were read, and all others as of its moment."""

import traceback
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

from controller_runtime.log.cache.indexes import IndexTable, Summary, SummaryTable, Table, WaitQueue, WaitQueueTable
from controller_runtime.log.cache.store import Derived
from controller_runtime.log.history.decisions import LISTED, DecisionRecord, RecordedObject
from controller_runtime.log.history.reader import PartOf
from controller_runtime.log.history.versions import Chain, Hole, LoggedVersion, as_of, creation, fact_at, find_version
from controller_runtime.log.wire.messages import EnvelopeError
from controller_runtime.log.wire.part import Index, Key, Part
from controller_runtime.log.wire.subjects import is_facts
from controller_runtime.log.wire.version import Entry, Position, Version

B = TypeVar("B", bound=Table[Any])


class Rebuilt(Generic[B]):
    """A table as the cache keeps it; what the code raises for an object is kept as well.

    Attributes:
        raised: tracebacks by object; as in the cache, such an object is not in the table (FW-480).
    """

    def __init__(self, table: B) -> None:
        self.table = table
        self.raised: dict[Key, str] = {}
        self._nothing = table.derived(None)
        self._held: dict[Key, Any] = {}
        self._known: dict[int, tuple[Entry[Any], Any, str]] = {}

    def put(self, key: Key, entry: Entry[Any] | None) -> None:
        """An object is another one now, or gone."""
        now, raised = (self._nothing, "") if entry is None else self._derived(entry)
        self.table.move(key, self._held.pop(key, self._nothing), now)
        if entry is not None:
            self._held[key] = now
        self.raised.pop(key, None)
        if raised:
            self.raised[key] = raised

    def _derived(self, entry: Entry[Any]) -> tuple[Any, str]:
        known = self._known.get(id(entry))
        if known is None:
            # With the entry itself, so that nothing else can take its place in memory.
            known = self._known[id(entry)] = (entry, *self._look_at(entry))
        return known[1:]

    def _look_at(self, entry: Entry[Any]) -> tuple[Any, str]:
        try:
            return self.table.derived(entry.object or entry.object_to(self.table.depth)), ""
        except Exception as bug:
            return self._nothing, "".join(traceback.format_exception(bug))


D = TypeVar("D", Index[Any], Summary[Any, Any], WaitQueue[Any])


class NotLoadedError(BaseException):
    """Something was asked for that was not read from the history yet: read it, and ask again from the start.

    Not an `Exception`, because the caller must not take it for an answer.

    Attributes:
        keys: of the objects that have to be read; none = all of the part of which nothing is known.
    """

    def __init__(self, part: str, keys: Iterable[Key] = ()) -> None:
        super().__init__(part)
        self.part = part
        self.keys = frozenset(keys)


@dataclass(frozen=True, slots=True)
class Answer:
    """An object, its absence, or why neither is known.

    Attributes:
        unread: the history may tell; it was not asked.
    """

    entry: Entry[Any] | None = None
    hole: str | None = None
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    """When a decision looked at a part.

    Attributes:
        decision: its ID.
        at: the clock that it was given.
        position: how far its cache was; ``None`` when undetermined.
        known: what it knew of single objects, own writes and reads: better than anything that can be rebuilt.
        unknown: why the part as a whole cannot be rebuilt; empty if it can be.
    """

    decision: str
    at: datetime
    position: Position | None
    known: Mapping[Key, RecordedObject]
    unknown: str = ""


_NOWHERE: Final = Moment("", datetime.min.replace(tzinfo=UTC), None, {})


class PastPart:
    """All objects of a part, at one moment after the other.

    What is not needed is not read: where the objects that were delivered are as many as the cache held, there were
    no others (FW-494).

    Args:
        chains: what was read of each object.
        found: the entry of a version, the same one for the same version, or that it is unreadable.
        read: the version that a decision knew.

    Attributes:
        moment: where it stands.
    """

    def __init__(
        self,
        part: Part[Any],
        chains: Mapping[Key, Chain],
        found: Callable[[LoggedVersion], Answer],
        read: Callable[[RecordedObject, datetime], Answer],
        *,
        complete: bool = True,
    ) -> None:
        self._part = part
        self._answer = found
        self._read = read
        self._entries: dict[Key, Entry[Any]] = {}
        self._holes: dict[Key, str] = {}
        self._unread: set[Key] = set()
        self._corrected: set[Key] = set()
        self._by_clock: dict[Key, datetime] = {}
        self._rebuilt: dict[Derived, Rebuilt[Any]] = {}
        self.learn(chains, complete=complete)

    def learn(self, chains: Mapping[Key, Chain], *, complete: bool) -> None:
        """More was read; what was delivered so far has to be delivered again.

        Args:
            complete: the history knows of no other objects.
        """
        self._chains = chains
        self._complete = complete
        places = sorted((one.place, key) for key, chain in chains.items() for one in chain.versions)
        self._places = [place for place, _ in places]
        self._keys = [key for _, key in places]
        self.moment = _NOWHERE

    def move(self, moment: Moment) -> None:
        """Become what a decision saw."""
        changed = (*self._changed_keys(moment), *self._corrected)
        # Until it has arrived: one that stopped on its way stands nowhere.
        self.moment = _NOWHERE
        for key in changed:
            self._set(key, self._decoded(key, moment))
        self._corrected = set()
        for key, known in moment.known.items():
            entry = self._entries.get(key)
            # Most reads are what the bus delivered, which needs no second look.
            if entry is None or known.version is None or entry.version != known.version or known.version.local:
                self._set(key, self._read(known, moment.at))
                self._corrected.add(key)
        self.moment = moment

    def get(self, key: Key) -> Answer:
        """One object.

        Raises:
            NotLoadedError: the history has to be asked.
        """
        entry, hole = self._entries.get(key), self._holes.get(key)
        if entry is not None or key in self._corrected:
            return Answer(entry, hole)
        if self._are_all:
            return Answer()
        if self.moment.unknown or hole is not None:
            return Answer(hole=hole or f"{self._part}/{key}: {self.moment.unknown}")
        if key in self._unread or not (self._complete or key in self._chains):
            raise NotLoadedError(self._part.name, {key})
        return Answer()

    @property
    def present(self) -> list[Key]:
        """Every object that there is, sorted."""
        return sorted(self._entries)

    @property
    def holes(self) -> list[str]:
        """Why it is unknown what a look at all objects would have found; empty if it can be.

        Raises:
            NotLoadedError: the history has to be asked.
        """
        if self._are_all:
            return []
        if not self.moment.unknown and (self._unread or not self._complete):
            raise NotLoadedError(self._part.name, self._unread)
        whole = self.moment.unknown or (self._miscounted if not self._holes else "")
        return [*([f"{self._part}: {whole}"] if whole else []), *(self._holes[key] for key in sorted(self._holes))]

    def index(self, index: Index[Any]) -> Rebuilt[IndexTable]:
        """Today's index over the objects."""
        return self._table(index, IndexTable)

    def summary(self, summary: Summary[Any, Any]) -> Rebuilt[SummaryTable]:
        """Today's summary of the objects."""
        return self._table(summary, SummaryTable)

    def queue(self, queue: WaitQueue[Any]) -> Rebuilt[WaitQueueTable]:
        """Today's line of the objects."""
        return self._table(queue, WaitQueueTable)

    # Inside

    def _table(self, derived: D, make: Callable[[D], B]) -> Rebuilt[B]:
        rebuilt = self._rebuilt.get(derived)
        if rebuilt is None:
            rebuilt = self._rebuilt[derived] = Rebuilt(make(derived))
            for key, entry in self._entries.items():
                rebuilt.put(key, entry)
        return cast("Rebuilt[B]", rebuilt)

    def _changed_keys(self, moment: Moment) -> Iterable[Key]:
        """Objects with messages in the stream between two moments, in whichever direction."""
        was, now = self.moment, moment
        if was is _NOWHERE:
            return tuple(self._chains)
        if was.position is None or now.position is None or was.position.epoch != now.position.epoch:
            return () if was.position is now.position is None else tuple(self._chains)
        first, last = sorted((self._count(was.position), self._count(now.position)))
        by_clock = {key for key, made in self._by_clock.items() if (made > was.at) != (made > now.at)}
        return by_clock.union(self._keys[first:last])

    def _count(self, position: Position) -> int:
        """How many versions of all objects had come up to a position."""
        assert position.sequence is not None
        return bisect_right(self._places, (position.epoch, position.sequence))

    def _decoded(self, key: Key, moment: Moment) -> Answer:
        """What the stream had delivered of an object."""
        self._by_clock.pop(key, None)
        chain = self._chains.get(key)
        if chain is None or moment.position is None:
            return Answer()
        found = as_of(chain, moment.position, moment.at)
        if found.unread:
            return Answer(unread=True)
        first = next(iter(chain.versions), None)
        if found.version is None and first is not None and (made := creation(first)) is not None:
            self._by_clock[key] = made
        if found.hole is not None:
            return Answer(hole=f"{self._part}/{key}: {found.hole.value}")
        return Answer() if found.version is None or found.version.deleted else self._answer(found.version)

    def _set(self, key: Key, answer: Answer) -> None:
        if answer.unread:
            self._unread.add(key)
        else:
            self._unread.discard(key)
        if answer.hole is None:
            self._holes.pop(key, None)
        else:
            self._holes[key] = answer.hole
        if answer.entry is self._entries.get(key):
            return
        if answer.entry is None:
            del self._entries[key]
        else:
            self._entries[key] = answer.entry
        for rebuilt in self._rebuilt.values():
            rebuilt.put(key, answer.entry)

    @property
    def _are_all(self) -> bool:
        """Whether no other object can have been there, as each of these was, and the cache held no more."""
        position = self.moment.position
        known_lost = any(key in self._holes for key in self._corrected)
        return position is not None and position.objects == len(self._entries) and not known_lost

    @property
    def _miscounted(self) -> str:
        position, held = self.moment.position, len(self._entries)
        if position is None or position.objects in (None, held):
            return ""
        return f"the history tells of {held} objects, the cache held {position.objects}"


class UnansweredError(BaseException):
    """Something was asked for, and looking for it raised: that is a fault of the replay or of the log.

    Not an `Exception`, because today's code, which asks, must neither take it for an answer nor be blamed for it.
    """


class Past:
    """What was read from the history; one for the replay of many decisions from one reading of the log.

    What is decoded stays decoded: one version is read by many passes.
    """

    def __init__(self) -> None:
        self.begins = datetime.min.replace(tzinfo=UTC)
        """Since when the history is complete: of what is older, and gone since, it may hold no trace."""
        self._chains: dict[tuple[str, Key], Chain] = {}
        self._sections: dict[PartOf, tuple[Mapping[Key, Chain], bool]] = {}
        self._answers: dict[tuple[str, Key, str, int, Version], Answer] = {}
        self._parts: dict[tuple[str, str], PastPart] = {}

    def add(self, chains: Mapping[tuple[str, Key], Chain]) -> None:
        """Take in some objects."""
        self._chains.update(chains)

    def add_part(self, where: PartOf, chains: Mapping[Key, Chain], *, complete: bool = True) -> None:
        """Take in what was read of a part, instead of what was read of it before; of the facts, those of a service.

        Args:
            complete: the history knows of no other objects.
        """
        self._sections[where] = chains, complete
        for (service, part), found in self._parts.items():
            if scoped_part(part, service) == where:
                found.learn(chains, complete=complete)

    def read(self, part: Part[Any], read: RecordedObject, at: datetime) -> Answer:
        """The version that a pass knew."""
        wanted = read.version
        if wanted is None:
            return Answer()
        versions = self._chains.get((part.name, read.key), Chain()).versions
        fact = is_facts(part.name) and wanted.local
        found = fact_at(versions, at) if fact else find_version(versions, wanted)
        if found is None and part.read_only:
            found = _saying_the_same(versions, wanted)
        if found is None or found.deleted:
            return Answer(hole=f"{part}/{read.key}: version {wanted.resource_version or wanted.sequence} is not kept")
        return self._answer(part, found, wanted)

    def moved_to(self, part: Part[Any], record: DecisionRecord) -> PastPart:
        """A part, moved to where the cache of a decision held it.

        It is one object for all decisions of a service: ask again instead of keeping it or what it returns.

        Raises:
            NotLoadedError: the part was not read from the history yet.
        """
        section = self._sections.get(scoped_part(part.name, record.service))
        if section is None:
            raise NotLoadedError(part.name)
        chains, complete = section
        where = (record.service, part.name)
        found = self._parts.get(where)
        if found is None:
            found = PastPart(part, chains, partial(self._decoded, part), partial(self.read, part), complete=complete)
            self._parts[where] = found
        if found.moment.decision != record.id:
            found.move(self._moment(part.name, record))
        return found

    def _moment(self, part: str, record: DecisionRecord) -> Moment:
        known = {one.key: one for one in (*record.reads.objects, *record.world.own) if one.part == part}
        position, unknown = record.world.position(part), ""
        if position is None:
            unknown = "the record does not tell how far its cache was with it"
        elif position.sequence is None:
            position, unknown = None, f"it came by another way than the bus, or over {LISTED} own writes were under way"
        elif self.begins > record.at:
            begins = f"{self.begins:%Y-%m-%d %H:%M:%S}"
            unknown = f"the history goes back to {begins} only, when the decision was taken already"
        return Moment(record.id, record.at, position, known, unknown)

    def _decoded(self, part: Part[Any], found: LoggedVersion) -> Answer:
        state = found.state
        return self._answer(part, found, Version(state.uid, state.resource_version, found.sequence, state.epoch))

    def _answer(self, part: Part[Any], found: LoggedVersion, version: Version) -> Answer:
        # Local versions of facts all look alike, so that the version alone does not tell which was found.
        where = (part.name, found.key, *found.place, version)
        answer = self._answers.get(where)
        if answer is None:
            answer = self._answers[where] = _read(part, found, version)
        return answer


def _read(part: Part[Any], found: LoggedVersion, version: Version) -> Answer:
    try:
        found.state.object()
    except EnvelopeError:
        # Live, such a message counts as absent; what was there before it was broken is unknown (FW-496).
        return Answer(hole=f"{part}/{found.key}: {Hole.UNREADABLE.value} ({found.sequence})")
    return Answer(Entry(part, found.key, found.state.body, version))


def _saying_the_same(versions: Sequence[LoggedVersion], wanted: Version) -> LoggedVersion | None:
    """The version before one that says nothing new, and was therefore never published (FW-446)."""
    if not wanted.local or not wanted.resource_version.isdecimal():
        return None
    last = int(wanted.resource_version)
    of_it = [one for one in versions if one.state.uid == wanted.uid and not one.deleted]
    numbered = [one for one in reversed(of_it) if one.state.resource_version.isdecimal()]
    return next((one for one in numbered if int(one.state.resource_version) <= last), None)


def objects_read(record: DecisionRecord) -> Iterable[tuple[str, Key]]:
    """Part and key of every object that a record names."""
    for read in (*record.reads.objects, *record.world.own):
        if read.version is not None:
            yield read.part, read.key


def searched_parts(record: DecisionRecord) -> Iterable[str]:
    """Names of the parts of which a decision needs every object again (FW-481)."""
    reads = record.reads
    yield from (read.part for read in reads.indexes if read.index)
    yield from (read.part for read in reads.summaries)
    yield from (read.part for read in reads.groups)


def scoped_part(part: str, service: str) -> PartOf:
    """What a service sees of a part: of the facts, its own."""
    return part, service if is_facts(part) else ""
