"""Tables in Markdown."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_IDS: Final = re.compile(r"\s*\((?:[A-Z]{2}-\d+(?:, | to | and )?)+\)")


def for_users(text: str) -> str:
    """A description without the IDs of requirements, which are for contributors."""
    return _IDS.sub("", text)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"


def code(text: object) -> str:
    """As it is written in a file; nothing for nothing."""
    return f"`{text}`" if str(text) else ""


def _cell(text: str) -> str:
    return for_users(text).replace("|", "\\|").replace("\n", " ")
