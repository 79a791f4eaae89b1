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
        first: sequence of the oldest message that it held.
        deleted: messages that somebody had removed from between the others.
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
    def of(cls, history: StreamState) -> "Logbook":
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

    def upto(self, last: Place) -> "Logbook":
        """The same, when versions were logged since."""
        return replace(self, last=last.sequence, id=last.id)


NEVER_READ: Final = Logbook()
