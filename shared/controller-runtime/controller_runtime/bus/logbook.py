"""Whether the history still has what a publisher has seen in it, so that nobody need read it again. Pure.

The history knows every object that ever was in its 168 hours, and the broker takes all of it into memory for whoever
asks for the last version of each.
"""

from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from controller_runtime.bus.stored import StreamState


class Place(NamedTuple):
    """Where in the history a version lies, and its id; a higher one lies behind."""

    sequence: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class Logbook:
    """The history has every version of a part that was published, as of some moment.

    Attributes:
        created: when the history was made, verbatim; empty = nobody has looked.
        deleted: messages that somebody had removed from between the others.
        oldest: no present version of the part lies before this sequence of the history; what is logged later lies
            behind.
        last: sequence in the history of a version of the part, as late a one as is known; 0 = none is.
        id: that of this version. A store that was restored from an older copy gives the sequence to another one.
    """

    created: str = ""
    deleted: int = 0
    oldest: int = 0
    last: int = 0
    id: str = ""

    def counts(self, history: StreamState) -> bool:
        """Whether nothing can have been removed since; `last` has to be looked at besides."""
        same = self.created != "" and (self.created, self.deleted) == (history.created, history.deleted)
        return same and history.first_sequence <= self.oldest and history.last_sequence >= self.last

    @property
    def place(self) -> Place:
        """Of that version."""
        return Place(self.last, self.id)

    def upto(self, last: Place) -> "Logbook":
        """The same, when versions were logged since."""
        return replace(self, last=last.sequence, id=last.id)


NEVER_READ: Final = Logbook()
