"""What a user has to know about a migration, beside the objects."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, final


@final
@dataclass(frozen=True, slots=True)
class Origin:
    """An object as it was before; the namespace is empty for cluster-scoped kinds."""

    group: str
    kind: str
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """Value of the annotation that tells where an object came from (RC-127).

        >>> Origin("aim.silogen.ai", "AIMService", "team", "chat").text
        'aim.silogen.ai/AIMService/team/chat'
        """
        return "/".join(part for part in (self.group, self.kind, self.namespace, self.name) if part)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Weight(Enum):
    """What a finding means; the value is the headline of its section in the report."""

    LOST = "Not mapped"
    CONFLICT = "Kept as it is, although it differs"
    REFUSED = "Refused by the API server"
    CHANGED = "Mapped, with a difference"
    IGNORED = "Without effect here"
    LEFT = "Left alone"


FAILURES: Final = frozenset({Weight.LOST, Weight.CONFLICT, Weight.REFUSED})
"""What somebody has to act on: the command exits with 1."""


@final
@dataclass(frozen=True, slots=True)
class Finding:
    """One remark: about which object (for conflicts and refusals today's, else the old one), which field, and why."""

    weight: Weight
    about: str
    field: str
    reason: str
