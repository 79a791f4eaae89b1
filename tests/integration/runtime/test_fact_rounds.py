"""A round of the facts is over: what nothing needs goes, however many there are, while others get their turn."""

import asyncio
from datetime import UTC, datetime

import pytest

from aim_domain.parts import SERVICES
from aim_serving.service import ServingSettings, definition
from controller_runtime import FACTS, Cache, JsonObject, Key
from controller_runtime.log.broker.connection import BusSettings, connect
from controller_runtime.log.history.facts import fact_key
from controller_runtime.log.publish.publisher import FactPublisher
from controller_runtime.log.publish.state import PublisherSetup
from controller_runtime.log.wire.version import Entry, Version
from controller_runtime.manager.effects import FACTS_BY_OWNER, FactStore
from controller_runtime.reconcile.enqueue import Dispatcher

NOW = datetime(2026, 1, 1, tzinfo=UTC).isoformat()


def fact(number: int) -> JsonObject:
    key = fact_key("serving", "pod-log", f"p{number}")
    owner = {"part": SERVICES.name, "namespace": "team", "name": f"s{number}", "uid": f"u{number}"}
    metadata = {"name": key.name, "namespace": key.namespace, "uid": f"f{number}"}
    return {"metadata": metadata, "effect": "pod-log", "about": f"p{number}", "owner": owner, "observedAt": NOW}


@pytest.mark.spec("FW-461")
async def test_facts_of_objects_that_are_gone_are_removed_piece_by_piece() -> None:
    declared, cache = definition(ServingSettings()), Cache([FACTS, SERVICES], [FACTS_BY_OWNER])
    cache.mark(SERVICES, synced=True, fresh=True)
    for number in range(1000):
        entry = Entry.of(FACTS, fact_key("serving", "pod-log", f"p{number}"), fact(number), Version(f"f{number}", ""))
        cache.put(entry, 0)
    living = {"metadata": {"namespace": "team", "name": "s7", "uid": "u7", "resourceVersion": "1"}}
    cache.put(Entry.of(SERVICES, Key("team", "s7"), living, Version("u7", "1", 1, "e")), 0)
    left: list[int] = []
    # Nobody answers there; a publisher takes everything in and waits.
    async with connect(BusSettings.of_urls("nats://127.0.0.1:9", "test")) as bus:
        publisher = FactPublisher(PublisherSetup(bus, "test"), FACTS, "serving")
        facts = FactStore(declared, FACTS, cache, publisher, Dispatcher())
        ending = asyncio.create_task(facts.next_round())
        while not ending.done():
            left.append(cache.count(FACTS))
            await asyncio.sleep(0)
        await ending
    assert [entry.key.name for entry in cache.all(FACTS)] == [fact_key("serving", "pod-log", "p7").name]
    assert len(set(left)) >= 9


@pytest.mark.spec("FW-461")
async def test_a_fact_that_is_replaced_while_a_round_ends_stays() -> None:
    declared, cache = definition(ServingSettings()), Cache([FACTS, SERVICES], [FACTS_BY_OWNER])
    cache.mark(SERVICES, synced=True, fresh=True)
    for number in range(1000):
        entry = Entry.of(FACTS, fact_key("serving", "pod-log", f"p{number}"), fact(number), Version(f"f{number}", ""))
        cache.put(entry, 0)
    last = fact_key("serving", "pod-log", "p999")
    async with connect(BusSettings.of_urls("nats://127.0.0.1:9", "test")) as bus:
        publisher = FactPublisher(PublisherSetup(bus, "test"), FACTS, "serving")
        facts = FactStore(declared, FACTS, cache, publisher, Dispatcher())
        ending = asyncio.create_task(facts.next_round())
        await asyncio.sleep(0)
        assert 0 < cache.count(FACTS) < 1000, "in the middle of it"
        cache.absorb(FACTS, {**fact(999), "outcome": {"result": "new"}}, 1)
        await ending
    assert [entry.key for entry in cache.all(FACTS)] == [last]
