"""The figures of a run as one table."""

from collections.abc import Sequence

from bench.figures import Figure
from rich.console import Console
from rich.table import Table


def show(figures: Sequence[Figure], console: Console) -> None:
    """Print all figures; a subject is named once."""
    table = Table(box=None, pad_edge=False)
    for title, side in (("subject", "left"), ("figure", "left"), ("value", "right"), ("range", "right")):
        table.add_column(title, justify="right" if side == "right" else "left", no_wrap=True)
    table.add_column("goal", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    before = ""
    for one in figures:
        table.add_row(
            "" if one.subject == before else one.subject,
            one.name,
            _number(one.value, one.unit),
            "" if one.low is None or one.high is None else f"{_number(one.low)} – {_number(one.high)}",
            "" if one.goal is None else f"≤ {_number(one.goal)}",
            _verdict(one),
        )
        before = one.subject
    console.print(table)


def _verdict(one: Figure) -> str:
    if one.goal is None:
        return ""
    if one.failed:
        return "[bold red]over: fails[/]"
    return "[yellow]over[/]" if one.missed else "[green]ok[/]"


def _number(value: float, unit: str = "") -> str:
    digits = 0 if value == int(value) or abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:.{digits}f} {unit}".rstrip()
