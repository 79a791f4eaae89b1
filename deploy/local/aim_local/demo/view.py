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

from aim_local.demo.board import PREDICATES, Board
from aim_local.demo.summary import Summary
from controller_runtime import Key

_LEAST_SECONDS: Final = 0.1
"""Between two drawings of the table."""
_SHORTEST_NAME: Final = 26
_SHORTEST_WHY: Final = 10
_GAP: Final = 2
_KIND_WIDTH: Final = 18
_STATE_WIDTH: Final = 12
_SHORT: Final = {
    "PersistentVolumeClaim": "PVC",
    "AIMClusterModelSource": "ClusterModelSource",
    "AIMClusterModel": "ClusterModels",
    "AIMClusterServiceTemplate": "ClusterTemplates",
}
"""Kinds whose names leave no room for the rest."""
_LINE_KINDS: Final = frozenset(kind.kind for kind in PREDICATES)


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
                live.update(_drawn(board, time.monotonic() - begun, console.width), refresh=True)
                await asyncio.sleep(_LEAST_SECONDS)
                await board.wait_changed()

        async with asyncio.TaskGroup() as group:
            drawing = group.create_task(draw())
            try:
                yield
            finally:
                drawing.cancel()
                live.update(_drawn(board, time.monotonic() - begun, console.width), refresh=True)


def _drawn(board: Board, seconds: float, width: int) -> Table:
    table = Table(
        title=f"after {seconds:.1f} s", title_justify="left", box=None, pad_edge=False, padding=(0, _GAP, 0, 0)
    )
    names = max(_SHORTEST_NAME, width // 3)
    rest = max(_SHORTEST_WHY, width - _KIND_WIDTH - names - _STATE_WIDTH - 3 * _GAP)
    for column, size in (("kind", _KIND_WIDTH), ("name", names), ("state", _STATE_WIDTH), ("why", rest)):
        table.add_column(column, no_wrap=True, overflow="ellipsis", width=size)
    for line in board.lines():
        state = Text(line.summary.state, line.summary.mood.value)
        table.add_row(_SHORT.get(line.kind, line.kind), shortened(line.name, names), state, Text(line.summary.why))
    return table


def shortened(name: str, length: int) -> str:
    """The name in at most that many characters: its middle goes, because both ends tell names apart."""
    if len(name) <= length:
        return name
    head = (length - 1) * 2 // 3
    return f"{name[:head]}…{name[len(name) - (length - 1 - head) :]}"
