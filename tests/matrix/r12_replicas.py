"""Two replicas of every service, and in the middle of the work each leader goes away: the other one goes on.

So it is where the two divide a service by namespace: the one that leads the story's shard is killed.
"""

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
from matrix.site import NAMESPACE, Site
from support.nats import eventually

from aim_domain.services import SERVICES
from aim_local.supervision.process import Supervised
from controller_runtime.shard import Shard, shard_of


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

DIVISIBLE: Final = ("serving", "routing")
_COUNT: Final = next(count for count in range(2, 17) if shard_of(NAMESPACE, count))
STORY: Final = Shard(shard_of(NAMESPACE, _COUNT), _COUNT)
"""The shard of the story's namespace: one that publishes no parts of its service, as shard 0 does."""


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


def led_after(written: Iterable[Written], client: str, gone: float, lease: str = "") -> float:
    """Seconds after the leader had gone that a replica got the Lease; infinity if it has not. Pure.

    Args:
        client: the replica, as the proxy calls it.
        lease: of several, the one that counts.
    """
    own = (one for one in written if one.client == client and one.holder.startswith(f"aim-{client}"))
    return min((one.at - gone for one in own if one.at >= gone and lease in ("", one.name)), default=math.inf)


def late(taken: Mapping[str, float], most: float) -> list[str]:
    """Services that were without a leader for longer than so many seconds. Pure."""
    return [f"{name} had no leader for {seconds:.1f} s" for name, seconds in taken.items() if seconds > most]


async def _taken_over(site: Site, gone: Mapping[str, float], patience: float) -> dict[str, float]:
    """By service, after how many seconds the other replica led; waits for it."""

    def all_led() -> bool:
        return not any(math.isinf(led_after(site.proxy.written, second(name), at)) for name, at in gone.items())

    # Who is still without a leader then is told as a difference.
    with suppress(AssertionError):
        await eventually(all_led, "the other replicas lead", patience)
    return {name: led_after(site.proxy.written, second(name), at) for name, at in gone.items()}


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
    await _written(site, name, writes)
    at = time.monotonic()
    match way:
        case Way.KILL:
            await site.stack[name].kill()
        case Way.STOP:
            await site.stack[name].stop()
        case Way.PAUSE:
            site.suspend(name)
    return at


async def _written(site: Site, client: str, writes: int) -> None:
    await site.mirror.until(lambda: len(requests_of(site.proxy.written, client)) >= writes, 60 * site.patience)


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


async def _shards(site: Site, chance: random.Random) -> Outcome:
    """Of two replicas that divide a service, the one that leads the story's shard is killed; the other leads all."""
    outcome = Outcome(Counter({f"kill the story's leader of {name}": 1 for name in DIVISIBLE}))
    moments = {name: chance.randint(1, max(1, site.clean_writes[name] // 2)) for name in DIVISIBLE}
    async with _divided(site) as pairs:
        leading = {name: await _leading_and_other(site, name, pair) for name, pair in pairs.items()}
        site.proxy.written.clear()
        async with asyncio.TaskGroup() as group:
            gone = {name: group.create_task(_kill(site, leading[name][0], at)) for name, at in moments.items()}
            await site.tell()
        most = _MOST_SECONDS[Way.KILL] * site.patience
        taken = {
            name: await _story_led(site, name, other, gone[name].result(), 2 * most)
            for name, (_, other) in leading.items()
        }
        for killed, _ in leading.values():
            await killed.start()
        await _change_and_back(site)
        outcome.differences = [*late(taken, most), *await site.converged()]
        for pair in pairs.values():
            identities = {one.name: f"aim-{one.name}" for one in pair}
            outcome.differences += acting_without_lease(site.proxy.written, identities)
        outcome.compared = len(site.expected) + len(site.proxy.written)
    outcome.notes = {"seconds until another led": max(taken.values())}
    return outcome


@asynccontextmanager
async def _divided(site: Site) -> AsyncIterator[Mapping[str, Sequence[Supervised]]]:
    """Two replicas of each service that can be divided, in the place of the one that there is, which comes back."""
    pairs = {name: [site.replica(name, number, AIM_SHARDS=str(_COUNT)) for number in (1, 2)] for name in DIVISIBLE}
    async with AsyncExitStack() as started:
        for name, pair in pairs.items():
            await site.stack[name].stop()
            started.push_async_callback(site.stack[name].start)
            for one in pair:
                await one.start()
                started.push_async_callback(one.stop)
        yield pairs


async def _leading_and_other(site: Site, name: str, pair: Sequence[Supervised]) -> tuple[Supervised, Supervised]:
    """The replica that leads the story's shard, and the other one, once each of them leads one."""

    def holders() -> dict[str, str]:
        """By Lease, which of the two holds it."""
        taken = (one for one in site.proxy.written if one.holder.startswith(f"aim-{one.client}"))
        return {one.name: one.client for one in taken if one.client in {replica.name for replica in pair}}

    def is_shared() -> bool:
        return len(holders()) == _COUNT and len(set(holders().values())) == len(pair)

    await eventually(is_shared, f"two replicas of {name} share the shards", 60 * site.patience)
    first, second = pair
    leads = holders()[STORY.lease(f"aim-{name}")] == first.name
    return (first, second) if leads else (second, first)


async def _story_led(site: Site, name: str, replica: Supervised, gone: float, patience: float) -> float:
    """Seconds after its leader had gone that a replica leads the story's shard; waits for it."""

    def seconds() -> float:
        return led_after(site.proxy.written, replica.name, gone, STORY.lease(f"aim-{name}"))

    with suppress(AssertionError):
        await eventually(lambda: not math.isinf(seconds()), "the other replica leads the story's shard", patience)
    return seconds()


async def _kill(site: Site, leader: Supervised, writes: int) -> float:
    """Let it write so often, and kill it; when that was."""
    await _written(site, leader.name, writes)
    at = time.monotonic()
    await leader.kill()
    return at


def _cases() -> Sequence[Case]:
    return [*(Case("R12", way.value, partial(_go_away, way)) for way in Way), Case("R12", "shards", _shards)]


SCENARIO: Final = Scenario("R12", "leaders go", "final objects, writes against Leases", _cases, on_real=True)
