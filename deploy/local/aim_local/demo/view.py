"""Shows the board: a live table on a terminal, one line per change elsewhere."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from aim_local.demo.board import SHOWN, Board
from aim_local.demo.summary import Summary
from aim_local.keys import Key

_LEAST_SECONDS: Final = 0.1
"""Between two drawings of the table."""
_LINE_KINDS: Final = frozenset(kind.kind for kind in SHOWN)


@asynccontextmanager
async def showing(board: Board, console: Console, namespace: str) -> AsyncIterator[None]:
    """Show the board while the context is open."""
    if console.is_terminal:
        async with _table(board, console):
            yield
    else:
        _print_changes(board, console, namespace)
        yield


def _print_changes(board: Board, console: Console, namespace: str) -> None:
    begun = time.monotonic()

    def on_change(kind: str, key: Key, summary: Summary | None) -> None:
        if kind not in _LINE_KINDS or key.namespace != namespace:
            return
        what = "gone" if summary is None else " ".join(filter(None, (summary.state, summary.why)))
        console.print(
            f"{time.monotonic() - begun:6.2f}s  {kind:<22} {key.name:<48} {what}", soft_wrap=True, markup=False
        )

    board.listen(on_change)


@asynccontextmanager
async def _table(board: Board, console: Console) -> AsyncIterator[None]:
    begun = time.monotonic()
    with Live(console=console, auto_refresh=False, vertical_overflow="visible") as live:

        async def draw() -> None:
            while True:
                live.update(_drawn(board, time.monotonic() - begun), refresh=True)
                await asyncio.sleep(_LEAST_SECONDS)
                await board.changed()

        async with asyncio.TaskGroup() as group:
            drawing = group.create_task(draw())
            try:
                yield
            finally:
                drawing.cancel()
                live.update(_drawn(board, time.monotonic() - begun), refresh=True)


def _drawn(board: Board, seconds: float) -> Table:
    table = Table(title=f"after {seconds:.1f} s", title_justify="left", box=None, pad_edge=False)
    for column in ("kind", "name", "state", "why"):
        table.add_column(column, no_wrap=column != "why")
    for line in board.lines():
        table.add_row(line.kind, line.name, Text(line.summary.state, line.summary.mood.value), Text(line.summary.why))
    return table
