"""A run of the matrix goes on, whatever a case or the start of its platform has come to."""

import asyncio
import io
import random
from collections import Counter

import pytest
from matrix.__main__ import Run
from matrix.case import Case, Outcome, Scenario
from matrix.table import Row
from rich.console import Console

from aim_local.stack import ClusterKind
from controller_runtime.log.broker.connection import raise_if_cancelled


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


@pytest.mark.parametrize(
    ("outcomes", "result"),
    [
        ([Outcome(Counter({"fault": 1}), 3)], "[green]good[/]"),
        (
            [Outcome(Counter({"fault": 1}), 3), Outcome(Counter({"fault": 0}), 3)],
            "[green]good[/], nothing happened in 1",
        ),
        ([Outcome(Counter(), 3), Outcome(Counter({"fault": 1}))], "nothing happened"),
        ([Outcome(Counter({"fault": 1}), 3), Outcome(Counter(), 3, ["lost"])], "[red]1 failed[/]"),
        ([], "not reached"),
    ],
)
async def test_a_case_in_which_nothing_happened_is_not_called_good(outcomes: list[Outcome], result: str) -> None:
    remaining = iter(outcomes)

    async def run(_site: object, _chance: random.Random) -> Outcome:
        return next(remaining)

    cases = [Case("X", str(number), run, platform=False) for number in range(len(outcomes))]
    row = Row(Scenario("X", "", "", lambda: cases), len(cases))
    await Run({"X": row}, 1, 60, ClusterKind.EMBEDDED, Console(file=io.StringIO())).everything({"X": cases})
    assert row.result == result
