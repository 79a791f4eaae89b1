"""One part as the world of a decision held it, with what today's indexes, summaries and lines make of it.

It moves from decision to decision along the log, so that each costs what changed in between, and what the decision
itself knew otherwise. Nothing of it is taken from answers that were recorded: those came from the code of then.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast

from controller_runtime.bus.chain import Chain, LoggedVersion, as_of, creation
from controller_runtime.bus.entry import Entry
from controller_runtime.bus.index_table import IndexTable, Table
from controller_runtime.bus.line import Line, LineTable
from controller_runtime.bus.part import Index, Key, Part
from controller_runtime.bus.recorded import RecordedObject
from controller_runtime.bus.standing import Position
from controller_runtime.bus.summary import Summary, SummaryTable
from controller_runtime.bus.world import Derived
from controller_runtime.replay.rebuilt import Rebuilt

B = TypeVar("B", bound=Table[Any])
D = TypeVar("D", Index[Any], Summary[Any, Any], Line[Any])


class NotLoadedError(BaseException):
    """Something was asked for that was not read from the history yet: read it, and ask again from the start.

    Not an `Exception`, because whoever asks must not take it for an answer.

    Attributes:
        keys: of the objects that have to be read; none = all of the part of which nothing is known.
    """

    def __init__(self, part: str, keys: Iterable[Key] = ()) -> None:
        super().__init__(part)
        self.part = part
        self.keys = frozenset(keys)


@dataclass(frozen=True, slots=True)
class Answer:
    """An object, its absence, or why neither can be told.

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
        position: how far its world was; ``None`` when undetermined.
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

    What is not needed is not read: where the objects that were told are as many as the world held, there were no others
    (FW-494).

    Args:
        chains: what was read of each object.
        told: the entry of a version, the same one for the same version, or that nobody can read it.
        read: the version that a decision knew.

    Attributes:
        moment: where it stands.
    """

    def __init__(
        self,
        part: Part[Any],
        chains: Mapping[Key, Chain],
        told: Callable[[LoggedVersion], Answer],
        read: Callable[[RecordedObject, datetime], Answer],
        *,
        complete: bool = True,
    ) -> None:
        self._part = part
        self._answer = told
        self._read = read
        self._entries: dict[Key, Entry[Any]] = {}
        self._holes: dict[Key, str] = {}
        self._unread: set[Key] = set()
        self._corrected: set[Key] = set()
        self._by_clock: dict[Key, datetime] = {}
        self._rebuilt: dict[Derived, Rebuilt[Any]] = {}
        self.learn(chains, complete=complete)

    def learn(self, chains: Mapping[Key, Chain], *, complete: bool) -> None:
        """More was read; what was told so far has to be told again.

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
        changed = (*self._changed(moment), *self._corrected)
        # Until it has arrived: one that stopped on its way stands nowhere.
        self.moment = _NOWHERE
        for key in changed:
            self._set(key, self._told(key, moment))
        self._corrected = set()
        for key, known in moment.known.items():
            entry = self._entries.get(key)
            # Most reads are what the bus told, which needs no second look.
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
        """Why it cannot be told what a look at all objects would have found; empty if it can be.

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

    def line(self, line: Line[Any]) -> Rebuilt[LineTable]:
        """Today's line of the objects."""
        return self._table(line, LineTable)

    # Inside

    def _table(self, derived: D, make: Callable[[D], B]) -> Rebuilt[B]:
        rebuilt = self._rebuilt.get(derived)
        if rebuilt is None:
            rebuilt = self._rebuilt[derived] = Rebuilt(make(derived))
            for key, entry in self._entries.items():
                rebuilt.put(key, entry)
        return cast("Rebuilt[B]", rebuilt)

    def _changed(self, moment: Moment) -> Iterable[Key]:
        """Objects of which the stream told something between two moments, in whichever direction."""
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

    def _told(self, key: Key, moment: Moment) -> Answer:
        """What the stream had told of an object."""
        self._by_clock.pop(key, None)
        chain = self._chains.get(key)
        if chain is None or moment.position is None:
            return Answer()
        told = as_of(chain, moment.position, moment.at)
        if told.unread:
            return Answer(unread=True)
        first = next(iter(chain.versions), None)
        if told.version is None and first is not None and (made := creation(first)) is not None:
            self._by_clock[key] = made
        if told.hole is not None:
            return Answer(hole=f"{self._part}/{key}: {told.hole.value}")
        return Answer() if told.version is None or told.version.deleted else self._answer(told.version)

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
        """Whether no other object can have been there, as each of these was, and the world held no more."""
        position = self.moment.position
        known_lost = any(key in self._holes for key in self._corrected)
        return position is not None and position.objects == len(self._entries) and not known_lost

    @property
    def _miscounted(self) -> str:
        position, held = self.moment.position, len(self._entries)
        if position is None or position.objects in (None, held):
            return ""
        return f"the history tells of {held} objects, the world held {position.objects}"
