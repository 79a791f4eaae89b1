"""`make chaos`: everything that can go wrong around the platform goes wrong, and the outcome is compared.

See docs/development/chaos.md.
"""

import asyncio
import logging
import secrets
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated, Final

import structlog
import typer
import uvloop
from matrix.case import FAILED, IDLE, Case, Outcome, Scenario, UnknownCaseError, rounds, selected
from matrix.site import Site, started_site
from matrix.table import Row, repeat, show
from rich.console import Console

from aim_local.stack import ClusterKind, StackError
from controller_runtime.tasks import in_own_task

SCENARIOS: Final[Sequence[Scenario]] = tuple(
    import_module(f"matrix.{name}").SCENARIO
    for name in (
        "r01_crashes",
        "r02_lost_events",
        "r03_stale_reads",
        "r04_disorder",
        "r05_time_travel",
        "r06_pauses",
        "r07_api_faults",
        "r08_transitions",
        "r09_poison",
        "r10_soak",
        "r11_history",
        "r12_replicas",
        "r13_fights",
        "r14_hostile_objects",
        "r15_hostile_streams",
        "properties",
        "checks",
    )
)
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_WIDTH: Final = 160
_TRACE: Final = 6
_KEPT: Final = Path(".run/chaos")
"""Logs of failed cases."""


class Run:
    """One run of the matrix; a new platform is started for the first case and after each failure."""

    def __init__(
        self, rows: Mapping[str, Row], seed: int, seconds: float, cluster: ClusterKind, console: Console
    ) -> None:
        self._rows = rows
        self._seed = seed
        self._seconds = seconds
        self._cluster = cluster
        self._console = console
        self._exits = AsyncExitStack()
        self._site: Site | None = None
        self._begun = time.monotonic()

    async def everything(self, cases: Mapping[str, Sequence[Case]]) -> None:
        """One case of each scenario, then the next of each, until the time is over; at least one in any case."""
        try:
            for number, case in enumerate(chain.from_iterable(rounds(cases, self._seed))):
                if number and time.monotonic() - self._begun > self._seconds:
                    return
                await self._one(case)
        finally:
            await self._exits.aclose()

    async def _one(self, case: Case) -> None:
        row, begun = self._rows[case.scenario], time.monotonic()
        outcome = await self._outcome(case)
        row.ran += 1
        row.outcome.add(outcome)
        seconds = time.monotonic() - begun
        verdict = outcome.verdict
        row.idle += verdict == IDLE
        mark = f"[red]{verdict}[/]" if verdict == FAILED else verdict
        self._console.print(f"{time.monotonic() - self._begun:6.0f} s  {case!s:<28} {seconds:5.1f} s  {mark}")
        if outcome.differences:
            row.failed[str(case)] = outcome.differences
            for text in outcome.differences:
                self._console.print(f"          {text}", markup=False, soft_wrap=True)
            self._console.print(f"          {repeat(str(case), self._seed, self._cluster)}", markup=False)
            await asyncio.to_thread(self._keep_logs, case)
            await self._leave()

    async def _outcome(self, case: Case) -> Outcome:
        try:
            if not case.platform:
                return await self._run(case, None)
            site = await self._platform()
            outcome = await self._run(case, site)
            site.heal()
            await site.erase()
        except Exception as error:
            reported = traceback.format_exception(error)[-_TRACE:]
            return Outcome(differences=["".join(reported)])
        return outcome

    async def _run(self, case: Case, site: Site | None) -> Outcome:
        # A platform that did not start leaves this task marked as cancelled, which must not end the other cases.
        return await in_own_task(case.run(site, case.chance(self._seed)))

    async def _platform(self) -> Site:
        if self._site is None:
            folder = self._exits.enter_context(
                tempfile.TemporaryDirectory(prefix="aim-chaos-", ignore_cleanup_errors=True)
            )
            site = await self._exits.enter_async_context(
                started_site(Path(folder), self._cluster, self._seconds, self._seed)
            )
            if wrong := await site.learn():
                raise StackError(f"two runs without faults differ: {wrong}")
            self._site = site
        return self._site

    def _keep_logs(self, case: Case) -> None:
        """Where whoever looks for the cause finds them."""
        if self._site is None:
            return
        kept = _KEPT / str(case).replace("/", "-")
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(self._site.stack.settings.folder / "logs", kept)
        self._console.print(f"          logs: {kept}", markup=False)

    async def _leave(self) -> None:
        """What a failure left behind must not fail others."""
        self._site = None
        await self._exits.aclose()
        self._exits = AsyncExitStack()


@app.command()
def main(
    seconds: Annotated[float, typer.Option(help="No case begins later than this.")] = 600.0,
    seed: Annotated[int | None, typer.Option(help="Repeats a run; drawn and printed by default.")] = None,
    only: Annotated[str, typer.Option(help="Scenarios or cases, comma-separated.")] = "",
    cluster: Annotated[ClusterKind, typer.Option(help="What has the API server.")] = ClusterKind.EMBEDDED,
) -> None:
    """Inject, compare, tell."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    chosen = secrets.randbelow(1 << 32) if seed is None else seed
    there = [one for one in SCENARIOS if cluster is ClusterKind.EMBEDDED or one.on_real]
    try:
        cases = selected(there, only, seconds)
    except UnknownCaseError as error:
        raise typer.BadParameter(str(error)) from error
    console.print(f"seed {chosen}, {seconds:g} s, cluster {cluster}", highlight=False)
    rows = {one.id: Row(one, len(cases[one.id])) for one in there if one.id in cases}
    try:
        uvloop.run(Run(rows, chosen, seconds, cluster, console).everything(cases))
    finally:
        show(rows, chosen, console)
    if any(row.failed for row in rows.values()):
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
