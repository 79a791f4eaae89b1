"""Replicas that share the namespaces of one service: each object has one leader, whichever process comes or goes."""

import signal
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest
from support.controlplane import RawApi, Reply
from support.nats import eventually
from support.runtime_fixtures import api, controlplane, stage
from support.services import Platform, ServiceUnderTest
from support.tiny_service import NAME, definition

from aim_domain import DivisibleSettings
from controller_runtime import Replayer, ServiceCode, Verdict
from controller_runtime.json import JsonObject
from controller_runtime.log.broker.connection import BusSettings, connect
from controller_runtime.log.history.reader import History
from controller_runtime.shard import shard_of

__all__ = ["api", "controlplane", "stage"]

SHARDS = 4
TEAMS = [f"team-{number}" for number in range(8)]
DIVIDED = {"LEADER_ELECT": "true", "NATS_HEARTBEAT": "1s", "SHARDS": str(SHARDS)}
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


async def assert_replayed(stage: Platform) -> None:
    """Each decision comes out the same, with the facts of the shard whose leader took it."""
    async with connect(BusSettings.of_urls(stage.nats.url, "test")) as bus:
        await bus.wait_connected()
        replayer = Replayer(History(bus), {NAME: ServiceCode(DivisibleSettings, definition)})
        results = [one async for one in replayer.decisions()]
    assert {one.verdict for one in results} == {Verdict.SAME}
    assert {one.stored.record.shard for one in results} == set(range(SHARDS))


def models(team: str) -> str:
    return f"/apis/aim.eai.amd.com/v1alpha1/namespaces/{team}/aimmodels"


def model(team: str, name: str, image: str) -> JsonObject:
    metadata = {"namespace": team, "name": name}
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMModel",
        "metadata": metadata,
        "spec": {"image": image},
    }


async def teams(api: RawApi) -> None:
    """Two namespaces for each shard at least."""
    assert Counter(shard_of(team, SHARDS) for team in TEAMS).keys() == set(range(SHARDS))
    for team in TEAMS:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}}
        await api.created("/api/v1/namespaces", namespace)


async def apply_all(api: RawApi, name: str, image: str) -> None:
    for team in TEAMS:
        await api.created(models(team), model(team, name, f"{image}-{team}:1"))


async def seen_all(api: RawApi, name: str, image: str) -> None:
    for team in TEAMS:
        where = f"/api/v1/namespaces/{team}/configmaps/{name}"
        expected = f"{image}-{team}:1"
        await api.until(where, partial(_shows, expected), 60.0)


def _shows(image: str, reply: Reply) -> bool:
    return reply.status == 200 and bool(reply.body["data"]["seen"] == image)


async def led(service: ServiceUnderTest) -> list[int]:
    page = await service.page("/readyz")
    found: list[int] = page["leadsShards"]
    return found


async def until_shared(services: Sequence[ServiceUnderTest], numbers: list[int]) -> list[list[int]]:
    """Wait until so many shards each are led, all of them together, and none twice."""
    for one in services:
        await one.ready()

    async def shared() -> bool:
        each = [await led(one) for one in services]
        whole = sorted(index for one in each for index in one) == list(range(SHARDS))
        return whole and sorted(len(one) for one in each) == numbers

    await eventually(shared, f"the shards are shared as {numbers}", within=60)
    return [await led(one) for one in services]


@pytest.mark.spec("FW-890", "FW-895")
async def test_one_process_leads_all_shards(stage: Platform, api: RawApi) -> None:
    await teams(api)
    only = await stage.started("pod-0", **DIVIDED)
    await until_shared([only], [SHARDS])
    await apply_all(api, "qwen", "one")
    await seen_all(api, "qwen", "one")
    assert stage.writes() == len(TEAMS)
    queue = await only.page("/debug/queue")
    assert queue["queues"]["tiny"]["taken"] >= len(TEAMS)
    assert {"facts", "facts-1", "facts-2", "facts-3"} <= queue["publishers"].keys()
    assert await only.metric('leader_election_master_status{name="aim-tiny-3"}') == 1
    assert await only.stop() == 0
    assert only.tracebacks == []


