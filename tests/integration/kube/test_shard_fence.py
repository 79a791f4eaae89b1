"""A process reads the Leases of all shards before it leads with a number of its own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from aim_domain import DivisibleSettings
from aim_routing.service import definition
from controller_runtime import KubeClient
from controller_runtime.core.objects import LeaseSpec
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.lease import LeaseStore, claimed, released
from controller_runtime.log.freshness import boot_seconds
from controller_runtime.manager import leadership
from controller_runtime.manager.leadership import Elected, Leaderships, leaderships
from embedded_apiserver.controlplane import ControlPlane
from embedded_apiserver.faults import FaultRule, Refusal

NAMESPACE = "default"
SECONDS = 15


@dataclass
class Site:
    """A cluster in which processes of one service begin, each with a number of shards."""

    client: KubeClient
    plane: ControlPlane

    def process(self, pod: str, count: int, uid: str = "") -> Leaderships:
        settings = DivisibleSettings(
            system_namespace=NAMESPACE, leader_elect=True, pod_name=pod, pod_uid=uid, shards=count
        )
        return leaderships(definition(settings), settings, self.client)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with ControlPlane() as plane, KubeClient(Connection(plane.url, NoCredentials()), service="t") as client:
        yield Site(client, plane)


def elected(process: Leaderships, index: int = 0) -> Elected:
    found = process.each[index]
    assert isinstance(found, Elected)
    return found


async def takes(process: Leaderships, *indexes: int) -> None:
    for index in indexes:
        await elected(process, index).elector._attempt()
        assert elected(process, index).elector.is_leader


@pytest.mark.spec("FW-891")
@pytest.mark.parametrize(("former", "its_shard", "number", "wanted"), [(1, 0, 4, 1), (4, 3, 1, 0), (2, 1, 4, 2)])
async def test_a_shard_is_not_led_while_a_process_divides_the_service_otherwise(
    site: Site, former: int, its_shard: int, number: int, wanted: int
) -> None:
    leads, waits = site.process("pod-a", former), site.process("pod-b", number)
    await takes(leads, its_shard)
    await takes(waits, wanted)
    assert not await elected(waits, wanted)._undisputed()
    # Had both begun at the same time, the other one would have seen this one, too.
    assert not await elected(leads, its_shard)._undisputed()
    await elected(leads, its_shard).elector.give_up()
    assert await elected(waits, wanted)._undisputed()


@pytest.mark.spec("FW-891")
async def test_processes_of_one_number_lead_beside_each_other(site: Site) -> None:
    processes = [site.process(f"pod-{number}", 4) for number in range(4)]
    for index, process in enumerate(processes):
        await takes(process, index)
    assert all([await elected(process, index)._undisputed() for index, process in enumerate(processes)])


@pytest.mark.spec("FW-891")
async def test_the_lease_of_a_process_that_died_counts_until_it_has_expired(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = boot_seconds()
    monkeypatch.setattr(leadership, "boot_seconds", lambda: seconds)
    await takes(site.process("pod-a", 1), 0)
    waits = site.process("pod-b", 2)
    await takes(waits, 1)
    assert not await elected(waits, 1)._undisputed()
    seconds += SECONDS
    assert not await elected(waits, 1)._undisputed()
    seconds += 1
    assert await elected(waits, 1)._undisputed()


@pytest.mark.spec("FW-891", "FW-428")
async def test_the_former_process_of_the_same_pod_is_known_to_be_dead(site: Site) -> None:
    await takes(site.process("pod-a", 1, "uid-a"), 0)
    again = site.process("pod-a", 2, "uid-a")
    await takes(again, 1)
    assert await elected(again, 1)._undisputed()


@pytest.mark.spec("FW-891")
async def test_a_lease_of_a_release_before_shards_counts_as_one_of_a_whole_service(site: Site) -> None:
    store = LeaseStore(site.client, NAMESPACE, "aim-routing")
    process = site.process("pod-b", 2)
    await takes(process, 1)
    clock = elected(process, 1).elector._clock
    held = await store.write(None, claimed(LeaseSpec(), "pod-a_1", SECONDS, clock.wall()))
    assert not await elected(process, 1)._undisputed()
    assert held is not None
    await store.write(held, released(held.spec))
    assert await elected(process, 1)._undisputed()


@pytest.mark.spec("FW-891")
@pytest.mark.parametrize(("code", "clear"), [(403, True), (500, False)])
async def test_roles_of_an_earlier_release_keep_no_service_from_its_leader(site: Site, code: int, clear: bool) -> None:
    """Who may not read the Lease of a shard may not hold it either; any other error leaves it unknown."""
    process = site.process("pod-a", 1)
    await takes(process, 0)
    refused = FaultRule(verbs=frozenset({"get"}), name="aim-routing-1", fault=Refusal.model_validate({"code": code}))
    site.plane.faults.add(refused)
    assert await elected(process)._undisputed() is clear


@pytest.mark.spec("FW-891", "FW-895")
async def test_a_term_that_is_disputed_ends_before_it_begins(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    other = site.process("pod-a", 1)
    await takes(other, 0)
    waits, begun, asked = elected(site.process("pod-b", 2), 1), asyncio.Event(), asyncio.Event()
    monkeypatch.setattr(leadership, "_PAUSE", 0.01)
    undisputed, reported = waits._undisputed, {True: set[bool](), False: set[bool]()}

    async def ask() -> bool:
        reported[begun.is_set()].add(waits.leads)
        found = await undisputed()
        asked.set()
        return found

    monkeypatch.setattr(waits, "_undisputed", ask)

    async def work() -> None:
        begun.set()
        reported[True].add(waits.leads)
        await asyncio.Event().wait()

    running = asyncio.ensure_future(waits.run(work))
    async with asyncio.timeout(60):
        await asked.wait()
        await waits.elector.wait_lost()
        assert not begun.is_set()
        await elected(other).elector.give_up()
        await begun.wait()
    running.cancel()
    await asyncio.wait((running,))
    # With a Lease alone it leads nothing.
    assert (reported[False], reported[True]) == ({False}, {True})
