"""Whatever the API server does, who follows a kind ends up with what is true."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from support.controlplane import RawApi, eventually, raw_api

from controller_runtime import JsonObject, KubeClient, TransportSettings
from controller_runtime.backoff import Backoff
from controller_runtime.kinds import CONFIG_MAP
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.reflector import Delete, Reflector, ReflectorSettings, Restarted, Upsert, as_sent
from embedded_apiserver import ControlPlane, FaultRule
from embedded_apiserver.faults import Crash, Fault, Latency, Refusal, Reset, Silence, Stale

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
QUICK = Backoff(base=0.02, cap=0.1)
BOUND = 30.0
"""Seconds for any recovery."""


@dataclass
class Mirror:
    """What a reflector tells, name → value."""

    objects: dict[str, str] = field(default_factory=dict)

    async def follow(self, reflector: Reflector[JsonObject]) -> None:
        async for event in reflector:
            match event:
                case Restarted(objects):
                    self.objects = {obj["metadata"]["name"]: obj["data"]["x"] for obj in objects}
                case Upsert(obj):
                    self.objects[obj["metadata"]["name"]] = obj["data"]["x"]
                case Delete(obj):
                    self.objects.pop(obj["metadata"]["name"], None)


@dataclass
class Rig:
    """A server, a writer who meets no faults, and a mirror that does."""

    plane: ControlPlane
    api: RawApi
    mirror: Mirror
    reflector: Reflector[JsonObject]
    made: int = 0

    async def write(self, count: int) -> None:
        for _ in range(count):
            self.made += 1
            name, value = f"c{self.made % 5}", str(self.made)
            await self.api.apply(f"{CONFIG_MAPS}/{name}", {"metadata": {"name": name}, "data": {"x": value}}, "hand")
            if self.made % 3 == 0:
                await self.api.delete(f"{CONFIG_MAPS}/c{(self.made + 2) % 5}")

    def truth(self) -> dict[str, str]:
        versions = self.plane.store.collection("configmaps").objects.values()
        return {version.key[1]: version.obj["data"]["x"] for version in versions}

    async def back(self) -> None:
        """Wait until the server answers again."""
        async with asyncio.timeout(BOUND):
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    await self.api.get(CONFIG_MAPS)
                    return
                await asyncio.sleep(0.05)

    async def agrees(self) -> None:
        await eventually(lambda: self.mirror.objects == self.truth(), BOUND)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    settings = ReflectorSettings(shortest_watch=1, longest_watch=2, grace=0.5, backoff=QUICK, min_watch_seconds=0.1)
    async with (
        ControlPlane() as plane,
        raw_api(plane.url) as api,
        KubeClient(
            Connection(plane.url, NoCredentials()), service="t", settings=TransportSettings(backoff=QUICK)
        ) as client,
        Reflector(client, CONFIG_MAP, as_sent, "default", settings=settings) as reflector,
    ):
        mirror = Mirror()
        following = asyncio.create_task(mirror.follow(reflector))
        try:
            yield Rig(plane, api, mirror, reflector)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize(
    "fault",
    [
        Reset(chunks=2),
        Reset(),
        Silence(chunks=1),
        Refusal(code=429, retry_after_seconds=0),
        Refusal(code=500),
        Refusal(code=504),
        Latency(seconds=0.05, jitter_seconds=0.2),
    ],
    ids=lambda fault: f"{fault.kind}-{getattr(fault, 'code', getattr(fault, 'chunks', ''))}",
)
async def test_a_mirror_survives_faults_of_its_lists_and_watches(rig: Rig, fault: Fault) -> None:
    rule = FaultRule(verbs=frozenset({"list", "watch"}), every=2, fault=fault)
    armed = rig.plane.faults.add(rule)
    for _ in range(6):
        await rig.write(7)
        rig.plane.store.compact()
        await asyncio.sleep(0.1)
    await eventually(lambda: armed.struck > 0, BOUND)
    await rig.agrees()


async def test_a_mirror_is_not_fooled_by_a_server_that_lags_behind(rig: Rig) -> None:
    await rig.write(10)
    await rig.agrees()
    behind = Stale(revision=rig.plane.store.revision)
    await rig.write(10)
    await rig.agrees()
    armed = rig.plane.faults.add(FaultRule(verbs=frozenset({"list"}), fault=behind, times=3))
    rig.plane.faults.add(FaultRule(verbs=frozenset({"watch"}), fault=Reset(), times=3))
    before = rig.truth()
    rig.plane.store.close_watchers()
    await rig.write(5)
    await rig.agrees()
    assert rig.truth() != before
    assert armed.struck <= 3


@pytest.mark.parametrize("keep_store", [True, False])
async def test_a_mirror_survives_crashes(rig: Rig, keep_store: bool) -> None:
    await rig.write(10)
    await rig.agrees()
    crash = Crash(down_seconds=0.1, keep_store=keep_store)
    armed = rig.plane.faults.add(FaultRule(verbs=frozenset({"write"}), skip=2, times=1, fault=crash))
    with contextlib.suppress(aiohttp.ClientError):
        # The writer's connection breaks, too.
        await rig.write(10)
    assert armed.struck == 1
    await rig.back()
    await rig.write(3)
    # As publishers do now and then: a server that lost its past can't tell who follows it what is gone.
    rig.reflector.relist()
    await rig.agrees()
