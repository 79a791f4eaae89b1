"""Answers that need not be sent again: the registry confirms with 304 that they still hold (MS-373).

The registry decides with the credentials of the present request, so an answer kept from one user's request is never
given to another who has no access: that one gets 401 or 403, not 304.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from multidict import CIMultiDictProxy
from yarl import URL

CAPACITY: Final = 8 << 20
"""Bytes of bodies kept per process; the answers used longest ago give way."""
_OVERHEAD: Final = 512
"""What an entry costs besides its body, roughly."""

Key = tuple[URL, str]
"""Address and `Accept`, which together choose a representation."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer with the validator that the registry gave it."""

    etag: str
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that it counts for."""
        return len(self.body) + _OVERHEAD


class AnswerMemory:
    """The answers that came with an `ETag`, least recently used out first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[Key, Kept] = OrderedDict()
        self.size = 0
        """Bytes kept at present; never more than the capacity."""

    def find(self, key: Key) -> Kept | None:
        """The answer to a request, if it is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Key, headers: CIMultiDictProxy[str], body: bytes) -> None:
        """Keep a new answer if the registry can confirm it later; forget the former one in any case."""
        former = self._kept.pop(key, None)
        self.size -= former.size if former is not None else 0
        etag = headers.get("ETag", "")
        if not etag:
            return
        kept = Kept(etag, headers, body)
        if kept.size > self._capacity // 4:
            # One enormous listing must not drive out those of everybody else.
            return
        self._kept[key] = kept
        self.size += kept.size
        while self.size > self._capacity:
            _, oldest = self._kept.popitem(last=False)
            self.size -= oldest.size
