"""Whether the history still has what a publisher has seen in it, so that a comparison need not read it again. Pure.

The history knows every object that ever was in its 168 hours, and the broker takes all of it into memory for whoever
asks for the last version of each.
"""

from dataclasses import dataclass
from typing import Final

from aim_shared.bus.stored import StreamState


@dataclass(frozen=True, slots=True)
class Logbook:
    """What was found when the history was last read.

    Attributes:
        session: of the connection; a store can only be restored while the broker is away. 0 = never read.
        deleted: messages that somebody had removed from between the others.
        oldest: no present version lies before this sequence of the history; what is logged later lies behind.
    """

    session: int
    created: str
    deleted: int
    oldest: int

    def counts(self, session: int, history: StreamState) -> bool:
        """Whether every version that was found then, or logged since, is still there."""
        same = (self.session, self.created, self.deleted) == (session, history.created, history.deleted)
        return same and history.first_sequence <= self.oldest


NEVER_READ: Final = Logbook(0, "", 0, 0)
