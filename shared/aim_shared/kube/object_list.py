"""The objects of a list, held small while others still arrive or nobody has come to them.

Decoded, the objects of one list of ten thousand take 300 MB, and a service lists several kinds at a time. Packed they
take a hundredth of that, and whoever goes through the list has one of them decoded at a time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self, final, overload

from aim_shared.api.meta import Identity, ObjectKey
from aim_shared.json import JsonObject, dumps, loads
from aim_shared.packed import Packed, Packer, unpacked


class _Held(NamedTuple):
    identity: Identity
    body: Packed | bytes


@final
class ObjectList(Sequence[JsonObject]):  # noqa: PLW1641  (equal to other sequences of the same objects)
    """Objects as the server sent them, each decoded anew whenever it is looked at. Immutable."""

    __slots__ = ("_held", "_packer")

    def __init__(self, held: tuple[_Held, ...] = (), packer: Packer | None = None) -> None:
        """Without arguments, an empty list; for one of objects see `of`."""
        self._held = held
        self._packer = packer or Packer()

    @classmethod
    def of(cls, objects: Sequence[JsonObject]) -> "ObjectList":
        """These objects, held small.

        Raises:
            ValueError: one of them has no name or no version.
        """
        return objects if isinstance(objects, cls) else cls().joined(objects)

    @property
    def identities(self) -> Iterator[Identity]:
        """Which objects these are; nothing is decoded for it."""
        return (held.identity for held in self._held)

    def joined(self, objects: Iterable[JsonObject]) -> Self:
        """These objects and some more.

        Raises:
            ValueError: one of them has no name or no version.
        """
        return self._with((*self._held, *map(self._hold, objects)))

    def overlaid(self, changes: Mapping[ObjectKey, JsonObject | None]) -> Self:
        """These objects with some of them replaced, added, or (``None``) removed."""
        held = {one.identity.key: one for one in self._held}
        for key, obj in changes.items():
            if obj is None:
                held.pop(key, None)
            else:
                held[key] = self._hold(obj)
        return self._with(tuple(held.values()))

    def __len__(self) -> int:
        return len(self._held)

    @overload
    def __getitem__(self, index: int) -> JsonObject: ...
    @overload
    def __getitem__(self, index: slice) -> "ObjectList": ...
    def __getitem__(self, index: int | slice) -> "JsonObject | ObjectList":
        if isinstance(index, slice):
            return self._with(self._held[index])
        return loads(unpacked(self._held[index].body))

    def __iter__(self) -> Iterator[JsonObject]:
        return (loads(unpacked(held.body)) for held in self._held)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"ObjectList({', '.join(str(one.key) for one in self.identities)})"

    def _with(self, held: tuple[_Held, ...]) -> Self:
        return type(self)(held, self._packer)

    def _hold(self, obj: JsonObject) -> _Held:
        return _Held(Identity.of(obj), self._packer.pack(dumps(obj)))
