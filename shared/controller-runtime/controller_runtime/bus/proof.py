"""What lives in a part of the state stream, in a form that publisher and consumers can compare. Pure.

A marker carries the `Proof` of its publisher; a consumer believes it when what the bus told the consumer itself folds
to the same. The fold is over key and sequence: a message that was lost, purged, expired, replaced by somebody else or
brought back by a restored store changes it, and nothing that a world adds by itself (own writes, deletions it
remembers) has a part in it.
"""

from collections import UserDict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from controller_runtime.bus.part import Key

if TYPE_CHECKING:
    # Who reads markers alone need not pay for it.
    from controller_runtime.bus.judgement import Stored

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
    """What the bus told a consumer of a part: which objects live, and in which message each lies."""

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


class Holdings(UserDict[Key, "Stored"]):
    """What a publisher knows the state stream to hold of its part, tombstones included, with the proof of it."""

    def __init__(self) -> None:
        self._fold = Fold()
        super().__init__()

    @property
    def proof(self) -> Proof:
        """What the publisher vouches for once nothing is under way."""
        return self._fold.proof

    def keep(self, keys: AbstractSet[Key]) -> None:
        """Forget all others."""
        for key in self.data.keys() - keys:
            del self[key]

    def __setitem__(self, key: Key, stored: "Stored") -> None:
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
