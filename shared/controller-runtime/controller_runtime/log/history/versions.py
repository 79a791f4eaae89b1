"""The versions of one object as the history tells them, with the places where it cannot tell. Pure.

Within one epoch the versions of a subject form a chain: each names the sequence of the one before. Where a link is
missing, versions may be missing; that is shown as a hole and never guessed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from operator import attrgetter
from typing import Final

from controller_runtime.json import JsonObject, dumps
from controller_runtime.log.wire.messages import EnvelopeError, StateMessage
from controller_runtime.log.wire.part import Key
from controller_runtime.log.wire.version import Position, Version


class Hole(StrEnum):
    """Why something before a version is not known."""

    BEGINNING = "older versions are no longer kept"
    GAP = "versions before this one are missing"
    EPOCH = "a new epoch began; versions before it may be missing"
    UNREADABLE = "the version that was there cannot be read"


@dataclass(frozen=True, slots=True)
class LoggedVersion:
    """One version of one object.

    Attributes:
        state: what was published; of a long history little of the bodies is ever decoded.
        sequence: position in the state stream.
        pending: only the state stream holds it so far.
        hole: what is unknown between the version before and this one.
    """

    state: StateMessage
    sequence: int
    pending: bool = False
    hole: Hole | None = None

    @property
    def part(self) -> str:
        """Name of the part."""
        return self.state.part

    @property
    def key(self) -> Key:
        """Name of the object in its part."""
        return self.state.key

    @property
    def deleted(self) -> bool:
        """Whether this is the end of the object."""
        return self.state.deleted

    @property
    def place(self) -> tuple[str, int]:
        """Where it lies: epochs sort by age, and sequences rise within one."""
        return self.state.epoch, self.sequence

    def is_version(self, wanted: Version) -> bool:
        """Whether this is exactly the version that was read.

        By sequence and epoch, where it was read from the bus. What was read before it went over the bus is known by
        UID and resource version, because it may have been published in a later epoch.
        """
        if wanted.sequence is not None:
            return (wanted.epoch, wanted.sequence) == self.place
        answer = self.state.uid, self.state.resource_version
        return bool(wanted.uid) and (wanted.uid, wanted.resource_version) == answer


place_of: Final = attrgetter("place")
"""What versions of one object are sorted by."""


def chained(logged: Iterable[LoggedVersion], present: LoggedVersion | None) -> tuple[LoggedVersion, ...]:
    """Put the versions of one subject in order, without repetition, with the present one, and mark the holes.

    Args:
        logged: in whatever order. After a fault the history may hold a version behind later ones, or twice, because
            one that it lacks is logged when the gap is found; only places tell what followed what.
        present: what the state stream held before the history was read: what it names as its predecessor is there.
    """
    unique = {version.place: version for version in logged}
    if present is not None:
        unique.setdefault(present.place, present)
    versions = sorted(unique.values(), key=place_of)
    befores = [None, *versions]
    return tuple(
        replace(version, hole=hole_between(before, version)) for before, version in zip(befores, versions, strict=False)
    )


def _follows(before: LoggedVersion, version: LoggedVersion) -> bool:
    """Whether within an epoch nothing but repetitions can have come between two versions.

    After one that repeats its predecessor, which the history may have or not, the next one may name either.
    """
    if before.deleted and version.state.previous == 0:
        # Made again after its tombstone was swept.
        return True
    named = {before.sequence, before.state.previous} if before.state.repeats else {before.sequence}
    return version.state.previous in named


def hole_between(before: LoggedVersion | None, version: LoggedVersion) -> Hole | None:
    """What is unknown between two neighbours."""
    if before is None and not version.state.gap:
        return Hole.BEGINNING if version.state.previous else None
    if before is not None and before.state.epoch != version.state.epoch:
        return Hole.EPOCH
    if before is None or version.state.gap:
        return Hole.GAP
    return None if _follows(before, version) else Hole.GAP


@dataclass(frozen=True, slots=True)
class Chain:
    """What was read of one object: all that is kept, or a section of it.

    Attributes:
        versions: as `chained` gives them; epochs sort by age, and sequences rise within one.
        present: what the state stream holds.
        begins: nothing that lies before the first of the versions was left unread.
        ends: nothing that lies behind the last of them was left unread. In between, nothing ever is.
    """

    versions: tuple[LoggedVersion, ...] = ()
    present: LoggedVersion | None = None
    begins: bool = True
    ends: bool = True

    @classmethod
    def whole(cls, logged: Iterable[LoggedVersion], present: LoggedVersion | None) -> "Chain":
        """All that is kept of an object.

        Args:
            logged: as `chained` takes them.
            present: what the state stream held before the history was read.
        """
        versions = chained(logged, present)
        if present is not None and versions[-1].place > present.place:
            # What was logged meanwhile is in the stream now.
            present = versions[-1]
        return cls(versions, present)


class Knowledge(StrEnum):
    """What can be said of an object at some time."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StateAt:
    """An object as it was at some time.

    Attributes:
        version: the last version before that time; the deletion, where it was deleted; ``None`` if there is none.
        hole: set where a later version that is not kept may have replaced it before that time.
    """

    part: str
    key: Key
    knowledge: Knowledge
    version: LoggedVersion | None = None
    hole: Hole | None = None


