"""The versions of one object as the history tells them, with the places where it can not tell. Pure.

Within one epoch the versions of a subject form a chain: each names the sequence of the one before. Where a link is
missing, versions may be missing; that is shown as a hole and never guessed (design, item 8).
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise

from aim_shared.bus.entry import Version
from aim_shared.bus.envelope import EnvelopeError, LogMessage, StateMessage, Verb
from aim_shared.bus.part import Key
from aim_shared.bus.standing import Position
from aim_shared.json import JsonObject, dumps, loads


class Hole(StrEnum):
    """Why something before a version is not known."""

    BEGINNING = "older versions are no longer kept"
    GAP = "versions before this one are missing"
    EPOCH = "a new epoch began; versions before it may be missing"


@dataclass(frozen=True, slots=True)
class LoggedVersion:
    """One version of one object.

    Attributes:
        sequence: position in the state stream.
        previous: that of the version before; 0 if there is none.
        time: when the publisher sent it, by its clock.
        data: the JSON of the object; empty for a deletion. Of a long history little is ever decoded.
        pending: only the state stream holds it so far.
        hole: what is unknown between the version before and this one.
        gap: the publisher did not keep versions between the one before and this one.
    """

    part: str
    key: Key
    verb: Verb
    epoch: str
    uid: str
    resource_version: str
    sequence: int
    previous: int
    time: datetime
    traceparent: str
    data: bytes
    pending: bool = False
    hole: Hole | None = None
    gap: bool = False

    @property
    def deleted(self) -> bool:
        """Whether this is the end of the object."""
        return self.verb is Verb.DELETE

    @property
    def body(self) -> JsonObject | None:
        """The object, decoded anew at each call; ``None`` for a deletion.

        Raises:
            EnvelopeError: the data are no JSON object.
        """
        if self.deleted:
            return None
        try:
            return loads(self.data)
        except ValueError as error:
            raise EnvelopeError(f"{self.part} {self.key}: the body is no JSON object: {error}") from error

    def is_version(self, wanted: Version) -> bool:
        """Whether this is exactly the version that was read.

        By sequence and epoch, where it was read from the bus. What was read before it went over the bus is told by
        UID and resource version, because it may have been published in a later epoch.
        """
        if wanted.sequence is not None:
            return (wanted.sequence, wanted.epoch) == (self.sequence, self.epoch)
        return bool(wanted.uid) and (wanted.uid, wanted.resource_version) == (self.uid, self.resource_version)


def from_log(message: LogMessage) -> LoggedVersion:
    """A version as the history holds it."""
    return _version(message.state, message.sequence, pending=False)


def from_state(message: StateMessage, sequence: int) -> LoggedVersion:
    """A version as the state stream holds it."""
    return _version(message, sequence, pending=True)


def _version(message: StateMessage, sequence: int, *, pending: bool) -> LoggedVersion:
    return LoggedVersion(
        part=message.part,
        key=message.key,
        verb=message.verb,
        epoch=message.epoch,
        uid=message.uid,
        resource_version=message.resource_version,
        sequence=sequence,
        previous=message.previous,
        time=message.time,
        traceparent=message.traceparent,
        data=message.body,
        pending=pending,
        gap=message.gap,
    )


def chained(logged: Iterable[LoggedVersion], present: LoggedVersion | None) -> tuple[LoggedVersion, ...]:
    """Put the versions of one subject in order, without repetition, with the present one, and mark the holes.

    Args:
        logged: in the order of the history, where a version may stand twice.
        present: what the state stream holds, which the history may lack.
    """
    unique = {(version.epoch, version.sequence): version for version in logged}
    if present is not None:
        unique.setdefault((present.epoch, present.sequence), present)
    versions = list(unique.values())
    befores = [None, *versions]
    return tuple(
        replace(version, hole=hole_between(before, version)) for before, version in zip(befores, versions, strict=False)
    )


def hole_between(before: LoggedVersion | None, version: LoggedVersion) -> Hole | None:
    """What is unknown between two neighbours."""
    if before is None and not version.gap:
        return Hole.BEGINNING if version.previous else None
    if before is not None and before.epoch != version.epoch:
        return Hole.EPOCH
    if before is None or version.gap:
        return Hole.GAP
    if before.deleted and version.previous == 0:
        # Made again after its tombstone was swept.
        return None
    return None if version.previous == before.sequence else Hole.GAP


@dataclass(frozen=True, slots=True)
class Chain:
    """All that is kept of one object.

    Attributes:
        versions: as `chained` gives them; epochs sort by age, and sequences rise within one.
        present: what the state stream holds.
    """

    versions: tuple[LoggedVersion, ...] = ()
    present: LoggedVersion | None = None


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
        present: what the state stream holds.
    """
    if present is not None and present.time <= at and _later(present, before):
        before, after = present, None
    elif after is None and present is not None and present.time > at:
        after = present
    some = before or after
    assert some is not None, "a subject has at least one message"
    if before is None:
        knowledge = Knowledge.UNKNOWN if after is None or after.previous or after.gap else Knowledge.ABSENT
        return StateAt(some.part, some.key, knowledge, None, hole_between(None, some))
    hole = hole_between(before, after) if after is not None else None
    return StateAt(some.part, some.key, Knowledge.ABSENT if before.deleted else Knowledge.PRESENT, before, hole)


