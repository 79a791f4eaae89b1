"""What the history tells of the objects of a decision: those that were read, and all others as of its moment."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from controller_runtime.bus.chain import Chain, Hole, LoggedVersion, fact_at, find
from controller_runtime.bus.decision import DecisionRecord
from controller_runtime.bus.entry import Entry, Version
from controller_runtime.bus.envelope import EnvelopeError
from controller_runtime.bus.history import PartOf
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.recorded import LISTED, RecordedObject
from controller_runtime.bus.subjects import FACTS_PART
from controller_runtime.replay.past_part import Answer, Moment, NotLoadedError, PastPart


class UntoldError(BaseException):
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
        fact = part.name == FACTS_PART and wanted.local
        found = fact_at(versions, at) if fact else find(versions, wanted)
        if found is None and part.read_only:
            found = _saying_the_same(versions, wanted)
        if found is None or found.deleted:
            return Answer(hole=f"{part}/{read.key}: version {wanted.resource_version or wanted.sequence} is not kept")
        return self._answer(part, found, wanted)

    def moved_to(self, part: Part[Any], record: DecisionRecord) -> PastPart:
        """A part, moved to where the world of a decision held it.

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
            found = PastPart(part, chains, partial(self._told, part), partial(self.read, part), complete=complete)
            self._parts[where] = found
        if found.moment.decision != record.id:
            found.move(self._moment(part.name, record))
        return found

    def _moment(self, part: str, record: DecisionRecord) -> Moment:
        known = {one.key: one for one in (*record.reads.objects, *record.world.own) if one.part == part}
        position, unknown = record.world.position(part), ""
        if position is None:
            unknown = "the record does not tell how far its world was with it"
        elif position.sequence is None:
            position, unknown = None, f"it came by another way than the bus, or over {LISTED} own writes were under way"
        elif self.begins > record.at:
            begins = f"{self.begins:%Y-%m-%d %H:%M:%S}"
            unknown = f"the history goes back to {begins} only, when the decision was taken already"
        return Moment(record.id, record.at, position, known, unknown)

    def _told(self, part: Part[Any], found: LoggedVersion) -> Answer:
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
        # Live, such a message counts as absent; what was there before somebody broke it cannot be told (FW-496).
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


def objects_of(record: DecisionRecord) -> Iterable[tuple[str, Key]]:
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
    return part, service if part == FACTS_PART else ""
