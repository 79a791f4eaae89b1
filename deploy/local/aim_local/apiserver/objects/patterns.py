"""Go (RE2) regular expressions as Python ones."""

import re
from functools import lru_cache
from typing import Final

_POSIX: Final = {
    "[:alnum:]": "0-9A-Za-z",
    "[:alpha:]": "A-Za-z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:upper:]": "A-Z",
    "[:space:]": r"\t\n\v\f\r ",
    "[:xdigit:]": "0-9A-Fa-f",
    "[:word:]": r"\w",
}
_TOKEN: Final = re.compile(r"\\.|\[:\w+:\]|.", re.DOTALL)


@lru_cache(maxsize=1024)
def go_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a Go pattern; `search` on the result is Go's `MatchString`.

    Raises:
        re.error: the pattern is malformed.
    """
    out: list[str] = []
    opened = -1
    for piece in _TOKEN.findall(pattern):
        if piece == r"\z":
            out.append(r"\Z")
        elif opened >= 0:
            out.append(_POSIX.get(piece, piece))
            # A bracket that comes first in a class is a member of it.
            if piece == "]" and out[opened:-1] not in (["["], ["[", "^"]):
                opened = -1
        elif piece == "$":
            # Python's `$` also matches before a final newline, Go's does not.
            out.append(r"\Z")
        else:
            out.append(piece)
            opened = len(out) - 1 if piece == "[" else -1
    return re.compile("".join(out), re.ASCII)