def state_at(
    before: LoggedVersion | None, after: LoggedVersion | None, present: LoggedVersion | None, at: datetime
) -> StateAt:
    """Decide what is known of one subject.

    Args:
        before: the last version in the history not later than ``at``.
        after: the first one later than ``at``.
        present: what the state stream held before the history was read.
    """
    if present is not None and present.state.time <= at and _later(present, before):
        # What lies behind it was published while this was read.
        before, after = present, after if after is not None and after.place > present.place else None
    elif after is None and present is not None and present.state.time > at:
        after = present
    some = before or after
    assert some is not None, "a subject has at least one message"
    if before is None:
        knowledge = Knowledge.UNKNOWN if after is None or after.state.previous or after.state.gap else Knowledge.ABSENT
        return StateAt(some.part, some.key, knowledge, None, hole_between(None, some))
    hole = hole_between(before, after) if after is not None else None
    return StateAt(some.part, some.key, Knowledge.ABSENT if before.deleted else Knowledge.PRESENT, before, hole)


def _later(present: LoggedVersion, before: LoggedVersion | None) -> bool:
    return before is None or (present.state.time, present.sequence) > (before.state.time, before.sequence)


@dataclass(frozen=True, slots=True)
class VersionAnswer:
    """What the history tells of an object at some position: a version (a deletion included), nothing, or a hole.

    Attributes:
        unread: what was read of the object does not tell; the history may.
    """

    version: LoggedVersion | None = None
    hole: Hole | None = None
    unread: bool = False


def as_of(chain: Chain, position: Position, at: datetime) -> VersionAnswer:
    """What the state stream held of one subject when it had got to a position.

    Never guessed: a version counts only if nothing can have come between it and the position. Within an epoch nothing
    is missing; across epochs the next version has to name it as its predecessor, or the stream has to hold it still.

    Args:
        at: when that was; an object made later was absent then, whatever is missing.
    """
    assert position.sequence is not None, "only the bus gives positions"
    count = bisect_right(chain.versions, (position.epoch, position.sequence), key=place_of)
    before = chain.versions[count - 1] if count else None
    later = chain.versions[count] if count < len(chain.versions) else None
    answer = _between_neighbours(before, later, chain.present, position, at)
    beyond = (before is None and not chain.begins) or (later is None and not chain.ends)
    # A section shows as a hole what only was not read, too.
    cut_off = answer.hole is not None and not (chain.begins and chain.ends)
    return VersionAnswer(unread=True) if beyond or cut_off else answer


def _between_neighbours(
    before: LoggedVersion | None,
    later: LoggedVersion | None,
    present: LoggedVersion | None,
    position: Position,
    at: datetime,
) -> VersionAnswer:
    if before is None:
        if later is None or _was_made_after(later, position, at):
            return VersionAnswer()
        return VersionAnswer(hole=Hole.BEGINNING if later.state.previous else Hole.EPOCH)
    if later is None:
        confirmed = before.state.epoch == position.epoch or before.deleted or _is_same(before, present)
    elif later.state.epoch == position.epoch:
        confirmed = _follows(before, later)
    else:
        confirmed = before.state.epoch == position.epoch or later.state.previous == before.sequence
    if confirmed:
        return VersionAnswer(before)
    return VersionAnswer(hole=Hole.GAP if before.state.epoch == position.epoch else Hole.EPOCH)


