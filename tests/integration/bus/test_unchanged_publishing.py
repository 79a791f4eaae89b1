"""Versions that say nothing new, on a broker: what is not published, what is not logged, and that no hole shows."""

import pytest
from support.nats import eventually
from support.publishing import Cluster, history, of, publishing, unnamed_holes
from support.world_objects import WIDGET

from aim_shared.api import Resource
from aim_shared.bus.connection import BusConnection
from aim_shared.bus.part import Part
from aim_shared.bus.stored import stream_state
from aim_shared.bus.subjects import Layout
from aim_shared.json import JsonObject

PART = "widgets"


def without_pulse(obj: JsonObject) -> JsonObject:
    return {**obj, "spec": {name: value for name, value in obj["spec"].items() if name != "pulse"}}


def watched(*, read_only: bool) -> Part[Resource]:
    return Part(PART, WIDGET, trim=without_pulse, read_only=read_only)


async def stored(bus: BusConnection, layout: Layout, stream: str) -> int:
    return (await stream_state(bus, stream)).last_sequence


@pytest.mark.spec("FW-446")
async def test_heartbeats_cost_the_broker_nothing_and_no_comparison_takes_them_for_changes(
    bus: BusConnection, layout: Layout
) -> None:
    cluster = Cluster()
    part = watched(read_only=True)
    for number in range(20):
        cluster.put(f"n{number}", pulse=0)
    async with publishing(bus, part, layout) as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.markers > 1, "vouched for")
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
        markers = publisher.statistics.markers
        await eventually(lambda: publisher.statistics.markers > markers + 1, "vouched for again")
        assert (publisher.statistics.published, publisher.epoch) == (20, epoch)
    # Another process finds the stream in order as well.
    cluster.put("n1", pulse=100)
    async with publishing(bus, part, layout, source="second") as publisher:
        publisher.take(cluster.listing())
        await eventually(lambda: publisher.statistics.markers > 1, "vouched for")
        publisher.take(cluster.put("n2", pulse=101, colour="red"))
        await eventually(lambda: publisher.statistics.published == 1, "a change is published")
        assert publisher.epoch == epoch
    versions = await history(bus, layout, PART)
    assert (len(versions), len(of(versions, "n2"))) == (21, 2)
    assert unnamed_holes(versions) == []
