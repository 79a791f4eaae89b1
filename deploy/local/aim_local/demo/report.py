"""The figures at the end: time, requests, memory."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.table import Table

from aim_local.demo.board import COUNTED, Board
from aim_local.stack import SERVICES
from aim_local.supervision.process import Row
from controller_runtime import JsonObject

_CATALOGUE: Final = frozenset(kind.kind for kind in COUNTED)
_READS: Final = frozenset({"get", "list", "watch"})
_AGENT: Final = "aim-"


def print_report(console: Console, rows: Iterable[Row], board: Board, requests: JsonObject, seconds: float) -> None:
    """Print what it took."""
    console.print(f"\nFrom apply to Running: {seconds:.2f} s", highlight=False)
    catalogue = [line for line in board.lines() if line.kind in _CATALOGUE]
    for line in catalogue:
        console.print(f"{line.kind} {line.name}: {line.summary.state}", highlight=False)
    counts = count_requests(requests)
    table = Table("process", "PID", "ready after", "memory", "API reads", "API writes", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        reads, writes = counts.get(row.name, (0, 0))
        traffic = (str(reads), str(writes)) if row.name in SERVICES else ("", "")
        shown = "unknown" if row.memory is None else f"{row.memory / 1e6:.0f} MB"
        table.add_row(row.name, row.pid, f"{row.start_seconds:.2f} s", shown, *traffic)
    console.print(table)
    reads = sum(one[0] for name, one in counts.items() if name in SERVICES)
    writes = sum(one[1] for name, one in counts.items() if name in SERVICES)
    console.print(
        f"The five services made {reads} reads (lists and watches included) and {writes} writes for the service and "
        "the catalogue together.",
        highlight=False,
        soft_wrap=True,
    )


def count_requests(report: JsonObject) -> dict[str, tuple[int, int]]:
    """Reads and writes by the service that the user agent names; Leases are left out, being a matter of time."""
    reads: Counter[str] = Counter()
    writes: Counter[str] = Counter()
    for entry in report["requests"]:
        agent = str(entry["userAgent"]).partition("/")[0]
        if not agent.startswith(_AGENT) or entry["resource"] == "leases":
            continue
        into = reads if entry["verb"] in _READS else writes
        into[agent.removeprefix(_AGENT)] += int(entry["count"])
    return {name: (reads[name], writes[name]) for name in {*reads, *writes}}
