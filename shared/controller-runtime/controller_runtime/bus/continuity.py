"""Whether the versions under way follow without a gap upon what the streams hold, across a list. Pure.

A list folds what happened before it: whoever sees an object at version 3 there knows nothing of version 2. Versions
that the watch brings afterwards follow upon the listed one. So nothing is missing before them if the listed version
itself was under way, or is what the state stream holds.
"""

from collections.abc import Mapping

from controller_runtime.bus.envelope import Verb
from controller_runtime.bus.judgement import Stored
from controller_runtime.bus.part import Key
from controller_runtime.bus.source import SourceVersion

_Identity = tuple[str, str] | None


class Continuity:
    """Follows the changes after lists, until the streams were compared."""

    def __init__(self) -> None:
        self._open = False
        self._changed: set[Key] = set()
        self._expected: dict[Key, _Identity] = {}
        self._broken = False

    def listed(self) -> None:
        """A list came."""
        self._open = True
        self._changed.clear()

    def changed(self, key: Key, before: SourceVersion | None, waiting: SourceVersion | None) -> None:
        """The watch brought a version.

        Args:
            before: what the object was until then; ``None`` if it did not exist.
            waiting: its newest version under way.
        """
        if not self._open or key in self._changed:
            return
        self._changed.add(key)
        if waiting is None:
            self._expected.setdefault(key, _identity(before))
        elif _identity(waiting) != _identity(before):
            self._broken = True

    def forget(self, key: Key) -> None:
        """An object is gone before anything of it was stored, and what waited of it was dropped."""
        self._changed.discard(key)
        self._expected.pop(key, None)

    def is_broken(self, stored: Mapping[Key, Stored]) -> bool:
        """Whether versions are missing between what is stored and what is under way."""
        return self._broken or any(found != _identity(stored.get(key)) for key, found in self._expected.items())

    def compared(self) -> None:
        """What is under way from now on follows upon what was compared."""
        self._open = self._broken = False
        self._changed.clear()
        self._expected.clear()


def _identity(version: SourceVersion | Stored | None) -> _Identity:
    if version is None or version.verb is Verb.DELETE:
        return None
    return version.uid, version.resource_version
