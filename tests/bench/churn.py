"""Coming and going: what processes hold while rounds end as they began.

``PYTHONPATH=tests .venv/bin/python -m bench.churn 20 12 10``: each round creates that many AIMServices, scales half of
them, asks the other half for what does not exist, and deletes them all; a few others stay. After so many minutes of
warming up, it is measured for so many more. The growth is the slope of a line through what a process holds after each
round: two single samples would show where the allocator happened to stand.

Warming up takes twelve minutes: for the first six the number of remembered deletions grows (FW-462), and until then
every publisher has compared its part once, which takes the most memory that a service needs.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import structlog
import typer
import uvloop
from bench.figures import Figure, machine, write_results
from bench.site import IMAGE, MANAGER, Site, service_body, site
from bench.table import show
from bench.usage import open_files, resident_mib
from rich.console import Console

from aim_domain import kinds
from aim_domain.services import SERVICES
from controller_runtime import Key

_NAMESPACE: Final = "bench-churn"
_PATIENCE: Final = 180.0
_STAYING: Final = 5
_GOAL: Final = 1.0
"""R10: MiB in ten minutes at a constant number of objects."""
_CONTROL_PLANE_GOAL: Final = 300.0
_SURROUNDINGS: Final = ("nats", "control-plane")
_TEN_MINUTES: Final = 600.0


@dataclass(frozen=True, slots=True)
class Sample:
    """What processes held after a round: MiB and open files by name."""

    at: float
    mib: dict[str, float]
    files: dict[str, int]

    @classmethod
    def of(cls, place: Site) -> "Sample":
        """Now."""
        names = (*SERVICES, *_SURROUNDINGS)
        return cls(
            time.monotonic(),
            {name: resident_mib(place.stack, name) for name in names},
            {name: open_files(place.stack, name) for name in SERVICES},
        )


async def measure_churn(place: Site, size: int, warm: float, span: float) -> list[Figure]:
    """Rounds of creating, scaling, breaking and deleting, for so many seconds before and while it is measured."""
    await place.namespace(_NAMESPACE)
    staying = [Key(_NAMESPACE, f"stays-{number}") for number in range(_STAYING)]
    await place.create(kinds.AIM_SERVICE, map(service_body, staying))
    await place.services.until_seen(staying, _PATIENCE)
    before, _ = await _rounds(place, size, warm, "w")
    rounds, samples = await _rounds(place, size, span, "r")
    title = f"churn, {rounds} × {size} services in {samples[-1].at - samples[0].at:.0f} s, after {before} rounds"
    return figures(title, samples)


def figures(title: str, samples: Sequence[Sample]) -> list[Figure]:
    """What samples say about growth."""
    last, more = samples[-1], {name: files - samples[0].files[name] for name, files in samples[-1].files.items()}
    growth = {name: growth_of([(one.at, one.mib[name]) for one in samples]) for name in last.mib}
    return [
        *(Figure(title, f"{name}, growth in ten minutes", growth[name], "MiB", _GOAL) for name in SERVICES),
        *(Figure(title, f"{name}, growth in ten minutes", growth[name], "MiB") for name in _SURROUNDINGS),
        *(Figure(title, f"{name}, at the end", last.mib[name], "MiB") for name in (*SERVICES, "nats")),
        Figure(title, "control-plane, at the end", last.mib["control-plane"], "MiB", _CONTROL_PLANE_GOAL),
        Figure(title, "open files of services more", sum(more.values()), detail=more),
    ]


def growth_of(held: Sequence[tuple[float, float]]) -> float:
    """MiB in ten minutes, from the line closest to MiB by second."""
    return _TEN_MINUTES * statistics.linear_regression(*zip(*held, strict=True)).slope


async def _rounds(place: Site, size: int, seconds: float, prefix: str) -> tuple[int, list[Sample]]:
    samples = [Sample.of(place)]
    while samples[-1].at - samples[0].at < seconds:
        await _round(place, [Key(_NAMESPACE, f"{prefix}{len(samples)}-{one}") for one in range(size)])
        await place.settled(_PATIENCE)
        samples.append(Sample.of(place))
        held = " ".join(f"{name} {mib:.1f}" for name, mib in samples[-1].mib.items())
        typer.echo(f"{samples[-1].at - samples[0].at:.0f} s: {held}")
    return len(samples) - 1, samples


async def _round(place: Site, keys: list[Key]) -> None:
    await place.create(kinds.AIM_SERVICE, map(service_body, keys))
    await place.services.until_seen(keys, _PATIENCE)
    async with asyncio.TaskGroup() as group:
        for number, key in enumerate(keys):
            group.create_task(_change(place, key, scaled=number % 2 == 0))
    await place.settled(_PATIENCE)
    await place.delete_services(keys, _PATIENCE)


async def _change(place: Site, key: Key, *, scaled: bool) -> None:
    spec = {"replicas": 2} if scaled else {"runtimeConfigName": "does-not-exist"}
    body = service_body(key)
    wanted = {**body, "spec": {"model": {"image": IMAGE}, **spec}}
    await place.client.apply(kinds.AIM_SERVICE, wanted, MANAGER)


async def _measure(size: int, warm: float, span: float) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with site(Path(folder)) as place:
            return await measure_churn(place, size, warm, span)


def main(
    size: Annotated[int, typer.Argument()] = 20,
    warm: Annotated[float, typer.Argument(help="Minutes before it is measured.")] = 12,
    minutes: Annotated[float, typer.Argument(help="Minutes for which it is measured.")] = 10,
) -> None:
    """Measure, print, keep."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    on, begun = machine(), time.monotonic()
    found = uvloop.run(_measure(size, 60 * warm, 60 * minutes))
    console = Console(width=None if sys.stdout.isatty() else 120)
    show(found, console)
    console.print(f"kept in {write_results(found, on, time.monotonic() - begun)}", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
