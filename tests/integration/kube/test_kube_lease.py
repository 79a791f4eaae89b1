"""Leader election over HTTP, on a clock that the test moves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.fake_apiserver import (
    Handler,
    OneObjectStore,
    config_map,
    fake_apiserver,
    json_answer,
    status_answer,
    watch_answer,
)

from aim_domain.kind_names import CONFIG_MAP
from controller_runtime import KubeClient, TransportSettings
from controller_runtime.kinds import LEASE
from controller_runtime.kube.errors import ApiConnectionError
from controller_runtime.kube.guard import NotLeaderError
from controller_runtime.kube.lease import Identity, LeaderElector, LeaseSettings

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class TestClock:
    """Stands still until a sleeper or the test moves it."""

    __test__ = False

    seconds: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def boot(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return EPOCH + timedelta(seconds=self.seconds)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds
        await asyncio.sleep(0)


@dataclass
class Cluster:
    """A store of one Lease and the means to take part in its election."""

    client: KubeClient
    store: OneObjectStore
    clock: TestClock

    def elector(self, pod: str, slot: str = "", life: str = "life", **arguments: Any) -> LeaderElector:
        identity = Identity(pod, slot, life)
        return LeaderElector(self.client, "aim-system", "aim-serving", identity, clock=self.clock, **arguments)

    @property
    def spec(self) -> dict[str, Any]:
        assert self.store.object is not None
        spec: dict[str, Any] = self.store.object["spec"]
        return spec


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    store = OneObjectStore()
    async with (
        fake_apiserver(store) as server,
        KubeClient(server.connection, service="test", settings=TransportSettings(attempts=1)) as client,
    ):
        yield Cluster(client, store, TestClock())


@asynccontextmanager
async def running(elector: LeaderElector) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(elector.run())
        yield
        task.cancel()


async def rounds(elector: LeaderElector, clock: TestClock, count: int) -> None:
    """Attempts as `run` makes them, one retry period apart."""
    for _ in range(count):
        await elector._attempt()
        await clock.sleep(2)


@pytest.mark.spec("FW-281")
async def test_the_first_one_leads_for_15_seconds_under_its_name(cluster: Cluster) -> None:
    elector = cluster.elector("pod-a")
    assert not elector.statistics().leads
    await elector._attempt()

    assert elector.is_leader
    assert cluster.spec == {
        "holderIdentity": "pod-a_life",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:16:40.000000Z",
        "renewTime": "2026-01-01T00:16:40.000000Z",
        "leaseTransitions": 0,
    }


@pytest.mark.spec("FW-281")
async def test_a_renewal_changes_the_renew_time_only(cluster: Cluster) -> None:
    elector = cluster.elector("pod-a")
    await rounds(elector, cluster.clock, 2)

    assert cluster.spec["acquireTime"] == "2026-01-01T00:16:40.000000Z"
    assert cluster.spec["renewTime"] == "2026-01-01T00:16:42.000000Z"
    assert cluster.spec["leaseTransitions"] == 0


@pytest.mark.spec("FW-281")
async def test_a_candidate_waits_until_it_has_seen_15_seconds_of_silence(cluster: Cluster) -> None:
    leader, candidate = cluster.elector("pod-a"), cluster.elector("pod-b")
    await leader._attempt()
    cluster.clock.seconds += 3600
    taken_after = 0.0
    started = cluster.clock.seconds
    while not candidate.is_leader:
        await candidate._attempt()
        taken_after = cluster.clock.seconds - started
        cluster.clock.seconds += 2

    assert 15 < taken_after <= 17
    assert cluster.spec["holderIdentity"] == "pod-b_life"
    assert cluster.spec["leaseTransitions"] == 1
    await leader._attempt()
    assert not leader.is_leader


async def test_a_leader_that_renews_is_never_replaced(cluster: Cluster) -> None:
    leader, candidate = cluster.elector("pod-a"), cluster.elector("pod-b")
    for _ in range(30):
        await leader._attempt()
        await candidate._attempt()
        assert (leader.is_leader, candidate.is_leader) == (True, False)
        cluster.clock.seconds += 2


@pytest.mark.spec("FW-428")
async def test_a_restarted_container_of_the_same_pod_leads_at_once(cluster: Cluster) -> None:
    await cluster.elector("pod-a", "uid-1", "first")._attempt()
    reborn = cluster.elector("pod-a", "uid-1", "second")
    await reborn._attempt()

    assert reborn.is_leader
    assert cluster.spec["holderIdentity"] == "pod-a_uid-1_second"
    assert cluster.spec["leaseTransitions"] == 1


@pytest.mark.parametrize(
    ("first", "second"), [(("pod-a", ""), ("pod-a", "")), (("pod-a", "uid-1"), ("pod-a", "uid-2"))], ids=["name", "pod"]
)
@pytest.mark.spec("FW-428")
async def test_two_processes_of_one_name_never_both_lead(
    cluster: Cluster, first: tuple[str, str], second: tuple[str, str]
) -> None:
    electors = (cluster.elector(*first, life="one"), cluster.elector(*second, life="two"))
    writers = [cluster.client.guarded(elector.guard) for elector in electors]
    for number in range(60):
        for elector in electors:
            # One of them hangs for a while now and then, long enough to lose the Lease.
            if not (elector is electors[number // 20 % 2] and number % 20 < 10):
                await elector._attempt()
            assert sum(one.is_leader for one in electors) <= 1
        for elector, writer in zip(electors, writers, strict=True):
            if not elector.is_leader:
                with pytest.raises(NotLeaderError):
                    await writer.create(CONFIG_MAP, config_map("a"), "aim-x")
        await cluster.clock.sleep(2)
    assert cluster.spec["leaseTransitions"] >= 2, "both had their turn"


@pytest.mark.spec("FW-428")
async def test_who_comes_later_in_the_same_place_is_alive_and_is_not_succeeded(cluster: Cluster) -> None:
    """A pod UID that two processes share by mistake ends with one leader, not with a fight."""
    one, two = cluster.elector("pod-a", "uid-1", "one"), cluster.elector("pod-a", "uid-1", "two")
    for elector in (one, two):
        await elector._attempt()
    for _ in range(10):
        await cluster.clock.sleep(2)
        await one._attempt()
        await two._attempt()
        assert (one.is_leader, two.is_leader) == (False, True)


@pytest.mark.spec("FW-429")
async def test_a_write_is_through_before_another_may_lead(cluster: Cluster) -> None:
    elector = cluster.elector("pod-a")
    await elector._attempt()
    for age in (0.0, 5.0, 9.9):
        cluster.clock.seconds = 1000.0 + age
        assert age + elector.guard() == pytest.approx(14.0)


@pytest.mark.spec("FW-429")
async def test_a_write_that_does_not_get_through_is_given_up_in_time() -> None:
    async with (
        fake_apiserver(watch_answer(then_hang=True)) as server,
        KubeClient(server.connection, service="test", settings=TransportSettings(attempts=1)) as client,
    ):
        with pytest.raises(ApiConnectionError, match="timed out"):
            # Well below the 30 s after which the transport itself gives up.
            async with asyncio.timeout(20):
                await client.guarded(lambda: 0.2).apply(CONFIG_MAP, config_map("a"), "aim-x")
        assert len(server.seen) == 1


@pytest.mark.spec("FW-407")
async def test_leadership_ends_by_the_boot_clock_even_when_nothing_runs(cluster: Cluster) -> None:
    elector = cluster.elector("pod-a")
    await elector._attempt()
    cluster.clock.seconds += 9.9
    assert elector.is_leader
    cluster.clock.seconds += 0.2
    assert not elector.is_leader


@pytest.mark.spec("FW-407")
async def test_a_guarded_client_drops_writes_of_a_former_leader_and_still_reads() -> None:
    async with (
        fake_apiserver(OneObjectStore()) as lease_server,
        fake_apiserver(json_answer(config_map("a"))) as server,
        KubeClient(lease_server.connection, service="test") as lease_client,
        KubeClient(server.connection, service="test") as client,
    ):
        clock = TestClock()
        elector = LeaderElector(lease_client, "aim-system", "aim-x", Identity("pod-a"), clock=clock)
        await elector._attempt()
        writer = client.guarded(elector.guard)
        await writer.apply(CONFIG_MAP, config_map("a"), "aim-x")
        clock.seconds += 10
        with pytest.raises(NotLeaderError, match="write dropped"):
            await writer.apply(CONFIG_MAP, config_map("a"), "aim-x")
        await writer.get(CONFIG_MAP, "a", "team")

    assert [seen.method for seen in server.seen] == ["PATCH", "GET"]


@pytest.mark.spec("FW-407")
async def test_a_repetition_of_a_write_is_guarded_too() -> None:
    left = iter([10.0, 0.0])

    async with (
        fake_apiserver(status_answer(503, "ServiceUnavailable")) as server,
        KubeClient(server.connection, service="test") as client,
    ):
        with pytest.raises(NotLeaderError):
            await client.guarded(lambda: next(left)).apply(CONFIG_MAP, config_map("a"), "aim-x")

    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "failure", [status_answer(500, "InternalError"), status_answer(429, "TooManyRequests")], ids=["500", "429"]
)
async def test_a_leader_survives_a_short_outage_and_gives_up_in_a_long_one(cluster: Cluster, failure: Handler) -> None:
    changes: list[bool] = []
    elector = cluster.elector("pod-a", on_change=changes.append)
    await rounds(elector, cluster.clock, 1)
    cluster.store.fails_with = failure
    await rounds(elector, cluster.clock, 3)
    assert elector.statistics().leads
    await rounds(elector, cluster.clock, 2)
    assert not elector.statistics().leads
    assert changes == [True, False]
    cluster.store.fails_with = None
    await rounds(elector, cluster.clock, 1)
    assert changes == [True, False, True]


async def test_a_lease_taken_by_hand_is_lost_at_the_next_attempt(cluster: Cluster) -> None:
    elector = cluster.elector("pod-a")
    await rounds(elector, cluster.clock, 1)
    cluster.store.overwrite_spec(holderIdentity="somebody")
    await elector._attempt()

    assert not elector.is_leader
    assert elector.statistics().holder == "somebody"


@pytest.mark.spec("FW-407")
async def test_confirm_asks_the_server(cluster: Cluster) -> None:
    elector = cluster.elector("pod-a")
    assert await elector.confirm()
    cluster.store.fails_with = status_answer(500, "InternalError")
    assert not await elector.confirm()
    assert elector.is_leader


async def test_a_deleted_lease_is_made_again(cluster: Cluster) -> None:
    elector = cluster.elector("pod-a")
    await rounds(elector, cluster.clock, 1)
    cluster.store.object = None
    await rounds(elector, cluster.clock, 2)

    assert elector.is_leader
    assert cluster.spec["holderIdentity"] == "pod-a_life"


async def test_a_stopping_leader_lets_the_next_one_in_at_once(cluster: Cluster) -> None:
    first, second = cluster.elector("pod-a"), cluster.elector("pod-b")
    async with running(first):
        async with asyncio.timeout(60):
            await first.gained()
    await first.wait_lost()
    assert not first.is_leader
    assert cluster.spec["holderIdentity"] == ""
    assert "renewTime" not in cluster.spec

    async with running(second):
        async with asyncio.timeout(60):
            await second.gained()
    assert set(cluster.clock.slept) == {2.0}


async def test_a_renewal_that_hangs_ends_leadership_at_the_deadline() -> None:
    store = OneObjectStore()
    settings = LeaseSettings(duration=0.5, renew_deadline=0.3, retry_period=0.05)
    async with (
        fake_apiserver(store) as server,
        KubeClient(server.connection, service="test") as client,
    ):
        elector = LeaderElector(client, "aim-system", "aim-x", Identity("pod-a"), settings=settings)
        # Well below the 30 s after which the transport itself gives up.
        async with running(elector), asyncio.timeout(20):
            await elector.gained()
            store.fails_with = watch_answer(then_hang=True)
            await elector.wait_lost()
            store.fails_with = None
            await elector.gained()


def test_settings_that_would_allow_two_leaders_are_refused() -> None:
    with pytest.raises(ValueError, match="renew deadline < duration"):
        LeaseSettings(duration=10, renew_deadline=10)


ASKED_BY = "aim.eai.amd.com/asked-by"


def noted(cluster: Cluster) -> dict[str, str]:
    assert cluster.store.object is not None
    found: dict[str, str] = cluster.store.object["metadata"].get("annotations") or {}
    return found


@pytest.mark.spec("FW-892")
async def test_a_holder_that_is_asked_goes_on_until_it_gives_the_lease_up_to_the_one_who_asks(
    cluster: Cluster,
) -> None:
    holder, asking, third = (cluster.elector(pod) for pod in ("pod-a", "pod-b", "pod-c"))
    for elector in (holder, asking, third):
        await elector._attempt()
    await asking.ask()
    assert noted(cluster) == {ASKED_BY: "pod-b_life"}
    assert not holder._asked.is_set(), "it learns of it when it renews"
    await rounds(holder, cluster.clock, 2)
    assert (holder.is_leader, holder._asked.is_set(), holder.claim.asked_by) == (True, True, "pod-b_life")
    assert noted(cluster) == {ASKED_BY: "pod-b_life"}, "a renewal is no answer"

    await holder.give_up()
    assert (cluster.spec["holderIdentity"], noted(cluster)) == ("", {ASKED_BY: "pod-b_life"})
    for elector in (third, holder):
        await elector._attempt()
        assert not elector.is_leader, "it is left to the one who asked"
    await asking._attempt()
    assert asking.is_leader
    assert noted(cluster) == {}
    assert (holder.claim.holder, holder.claim.asked_by) == ("", "pod-b_life"), "as it was seen last"
    await holder._attempt()
    assert (holder.claim.holder, holder.claim.asked_by) == ("pod-b_life", "")


@pytest.mark.spec("FW-892")
async def test_what_the_one_who_asked_does_not_take_is_taken_by_another_one(cluster: Cluster) -> None:
    holder, gone = cluster.elector("pod-a"), cluster.elector("pod-b")
    await holder._attempt()
    await gone.ask()
    await rounds(holder, cluster.clock, 1)
    await holder.give_up()
    await rounds(holder, cluster.clock, 3)
    assert not holder.statistics().leads
    await rounds(holder, cluster.clock, 2)
    assert holder.is_leader
    assert noted(cluster) == {}


@pytest.mark.spec("FW-892")
async def test_neither_a_free_lease_nor_ones_own_is_asked_for(cluster: Cluster) -> None:
    elector = cluster.elector("pod-a")
    await elector.ask()
    await elector._attempt()
    assert noted(cluster) == {}, "nothing was written by the question"
    await elector.ask()
    assert noted(cluster) == {}
    await elector.give_up(rest=5)
    await elector.ask()
    assert noted(cluster) == {}
    await rounds(elector, cluster.clock, 2)
    assert not elector.is_leader, "it rests"
    await rounds(elector, cluster.clock, 2)
    assert elector.is_leader


@pytest.mark.spec("FW-891")
async def test_a_holder_notes_its_number_of_shards_and_leaves_what_others_note(cluster: Cluster) -> None:
    divided = cluster.elector("pod-a", annotations={"aim.eai.amd.com/shards": "4"})
    await divided._attempt()
    assert noted(cluster) == {"aim.eai.amd.com/shards": "4"}
    assert cluster.store.object is not None
    metadata = cluster.store.object["metadata"]
    owned = {**metadata, "annotations": {**metadata["annotations"], "example.com/owner": "ops"}}
    await cluster.client.replace(LEASE, {**cluster.store.object, "metadata": owned}, "ops")
    await divided._attempt()
    assert noted(cluster) == {"aim.eai.amd.com/shards": "4", "example.com/owner": "ops"}
    await divided.give_up()
    assert noted(cluster) == {"aim.eai.amd.com/shards": "4", "example.com/owner": "ops"}
    await cluster.elector("pod-b")._attempt()
    assert noted(cluster) == {"example.com/owner": "ops"}


@pytest.mark.spec("FW-892")
async def test_a_process_with_another_number_of_shards_asks_for_none(cluster: Cluster) -> None:
    holder = cluster.elector("pod-a", annotations={"aim.eai.amd.com/shards": "4"})
    await holder._attempt()
    for number in ({}, {"aim.eai.amd.com/shards": "2"}):
        await cluster.elector("pod-b", annotations=number).ask()
        assert ASKED_BY not in noted(cluster)
    await cluster.elector("pod-b", annotations={"aim.eai.amd.com/shards": "4"}).ask()
    assert noted(cluster) == {"aim.eai.amd.com/shards": "4", ASKED_BY: "pod-b_life"}
