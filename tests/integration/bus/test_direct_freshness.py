"""A part that is fed directly proves that it is fresh, against the embedded control plane and its faults."""

import asyncio
from dataclasses import replace

import pytest
from support.bus_source import Source
from support.cache_feed import QUICK, DirectCluster, feeding
from support.cache_objects import widgets
from support.controlplane import raw_api
from support.nats import TEST_LIMITS, connected, eventually

from aim_local.nats import NatsServer
from controller_runtime import Key, KubeClient, Part
from controller_runtime.backoff import Backoff
from controller_runtime.kinds import CONFIG_MAP
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.reflector import Reflector, ReflectorSettings
from controller_runtime.log.broker.streams import ensure_streams
from controller_runtime.log.publish.source import published
from controller_runtime.log.wire.subjects import Layout
from embedded_apiserver import ControlPlane, FaultRule
from embedded_apiserver.faults import Refusal, Silence

ABSENT = "nats://127.0.0.1:1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
HASTY = Backoff(base=0.02, cap=0.1)


@pytest.mark.spec("FW-420")
async def test_a_half_open_watch_makes_the_part_stale_until_a_list_succeeds(layout: Layout) -> None:
    part = Part("configmaps", CONFIG_MAP)
    settings = replace(QUICK, watch_silence=3.0, catch_up=0.2)
    async with (
        ControlPlane(bookmark_seconds=0.2) as plane,
        raw_api(plane.url) as api,
        KubeClient(Connection(plane.url, NoCredentials()), service="t") as client,
        connected(ABSENT) as nowhere,
    ):
        # Watches that nobody renews: the connection alone never tells.
        reflect = ReflectorSettings(backoff=HASTY)
        async with feeding(
            nowhere,
            layout,
            [part],
            reflect=lambda _: Reflector(client, CONFIG_MAP, published(part), "default", settings=reflect),
            settings=settings,
        ) as fed:
            await eventually(lambda: fed.cache.is_fresh(part), "listed")
            await asyncio.sleep(4.0)
            assert fed.cache.is_fresh(part), "bookmarks are signs of life"
            silence = plane.faults.add(FaultRule(verbs=frozenset({"watch"}), fault=Silence()))
            refusal = plane.faults.add(FaultRule(verbs=frozenset({"list"}), fault=Refusal(code=500)))
            plane.store.close_watchers()
            await api.apply(f"{CONFIG_MAPS}/late", {"metadata": {"name": "late"}, "data": {}}, "hand")
            await eventually(lambda: not fed.cache.is_fresh(part), "stale")
            assert fed.cache.is_synced(part), "what is known stays usable"
            await eventually(lambda: refusal.struck > 0, "a list was asked for")
            assert fed.cache.get(part, Key("default", "late")) is None
            assert not fed.cache.is_fresh(part)
            plane.faults.remove()
            await eventually(lambda: fed.cache.is_fresh(part), "the list succeeded")
            assert fed.cache.get(part, Key("default", "late")) is not None
            assert silence.struck > 0


@pytest.mark.spec("FW-401")
async def test_a_connection_that_comes_and_goes_does_not_postpone_the_change_over(layout: Layout) -> None:
    """No publisher confirms the part, and the connection never stands as long as one grace."""
    part = widgets()
    settings = replace(QUICK, outage_grace=600, start_grace=600, stale_grace=3.0)
    async with NatsServer() as server, connected(server.url) as bus:
        await bus.wait_connected()
        await ensure_streams(bus, layout, TEST_LIMITS)
        source = Source(bus, layout)
        source.change("a")
        cluster = DirectCluster(source)
        async with feeding(bus, layout, [part], reflect=cluster.reflect, settings=settings) as fed:

            async def cut() -> None:
                while True:
                    await asyncio.sleep(0.5)
                    await bus._client._process_op_err(ConnectionResetError("cut"))

            cutting = asyncio.create_task(cut())
            try:
                await eventually(lambda: fed.statistics.direct == (part.name,), "direct")
                await eventually(lambda: fed.equals(source, part), "fresh and true")
            finally:
                cutting.cancel()
            assert bus.session >= 2, "the connection did come and go"
