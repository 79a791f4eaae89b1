"""What `aim console` takes among many objects: ``python -m bench.console 10000``.

So many objects lie on the bus, said by a test: services with all that is made for them. Nobody else runs, so that
whatever reaches the API server comes from the console.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import aiohttp
import typer
import uvloop
from bench.figures import Figure, median_of
from bench.table import show
from bench.usage import resident_of
from rich.console import Console
from support.console_objects import cluster, family
from support.console_site import Site, site

from controller_runtime import JsonObject

_ROUNDS: Final = 9
_GOAL: Final = 300.0
"""FW-675: ms until a page is complete."""
_SERVICE: Final = "/objects/aimservices/team-1/chat-001"
_PAGES: Final = {
    "home": "/",
    "a service": _SERVICE,
    "a service as it was": f"{_SERVICE}/past",
    "its story": f"{_SERVICE}/story",
    "a model": "/objects/aimclustermodels/-/llama-3-70b",
    "catalogue": "/catalogue",
    "capacity": "/capacity",
}


def objects(count: int) -> Iterator[JsonObject]:
    """A cluster whose services have everything that is made for them."""

    def reported() -> Iterator[JsonObject]:
        for obj in cluster(count):
            yield obj
            yield from family(obj)

    return islice(reported(), count)


async def _page(session: aiohttp.ClientSession, path: str) -> tuple[float, int]:
    """Milliseconds until the page is complete, and its size."""
    begun = time.perf_counter()
    async with session.get(path) as answer:
        text = await answer.read()
        assert answer.status == 200, (path, answer.status, text[:300])
    return 1000 * (time.perf_counter() - begun), len(text)


async def _figures(place: Site, title: str) -> list[Figure]:
    found = list[Figure]()
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(place.address.partition("/?")[0], cookie_jar=jar) as session:
        first, _ = await _page(session, "/?" + place.address.partition("/?")[2])
        found.append(Figure(title, "the first page of all", first, "ms"))
        found.append(Figure(title, "memory once everything is known", resident_of(place.pid), "MiB"))
        for name, path in _PAGES.items():
            measured = [await _page(session, path) for _ in range(_ROUNDS)]
            goal = _GOAL if name in ("home", "a service") else None
            found.append(median_of(title, name, [one for one, _ in measured], "ms", goal))
            found.append(Figure(title, f"{name}, size", measured[0][1] / 1024, "KiB"))
        found.append(Figure(title, "memory after that", resident_of(place.pid), "MiB"))
    asked = place.plane.requests.report()["requests"]
    reviews = sum(one["count"] for one in asked if one["resource"] == "selfsubjectaccessreviews")
    others = sum(one["count"] for one in asked) - reviews
    found.append(Figure(title, "reviews asked of the API server", reviews))
    found.append(Figure(title, "anything else asked of it", others, goal=0))
    return found


async def measure(count: int) -> list[Figure]:
    """Fill a broker, and look at each page: a cluster of all kinds, and one of AIMServices alone."""
    found = list[Figure]()
    for what, reported in (("objects", objects(count)), ("services", islice(cluster(count), count))):
        with tempfile.TemporaryDirectory(prefix="aim-bench-") as folder:
            async with site(Path(folder), reported) as place:
                found += await _figures(place, f"{count:,} {what}")
    return found


def main(count: Annotated[int, typer.Argument(help="Objects on the bus.")] = 10_000) -> None:
    """Measure and print."""
    show(uvloop.run(measure(count)), Console(width=None if sys.stdout.isatty() else 120))


if __name__ == "__main__":
    typer.run(main)
