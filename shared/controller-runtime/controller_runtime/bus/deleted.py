"""The memory of deleted objects, so that what arrives late cannot bring them back.

An object is remembered by key *and* UID: a namesake that was made since has another UID and is not held up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from controller_runtime.bus.entry import Version
from controller_runtime.bus.part import Key

K = TypeVar("K")

DELETED_MEMORY_SECONDS: Final = 3600.0
"""How long a deletion is remembered."""

CROWDED_SECONDS: Final = 300.0
"""How long deletions are remembered of which there are more than `MOST_DELETIONS`; what comes late comes sooner."""

MOST_DELETIONS: Final = 500
"""How many deletions of a part are remembered for longer, so that coming and going leaves nothing behind (FW-462)."""

OWN_WRITE_SECONDS: Final = 60.0
"""How long an own write that the feed did not confirm outweighs what the feed says."""


class Evidence(Enum):
    """How a deletion became known, which decides how sure it is."""

    ABSENCE = "absence"
    """A snapshot did not hold the object; a later snapshot may know better."""

    MESSAGE = "message"
    """A deletion was reported; the same UID may come back newer (it left a selection and entered it again)."""

    OUTLIVED = "outlived"
    """An own write met another UID under the name. Nearly sure: answers may arrive late, hence short-lived."""

    REPLACED = "replaced"
    """The bus gave its name to another UID, or deleted another one of that name, which is the position of this version.
    What the bus says of it behind that is later still: then that other one was the mistake."""

    FINAL = "final"
    """This UID is gone for good: the API server deleted it for us."""


_SECONDS: Final[Mapping[Evidence, float]] = {
    Evidence.ABSENCE: DELETED_MEMORY_SECONDS,
    Evidence.MESSAGE: DELETED_MEMORY_SECONDS,
    Evidence.OUTLIVED: OWN_WRITE_SECONDS,
    Evidence.REPLACED: DELETED_MEMORY_SECONDS,
    Evidence.FINAL: DELETED_MEMORY_SECONDS,
}
_FOR_GOOD: Final = frozenset({Evidence.OUTLIVED, Evidence.FINAL})


@dataclass(frozen=True, slots=True)
class _Deletion:
    version: Version
    at: float
    evidence: Evidence

    def holds(self, now: float) -> bool:
        return now - self.at < _SECONDS[self.evidence]


@dataclass(slots=True)
class DeletedMemory:
    """Which UIDs are gone, up to which version; and up to which sequence a name was free."""

    _deletions: dict[tuple[Key, str], _Deletion] = field(default_factory=dict)
    _latest: dict[Key, _Deletion] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._deletions)

    def remember(self, key: Key, version: Version, now: float, evidence: Evidence) -> None:
        """Note a deletion, unless a surer or newer one of that UID is known."""
        deletion = _Deletion(version, now, evidence)
        known = self._deletions.get((key, version.uid))
        if known is None or not _outweighs(known, version):
            self._deletions[key, version.uid] = deletion
        latest = self._latest.get(key)
        if not version.local and (latest is None or not version.precedes(latest.version)):
            self._latest[key] = deletion

    def forget(self, key: Key, uid: str) -> None:
        """The object lives."""
        self._deletions.pop((key, uid), None)

    def forget_old(self, now: float) -> None:
        """Drop what no longer holds, and of a crowd the oldest."""
        _thin_out(self._deletions, now)
        _thin_out(self._latest, now)

    def bars(self, key: Key, version: Version, now: float) -> bool:
        """Whether a single version comes too late: it is not newer than a deletion under its name."""
        latest = self._latest.get(key)
        if latest is not None and latest.holds(now) and version.precedes(latest.version):
            return True
        known = self._known(key, version, now)
        if known is None:
            return False
        if known.evidence is Evidence.REPLACED:
            return not known.version.lies_before(version)
        return known.evidence in _FOR_GOOD or not version.is_newer_than(known.version)

    def bars_from_snapshot(self, key: Key, version: Version, now: float) -> bool:
        """Whether a snapshot is behind a deletion; what was only missing elsewhere is taken from the snapshot."""
        known = self._known(key, version, now)
        if known is None or known.evidence is Evidence.ABSENCE:
            return False
        if known.evidence is Evidence.REPLACED:
            return not known.version.lies_before(version)
        return known.evidence in _FOR_GOOD or version.is_older_than(known.version)

    def _known(self, key: Key, version: Version, now: float) -> _Deletion | None:
        known = self._deletions.get((key, version.uid))
        return known if known is not None and known.version.compares_with(version) and known.holds(now) else None


def _thin_out(deletions: dict[K, _Deletion], now: float) -> None:
    in_order = sorted(deletions.items(), key=lambda item: item[1].at)
    surplus = len(in_order) - MOST_DELETIONS
    for number, (known, deletion) in enumerate(in_order):
        if not deletion.holds(now) or (number < surplus and now - deletion.at >= CROWDED_SECONDS):
            del deletions[known]


def _outweighs(known: _Deletion, version: Version) -> bool:
    if not known.version.compares_with(version):
        return False
    return known.evidence is Evidence.FINAL or version.is_older_than(known.version)
