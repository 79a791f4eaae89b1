"""One copy of texts that many hold at the same time: names, UIDs, versions.

An object's UID is known to a reflector, a publisher, a world and the indexes, each of which reads it anew.
"""

import sys
from typing import Final

_NEVER_FREED: Final = (3, 12)
"""The one Python that keeps every interned text until the process ends. There, memory for copies is better than memory
for all that ever was."""


def shared(text: str) -> str:
    """An equal text, the same object for all who ask; it lives as long as somebody holds it.

    Raises:
        TypeError: it is no text.
    """
    return text if sys.version_info[:2] == _NEVER_FREED else sys.intern(text)
