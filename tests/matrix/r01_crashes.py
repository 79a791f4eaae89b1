"""Every service is killed right after one of its writes: what it began is finished by its next start."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from matrix.case import Case, Outcome, Scenario
from matrix.site import Site

from aim_domain.services import SERVICES

_MOST_WRITES: Final = {"model-sync": 12, "discovery": 22, "artifacts": 72, "serving": 52, "routing": 22}
"""At least what each service writes for the story, so that every write is somebody's last: `_unreached` sees to it."""
_DELETING_WRITES: Final = 4


async def _killed_at(site: Site, name: str, reached: asyncio.Event, injected: Counter[str]) -> None:
    await reached.wait()
    await site.stack[name].kill()
    site.proxy.admit(name)
    injected[f"kill -9 {name}"] += 1
    await site.stack[name].start()


async def _crash(names: Sequence[str], write: int, site: Site, _: random.Random) -> Outcome:
    """All of these services die after their write of that number, each on its own."""
    outcome = Outcome()
    points = {name: site.proxy.crash_after(name, nth(write, site.clean_writes[name])) for name in names}
    async with asyncio.TaskGroup() as group:
        dying = [group.create_task(_killed_at(site, name, at, outcome.injected)) for name, at in points.items()]
        await site.tell()
        outcome.differences = _unreached(site) + await site.converged()
        # A service that is just being started again is not interrupted.
        for one, point in zip(dying, points.values(), strict=True):
            if not point.is_set():
                one.cancel()
    outcome.compared = len(site.expected)
    return outcome


def nth(write: int, most: int) -> int:
    """After which write a service dies that makes so many: begins anew beyond the last, so that it does die. Pure."""
    return (write - 1) % max(1, most) + 1


async def _crash_while_deleting(write: int, site: Site, _: random.Random) -> Outcome:
    """The same while everything is deleted again: finalizers and what they clean up."""
    outcome = Outcome()
    await site.tell()
    outcome.differences = await site.converged()
    points = {name: site.proxy.crash_after(name, write) for name in SERVICES}
    async with asyncio.TaskGroup() as group:
        dying = [group.create_task(_killed_at(site, name, at, outcome.injected)) for name, at in points.items()]
        try:
            await site.erase()
        except TimeoutError as error:
            outcome.differences.append(str(error) or "the namespace does not go")
        for one, point in zip(dying, points.values(), strict=True):
            if not point.is_set():
                one.cancel()
    outcome.compared = len(site.expected)
    return outcome


def _cases() -> Sequence[Case]:
    most = max(_MOST_WRITES.values())
    every = [Case("R1", f"write-{k}", partial(_crash, _writing(k), k)) for k in range(1, most + 1)]
    single = [
        Case("R1", f"{name}-{k}", partial(_crash, [name], k), on_request=True)
        for name, writes in _MOST_WRITES.items()
        for k in range(1, writes + 1)
    ]
    deleting = [Case("R1", f"deleting-{k}", partial(_crash_while_deleting, k)) for k in range(1, _DELETING_WRITES + 1)]
    return [*every, *deleting, *single]


def _unreached(site: Site) -> list[str]:
    """Services that write more often than there are cases."""
    writes = site.clean_writes.items()
    return [f"{name} writes {count} times: raise _MOST_WRITES" for name, count in writes if count > _MOST_WRITES[name]]


def _writing(number: int) -> list[str]:
    return [name for name, writes in _MOST_WRITES.items() if number <= writes]


SCENARIO: Final = Scenario("R1", "crash after each write", "final objects, orphans", _cases, on_real=True)
