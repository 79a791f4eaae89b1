"""Processes stand still for a while, as on a machine without breath, and go on as if nothing had been."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from matrix.api_proxy import acting_without_lease, requests_of
from matrix.case import Case, Outcome, Scenario
from matrix.site import STEADY_SECONDS, Site

from aim_domain.services import SERVICES

_API_SERVERS: Final = ("control-plane", "kube-apiserver", "etcd")
_PAUSED: Final = (*SERVICES, "nats", "api-server")
_PAUSES: Final = {5.0: 0.0, 30.0: 600.0, 120.0: 3600.0}
"""How long, and how many seconds a run must have for that."""
_CAUGHT_UP: Final = 5.0
"""Seconds after a pause in which all is done that was due when it ended."""
_LEASE_OVER: Final = 20.0
"""Seconds after which another replica leads at the latest."""


async def _pause(name: str, seconds: float, site: Site, chance: random.Random) -> Outcome:
    """One process, somewhere in the middle of the story."""
    real_name = (
        next(one.name for one in site.stack.processes if one.name in _API_SERVERS) if name == "api-server" else name
    )
    at = chance.randint(1, sum(site.clean_writes.values()) - 1)
    site.proxy.written.clear()
    begun = time.monotonic()
    await site.tell()
    await site.mirror.until(lambda: len(site.proxy.written) >= at, 20 * site.patience)
    with site.suspended(real_name):
        await asyncio.sleep(seconds)
    resumed = time.monotonic()
    differences = await site.converged()
    late = time.monotonic() - resumed - STEADY_SECONDS
    most = most_seconds(site.clean_seconds, resumed - begun, site.patience)
    if not differences and late > most:
        differences = [f"caught up after {late:.1f} s, not within {most:.1f} s"]
    return Outcome(Counter({f"{seconds:g} s pause": 1}), len(site.expected), differences, {"seconds to catch up": late})


def most_seconds(clean: float, resumed: float, patience: float) -> float:
    """How long after a pause the story may end. Pure.

    What a run without faults has not done by then either is not due yet; a machine on which the whole story takes
    longer than the limit gets the time of the story, since all of it may be due.

    Args:
        clean: seconds that a run without faults takes.
        resumed: seconds from the beginning of the story to the end of the pause.
        patience: of the site.
    """
    return max(_CAUGHT_UP * patience, clean) + max(0.0, clean - resumed)


async def _two_leaders(name: str, site: Site, _: random.Random) -> Outcome:
    """The leader stands still until its Lease is over, and enqueues beside its successor."""
    second = site.replica(name, 1)
    await second.start()
    try:
        site.proxy.written.clear()
        with site.suspended(name):
            await site.tell()
            taken_over = await site.mirror.until(site.ended, _LEASE_OVER + 60 * site.patience)
        await site.api.merge(site.service_path("own"), {"spec": {"replicas": 3}})
        await site.mirror.until(lambda: site.asked_for("own", 3), 30 * site.patience)
        await site.api.merge(site.service_path("own"), {"spec": {"replicas": 2}})
        differences = [] if taken_over else ["nobody took over"]
        differences += await site.converged()
        led = [one for one in (name, second.name) if requests_of(site.proxy.written, one)]
        differences += acting_without_lease(site.proxy.written, {name: f"aim-{name}-0", second.name: f"aim-{name}-1"})
        compared = len(site.expected) + len(site.proxy.written)
        return Outcome(Counter({"pause beyond the Lease": 1}), compared, differences, {"leaders": len(led)})
    finally:
        await second.stop()


def _cases() -> Sequence[Case]:
    pauses = [
        Case("R6", f"pause-{name}-{seconds:g}", partial(_pause, name, seconds), needs=needs)
        for name in _PAUSED
        for seconds, needs in _PAUSES.items()
    ]
    leaders = [Case("R6", f"leaders-{name}", partial(_two_leaders, name)) for name in SERVICES]
    return [*pauses, *leaders]


SCENARIO: Final = Scenario("R6", "pauses", "final objects, writes against Leases", _cases, on_real=True)
