"""Whether the history still has what a publisher has seen in it, so that a comparison need not read it again. Pure.

The history knows every object that ever was in its 168 hours, and the broker takes all of it into memory for whoever
asks for the last version of each.
"""

from dataclasses import dataclass, replace
from typing import Final

from controller_runtime.bus.stored import StreamState


@dataclass(frozen=True, slots=True)
class Logbook:
    """What was found when the history was last read.

    Attributes:
        session: of the connection; 0 = never read.
        deleted: messages that somebody had removed from between the others.
        oldest: no present version lies before this sequence of the history; what is logged later lies behind.
        last: the history went this far then. A store that was restored under a running broker may keep all else.
    """

    session: int
    created: str
    deleted: int
    oldest: int
    last: int

    def counts(self, session: int, history: StreamState) -> bool:
        """Whether every version that was found then, or logged since, is still there."""
        same = (self.session, self.created, self.deleted) == (session, history.created, history.deleted)
        return same and history.first_sequence <= self.oldest and history.last_sequence >= self.last

    def at(self, history: StreamState) -> "Logbook":
        """The same, when the history has gone on."""
        return replace(self, last=history.last_sequence)


NEVER_READ: Final = Logbook(0, "", 0, 0, 0)
