"""Four shards of serving and routing, led by one, two and four processes each, on a real API server."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

import aiohttp
import pytest
import pytest_asyncio
from support.nats import eventually
from support.stack import Platform, at_rest, started_platform

from aim_local.ports import free_port
from aim_local.stack import ClusterKind
from aim_local.supervision.probes import http_probe
from aim_local.supervision.process import Supervised
from controller_runtime.shard import shard_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARDS: Final = 4
DIVIDED: Final = ("serving", "routing")
TEAMS: Final = [f"team-{number}" for number in range(8)]
IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
_SETTINGS: Final = {"AIM_SHARDS": str(SHARDS), "AIM_LEADER_ELECT": "true"}


@dataclass(frozen=True, slots=True)
class Replicas:
    """The processes of the two services that are divided."""

    platform: Platform
    each: dict[str, list[Supervised]]

    async def add(self, number: int) -> None:
        """Start one process more of each service."""
        async with asyncio.TaskGroup() as group:
            for name in DIVIDED:
                self.each[name].append(self._replica(name, number))
                group.create_task(self.each[name][-1].start())

    async def kill(self, name: str, index: int) -> Supervised:
        """Kill a process of a service; it is not restarted."""
        process = self.each[name].pop(index)
        await process.kill()
        return process

    def _replica(self, name: str, number: int) -> Supervised:
        stack = self.platform.stack
        program = stack._programs.service(name, stack.cluster.kubeconfig_for(name), with_registry=True)
        address = f"127.0.0.1:{free_port()}"
        env = {
            **program.env,
            "AIM_POD_NAME": f"aim-{name}-{number}",
            "AIM_POD_UID": f"{name}-{number}",
            "AIM_HEALTH_PROBE_BIND_ADDRESS": address,
            "AIM_METRICS_BIND_ADDRESS": address,
        }
        url = f"http://{address}"
        other = replace(program, name=f"{name}-{number}", env=env, probe=http_probe(f"{url}/readyz"), url=url)
        return stack._supervised(other)

    async def shared_as(self, *numbers: int) -> None:
        """Wait until the shards of each service are led by so many processes, and none by two."""
        for name in DIVIDED:

            async def shared(name: str = name) -> bool:
                each = [await self._led(one) for one in self.each[name]]
                whole = sorted(index for one in each for index in one) == list(range(SHARDS))
                return whole and sorted(len(one) for one in each) == sorted(numbers)

            await eventually(shared, f"the shards of {name} are shared as {numbers}", within=90)

    async def _led(self, process: Supervised) -> list[int]:
        async with aiohttp.ClientSession() as session, session.get(f"{process.program.url}/readyz") as answer:
            found: list[int] = (await answer.json(content_type=None))["leadsShards"]
            return found

    async def close(self) -> None:
        """End the processes that were added."""
        own = set(self.platform.stack.processes)
        for process in (one for each in self.each.values() for one in each if one not in own):
            await process.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def replicas(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Replicas]:
    folder = tmp_path_factory.mktemp("shards")
    settings = dict.fromkeys(DIVIDED, _SETTINGS)
    async with started_platform(folder, service_env=settings, cluster=ClusterKind.REAL) as platform:
        found = Replicas(platform, {name: [platform.stack[name]] for name in DIVIDED})
        try:
            yield found
        finally:
            await found.close()


async def serve_all(platform: Platform, name: str) -> None:
    """A service of each team, until it answers."""
    paths = [await platform.service(team, name, model={"image": IMAGE}) for team in TEAMS]
    for path in paths:
        service = await platform.running(path)
        await platform.chat(service["status"]["routing"]["path"], "hello")


async def children(platform: Platform) -> Counter[tuple[str, str]]:
    """How many InferenceServices and routes there are for each service."""
    found: Counter[tuple[str, str]] = Counter()
    for group, plural in (
        ("serving.kserve.io/v1beta1", "inferenceservices"),
        ("gateway.networking.k8s.io/v1", "httproutes"),
    ):
        for one in (await platform.api.get(f"/apis/{group}/{plural}")).body["items"]:
            owners = one["metadata"].get("ownerReferences") or [{}]
            found[one["metadata"]["namespace"], f"{plural} of {owners[0].get('name')}"] += 1
    return found


@pytest.mark.spec("FW-890", "FW-892", "FW-893")
async def test_one_two_and_four_processes_share_four_shards(replicas: Replicas) -> None:
    platform = replicas.platform
    assert Counter(shard_of(team, SHARDS) for team in TEAMS).keys() == set(range(SHARDS))
    for team in TEAMS:
        await platform.namespace(team)
    await replicas.shared_as(4)
    await serve_all(platform, "one")

    await replicas.add(1)
    await replicas.shared_as(2, 2)
    await serve_all(platform, "two")

    for number in (2, 3):
        await replicas.add(number)
    await replicas.shared_as(1, 1, 1, 1)
    before = await at_rest(platform)
    await serve_all(platform, "four")

    # Shard 0 and with it the watches of the service go as well.
    for name in DIVIDED:
        await replicas.kill(name, 0)
    paths = [await platform.service(team, "after", model={"image": IMAGE}) for team in TEAMS]
    for path in paths:
        await platform.running(path)
    await replicas.shared_as(1, 1, 2)

    counted = await children(platform)
    assert set(counted.values()) == {1}
    assert len(counted) == 2 * len(TEAMS) * 4
    assert await at_rest(platform) == await at_rest(platform), "a new leader's first look writes nothing"
    spent = await at_rest(platform) - before
    # One InferenceService and one route each: whatever was handed over, none was written twice.
    assert (spent["inferenceservices"], spent["httproutes"]) == (2 * len(TEAMS), 2 * len(TEAMS))
