"""The broker's store goes back in time, is damaged, emptied or purged."""

import asyncio
import random
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from matrix.case import Case, Outcome, Scenario
from matrix.site import NAMESPACE, Site

from aim_domain.services import SERVICES
from controller_runtime.log.broker.connection import BusSettings, connect
from controller_runtime.log.wire.subjects import DEFAULT_LAYOUT

_Disaster: TypeAlias = Callable[[Site, random.Random], Awaitable[None]]
_CONVERGED: Final = 10.0
"""Seconds until a change is carried out, most."""
_BEHIND: Final = 30.0
"""Seconds that a restored store is old at least."""


def _store(site: Site) -> Path:
    return site.stack.settings.folder / "nats" / "jetstream"


async def _restored(site: Site, _: random.Random) -> None:
    broker, store = site.stack["nats"], _store(site)
    copy = store.with_name("copy")
    await broker.stop()
    await asyncio.to_thread(shutil.copytree, store, copy)
    await broker.start()
    await change(site, 3)
    await asyncio.sleep(_BEHIND)
    await broker.kill()
    await asyncio.to_thread(shutil.rmtree, store)
    await asyncio.to_thread(shutil.move, copy, store)
    await broker.start()


async def _wiped(site: Site, _: random.Random) -> None:
    await change(site, 3)
    await site.stack["nats"].kill()
    await asyncio.to_thread(shutil.rmtree, _store(site))
    await site.stack["nats"].start()


async def _corrupted(site: Site, chance: random.Random) -> None:
    await change(site, 3)
    await site.stack["nats"].kill()
    await asyncio.to_thread(_damage, _store(site), chance)
    await site.stack["nats"].start()


def _damage(store: Path, chance: random.Random) -> None:
    for block in sorted(store.rglob("msgs/*.blk")):
        content = bytearray(block.read_bytes())
        for _ in range(min(64, len(content))):
            content[chance.randrange(len(content))] ^= 0xFF
        block.write_bytes(content)


async def _purged(site: Site, chance: random.Random) -> None:
    """By an administrator; then services start that know nothing else."""
    await change(site, 3)
    async with connect(BusSettings.of_urls(site.stack.nats_url, "matrix")) as bus:
        await bus.wait_connected()
        for stream in (DEFAULT_LAYOUT.state_stream, DEFAULT_LAYOUT.history_stream, DEFAULT_LAYOUT.decisions_stream):
            await bus.api(f"STREAM.PURGE.{stream}")
    for name in {"serving", chance.choice(SERVICES)}:
        await site.stack[name].kill()
        await site.stack[name].start()


async def change(site: Site, replicas: int, seconds: float = 20) -> None:
    """Ask for other replicas, and wait until KServe is asked for them; not without end."""
    await site.api.merge(site.service_path("own"), {"spec": {"replicas": replicas}})
    await site.mirror.until(lambda: site.asked_for("own", replicas), seconds * site.patience)


async def _travel(disaster: _Disaster, name: str, site: Site, chance: random.Random) -> Outcome:
    outcome = Outcome(Counter({name: 1}), len(site.expected))
    await site.tell()
    outcome.differences = await site.converged()
    if outcome.differences:
        return outcome
    before = identities(site)
    site.mirror.forget()
    await disaster(site, chance)
    begun = time.monotonic()
    await change(site, 2)
    outcome.differences = await site.converged()
    seconds = outcome.notes["seconds to converge"] = time.monotonic() - begun
    if seconds > _CONVERGED * site.patience:
        outcome.differences.append(f"converged after {seconds:.1f} s only")
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


def identities(site: Site) -> dict[str, str]:
    """UIDs of the objects of the story."""
    kept = (obj for obj in site.story() if obj["kind"] != "Pod")
    return {f"{obj['kind']} {obj['metadata']['name']}": str(obj["metadata"]["uid"]) for obj in kept}


def _cases() -> Sequence[Case]:
    disasters: dict[str, _Disaster] = {
        "restored": _restored, "wiped": _wiped, "corrupted": _corrupted, "purged": _purged,
    }  # fmt: skip
    return [Case("R5", name, partial(_travel, one, f"store {name}")) for name, one in disasters.items()]


SCENARIO: Final = Scenario("R5", "time travel of the broker", "final objects, UIDs, every version", _cases)
