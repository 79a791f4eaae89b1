"""P1, P3 and P5 beside many AIMServices that run: ``PYTHONPATH=tests python -m bench.at_scale 1000 15``.

Against a real API server with fakes (`make kube-assets`); each service is four objects, with its InferenceService,
route and Pod. The second argument is how many minutes the churn lasts.
"""

import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final

import structlog
import typer
import uvloop
from bench.event_path import measure_event_path
from bench.figures import Figure, machine, write_results
from bench.idle import measure_idle
from bench.latency import measure_cold
from bench.memory import measure_memory
from bench.open_loop import measure_open_loop
from bench.recovery import measure_recovery, measure_wipe
from bench.site import WARM, Site, service_body, site
from bench.surroundings import Surroundings
from bench.table import show
from rich.console import Console

from aim_domain import kinds
from controller_runtime import Key

_WAVE: Final = 250
_PATIENCE: Final = 600.0
_WIDTH: Final = 120


async def measure(count: int, minutes: float, surroundings: Surroundings) -> list[Figure]:
    """All figures with so many services present."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with site(Path(folder), surroundings=surroundings) as place:
            await place.settled()
            await measure_cold(place)
            figures.append(await _fill(place, count))
            for title, figure in (("idle", measure_idle), ("event path", measure_event_path)):
                figures += await figure(place)
                typer.echo(title)
            figures += await measure_open_loop(place, 60 * minutes)
            typer.echo("churn")
            figures += measure_memory(place, f"{count} services")
            figures += await measure_recovery(place)
            typer.echo("recovery")
            figures += await measure_wipe(place)
    return figures


async def _fill(place: Site, count: int) -> Figure:
    """Many services, a wave at a time."""
    begun = time.monotonic()
    for first in range(0, count, _WAVE):
        keys = [Key(WARM, f"many-{number}") for number in range(first, min(count, first + _WAVE))]
        await place.create(kinds.AIM_SERVICE, map(service_body, keys))
        await place.services.until_seen(keys, _PATIENCE)
    return Figure("many", f"{count} services until all run, {_WAVE} at a time", time.monotonic() - begun, "s")


def main(
    count: Annotated[int, typer.Argument()] = 1000,
    minutes: Annotated[float, typer.Argument(help="How long they come and go.")] = 15,
    cluster: Annotated[Surroundings, typer.Option()] = Surroundings.FAKES,
) -> None:
    """Measure, print, keep."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    on, begun = machine() | {"cluster": cluster, "services": count}, time.monotonic()
    figures = uvloop.run(measure(count, minutes, cluster))
    console = Console(width=None if sys.stdout.isatty() else _WIDTH)
    show(figures, console)
    console.print(f"kept in {write_results(figures, on, time.monotonic() - begun)}", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
