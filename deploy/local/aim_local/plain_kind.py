"""A kind that has no model here: its objects stay JSON."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlainKind:
    """Coordinates of a kind whose objects stay JSON."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version
