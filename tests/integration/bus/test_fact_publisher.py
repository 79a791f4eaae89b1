"""Facts: published, replaced, removed, kept over restarts, published again after a loss."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from support.cache_objects import widgets
from support.nats import eventually
from support.publishing import QUICK, all_states, history, unnamed_holes

from controller_runtime import JsonObject, Key
from controller_runtime.log.broker.address import BusUnavailableError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.broker.consumer import Present, read_present
from controller_runtime.log.broker.reading import StoredMessage, delete_message, last_message
from controller_runtime.log.publish.publisher import FactPublisher
from controller_runtime.log.publish.state import PublisherSetup
from controller_runtime.log.wire.subjects import FACTS_PART, Layout

SERVICE = "discovery"


def fact(name: str, outcome: object) -> JsonObject:
    return {"metadata": {"namespace": SERVICE, "name": name, "uid": name}, "outcome": outcome}


@asynccontextmanager
async def facts(bus: BusConnection, layout: Layout, source: str = "first") -> AsyncIterator[FactPublisher]:
    publisher = FactPublisher(PublisherSetup(bus, source, layout=layout, settings=QUICK), widgets(FACTS_PART), SERVICE)
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(publisher.run())
        yield publisher
        runner.cancel()
        with suppress(asyncio.CancelledError):
            await runner


async def outcomes(bus: BusConnection, layout: Layout) -> dict[str, object]:
    states = await all_states(bus, layout, FACTS_PART)
    return {key.name: obj["outcome"] for key, state in states.items() if (obj := state.json()) is not None}


async def stands(bus: BusConnection, layout: Layout, expected: dict[str, object]) -> None:
    async def equal() -> bool:
        return await outcomes(bus, layout) == expected

    await eventually(equal, f"facts {expected}")


async def test_facts_are_published_replaced_and_removed(bus: BusConnection, layout: Layout) -> None:
    async with facts(bus, layout) as publisher:
        publisher.publish_fact(fact("a", 1))
        publisher.publish_fact(fact("b", 1))
        # The same content again, after another one, is a version of its own.
        publisher.publish_fact(fact("a", 2))
        publisher.publish_fact(fact("a", 1))
        await stands(bus, layout, {"a": 1, "b": 1})
        publisher.remove_fact(Key(SERVICE, "b"))
        await stands(bus, layout, {"a": 1})

        async def confirmed() -> bool:
            return await last_message(bus, layout.state_stream, layout.sync(FACTS_PART, SERVICE)) is not None

        await eventually(confirmed, "the marker")
    versions = await history(bus, layout, FACTS_PART)
    assert [v.state.json() for v in versions if v.state.key.name == "a"] == [fact("a", n) for n in (1, 2, 1)]
    assert unnamed_holes(versions) == []


async def test_a_new_leader_keeps_what_it_finds(bus: BusConnection, layout: Layout) -> None:
    async with facts(bus, layout) as publisher:
        for name in "abc":
            publisher.publish_fact(fact(name, 1))
        await stands(bus, layout, {"a": 1, "b": 1, "c": 1})
    async with facts(bus, layout, "second") as publisher:
        publisher.publish_fact(fact("b", 2))
        publisher.remove_fact(Key(SERVICE, "c"))
        await stands(bus, layout, {"a": 1, "b": 2})
        await eventually(lambda: publisher.statistics.checkpoints > 1, "marker")
        await stands(bus, layout, {"a": 1, "b": 2})


async def test_facts_that_the_stream_lost_are_published_again(bus: BusConnection, layout: Layout) -> None:
    async with facts(bus, layout) as publisher:
        publisher.publish_fact(fact("a", 1))
        await stands(bus, layout, {"a": 1})
        stored = await last_message(bus, layout.state_stream, layout.state(FACTS_PART, Key(SERVICE, "a")))
        assert stored is not None
        await delete_message(bus, layout.state_stream, stored.sequence)
        publisher.reread()
        await stands(bus, layout, {"a": 1})


@pytest.mark.spec("FW-460")
async def test_of_a_reading_that_broke_off_nothing_is_adopted(
    bus: BusConnection, layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with facts(bus, layout) as publisher:
        for name in "ab":
            publisher.publish_fact(fact(name, 1))
        await stands(bus, layout, {"a": 1, "b": 1})
    readings = 0

    async def read_in_two(
        connection: BusConnection, of: Layout, part: str, service: str, take: Present, **options: Any
    ) -> int:
        nonlocal readings
        readings += 1
        if readings > 1:
            return await read_present(connection, of, part, service, take, **options)

        def first_alone(key: Key, message: StoredMessage) -> None:
            take(key, message)
            raise BusUnavailableError("the broker fell silent")

        try:
            return await read_present(connection, of, part, service, first_alone, **options)
        finally:
            # Whoever leads meanwhile has other results.
            async with facts(bus, layout, "meanwhile") as other:
                for name in "ab":
                    other.publish_fact(fact(name, 2))
                await stands(bus, layout, {"a": 2, "b": 2})

    monkeypatch.setattr("controller_runtime.log.publish.session.read_present", read_in_two)
    async with facts(bus, layout, "second") as publisher:
        await eventually(lambda: publisher.statistics.checkpoints > 1, "confirmed")
        await stands(bus, layout, {"a": 2, "b": 2})


@pytest.mark.spec("FW-462", "FW-488")
async def test_of_removed_facts_nothing_is_remembered(bus: BusConnection, layout: Layout) -> None:
    async with facts(bus, layout) as publisher:
        for number in range(20):
            publisher.publish_fact(fact(f"f{number}", 1))
        await stands(bus, layout, {f"f{number}": 1 for number in range(20)})
        for number in range(20):
            publisher.remove_fact(Key(SERVICE, f"f{number}"))
        await stands(bus, layout, {})
        for name in ("f0", "f1"):
            # As if their tombstones had been swept.
            stored = await last_message(bus, layout.state_stream, layout.state(FACTS_PART, Key(SERVICE, name)))
            assert stored is not None
            await delete_message(bus, layout.state_stream, stored.sequence)
        # A removal that the history does not have yet is under way, and rightly remembered.
        checkpoints = publisher.statistics.checkpoints
        await eventually(lambda: publisher.statistics.checkpoints > checkpoints, "nothing is under way")
        publisher.reread()
        await eventually(lambda: not publisher._removing, "nothing is remembered")


@pytest.mark.spec("FW-488")
async def test_a_fact_that_is_to_go_is_not_adopted_while_the_stream_still_holds_it(
    bus: BusConnection, layout: Layout
) -> None:
    async with facts(bus, layout) as publisher:
        for name in "ab":
            publisher.publish_fact(fact(name, 1))
        await stands(bus, layout, {"a": 1, "b": 1})
    async with facts(bus, layout, "second") as publisher:
        # Before anything was read.
        publisher.remove_fact(Key(SERVICE, "a"))
        await stands(bus, layout, {"b": 1})
        checkpoints = publisher.statistics.checkpoints
        # The stream shows the removal a moment before nothing of it is under way any more.
        await eventually(lambda: publisher.statistics.checkpoints > checkpoints + 1, "confirmed")
        publisher.reread()
        await eventually(lambda: not publisher._removing, "forgotten")
        await stands(bus, layout, {"b": 1})


async def test_services_do_not_touch_each_others_facts(bus: BusConnection, layout: Layout) -> None:
    other = FactPublisher(PublisherSetup(bus, "x", layout=layout, settings=QUICK), widgets(FACTS_PART), "artifacts")
    async with facts(bus, layout) as publisher, asyncio.TaskGroup() as group:
        runner = group.create_task(other.run())
        publisher.publish_fact(fact("a", 1))
        other.publish_fact({"metadata": {"namespace": "artifacts", "name": "z", "uid": "z"}, "outcome": 9})
        await stands(bus, layout, {"a": 1, "z": 9})
        await eventually(lambda: min(publisher.statistics.checkpoints, other.statistics.checkpoints) > 2, "both mark")
        await stands(bus, layout, {"a": 1, "z": 9})
        runner.cancel()
