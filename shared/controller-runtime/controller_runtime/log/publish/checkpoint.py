"""The checkpoint of a part: its publisher states that the stream says what Kubernetes says. Pure."""

from collections import UserDict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, NamedTuple

from controller_runtime.json import JsonObject, dumps, loads
from controller_runtime.log.broker.reading import StreamState
from controller_runtime.log.wire.messages import EnvelopeError, Header, epoch_time, is_number
from controller_runtime.log.wire.part import Key

if TYPE_CHECKING:
    # Who reads checkpoints alone need not pay for it.
    from controller_runtime.log.publish.judgement import StoredVersion


_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Proof:
    """What a part of the stream holds at some position.

    Attributes:
        objects: how many objects live.
        fold: over key and sequence of each of them, in no order.
    """

    objects: int
    fold: str


class Fold:
    """A proof in the making; every object is added once and removed once."""

    __slots__ = ("_objects", "_value")

    def __init__(self) -> None:
        self._objects = 0
        self._value = 0

    @property
    def proof(self) -> Proof:
        """As of now."""
        return Proof(self._objects, f"{self._value:0{2 * _BYTES}x}")

    def add(self, key: Key, sequence: int) -> None:
        """An object lives, in the message of that sequence."""
        self._objects += 1
        self._value ^= _hash(key, sequence)

    def remove(self, key: Key, sequence: int) -> None:
        """It no longer does."""
        self._objects -= 1
        self._value ^= _hash(key, sequence)


def _hash(key: Key, sequence: int) -> int:
    text = f"{key.namespace}/{key.name}/{sequence}"
    return int.from_bytes(blake2b(text.encode(), digest_size=_BYTES).digest())


class Account:
    """What a consumer received of a part: which objects live, and in which message each lies."""

    __slots__ = ("_fold", "_sequences", "highest")

    def __init__(self, living: Iterable[tuple[Key, int]] = ()) -> None:
        self._fold = Fold()
        self._sequences: dict[Key, int] = {}
        self.highest = 0
        """Highest sequence of a message of the part that was taken into account."""
        for key, sequence in living:
            self.put(key, sequence)

    @property
    def proof(self) -> Proof:
        """What the consumer can say of the part."""
        return self._fold.proof

    def put(self, key: Key, sequence: int) -> None:
        """A version arrived."""
        self._forget(key, sequence)
        self._sequences[key] = sequence
        self._fold.add(key, sequence)

    def drop(self, key: Key, sequence: int) -> None:
        """A deletion arrived."""
        self._forget(key, sequence)

    def _forget(self, key: Key, sequence: int) -> None:
        self.highest = max(self.highest, sequence)
        known = self._sequences.pop(key, None)
        if known is not None:
            self._fold.remove(key, known)


