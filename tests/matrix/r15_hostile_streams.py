"""Somebody with all rights on the broker forges, limits and deletes: what is served goes on as it was."""

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from matrix.case import Case, Outcome, Scenario
from matrix.r05_time_travel import change, identities
from matrix.site import NAMESPACE, Site

from controller_runtime import dumps
from controller_runtime.log.broker.address import BusApiError
from controller_runtime.log.broker.connection import BusConnection, BusSettings, connect
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

_Attack: TypeAlias = Callable[[BusConnection, random.Random], Awaitable[int]]
"""How many messages or settings it has put in."""
_STREAMS: Final = (DEFAULT_LAYOUT.state_stream, DEFAULT_LAYOUT.history_stream, DEFAULT_LAYOUT.decisions_stream)
_MESSAGES: Final = 200
_CONVERGED: Final = 90.0
"""Seconds: a part that no publisher confirms is read from the API server after a minute."""


async def _subjects(bus: BusConnection) -> list[str]:
    answer = await bus.api(f"STREAM.INFO.{DEFAULT_LAYOUT.state_stream}", {"subjects_filter": ">"})
    return sorted((answer["state"].get("subjects") or {}).keys())


async def _garbage(bus: BusConnection, chance: random.Random) -> int:
    """No UTF-8, deep nesting, long numbers, and plain nonsense in the place of objects."""
    subjects = await _subjects(bus)
    bodies = (b"\xff\xfe", b"[" * 3000, b'{"a":' + b"9" * 5000 + b"}", b"{}", b"", dumps({"metadata": "none"}))
    for _ in range(_MESSAGES):
        headers = {"Aim-Epoch": "x" * chance.randint(0, 5000)} if chance.randrange(2) else {}
        await bus.publish(chance.choice(subjects), chance.choice(bodies), headers)
    return _MESSAGES


async def _limited(bus: BusConnection, chance: random.Random) -> int:
    return await _changed(bus, {"max_msgs": chance.randint(1, 20)})


async def _small(bus: BusConnection, chance: random.Random) -> int:
    return await _changed(bus, {"max_msg_size": chance.randint(100, 2000)})


async def _changed(bus: BusConnection, settings: dict[str, int]) -> int:
    for stream in _STREAMS:
        found = (await bus.api(f"STREAM.INFO.{stream}"))["config"]
        with suppress(BusApiError):
            await bus.api(f"STREAM.UPDATE.{stream}", {**found, **settings})
    return len(_STREAMS)


async def _deleted(bus: BusConnection, _: random.Random) -> int:
    for stream in _STREAMS:
        await bus.api(f"STREAM.DELETE.{stream}")
    return len(_STREAMS)


async def _attacked(attack: _Attack, name: str, site: Site, chance: random.Random) -> Outcome:
    outcome = Outcome(compared=len(site.expected))
    await site.tell()
    outcome.differences = await site.converged()
    if outcome.differences:
        return outcome
    before = identities(site)
    site.mirror.forget()
    async with connect(BusSettings.of_urls(site.stack.nats_url, "matrix")) as bus:
        await bus.wait_connected()
        outcome.injected = Counter({name: await attack(bus, chance)})
    await change(site, 3, _CONVERGED)
    await change(site, 2, _CONVERGED)
    outcome.differences = await site.converged()
    after = identities(site)
    outcome.differences += [f"made anew: {key}" for key, uid in before.items() if after.get(key, uid) != uid]
    states = {
        (seen.obj.get("status") or {}).get("status")
        for seen in site.mirror.seen
        if seen.key.kind.startswith("AIM") and seen.key.namespace == NAMESPACE
    }
    outcome.differences += [f"somebody was {state} meanwhile" for state in states & {"Failed", "NotAvailable"}]
    outcome.compared += len(site.mirror.seen)
    return outcome


def _cases() -> Sequence[Case]:
    attacks: dict[str, _Attack] = {
        "garbage": _garbage, "max-msgs": _limited, "max-msg-size": _small, "deleted": _deleted,
    }  # fmt: skip
    return [Case("R15", name, partial(_attacked, one, f"streams: {name}")) for name, one in attacks.items()]


SCENARIO: Final = Scenario("R15", "hostile streams", "final objects, UIDs, every version", _cases)
