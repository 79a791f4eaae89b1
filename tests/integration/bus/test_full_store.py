"""A broker whose disk is full: versions wait, no publisher confirms them, and nothing is lost once there is room."""

from pathlib import Path

import pytest
from support.cache_objects import widgets
from support.nats import connected, eventually, new_layout, room_for
from support.publishing import QUICK, Cluster, history, publishing, settles, skipped, unnamed_holes

from aim_local.nats import NatsServer
from controller_runtime import Key
from controller_runtime.log.broker.connection import PubAck
from controller_runtime.log.broker.streams import StreamLimits
from controller_runtime.log.publish.state import PublisherSettings

UNLIMITED = StreamLimits(history_bytes=-1, decisions_bytes=-1)


@pytest.mark.spec("FW-450", "FW-405")
async def test_versions_wait_for_room_and_are_vouched_for_after_that(tmp_path: Path) -> None:
    layout, cluster = new_layout(), Cluster()
    settings = PublisherSettings(QUICK.checkpoint_interval, list_grace=QUICK.list_grace, limits=UNLIMITED)
    async with NatsServer(tmp_path, extra_config=room_for("2MB", tmp_path)) as server, connected(server.url) as bus:
        await bus.wait_connected()
        async with publishing(bus, widgets(), layout, settings=settings) as publisher:
            publisher.take(cluster.listing())
            await settles(bus, layout, "widgets", cluster, publisher)
            ballast = layout.log("ballast", Key("ns", "x"))
            while isinstance(await bus.publish(ballast, b"x" * 50_000, {}), PubAck):
                pass
            for number in range(30):
                publisher.take(cluster.put(f"w{number}", text="x" * 10_000))
            await eventually(lambda: "insufficient" in str(publisher.statistics.interrupted_by), "told")
            checkpoints = publisher.statistics.checkpoints
            assert publisher.statistics.waiting
            await bus.api(f"STREAM.PURGE.{layout.history_stream}", {"filter": ballast})
            await settles(bus, layout, "widgets", cluster, publisher)
            assert publisher.statistics.checkpoints > checkpoints
        versions = await history(bus, layout, "widgets")
    assert {version.state.key for version in versions} == set(cluster.objects)
    assert unnamed_holes(versions) == []
    assert skipped(versions, cluster) == []