class Holdings(UserDict[Key, "StoredVersion"]):
    """What a publisher knows the state stream to hold of its part, tombstones included, with the proof of it."""

    def __init__(self) -> None:
        self._fold = Fold()
        super().__init__()

    @property
    def proof(self) -> Proof:
        """What the publisher confirms once nothing is under way."""
        return self._fold.proof

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Forget all others."""
        for key in self.data.keys() - keys:
            del self[key]

    def __setitem__(self, key: Key, stored: "StoredVersion") -> None:
        if key in self.data:
            del self[key]
        super().__setitem__(key, stored)
        if not stored.deleted:
            self._fold.add(key, stored.sequence)

    def __delitem__(self, key: Key) -> None:
        stored = self.data[key]
        super().__delitem__(key)
        if not stored.deleted:
            self._fold.remove(key, stored.sequence)


class Place(NamedTuple):
    """Where in the history a version lies, and its id; a higher one lies behind."""

    sequence: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class HistoryRange:
    """The history has every version of a part that was published, as of some moment.

    Attributes:
        created: when the history was made, verbatim; empty = not read yet.
        first: sequence of the oldest message that it held.
        deleted: messages that were removed from between the others.
        oldest: no present version of the part lies before this sequence of the history; what is logged later lies
            behind.
        last: sequence in the history of the last version of the part that lies there; 0 = none does.
        id: that of this version. A store that was restored from an older copy gives the sequence to another one.
    """

    created: str = ""
    first: int = 0
    deleted: int = 0
    oldest: int = 0
    last: int = 0
    id: str = ""

    @classmethod
    def of(cls, history: StreamState) -> "HistoryRange":
        """Nothing was seen of it yet."""
        return cls(history.created, history.first_sequence, history.deleted, history.last_sequence + 1)

    def counts(self, history: StreamState) -> bool:
        """Whether nothing can have been removed since; `last` has to be looked at besides.

        The number alone would not tell: it falls as well, when what is too old to be kept goes together with the gaps.
        """
        whole = not history.deleted or (self.first, self.deleted) == (history.first_sequence, history.deleted)
        same = self.created != "" and self.created == history.created
        return same and whole and history.first_sequence <= self.oldest and history.last_sequence >= self.last

    @property
    def place(self) -> Place:
        """Of the last version."""
        return Place(self.last, self.id)

    def upto(self, last: Place) -> "HistoryRange":
        """The same, when versions were logged since."""
        return replace(self, last=last.sequence, id=last.id)


NEVER_READ: Final = HistoryRange()


CHECKPOINT_INTERVAL: Final = 10.0
"""Seconds between two checkpoints of a part that does not change."""

UNPROVEN: Final = -1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a publisher confirms.

    Attributes:
        source: the publishing process.
        number: counts up within one process.
        epoch: the present epoch of the part.
        comparable_since: first epoch whose resource versions compare with the present ones.
        cluster: UID of kube-system.
        resource_version: every change up to this version lies before the checkpoint; empty for facts.
        stream_created: when the state stream was made.
        state_sequence: highest sequence known in it before this checkpoint.
        objects: how many objects live in the part; `UNPROVEN` = no checkpoint yet.
        fold: over key and sequence of each of them (`controller_runtime.log.publish.checkpoint`).
        history: where the history has all of them; nothing of a release that did not tell.
    """

    source: str
    number: int
    epoch: str
    comparable_since: str
    cluster: str
    resource_version: str
    stream_created: str
    state_sequence: int
    objects: int = UNPROVEN
    fold: str = ""
    history: HistoryRange = NEVER_READ

    @property
    def proof(self) -> Proof | None:
        """What the part holds before this checkpoint.

        ``None`` for a claim, by which a publisher tells that the part is its own before it writes anything, and for
        the checkpoint of a release that proved nothing.
        """
        return None if self.objects < 0 else Proof(self.objects, self.fold)

    @property
    def id(self) -> str:
        """The checkpoint's message id."""
        return f"{self.epoch}/{self.source}/{self.number}/marker"

    def headers(self) -> dict[str, str]:
        """The message's headers."""
        return {Header.MESSAGE_ID: self.id, Header.EPOCH: self.epoch, Header.CE_SOURCE: self.source}

    def body(self) -> bytes:
        """The message's body."""
        return dumps(asdict(self))


_TYPES: Final[Mapping[object, type]] = {str: str, int: int, HistoryRange: dict}


def decode_checkpoint(body: bytes) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        EnvelopeError: it is none.
    """
    try:
        found = loads(body)
        known = _known_fields(Checkpoint, found)
        if "history" in known:
            known["history"] = HistoryRange(**_known_fields(HistoryRange, known["history"]))
        checkpoint = Checkpoint(**known)
        for epoch in (checkpoint.epoch, checkpoint.comparable_since):
            epoch_time(epoch)
        if checkpoint.resource_version and not is_number(checkpoint.resource_version):
            raise ValueError("its resource version is not a number")
        return checkpoint
    except (KeyError, TypeError, ValueError) as error:
        raise EnvelopeError(f"a message on a sync subject is not a checkpoint: {error}") from error


def _known_fields(kind: type[Checkpoint | HistoryRange], found: JsonObject) -> JsonObject:
    """The fields that this release knows: a former one knows fewer, a later one more."""
    known = {field.name: found[field.name] for field in fields(kind) if field.name in found}
    if not all(isinstance(known[field.name], _TYPES[field.type]) for field in fields(kind) if field.name in known):
        raise TypeError("a field has another type")
    return known
