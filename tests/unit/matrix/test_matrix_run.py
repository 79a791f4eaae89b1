"""A run of the matrix goes on, whatever a case or the start of its platform has come to."""

import asyncio
import io
import random

from matrix.__main__ import Run
from matrix.case import Case, Outcome, Scenario
from matrix.table import Row
from rich.console import Console

from aim_local.stack import ClusterKind
from controller_runtime.bus.connection import raise_if_cancelled


async def _asks_the_bus(_site: object, _chance: random.Random) -> Outcome:
    raise_if_cancelled()
    return Outcome(compared=1)


async def _fails() -> None:
    raise ValueError


async def test_a_start_that_failed_ends_no_other_case() -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_fails())
    except* ValueError:
        pass
    cases = [Case("X", name, _asks_the_bus, platform=False) for name in ("a", "b")]
    row = Row(Scenario("X", "", "", lambda: cases), len(cases))
    await Run({"X": row}, 1, 60, ClusterKind.EMBEDDED, Console(file=io.StringIO())).everything({"X": cases})
    assert (row.ran, row.outcome.compared, row.failed) == (2, 2, {})
