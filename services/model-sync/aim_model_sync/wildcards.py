"""Matching of repository names against patterns with ``*`` (MS-065)."""

from typing import Final

WILDCARD: Final = "*"


def matches(pattern: str, repository: str) -> bool:
    """Whether the whole name matches; ``*`` stands for any run of characters, ``/`` included, possibly empty.

    Takes time linear in the name for any number of stars: users write the patterns, so a regular expression, which
    would backtrack, is not used.
    """
    first, *rest = pattern.split(WILDCARD)
    if not rest:
        return pattern == repository
    *inner, last = rest
    end = len(repository) - len(last)
    position = len(first)
    if position > end or not repository.startswith(first) or not repository.endswith(last):
        return False
    for literal in inner:
        # The leftmost occurrence leaves the most room for what follows.
        found = repository.find(literal, position, end)
        if found < 0:
            return False
        position = found + len(literal)
    return True


def literal_owner(pattern: str) -> str | None:
    """The first path component, if it is literal and something follows it (MS-069)."""
    owner, slash, _ = pattern.partition("/")
    return owner if slash and owner and WILDCARD not in owner else None