def _is_same(version: LoggedVersion, present: LoggedVersion | None) -> bool:
    return present is not None and version.place == present.place


def _was_made_after(first: LoggedVersion, position: Position, at: datetime) -> bool:
    """Whether an object cannot have existed at a position before the first version that is known of it."""
    if first.state.previous:
        return False
    if first.state.epoch == position.epoch:
        return True
    created = creation(first)
    return created is not None and created > at


def creation(version: LoggedVersion) -> datetime | None:
    """When the API server made the object, to the second; ``None`` of a deletion and of what does not tell it."""
    metadata = _body(version).get("metadata")
    return _moment(metadata.get("creationTimestamp")) if isinstance(metadata, dict) else None


def fact_at(versions: Sequence[LoggedVersion], at: datetime) -> LoggedVersion | None:
    """The fact that its own service knew at some time.

    A service knows its facts before they go over the bus, when they have neither sequence nor resource version to be
    known by; the time of the observation distinguishes them. One that does not tell it may have been observed at any
    moment since the one before.
    """
    known: list[tuple[datetime, LoggedVersion]] = []
    for version in versions:
        if not version.deleted:
            before = known[-1][0] if known else datetime.min.replace(tzinfo=UTC)
            known.append((_moment(_body(version).get("observedAt")) or before, version))
    counting = (one for one in reversed(known) if one[0] <= at)
    return max(counting, key=lambda one: one[0], default=(at, None))[1]


def _body(version: LoggedVersion) -> JsonObject:
    """The JSON; empty of a deletion and of what cannot be read."""
    try:
        return version.state.json() or {}
    except EnvelopeError:
        return {}


def _moment(text: object) -> datetime | None:
    """A moment that compares with others; ``None`` of anything else."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return None if moment is None or moment.tzinfo is None else moment


def find_version(versions: Sequence[LoggedVersion], wanted: Version) -> LoggedVersion | None:
    """Exactly the version that was read; ``None`` if it is not kept."""
    exact = next((version for version in reversed(versions) if version.is_version(wanted)), None)
    return exact or _repeated(versions, wanted)


def _repeated(versions: Sequence[LoggedVersion], wanted: Version) -> LoggedVersion | None:
    """A version that the history was spared, because it says what the one before says.

    Between two neighbours of an unbroken chain there is nothing else, so their places prove it. That the next one is
    known is part of the proof: what follows the last one may be anything.

    A version that came over the bus was in the stream, so it is a repetition also where the next one begins another
    epoch, if that one names the version before as its predecessor. Of what was only written that proves nothing: a
    publisher that is killed may never have published it.
    """
    for before, after in pairwise(versions):
        same = before.state.uid == wanted.uid and not before.deleted
        if same and _is_unbroken(before, wanted, after) and _between(before, wanted, after):
            return _under_its_own_name(before, wanted)
    return None


def _is_unbroken(before: LoggedVersion, wanted: Version, after: LoggedVersion) -> bool:
    if after.hole is Hole.EPOCH and wanted.sequence is not None:
        return not after.state.gap and after.state.previous == before.sequence
    return after.hole is None


def _between(before: LoggedVersion, wanted: Version, after: LoggedVersion) -> bool:
    if wanted.sequence is not None:
        return wanted.epoch == before.state.epoch and before.sequence < wanted.sequence < after.sequence
    texts = (before.state.resource_version, wanted.resource_version, after.state.resource_version)
    if after.state.uid != wanted.uid or not all(text.isdecimal() for text in texts):
        return False
    first, between, last = map(int, texts)
    return first < between < last


def _under_its_own_name(version: LoggedVersion, wanted: Version) -> LoggedVersion:
    body = _body(version)
    metadata = body.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    named = {**body, "metadata": {**own, "resourceVersion": wanted.resource_version}}
    return replace(
        version,
        state=replace(version.state, resource_version=wanted.resource_version, body=dumps(named)),
        sequence=version.sequence if wanted.sequence is None else wanted.sequence,
    )
