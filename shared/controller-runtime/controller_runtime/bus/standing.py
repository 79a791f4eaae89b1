"""How far a world was when a pass looked at it: enough to rebuild from the history what the pass did not look up.

What the bus feeds is the state stream up to a sequence, by construction: messages are taken in order and completely.
What a world knows besides that is little and is listed: own writes that have not come back over the bus yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller_runtime.bus.entry import Version
from controller_runtime.bus.part import Key


class Position(NamedTuple):
    """How far the content of one part goes. A tuple, because every pass makes one of each part.

    Attributes:
        epoch: the one that the part was in.
        sequence: of the state stream, up to which everything was taken; ``None`` while the API server feeds the part,
            which gives no sequences.
        objects: how many the world held, whoever told of them; ``None`` = not known.
    """

    epoch: str
    sequence: int | None
    objects: int | None = None


@dataclass(frozen=True, slots=True)
class OwnChange:
    """An own write that has not come back over the bus; ``version`` is ``None`` for a deletion."""

    part: str
    key: Key
    version: Version | None


@dataclass(frozen=True, slots=True)
class Standing:
    """One moment of a world.

    Attributes:
        parts: every part that it holds, by name.
        own: what it holds, or lacks, other than the bus told.
        stale: names of the parts that were not fresh.
    """

    parts: Mapping[str, Position]
    own: tuple[OwnChange, ...] = ()
    stale: tuple[str, ...] = ()