@pytest.mark.spec("FW-890", "FW-892", "FW-893", "FW-894")
async def test_replicas_share_the_shards_and_none_writes_what_another_one_has_written(
    stage: Platform, api: RawApi
) -> None:
    await teams(api)
    first = await stage.started("pod-0", **DIVIDED)
    await until_shared([first], [SHARDS])
    await apply_all(api, "before", "before")
    await seen_all(api, "before", "before")
    written = stage.writes()
    others = [await stage.started(f"pod-{number}", **DIVIDED) for number in (1, 2, 3)]
    shared = await until_shared([first, *others], [1, 1, 1, 1])
    assert shared[0] == [0], "the shard that publishes stays where it is"
    await apply_all(api, "after", "after")
    await seen_all(api, "after", "after")
    assert stage.writes() == written + len(TEAMS)
    pids = {one.pid: shards for one, shards in zip([first, *others], shared, strict=True)}
    for team in TEAMS:
        looked = [line.split() for line in stage.looks.read_text(encoding="utf-8").splitlines()]
        (by,) = [int(pid) for pid, image in looked if image == f"after-{team}:1"]
        assert pids[by] == [shard_of(team, SHARDS)]
        assert stage.looked(f"before-{team}:1") == stage.looked(f"after-{team}:1") == 1
    assert [one.tracebacks for one in (first, *others)] == [[]] * 4
    assert not [line for one in (first, *others) for line in one.lines if "another process" in line["message"]]
    await assert_replayed(stage)


@pytest.mark.spec("FW-890", "FW-893")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_the_others_take_over_what_a_process_led(stage: Platform, api: RawApi, number: signal.Signals) -> None:
    await teams(api)
    services = [await stage.started("pod-0", **DIVIDED)]
    await until_shared(services, [SHARDS])
    services.append(await stage.started("pod-1", **DIVIDED))
    await until_shared(services, [2, 2])
    await apply_all(api, "before", "before")
    await seen_all(api, "before", "before")
    # Shard 0 and with it the watches go as well.
    gone = services.pop(0)
    assert 0 in await led(gone)
    gone.signal(number)
    await apply_all(api, "after", "after")
    await seen_all(api, "after", "after")
    await until_shared(services, [SHARDS])
    assert stage.writes() == 2 * len(TEAMS), "none is written twice"
    assert [one.tracebacks for one in services] == [[]]


@pytest.mark.spec("FW-407", "FW-892")
async def test_a_process_that_slept_writes_nothing_of_its_former_shards_and_gets_others(
    stage: Platform, api: RawApi
) -> None:
    await teams(api)
    sleeper = await stage.started("pod-0", **DIVIDED)
    await until_shared([sleeper], [SHARDS])
    other = await stage.started("pod-1", **DIVIDED)
    await until_shared([sleeper, other], [2, 2])
    await apply_all(api, "before", "before")
    await seen_all(api, "before", "before")
    sleeper.signal(signal.SIGSTOP)
    # What it is about to do when it wakes: restore all of these, as the other one will have done meanwhile.
    for team in TEAMS:
        await api.delete(f"/api/v1/namespaces/{team}/configmaps/before")
    await seen_all(api, "before", "before")
    await until_shared([other], [SHARDS])
    sleeper.signal(signal.SIGCONT)
    await until_shared([sleeper, other], [2, 2])
    await apply_all(api, "after", "after")
    await seen_all(api, "after", "after")
    assert stage.writes() == 3 * len(TEAMS)
    assert sleeper.tracebacks + other.tracebacks == []


@pytest.mark.spec("FW-891")
async def test_another_number_of_shards_waits_for_the_last_process_with_the_former_one(
    stage: Platform, api: RawApi
) -> None:
    await teams(api)
    whole = await stage.started("pod-0", **{**DIVIDED, "SHARDS": "1"})
    await whole.leads()
    await apply_all(api, "before", "before")
    await seen_all(api, "before", "before")
    divided = await stage.started("pod-1", **DIVIDED)
    # A rolling update waits for it.
    page = await divided.until("/readyz", lambda status, _: status == 200, within=20)
    assert (page["shards"], page["leadsShards"]) == (SHARDS, [])
    await eventually(
        lambda: any("another number of shards" in line["message"] for line in divided.lines), "waits", within=30
    )
    page = await divided.page("/debug/queue")
    assert (page["queues"], page["publishers"]) == ({}, {})
    await apply_all(api, "during", "during")
    await seen_all(api, "during", "during")
    assert await whole.stop() == 0
    await until_shared([divided], [SHARDS])
    await apply_all(api, "after", "after")
    await seen_all(api, "after", "after")
    assert stage.writes() == 3 * len(TEAMS)
    lease = (await api.get(f"{LEASES}/aim-tiny-1")).body
    assert lease["metadata"]["annotations"]["aim.eai.amd.com/shards"] == str(SHARDS)
