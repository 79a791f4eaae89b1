"""`make bench`: measure the platform on this machine.

Prints one table, keeps it as JSON, and fails only if a count is over its goal: times depend on the machine and on what
else runs there.
"""

import logging
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import structlog
import typer
import uvloop
from bench.catalogue import measure_catalogue, measure_many_models
from bench.convergence import Children, Effort, children_of, measure_bare, measure_convergence
from bench.event_path import measure_event_path
from bench.figures import Figure, machine, over_runs, write_results
from bench.history_replay import measure_replay
from bench.idle import measure_idle
from bench.latency import measure_cold, measure_warm
from bench.memory import measure_memory
from bench.recovery import measure_recovery
from bench.site import WARM, Site, site
from bench.surroundings import Surroundings
from bench.table import show
from rich.console import Console

from controller_runtime import Key

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_SIZES: Final = "20,100,200"
_MODELS: Final = 500
_WIDTH: Final = 120
"""Columns where the output goes to a file."""
_SHOWN: Final = Key(WARM, "warm-0")
"""The AIMService whose children the bare writer copies and whose decisions are replayed."""


class Run:
    """The figures of one run, with what was said about its progress."""

    def __init__(self, console: Console) -> None:
        self.figures: list[Figure] = []
        self._console = console
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._begun

    def add(self, figures: Iterable[Figure], what: str) -> None:
        """Take the figures of one subject."""
        self.figures += figures
        self._console.print(f"{self.seconds:6.1f} s  {what}")


async def measure_costs(run: Run, sizes: tuple[int, ...], surroundings: Surroundings) -> None:
    """What AIMServices cost, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with site(Path(folder), surroundings=surroundings) as place:
            await _measure_requests(run, place, sizes, cold=surroundings is Surroundings.FAKES)


async def measure(run: Run, sizes: tuple[int, ...], models: int, surroundings: Surroundings) -> None:
    """Everything: the platform first, then the bare writer and the many models on new stacks."""
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with site(Path(folder, "platform"), surroundings=surroundings) as place:
            children, efforts = await _MEASURES[surroundings](run, place, sizes)
        run.add(await measure_bare(Path(folder, "bare"), children, efforts, surroundings), "bare writer")
        if surroundings is Surroundings.EMBEDDED:
            run.add(await measure_many_models(Path(folder, "models"), models), "many models")


async def _measure_requests(
    run: Run, place: Site, sizes: tuple[int, ...], *, cold: bool = False
) -> tuple[Children, Mapping[int, Effort]]:
    """What AIMServices cost, which is all that another API server may change.

    ``cold``: each burst finds a cold cache, which costs little where downloads take no time, and so the counts of the
    cold path are held to their goals.
    """
    await place.settled()
    run.add(await measure_cold(place, gate=cold), "cold path")
    run.add(await measure_warm(place), "warm path")
    children = await children_of(place, _SHOWN)
    figures, efforts = await measure_convergence(place, sizes, cold=cold)
    run.add(figures, "convergence")
    run.add(await measure_idle(place), "idle")
    return children, efforts


async def _measure_platform(run: Run, place: Site, sizes: tuple[int, ...]) -> tuple[Children, Mapping[int, Effort]]:
    await place.settled()
    run.add(measure_memory(place, "empty"), "memory, empty")
    run.add(await measure_cold(place), "cold path")
    run.add(await measure_warm(place), "warm path")
    run.add(await measure_catalogue(place), "catalogue")
    children = await children_of(place, _SHOWN)
    figures, efforts = await measure_convergence(place, sizes)
    run.add(figures, "convergence")
    run.add(measure_memory(place, f"{len(place.services.present)} services"), "memory, converged")
    run.add(await measure_idle(place), "idle")
    run.add(await measure_event_path(place), "event path")
    run.add(await measure_recovery(place), "recovery")
    run.add(await measure_replay(place, _SHOWN), "replay")
    return children, efforts


_Measure: TypeAlias = Callable[[Run, Site, tuple[int, ...]], Awaitable[tuple[Children, Mapping[int, Effort]]]]
_MEASURES: Final[Mapping[Surroundings, _Measure]] = {
    Surroundings.EMBEDDED: _measure_platform,
    Surroundings.REAL: _measure_requests,
    Surroundings.FAKES: partial(_measure_requests, cold=True),
}


@app.command()
def main(
    sizes: Annotated[str, typer.Option(help="How many AIMServices to create at once, increasing.")] = _SIZES,
    models: Annotated[int, typer.Option(help="At how many models the memory of discovery is taken.")] = _MODELS,
    cluster: Annotated[
        Surroundings,
        typer.Option(
            help="In memory; real with KServe; real with fakes of 20 ms. Against real ones, what AIMServices cost."
        ),
    ] = Surroundings.EMBEDDED,
    costs: Annotated[bool, typer.Option("--costs", help="Only what AIMServices cost.")] = False,
    runs: Annotated[int, typer.Option(min=1, help="How often; shown are median and range.")] = 1,
) -> None:
    """Measure, print, keep, judge."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    on = machine() | {"cluster": cluster, "runs": runs}
    begun = time.monotonic()
    done: list[Run] = []
    try:
        for _ in range(runs):
            done.append(run := Run(console))
            numbers = tuple(int(one) for one in sizes.split(","))
            uvloop.run(measure_costs(run, numbers, cluster) if costs else measure(run, numbers, models, cluster))
    finally:
        figures = over_runs([run.figures for run in done if run.figures])
        show(figures, console)
    seconds = time.monotonic() - begun
    path = write_results(figures, on, seconds)
    console.print(f"\n{seconds:.0f} s with load {on['load']} at start; kept in {path}", soft_wrap=True)
    failed = [one for one in figures if one.failed]
    for one in failed:
        made_of = ", ".join(f"{count} {what}" for what, count in one.detail.items())
        console.print(f"[red]over its goal:[/] {one.subject}, {one.name}: {one.value:g} > {one.goal:g} ({made_of})")
    if failed:
        raise typer.Exit(1)


if __name__ == "__main__":
    app()
