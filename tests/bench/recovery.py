"""`kill -9` of one service while everything is converged: how soon it is back, and what it writes for nothing."""

import asyncio
import shutil
import time
from typing import Final

from bench.figures import Figure
from bench.ledger import Cost, Ledger
from bench.site import Site

from aim_domain.services import SERVICES
from controller_runtime import JsonObject

_READY_GOAL: Final = 3.0
_CAUGHT_UP_GOAL: Final = 5.0
_WIPE_GOAL: Final = 10.0
_PATIENCE: Final = 90.0
_STABLE_SECONDS: Final = 1.5
"""A queue can be empty for a moment before the next part of a start fills it again."""
_LOOK: Final = 0.02


async def measure_recovery(site: Site) -> list[Figure]:
    """Each service alone, one after the other."""
    figures: list[Figure] = []
    for name in SERVICES:
        figures += await _kill_and_start(site, name)
    return figures


async def measure_wipe(site: Site) -> list[Figure]:
    """The broker comes back with an empty store: everybody publishes anew, and nobody writes."""
    subject = "broker's store wiped"
    await site.settled()
    await site.stack.cluster.reset_requests()
    await site.stack["nats"].kill()
    store = site.stack.settings.folder / "nats" / "jetstream"
    await asyncio.to_thread(shutil.rmtree, store)
    begun = time.monotonic()
    await site.stack["nats"].start()
    caught_up = [await _caught_up(site, name) - begun for name in SERVICES]
    await site.settled()
    ledger = Ledger.of(await site.stack.cluster.requests())
    writes = ledger.total(Cost.WRITE) + ledger.total(Cost.EVENT)
    return [
        Figure(subject, "until all have caught up", max(caught_up), "s", _WIPE_GOAL),
        Figure(subject, "writes for nothing", writes, goal=0, gate=True, detail=ledger.detail(Cost.WRITE, Cost.EVENT)),
    ]


async def _kill_and_start(site: Site, name: str) -> list[Figure]:
    subject = f"kill -9 {name}"
    await site.settled()
    await site.stack.cluster.reset_requests()
    await site.stack[name].kill()
    begun = time.monotonic()
    await site.stack[name].start()
    ready = site.stack[name].start_seconds
    caught_up = await _caught_up(site, name) - begun
    await site.settled()
    ledger = Ledger.of(await site.stack.cluster.requests())
    writes = ledger.total(Cost.WRITE) + ledger.total(Cost.EVENT)
    return [
        Figure(subject, "until ready", ready, "s", _READY_GOAL),
        Figure(subject, "until caught up", caught_up, "s", _CAUGHT_UP_GOAL),
        Figure(subject, "writes for nothing", writes, goal=0, gate=True, detail=ledger.detail(Cost.WRITE, Cost.EVENT)),
        Figure(subject, "reads", ledger.total(Cost.READ)),
    ]


async def _caught_up(site: Site, name: str) -> float:
    """When the service, seen from now on, had nothing left to do, and kept it so for a moment."""
    since: float | None = None
    async with asyncio.timeout(_PATIENCE):
        while since is None or time.monotonic() - since < _STABLE_SECONDS:
            _, page = await site.page(name, "/debug/queue")
            if not _is_current(page):
                since = None
            elif since is None:
                since = time.monotonic()
            await asyncio.sleep(_LOOK)
    return since


def _is_current(page: JsonObject) -> bool:
    """Every publisher has confirmed its part, and no object waits for a pass."""
    if not page.get("leads") or not page["queues"]:
        return False
    published = all(one["checkpoints"] and not one["waiting"] for one in page["publishers"].values())
    return published and all(not one["depth"] and not one["processing"] for one in page["queues"].values())
