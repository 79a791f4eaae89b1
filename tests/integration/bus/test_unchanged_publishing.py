"""Versions that say nothing new, on a broker: what is not published, what is not logged, and that no hole shows."""

import pytest
from support.cache_objects import WIDGET
from support.nats import eventually
from support.publishing import Cluster, all_states, history, of, publishing, unnamed_holes

from controller_runtime import JsonObject, Key, Part, Resource
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.history.reader import History
from controller_runtime.log.wire.subjects import Layout
from controller_runtime.log.wire.version import Version

PART = "widgets"


def without_pulse(obj: JsonObject) -> JsonObject:
    return {**obj, "spec": {name: value for name, value in obj["spec"].items() if name != "pulse"}}


def watched(*, read_only: bool) -> Part[Resource]:
    return Part(PART, WIDGET, trim=without_pulse, read_only=read_only)


async def repeated_thrice(bus: BusConnection, layout: Layout) -> tuple[Cluster, Part[Resource]]:
    """A cluster whose only object says the same in three versions, all of them published."""
    part = watched(read_only=False)
    cluster = Cluster(part=part)
    async with publishing(bus, part, layout) as publisher:
        publisher.take(cluster.listing())
        for step in range(3):
            publisher.take(cluster.put("a", pulse=step))
        await eventually(lambda: publisher.statistics.published == 3, "published")
    return cluster, part


@pytest.mark.spec("FW-446", "FW-452")
async def test_heartbeats_cost_the_broker_nothing_and_no_comparison_takes_them_for_changes(
    bus: BusConnection, layout: Layout
) -> None:
    part = watched(read_only=True)
    cluster = Cluster(part=part)
    for number in range(20):
        cluster.put(f"n{number}", pulse=0)
    async with publishing(bus, part, layout) as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.checkpoints > 1, "confirmed")
        epoch = publisher.epoch
        for pulse in range(1, 6):
            for number in range(20):
                publisher.take(cluster.put(f"n{number}", pulse=pulse))
        # A list in between, as every ten minutes, and one that shows heartbeats which no watch brought.
        publisher.take(cluster.listing())
        cluster.put("n0", pulse=99)
        publisher.take(cluster.listing())
        sessions = publisher.statistics.sessions
        await eventually(lambda: publisher.statistics.sessions > sessions, "compared")
        checkpoints = publisher.statistics.checkpoints
        await eventually(lambda: publisher.statistics.checkpoints > checkpoints + 1, "vouched for again")
        assert (publisher.statistics.published, publisher.epoch) == (20, epoch)
    # Another process finds the stream in order as well.
    cluster.put("n1", pulse=100)
    async with publishing(bus, part, layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.checkpoints > 1, "confirmed")
        publisher.take(cluster.put("n2", pulse=101, colour="red"))
        await eventually(lambda: publisher.statistics.published == 1, "a change is published")
        assert publisher.epoch == epoch
    versions = await history(bus, layout, PART)
    assert (len(versions), len(of(versions, "n2"))) == (21, 2)
    assert unnamed_holes(versions) == []


@pytest.mark.spec("FW-446")
async def test_what_a_service_may_have_written_goes_out_and_the_history_is_spared(
    bus: BusConnection, layout: Layout
) -> None:
    part = watched(read_only=False)
    cluster = Cluster(part=part)
    async with publishing(bus, part, layout) as publisher:
        publisher.take(cluster.listing())
        for step, colour in enumerate(("red", "red", "red", "blue", "blue")):
            publisher.take(cluster.put("a", colour=colour, pulse=step))
        await eventually(lambda: publisher.statistics.published == 5, "published")
        state = (await all_states(bus, layout, PART))[Key("ns", "a")]
        assert (state.resource_version, state.repeats) == ("105", True)
        epoch = publisher.epoch
    log = History(bus, layout)
    versions = await log.versions(PART, Key("ns", "a"))
    assert [(one.state.resource_version, one.hole, one.pending) for one in versions] == [
        ("101", None, False),
        ("104", None, False),
        ("105", None, True),
    ]
    # A decision that read a version in between finds what it read.
    first = versions[0].sequence
    for read in (Version(versions[0].state.uid, "103", first + 2, epoch), Version(versions[0].state.uid, "103")):
        found = await log.fetch(PART, Key("ns", "a"), read)
        assert found is not None
        body = found.state.json() or {}
        assert (body["spec"], body["metadata"]["resourceVersion"]) == ({"colour": "red"}, "103")


@pytest.mark.spec("FW-446")
async def test_whoever_publishes_next_neither_copies_what_was_spared_nor_breaks_the_chain(
    bus: BusConnection, layout: Layout
) -> None:
    cluster, part = await repeated_thrice(bus, layout)
    async with publishing(bus, part, layout, source="second") as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a", pulse=9))
        publisher.take(cluster.put("a", colour="blue"))
        await eventually(lambda: publisher.statistics.published == 2, "published")
        assert publisher.statistics.copied == 0
    versions = await history(bus, layout, PART)
    assert [version.state.resource_version for version in versions] == ["101", "105"]
    assert unnamed_holes(versions) == []


@pytest.mark.spec("FW-446", "FW-452", "FW-505")
async def test_what_was_spared_is_logged_once_its_predecessor_is_too_old_to_be_kept(
    bus: BusConnection, layout: Layout
) -> None:
    cluster, part = await repeated_thrice(bus, layout)
    await bus.api(f"STREAM.PURGE.{layout.history_stream}")
    async with publishing(bus, part, layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.checkpoints > 0, "confirmed")
        assert publisher.statistics.copied == 1
    async with publishing(bus, part, layout, source="third") as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a", colour="blue"))
        await eventually(lambda: publisher.statistics.published == 1, "published")
        assert publisher.statistics.copied == 0
    versions = await history(bus, layout, PART)
    assert [version.state.resource_version for version in versions] == ["103", "104"]
    assert unnamed_holes(versions) == []
