"""What a benchmark says: figures with their goals, and the file they are kept in."""

import json
import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

RESULTS: Final = Path(__file__).parent / "results"
"""Where the files go; ignored by git."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number.

    Attributes:
        subject: what was measured, such as ``warm path``.
        name: which of its numbers.
        unit: ``ms``, ``s``, ``MiB``, ``%``, ``×``, or empty for counts.
        goal: what it should not exceed; ``None`` = only reported.
        gate: whether the run fails above the goal; only for counts, which are the same on any machine.
        low, high: range over several runs, of which ``value`` is the median.
        detail: what a count is made of, in words.
    """

    subject: str
    name: str
    value: float
    unit: str = ""
    goal: float | None = None
    gate: bool = False
    low: float | None = None
    high: float | None = None
    detail: Mapping[str, int] = field(default_factory=dict)

    @property
    def missed(self) -> bool:
        """Whether the goal is not reached."""
        return self.goal is not None and self.value > self.goal

    @property
    def failed(self) -> bool:
        """Whether the run fails because of it.

        Judged in whole requests: how often a write meets a conflict and is repeated depends on the moment, and a gate
        must give the same answer each time.
        """
        return self.gate and self.goal is not None and round(self.value) > self.goal


def median_of(subject: str, name: str, values: Sequence[float], unit: str, goal: float | None = None) -> Figure:
    """The median of several runs with its range."""
    return Figure(subject, name, statistics.median(values), unit, goal, low=min(values), high=max(values))


def over_runs(runs: Sequence[Sequence[Figure]]) -> list[Figure]:
    """Of each figure the median of several runs with its range; of one run what it says itself."""
    if len(runs) == 1:
        return list(runs[0])
    values: dict[tuple[str, str], list[float]] = {}
    last: dict[tuple[str, str], Figure] = {}
    for one in (figure for run in runs for figure in run):
        values.setdefault((one.subject, one.name), []).append(one.value)
        last[one.subject, one.name] = one
    return [
        replace(last[name], value=statistics.median(found), low=min(found), high=max(found))
        for name, found in values.items()
    ]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values does not exceed.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values to take a quantile of")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def machine() -> dict[str, object]:
    """What the figures were measured on; the load tells whether others were at work."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "load": [round(one, 2) for one in os.getloadavg()],
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def write_results(figures: Sequence[Figure], on: dict[str, object], seconds: float) -> Path:
    """Keep a run as JSON; returns the file."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    body = {"machine": on, "seconds": round(seconds, 1), "figures": [asdict(one) for one in figures]}
    path.write_text(json.dumps(body, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path
