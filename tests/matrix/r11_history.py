"""What is decided depends on what is there, not on how it came to be."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Final

from matrix.case import Case, Outcome, Scenario
from matrix.plans import declared
from matrix.site import Site
from support.deciding import decide

from controller_runtime import Cache, ClassifiedError, Key, Plan, ServiceDefinition
from controller_runtime.log.broker.connection import BusSettings, connect
from controller_runtime.log.broker.consumer import deliver
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.history.versions import LoggedVersion
from controller_runtime.log.wire.messages import decode_log
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT, FACTS_PART
from controller_runtime.log.wire.version import Entry, Version
from controller_runtime.manager.effects import FACTS_BY_OWNER

_EACH: Final = 4
_PREFIXES: Final = 12
"""How many moments of the history one case looks at."""


async def _history(site: Site) -> list[LoggedVersion]:
    """Every version that was logged, in the order of the log."""
    found: list[LoggedVersion] = []
    async with connect(BusSettings.of_urls(site.stack.nats_url, "matrix")) as bus:
        await bus.wait_connected()
        subjects = (f"{DEFAULT_LAYOUT.root}.log.>",)
        async with deliver(bus, DEFAULT_LAYOUT.history_stream, subjects, {"deliver_policy": "all"}) as delivery:
            async for delivered in delivery.ready():
                message = delivered.message
                part, key = DEFAULT_LAYOUT.parse_log(message.subject)
                logged = decode_log(part, key, message.headers, message.data)
                found.append(LoggedVersion(logged.state, logged.sequence))
    return found


def _in_order(history: Iterable[LoggedVersion]) -> list[LoggedVersion]:
    """As the versions followed each other, each once: after a fault one may be logged late, or again.

    By nothing but the publisher's epoch and the broker's sequence: what a cache makes of a disorder must not choose
    what caches are compared with. As of one epoch, in this order: where a new one begins a cache takes a snapshot, and
    no version is left out.
    """
    unique = {(one.state.epoch, one.sequence, one.part, one.key): one for one in history}
    ordered = (unique[place] for place in sorted(unique))
    return [
        replace(one, state=replace(one.state, epoch="one"), sequence=number) for number, one in enumerate(ordered, 1)
    ]


def _some_of(history: Sequence[LoggedVersion], chance: random.Random) -> list[LoggedVersion]:
    """A random part of it that ends with the same present: the last version of every object is kept."""
    last = {(one.part, one.key): one for one in history}
    return [one for one in history if last[one.part, one.key] is one or chance.random() < 0.5]


def _present_of(history: Iterable[LoggedVersion]) -> list[LoggedVersion]:
    """The last version of every object, those that are gone left out."""
    last = {(one.part, one.key): one for one in history}
    return [one for one in last.values() if not one.deleted]


def _cache(definition: ServiceDefinition, history: Iterable[LoggedVersion]) -> Cache:
    """A cache that has lived through the versions."""
    cache = Cache(definition.consumes, (*definition.indexes, FACTS_BY_OWNER))
    parts = {part.name: part for part in definition.consumes}
    for one in history:
        part = parts.get(one.part)
        if part is None or (part.name == FACTS_PART and one.key.namespace != definition.name):
            continue
        version = Version(one.state.uid, one.state.resource_version, one.sequence, one.state.epoch)
        if one.deleted:
            cache.delete(part, one.key, version, 0.0)
        else:
            cache.put(Entry(part, one.key, one.state.body, version), 0.0)
    for part in definition.consumes:
        cache.mark(part, synced=True, fresh=True)
    return cache


def _plans(definition: ServiceDefinition, cache: Cache, now: datetime) -> dict[tuple[str, Key], Plan]:
    found = {}
    for reconciler in definition.reconcilers:
        for entry in cache.all(reconciler.part):
            obj = entry.decode()
            if not isinstance(obj, ClassifiedError):
                found[reconciler.controller, entry.key] = decide(reconciler, obj, CacheView(cache), now)
    return found


def _differing(lived: Plan | None, present: Plan | None) -> list[str]:
    """Members of two plans that differ, in words."""
    if lived is None or present is None:
        return [] if lived is present else [f"{lived} instead of {present}"]
    pairs = ((one.name, getattr(lived, one.name), getattr(present, one.name)) for one in fields(Plan))
    return [f"{name}: {one!r} instead of {other!r}" for name, one, other in pairs if one != other]


async def _any_way(number: int, site: Site, chance: random.Random) -> Outcome:
    del number
    await site.tell()
    outcome = Outcome(Counter(), 0, await site.converged())
    await site.api.delete(site.service_path("chat"))
    await site.mirror.until(lambda: not any(obj["metadata"]["name"] == "chat" for obj in site.story()), 20)
    history, now = await _history(site), datetime.now(UTC)
    for definition in declared(site):
        for _ in range(_PREFIXES):
            length, taken = chance.randint(1, len(history)), random.Random(chance.random())
            # In a thread, because the proxies of the platform run in this process and must not stand still.
            compared, differences = await asyncio.to_thread(_both_ways, definition, history[:length], taken, now)
            outcome.injected["random history"] += 1
            outcome.compared += compared
            outcome.differences += [
                f"after {length} versions, not as from the present alone: {one}" for one in differences
            ]
    return outcome


def _both_ways(
    definition: ServiceDefinition, history: Sequence[LoggedVersion], chance: random.Random, now: datetime
) -> tuple[int, list[str]]:
    """How many plans follow from the present, and in what those of a cache with a past differ."""
    past = _in_order(history)
    lived = _plans(definition, _cache(definition, _some_of(past, chance)), now)
    present = _plans(definition, _cache(definition, _present_of(past)), now)
    differences = [
        f"{controller} {key}: {text}"
        for controller, key in sorted(lived.keys() | present.keys())
        for text in _differing(lived.get((controller, key)), present.get((controller, key)))
    ]
    return len(present), differences


def _cases() -> Sequence[Case]:
    return [Case("R11", f"history-{number}", partial(_any_way, number)) for number in range(1, _EACH + 1)]


SCENARIO: Final = Scenario("R11", "the present decides", "plans", _cases)
