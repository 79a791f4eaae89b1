"""Versions that came while no publisher watched, and are published all the same (FW-896)."""

from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest
from support.cache_objects import widgets
from support.nats import eventually
from support.publishing import Cluster, history, publishing, settles, skipped, unnamed_holes

from controller_runtime.kube.errors import ApiError
from controller_runtime.log.broker.connection import BusConnection
from controller_runtime.log.publish.source import SourceVersion
from controller_runtime.log.wire.subjects import Layout

PART = "widgets"


async def confirmed(bus: BusConnection, layout: Layout, cluster: Cluster) -> str:
    """Publish two objects, and end; returns the epoch."""
    async with publishing(bus, widgets(), layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("changed", n=1))
        publisher.take(cluster.put("gone", n=1))
        await settles(bus, layout, PART, cluster, publisher)
        return publisher.epoch


def away(cluster: Cluster) -> None:
    """What happens while no publisher watches."""
    for number in (2, 3):
        cluster.put("changed", n=number)
    cluster.put("new", n=1)
    cluster.put("came and went", n=1)
    cluster.delete("came and went")
    cluster.delete("gone")
    cluster.put("gone", n=2)


@pytest.mark.spec("FW-896")
@pytest.mark.parametrize("after", ["nothing", "changes of the same objects"])
async def test_the_next_publisher_publishes_what_came_before_its_list(
    bus: BusConnection, layout: Layout, after: str
) -> None:
    cluster = Cluster()
    epoch = await confirmed(bus, layout, cluster)
    away(cluster)
    async with publishing(bus, widgets(), layout, source="second", changes=cluster.changes) as publisher:
        publisher.take(cluster.listing())
        if after != "nothing":
            publisher.take(cluster.put("changed", n=4))
            publisher.take(cluster.delete("new"))
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch == epoch, "nothing is missing, so the epoch goes on"
    versions = await history(bus, layout, PART)
    for name, numbers in cluster.past.items():
        found = [one.state.resource_version for one in versions if one.state.key.name == name]
        assert found == numbers, name
    assert unnamed_holes(versions) == []
    assert not any(one.state.gap for one in versions)


@pytest.mark.spec("FW-896", "FW-418")
@pytest.mark.parametrize("answer", ["an error", "half of it", "silence"])
async def test_what_the_api_server_has_no_longer_begins_an_epoch(
    bus: BusConnection, layout: Layout, answer: str
) -> None:
    cluster = Cluster()
    epoch = await confirmed(bus, layout, cluster)
    away(cluster)

    async def changes(since: str) -> AsyncGenerator[SourceVersion, None]:
        if answer == "an error":
            raise ApiError("GET /apis/example.com/v1/widgets", 410, "Expired", "too old resource version")
        async for version in cluster.changes(since):
            if answer == "half of it":
                yield version
                return

    async with publishing(bus, widgets(), layout, source="second", changes=changes) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
        assert publisher.epoch > epoch
    versions = await history(bus, layout, PART)
    assert (unnamed_holes(versions), skipped(versions, cluster)) == ([], [])


@pytest.mark.spec("FW-896", "FW-446")
async def test_a_version_that_said_nothing_new_is_not_waited_for(bus: BusConnection, layout: Layout) -> None:
    """The checkpoint lies behind it, and it was never published."""
    part = replace(widgets(), read_only=True)
    cluster, asked = Cluster(part=part), list[str]()

    async def changes(since: str) -> AsyncGenerator[SourceVersion, None]:
        asked.append(since)
        async for version in cluster.changes(since):
            yield version

    async with publishing(bus, part, layout) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a", n=1))
        publisher.take(cluster.put("a", n=1))
        checkpoints = publisher.statistics.checkpoints
        await eventually(lambda: publisher.statistics.checkpoints > checkpoints + 1, "a later checkpoint")
    async with publishing(bus, part, layout, source="second", changes=changes) as publisher:
        publisher.take(cluster.listing())
        publisher.take(cluster.put("a", n=2))
        await settles(bus, layout, PART, cluster, publisher)
    assert asked == []


@pytest.mark.spec("FW-896")
async def test_what_the_stream_lost_is_not_asked_for(bus: BusConnection, layout: Layout) -> None:
    """No watch from a checkpoint brings what it confirms."""
    cluster, asked = Cluster(), list[str]()
    await confirmed(bus, layout, cluster)

    async def changes(since: str) -> AsyncGenerator[SourceVersion, None]:
        asked.append(since)
        async for version in cluster.changes(since):
            yield version

    await bus.api(f"STREAM.PURGE.{layout.state_stream}", {"filter": layout.state(PART, next(iter(cluster.objects)))})
    async with publishing(bus, widgets(), layout, source="second", changes=changes) as publisher:
        publisher.take(cluster.listing())
        await settles(bus, layout, PART, cluster, publisher)
    assert asked == []
