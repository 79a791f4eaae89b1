"""What tools read of the facts of a service whose work is divided."""

from typing import Final

import pytest
from support.bus_source import Source
from support.declarations import definitions
from support.epochs import E2

from aim_cli.installation.bus_state import bus_state
from aim_cli.planning.gathering import take_facts
from aim_cli.planning.sandbox import Sandbox
from controller_runtime import FACTS
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.history.facts import fact_key
from controller_runtime.log.history.reader import History
from controller_runtime.log.wire.subjects import FACTS_PART, Layout, facts_part_name
from controller_runtime.testing import NOW

OWNER: Final = {"part": "models", "namespace": "team", "name": "qwen", "uid": "u"}


async def state(source: Source, image: str, outcome: str) -> None:
    """Publish what a shard of discovery found out about an image."""
    key = fact_key("discovery", "image-inspection", image)
    fields = {"effect": "image-inspection", "about": image, "owner": OWNER, "observedAt": NOW.isoformat()}
    await source.upsert(key.name, namespace=key.namespace, **fields, outcome={"found": outcome})


@pytest.mark.spec("FW-613", "FW-894")
async def test_a_plan_knows_the_facts_of_every_shard_and_of_each_the_newest(bus: BusConnection, layout: Layout) -> None:
    whole, second, last = (Source(bus, layout, facts_part_name(shard)) for shard in (0, 1, 15))
    await state(whole, "registry.example/a:1", "a")
    await state(last, "registry.example/b:1", "b")
    # Divided otherwise, shard 1 gathered it again; later it was shard 0's once more.
    await state(second, "registry.example/c:1", "old")
    await state(whole, "registry.example/c:1", "new")
    await state(whole, "registry.example/d:1", "old")
    await state(second, "registry.example/d:1", "new")
    # Objects of both needed it; that of shard 1 is gone.
    await state(whole, "registry.example/e:1", "e")
    await state(second, "registry.example/e:1", "e")
    gone = fact_key("discovery", "image-inspection", "registry.example/e:1")
    await second.delete(gone.name, namespace=gone.namespace)
    sandbox = Sandbox(definitions(), NOW)
    await take_facts(sandbox, History(bus, layout))
    entries = sandbox.caches["discovery"].all(FACTS)
    known = {entry.raw["about"].rpartition("/")[2]: entry.raw["outcome"]["found"] for entry in entries}
    assert known == {"a:1": "a", "b:1": "b", "c:1": "new", "d:1": "new", "e:1": "e"}
    assert not list(sandbox.caches["serving"].all(FACTS))


@pytest.mark.spec("FW-611", "FW-894")
async def test_the_parts_on_the_bus_include_the_facts_of_shards_that_report(
    nats_server: str, bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIM_NATS_ROOT", layout.root)
    whole, second = Source(bus, layout, FACTS_PART), Source(bus, layout, facts_part_name(2), epoch=E2)
    await state(whole, "registry.example/a:1", "a")
    for number in range(2):
        await state(second, f"registry.example/{number}:1", "b")
    for source in (whole, second):
        await source.mark_facts("discovery")

    async def shown() -> dict[str, int]:
        parts = (await bus_state(nats_server)).parts
        return {one.name: one.checkpoint.objects for one in parts if one.checkpoint is not None}

    assert await shown() == {"facts/discovery": 1, "facts-2/discovery": 2}
    # A number of shards that is no more leaves its last checkpoint.
    monkeypatch.setattr("aim_cli.installation.bus_state.STALE", -1.0)
    assert await shown() == {"facts/discovery": 1}
