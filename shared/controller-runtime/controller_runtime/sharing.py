"""One copy of texts that many hold at the same time: names, UIDs, versions.

An object's UID is known to a reflector, a publisher, a world and the indexes, each of which reads it anew.

Not `sys.intern`: its table also holds every name in the program (37,000 in serving), and uses the places of texts that
are gone only when it is made anew. Where objects come and go, that is up to 4 MB in one piece every few minutes, each
time somewhere else; and one Python (3.12) keeps every text for good.
"""

from sys import getrefcount
from typing import Final, final

_FEWEST: Final = 4_096
"""Texts up to which nobody looks which of them are still held."""
_OWN: Final = 4
"""References to a text that nobody else holds, while it is looked at: key, value, loop variable, argument."""


@final
class Texts:
    """Texts in use, each once, and at most as many that nobody holds any more; for one thread."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._room = _FEWEST

    def __len__(self) -> int:
        return len(self._texts)

    def shared(self, text: str) -> str:
        """An equal text, the same object for all who ask while somebody holds it."""
        if len(self._texts) >= self._room:
            self._forget_unheld()
        return self._texts.setdefault(text, text)

    def _forget_unheld(self) -> None:
        self._texts = {text: text for text in self._texts if getrefcount(text) > _OWN}
        # Twice as many as are in use, so that looking costs each new text no more than one look.
        self._room = max(_FEWEST, 2 * len(self._texts))


shared: Final = Texts().shared
"""An equal text, the same object for all in this process who ask while somebody holds it."""
