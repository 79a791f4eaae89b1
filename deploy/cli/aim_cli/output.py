"""Where commands print to, and how they say numbers."""

from typing import Final

from rich.console import Console
from rich.markup import escape

from aim_cli.answer import plain

OUT: Final = Console(soft_wrap=True)
ERRORS: Final = Console(stderr=True, soft_wrap=True)


def safe(text: str) -> str:
    """Text of users, for a line of a console: no markup, and nothing that a terminal would obey (FW-554)."""
    return escape(plain(text))
