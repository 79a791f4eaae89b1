"""Tables in Markdown."""

from collections.abc import Iterable, Iterator, Sequence


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
    return text.replace("|", "\\|").replace("\n", " ")
