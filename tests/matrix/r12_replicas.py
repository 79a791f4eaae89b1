"""Two replicas of every service, and in the middle of the work each leader goes away: the other one goes on."""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from enum import StrEnum
from functools import partial
from typing import Final

from matrix.api_proxy import Written, acting_without_lease, requests_of
from matrix.case import Case, Outcome, Scenario
from matrix.site import Site
from support.nats import eventually

from aim_domain.services import SERVICES


class Way(StrEnum):
    """How a leader goes away."""

    KILL = "kill"
    """SIGKILL: nobody gives the Lease back."""
    STOP = "stop"
    """SIGTERM, as a rolling upgrade does it: the Lease is given back."""
    PAUSE = "pause"
    """SIGSTOP until the other one leads, and it wakes beside that one."""


_MOST_SECONDS: Final[Mapping[Way, float]] = {Way.KILL: 20.0, Way.STOP: 8.0, Way.PAUSE: 20.0}
"""Until the other one leads: a Lease of 15 s and a try each 2 s, or a try after it was given back; and some breath."""


async def _go_away(way: Way, site: Site, chance: random.Random) -> Outcome:
    """Each leader goes at a moment of its own; then all come back, and the spec changes under the new leaders."""
    outcome = Outcome(Counter({f"{way} {name}": 1 for name in SERVICES}))
    moments = {name: chance.randint(1, max(1, site.clean_writes[name] // 2)) for name in SERVICES}
    async with _second_replicas(site):
        site.proxy.written.clear()
        async with asyncio.TaskGroup() as group:
            gone = {name: group.create_task(_strike(way, site, name, at)) for name, at in moments.items()}
            await site.tell()
        most = _MOST_SECONDS[way] * site.patience
        taken = await _taken_over(site, {name: one.result() for name, one in gone.items()}, 2 * most)
        await _back(way, site)
        await _change_and_back(site)
        outcome.differences = [*late(taken, most), *await site.converged()]
        for name in SERVICES:
            pair = {name: f"aim-{name}-0", second(name): f"aim-{name}-1"}
            outcome.differences += acting_without_lease(site.proxy.written, pair)
        outcome.compared = len(site.expected) + len(site.proxy.written)
    outcome.notes = {"seconds until another led": max(taken.values())}
    return outcome


def second(name: str) -> str:
    """The other replica of a service, as the proxy calls it."""
    return f"{name}-1"


def led_after(written: Iterable[Written], name: str, gone: float) -> float:
    """Seconds after the leader had gone that the other one got the Lease; infinity if it has not. Pure."""
    taken = (one.at for one in written if one.client == second(name) and one.holder.startswith(f"aim-{name}-1"))
    return min((at - gone for at in taken if at >= gone), default=math.inf)


def late(taken: Mapping[str, float], most: float) -> list[str]:
    """Services that were without a leader for longer than so many seconds. Pure."""
    return [f"{name} had no leader for {seconds:.1f} s" for name, seconds in taken.items() if seconds > most]


async def _taken_over(site: Site, gone: Mapping[str, float], patience: float) -> dict[str, float]:
    """By service, after how many seconds the other replica led; waits for it."""

    def all_led() -> bool:
        return not any(math.isinf(led_after(site.proxy.written, name, at)) for name, at in gone.items())

    # Who is still without a leader then is told as a difference.
    with suppress(AssertionError):
        await eventually(all_led, "the other replicas lead", patience)
    return {name: led_after(site.proxy.written, name, at) for name, at in gone.items()}


@asynccontextmanager
async def _second_replicas(site: Site) -> AsyncIterator[None]:
    """They start as followers, and hand over when they end, so that the next case finds the first ones leading."""
    async with AsyncExitStack() as started, asyncio.TaskGroup() as group:
        others = [site.replica(name, 1) for name in SERVICES]
        for one in others:
            started.push_async_callback(one.stop)
        for starting in [group.create_task(one.start()) for one in others]:
            await starting
        yield


async def _strike(way: Way, site: Site, name: str, writes: int) -> float:
    """Let it write so often, and strike; when that was."""
    await site.mirror.until(lambda: len(requests_of(site.proxy.written, name)) >= writes, 60 * site.patience)
    at = time.monotonic()
    match way:
        case Way.KILL:
            await site.stack[name].kill()
        case Way.STOP:
            await site.stack[name].stop()
        case Way.PAUSE:
            site.suspend(name)
    return at


async def _back(way: Way, site: Site) -> None:
    """The former leaders wake, or start, beside those that lead now."""
    async with asyncio.TaskGroup() as group:
        for name in SERVICES:
            if way is Way.PAUSE:
                site.resume(name)
            else:
                group.create_task(site.stack[name].start())


async def _change_and_back(site: Site) -> None:
    for replicas in (3, 2):
        await site.api.merge(site.service_path("own"), {"spec": {"replicas": replicas}})
        await site.mirror.until(partial(site.asked_for, "own", replicas), 60 * site.patience)


def _cases() -> Sequence[Case]:
    return [Case("R12", way.value, partial(_go_away, way)) for way in Way]


SCENARIO: Final = Scenario("R12", "leaders go", "final objects, writes against Leases", _cases, on_real=True)
