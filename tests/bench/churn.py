"""Coming and going: what services hold after rounds that end as they began.

``PYTHONPATH=tests .venv/bin/python -m bench.churn 20 6``: each round creates that many AIMServices, scales half of
them, asks the other half for what does not exist, and deletes them all. A few others stay. What a service holds after
the second round is compared with what it holds after the last: before that, code and connections are still warming up.
"""

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Final

import structlog
import typer
import uvloop
from bench.figures import Figure, machine, write_results
from bench.site import IMAGE, MANAGER, Site, service_body, site
from bench.table import show
from bench.usage import resident_mib
from rich.console import Console

from aim_local.keys import Key
from aim_local.stack import SERVICES
from aim_shared.api import kinds

_NAMESPACE: Final = "bench-churn"
_PATIENCE: Final = 180.0
_STAYING: Final = 5
_WARM_ROUNDS: Final = 2
_GOAL: Final = 1.0
"""R10: MiB in ten minutes at a constant number of objects."""


async def measure_churn(place: Site, size: int, rounds: int) -> list[Figure]:
    """Rounds of creating, scaling, breaking and deleting."""
    await place.namespace(_NAMESPACE)
    staying = [Key(_NAMESPACE, f"stays-{number}") for number in range(_STAYING)]
    await place.create(kinds.AIM_SERVICE, map(service_body, staying))
    await place.services.until_seen(staying, _PATIENCE)
    held: list[dict[str, float]] = []
    begun = time.monotonic()
    for number in range(rounds):
        await _round(place, [Key(_NAMESPACE, f"r{number}-{one}") for one in range(size)])
        await place.settled(_PATIENCE)
        held.append({name: resident_mib(place.stack, name) for name in SERVICES})
    span = time.monotonic() - begun
    title = f"churn, {rounds} × {size} services in {span:.0f} s"
    warm = held[min(_WARM_ROUNDS, rounds) - 1]
    return [
        Figure(title, f"{name}, growth since round {_WARM_ROUNDS}", held[-1][name] - warm[name], "MiB", _GOAL)
        for name in SERVICES
    ] + [Figure(title, f"{name}, at the end", held[-1][name], "MiB") for name in SERVICES]


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


async def _measure(size: int, rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
        async with site(Path(folder)) as place:
            return await measure_churn(place, size, rounds)


def main(size: Annotated[int, typer.Argument()] = 20, rounds: Annotated[int, typer.Argument()] = 6) -> None:
    """Measure, print, keep."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    on, begun = machine(), time.monotonic()
    figures = uvloop.run(_measure(size, rounds))
    console = Console(width=None if sys.stdout.isatty() else 120)
    show(figures, console)
    console.print(f"kept in {write_results(figures, on, time.monotonic() - begun)}", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
