"""Four shards of serving and routing, led by one, two and four processes each, on a real API server."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from support.replicas import DIVIDED, Replicas
from support.stack import Platform, at_rest, started_platform

from aim_local.stack import ClusterKind
from controller_runtime.shard import shard_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARDS: Final = 4
TEAMS: Final = [f"team-{number}" for number in range(8)]
IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
_SETTINGS: Final = {"AIM_SHARDS": str(SHARDS), "AIM_LEADER_ELECT": "true"}


@pytest_asyncio.fixture(loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Platform, Replicas]]:
    folder = tmp_path_factory.mktemp("shards")
    settings = dict.fromkeys(DIVIDED, _SETTINGS)
    async with started_platform(folder, service_env=settings, cluster=ClusterKind.REAL) as platform:
        found = Replicas(platform.stack, {name: [platform.stack[name]] for name in DIVIDED})
        try:
            yield platform, found
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
async def test_one_two_and_four_processes_share_four_shards(site: tuple[Platform, Replicas]) -> None:
    platform, replicas = site
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
