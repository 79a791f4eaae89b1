"""What a run has shown, for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from matrix.case import FAILED, GOOD, IDLE, Outcome, Scenario
from rich.console import Console
from rich.table import Table


@dataclass(slots=True)
class Row:
    """What came of a scenario.

    Attributes:
        cases: how many were run, of how many.
        failed: by name of the case, what was wrong.
        idle: how many injected or compared nothing.
    """

    scenario: Scenario
    of: int
    ran: int = 0
    outcome: Outcome = field(default_factory=Outcome)
    failed: dict[str, Sequence[str]] = field(default_factory=dict)
    idle: int = 0

    @property
    def result(self) -> str:
        """In words."""
        if self.failed:
            return f"[red]{len(self.failed)} {FAILED}[/]"
        if self.ran == self.idle:
            return IDLE if self.ran else "not reached"
        return f"[green]{GOOD}[/]" + (f", {IDLE} in {self.idle}" if self.idle else "")


def show(rows: Mapping[str, Row], seed: int, console: Console) -> None:
    """Print the table."""
    table = Table(title=f"Failure matrix, seed {seed}", title_justify="left")
    for column in ("", "what", "cases", "injected", "compared", "result"):
        table.add_column(column, overflow="fold")
    for name, row in rows.items():
        injected = ", ".join(f"{count} × {what}" for what, count in sorted(row.outcome.injected.items()) if count)
        notes = "".join(f"\n{what}: at most {value:.2g}" for what, value in sorted(row.outcome.notes.items()))
        compared = f"{row.outcome.compared} ({row.scenario.compares}){notes}"
        table.add_row(name, row.scenario.title, f"{row.ran} of {row.of}", injected or "-", compared, row.result)
    console.print(table)


def repeat(case: str, seed: int, cluster: str) -> str:
    """The command that repeats one case."""
    where = "" if cluster == "embedded" else f" CLUSTER={cluster}"
    return f"make chaos SEED={seed} ONLY={case}{where}"
