"""One copy of texts that many hold at the same time: names, UIDs, versions.

An object's UID is known to a reflector, a publisher, a world and the indexes, each of which reads it anew.
"""

import sys
from collections.abc import Callable
from typing import Final

_NEVER_FREED: Final = (3, 12)
"""The one Python that keeps every interned text until the process ends. There, memory for copies is better than memory
for all that ever was."""


def _as_it_is(text: str) -> str:
    return text


shared: Final[Callable[[str], str]] = _as_it_is if sys.version_info[:2] == _NEVER_FREED else sys.intern
"""An equal text, the same object for all who ask; it lives as long as somebody holds it. Raises `TypeError` for what is
no text."""