def _later(present: LoggedVersion, before: LoggedVersion | None) -> bool:
    return before is None or (present.time, present.sequence) > (before.time, before.sequence)


@dataclass(frozen=True, slots=True)
class Told:
    """What the history tells of an object at some position: a version (a deletion included), nothing, or a hole."""

    version: LoggedVersion | None = None
    hole: Hole | None = None


def as_of(chain: Chain, position: Position, at: datetime) -> Told:
    """What the state stream held of one subject when it had got to a position.

    Never guessed: a version counts only if nothing can have come between it and the position. Within an epoch nothing
    is missing; across epochs the next version has to name it as its predecessor, or the stream has to hold it still.

    Args:
        at: when that was; an object made later was absent then, whatever is missing.
    """
    assert position.sequence is not None, "only the bus gives positions"
    count = bisect_right(chain.versions, (position.epoch, position.sequence), key=_place)
    before = chain.versions[count - 1] if count else None
    later = chain.versions[count] if count < len(chain.versions) else None
    if before is None:
        if later is None or _was_made_after(later, position, at):
            return Told()
        return Told(hole=Hole.BEGINNING if later.previous else Hole.EPOCH)
    if later is None:
        vouched = before.epoch == position.epoch or before.deleted or _is_same(before, chain.present)
    elif later.epoch == position.epoch:
        vouched = later.previous == before.sequence or (before.deleted and later.previous == 0)
    else:
        vouched = before.epoch == position.epoch or later.previous == before.sequence
    if vouched:
        return Told(before)
    return Told(hole=Hole.GAP if before.epoch == position.epoch else Hole.EPOCH)


def _place(version: LoggedVersion) -> tuple[str, int]:
    return version.epoch, version.sequence


def _is_same(version: LoggedVersion, present: LoggedVersion | None) -> bool:
    return present is not None and _place(version) == _place(present)


def _was_made_after(first: LoggedVersion, position: Position, at: datetime) -> bool:
    """Whether an object can not have existed at a position before the first version that is known of it."""
    if first.previous:
        return False
    if first.epoch == position.epoch:
        return True
    created = creation(first)
    return created is not None and created > at


def creation(version: LoggedVersion) -> datetime | None:
    """When the API server made the object, to the second; ``None`` of a deletion and of what it does not keep."""
    created = ((version.body or {}).get("metadata") or {}).get("creationTimestamp")
    return datetime.fromisoformat(created) if isinstance(created, str) else None


def fact_at(versions: Sequence[LoggedVersion], at: datetime) -> LoggedVersion | None:
    """The fact that its own service knew at some time.

    A service knows its facts before they go over the bus, when they have neither sequence nor resource version to be
    told by; the time of the observation tells them apart.
    """
    known = [(observed, version) for version in versions if (observed := _observed(version)) is not None]
    return max((one for one in known if one[0] <= at), key=lambda one: one[0], default=(at, None))[1]


def _observed(version: LoggedVersion) -> datetime | None:
    text = None if version.body is None else version.body.get("observedAt")
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def find(versions: Sequence[LoggedVersion], wanted: Version) -> LoggedVersion | None:
    """Exactly the version that was read; ``None`` if it is not kept."""
    exact = next((version for version in reversed(versions) if version.is_version(wanted)), None)
    return exact or _repeated(versions, wanted)


def _repeated(versions: Sequence[LoggedVersion], wanted: Version) -> LoggedVersion | None:
    """A version that the history was spared, because it says what the one before says.

    Between two neighbours of an unbroken chain there is nothing else, so their places prove it. That the next one is
    known is part of the proof: what follows the last one may be anything.
    """
    for before, after in pairwise(versions):
        if before.uid == wanted.uid and not before.deleted and after.hole is None and _between(before, wanted, after):
            return _under_its_own_name(before, wanted)
    return None


def _between(before: LoggedVersion, wanted: Version, after: LoggedVersion) -> bool:
    if wanted.sequence is not None:
        return wanted.epoch == before.epoch and before.sequence < wanted.sequence < after.sequence
    texts = (before.resource_version, wanted.resource_version, after.resource_version)
    if after.uid != wanted.uid or not all(text.isdecimal() for text in texts):
        return False
    first, between, last = map(int, texts)
    return first < between < last


def _under_its_own_name(version: LoggedVersion, wanted: Version) -> LoggedVersion:
    body = version.body or {}
    named = {**body, "metadata": {**(body.get("metadata") or {}), "resourceVersion": wanted.resource_version}}
    return replace(
        version,
        resource_version=wanted.resource_version,
        sequence=version.sequence if wanted.sequence is None else wanted.sequence,
        data=dumps(named),
    )
