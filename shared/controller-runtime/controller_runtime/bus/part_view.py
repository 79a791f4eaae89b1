"""One part as the bus shows it to a consumer, and whether what was told proves that the part is fresh. Pure."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Final

from controller_runtime.bus.entry import Entry, Version
from controller_runtime.bus.incoming import Deletion
from controller_runtime.bus.marker import Marker
from controller_runtime.bus.part import Key, Part
from controller_runtime.bus.proof import Account

_NOTHING: Final = Version("", "")


class Belief(Enum):
    """What a marker is worth."""

    AGREES = "the bus told exactly what the publisher vouches for"
    DISAGREES = "the bus told everything it has, and that is something else"
    UNDECIDED = "more is to come, or has come, than lies before the marker"


@dataclass(slots=True)
class Stage:
    """A snapshot in the making.

    It may be fed twice, by a consumer of its own and by the one that brings the changes of all parts; whatever lies
    further behind in the stream is the newer one.

    Attributes:
        entries: what lives.
        tombstones: what the snapshot says of objects that are gone.
        account: what was told so far.
        complete: everything that lay ready when the snapshot was asked for has arrived.
        covered: everything of the part up to this sequence has.
        proven: a marker was believed of this very snapshot; one that was believed of other content proves nothing.
    """

    entries: dict[Key, Entry[Any]] = field(default_factory=dict)
    tombstones: dict[Key, Deletion] = field(default_factory=dict)
    account: Account = field(default_factory=Account)
    complete: bool = False
    covered: int = 0
    proven: bool = False

    def add(self, incoming: Entry[Any] | Deletion) -> None:
        """The snapshot goes on."""
        key, sequence = incoming.key, incoming.version.sequence or 0
        known = self.entries.get(key) or self.tombstones.get(key)
        if known is not None and (known.version.sequence or 0) >= sequence:
            return
        if isinstance(incoming, Deletion):
            self.entries.pop(key, None)
            self.tombstones[key] = incoming
            self.account.drop(key, sequence)
        else:
            self.tombstones.pop(key, None)
            self.entries[key] = incoming
            self.account.put(key, sequence)

    def lose(self, key: Key, sequence: int) -> None:
        """Nobody can read what lies in the place of an object's message."""
        known = self.entries.get(key) or self.tombstones.get(key)
        if known is None or (known.version.sequence or 0) < sequence:
            self.entries.pop(key, None)
            self.tombstones.pop(key, None)
            self.account.drop(key, sequence)


@dataclass(slots=True)
class PartView:
    """One part as the bus shows it.

    Attributes:
        attached: the world's content of the part comes from here.
        stage: the snapshot in the making; ``None`` once it was swapped in, or while somebody else feeds the part.
        account: of what was swapped in, and followed since; ``None`` before that.
        covered: everything up to this sequence came with the snapshot.
        marked_at: broker's time of the last marker that was believed.
        vouched: the version up to which every change lies before that marker, in its epoch and era.
        foreign: another cluster publishes the part on the same subjects: its UID; else empty.
        vouched_by: source of that marker.
        publisher: whose markers alone count, by their source; empty = anybody's.
    """

    part: Part[Any]
    attached: bool = False
    stage: Stage | None = None
    account: Account | None = None
    covered: int = 0
    marked_at: datetime | None = None
    vouched: Version = _NOTHING
    foreign: str = ""
    vouched_by: str = ""
    publisher: str = ""

    def begin_stage(self) -> None:
        """Another snapshot is coming."""
        self.stage, self.covered = Stage(), 0

    @property
    def swappable(self) -> bool:
        """Whether a snapshot is finished and a marker agreed with it."""
        return self.stage is not None and self.stage.complete and self.stage.proven

    def swap(self) -> Stage:
        """The snapshot is finished and goes into the world; what follows changes it."""
        assert self.stage is not None
        stage, self.stage = self.stage, None
        self.account, self.covered, self.attached = stage.account, stage.covered, True
        return stage

    def let_go(self) -> None:
        """Nothing of what the bus tells goes into the world until another snapshot was swapped in."""
        self.attached, self.account = False, None

    def doubt(self) -> None:
        """What was believed is no longer."""
        self.marked_at = None
        if self.stage is not None:
            self.stage.proven = False

    def belongs_to(self, cluster: str) -> None:
        """Another cluster publishes here: neither what it tells nor what was told before is this cluster's present."""
        self.foreign = cluster
        self.stage = None
        self.doubt()
        self.let_go()

    def follow(self, incoming: Entry[Any] | Deletion) -> bool:
        """Take note of a message; whether the world has to take it in."""
        sequence = incoming.version.sequence or 0
        if self.stage is not None:
            self.stage.add(incoming)
            return False
        if not self.attached or self.account is None or sequence <= self.covered:
            return False
        if isinstance(incoming, Deletion):
            self.account.drop(incoming.key, sequence)
        else:
            self.account.put(incoming.key, sequence)
        return True

    def lose(self, key: Key, sequence: int) -> None:
        """Nobody can read what lies in the place of an object's message now: the stream no longer tells of it."""
        if self.stage is not None:
            self.stage.lose(key, sequence)
        elif self.account is not None and sequence > self.covered:
            self.account.drop(key, sequence)

    def judge(self, marker: Marker, sequence: int, *, caught_up: bool) -> Belief:
        """Compare what a marker vouches for with what was told.

        Args:
            sequence: of the marker.
            caught_up: nothing lay ready behind it when it was delivered.
        """
        account = self.account if self.stage is None else self.stage.account
        if account is None or sequence < account.highest:
            return Belief.UNDECIDED
        if account.proof == marker.proof:
            return Belief.AGREES
        # What was replaced before it was delivered comes behind the marker: only then nothing is missing.
        whole = caught_up and (self.stage is None or self.stage.complete)
        return Belief.DISAGREES if whole else Belief.UNDECIDED

    def believe(self, marker: Marker, stored: datetime) -> None:
        """The marker counts."""
        self.marked_at, self.vouched_by = stored, marker.source
        self.foreign = ""
        self.vouched = Version("", marker.resource_version, None, marker.epoch, marker.comparable_since)
        if self.stage is not None:
            self.stage.proven = True

    @property
    def told(self) -> int:
        """Number of objects that the bus told of."""
        account = self.account if self.stage is None else self.stage.account
        return 0 if account is None else account.proof.objects
