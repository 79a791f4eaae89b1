"""Quotas of created children: counted and created in one step, also by a leader that has just begun."""

import asyncio
from dataclasses import replace

import pytest
from support.reconcile_bench import CLAIMS, Bench, Faults

from aim_cli.log.timeline import deeds
from controller_runtime import Child, Index, JsonObject, Key, Plan, Quota, WriteMode, canonical, quantity
from controller_runtime.core import PersistentVolumeClaim
from controller_runtime.reconcile.plan import Execution, WriteResult
from controller_runtime.reconcile.record import plan_to_json

BOUND = Index(CLAIMS, "all", lambda _: ["all"])


def plan(name: str, most: int = 3) -> Plan:
    """A claim, unless there are enough of them."""
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    return Plan(children=(Child(CLAIMS, body, mode=WriteMode.CREATE, quotas=(Quota(BOUND, "all", most),)),))


@pytest.fixture
async def counting(bench: Bench) -> Bench:
    bench.index(BOUND)
    return bench


async def execute_together(bench: Bench, plans: list[Plan]) -> list[Execution]:
    return list(await asyncio.gather(*(bench.executor.execute(bench.target(), one) for one in plans)))


def created(faults: Faults) -> int:
    return sum(1 for method, _ in faults.seen if method == "POST")


@pytest.mark.spec("DI-311", "DI-314", "DI-P07")
async def test_decisions_of_one_moment_do_not_exceed_a_quota(counting: Bench) -> None:
    done = await execute_together(counting, [plan(f"c{number}") for number in range(12)])

    assert created(counting.faults) == 3
    results = sorted(write.result for one in done for write in one.writes)
    assert results == [WriteResult.DONE] * 3 + [WriteResult.HELD] * 9
    assert all(one.failure is None for one in done)


@pytest.mark.spec("DI-311")
async def test_a_place_that_became_free_is_given_again(counting: Bench) -> None:
    await execute_together(counting, [plan(f"c{number}") for number in range(3)])
    gone = counting.cache.get(CLAIMS, Key("default", "c0"))
    assert gone is not None
    counting.cache.absorb_deleted(CLAIMS, gone.key, gone.version.uid, 0.0)
    await execute_together(counting, [plan(f"d{number}") for number in range(3)])

    assert created(counting.faults) == 4


@pytest.mark.spec("DI-312", "DI-P06")
async def test_what_a_former_leader_made_last_counts(counting: Bench) -> None:
    """The cache has not heard of it yet; the first creation of a term asks the API server."""
    for number in range(2):
        (child,) = plan(f"former{number}").children
        await counting.kube.create(CLAIMS.kind, child.body, "former")
    counting.faults.seen.clear()

    await execute_together(counting, [plan(f"c{number}") for number in range(5)])

    assert created(counting.faults) == 1


@pytest.mark.spec("DI-320", "FW-P15", "DI-P05")
async def test_nothing_is_created_while_nothing_can_be_counted(counting: Bench) -> None:
    counting.faults.fail("GET", "/persistentvolumeclaims", 500, message="etcd is away")
    (failed,) = await execute_together(counting, [plan("c")])
    assert failed.failure is not None
    assert "etcd is away" in failed.failure.message
    assert created(counting.faults) == 0

    counting.faults.rules.clear()
    (done,) = await execute_together(counting, [plan("c")])
    assert done.failure is None
    assert created(counting.faults) == 1


@pytest.mark.spec("DI-313")
async def test_who_creates_nothing_under_a_quota_waits_for_nobody(counting: Bench) -> None:
    (child,) = plan("c").children
    without = Plan(children=(Child(CLAIMS, child.body, mode=WriteMode.CREATE),))
    async with counting.admission.place(child.quotas) as full, asyncio.timeout(60):
        assert full is None
        done = await counting.executor.execute(counting.target(), without)
    assert done.failure is None
    assert created(counting.faults) == 1


@pytest.mark.spec("AR-447", "AR-449")
async def test_amounts_are_added_up_and_every_quota_counts(counting: Bench) -> None:
    def bytes_of(claim: PersistentVolumeClaim) -> int:
        return quantity.parse(claim.spec.resources.requests["storage"] or 0).ceiling

    gi = 1 << 30
    large = Quota(BOUND, "all", 3 * gi, takes=gi, taken_by=bytes_of)
    small = replace(large, most=2 * gi)

    def sized(name: str, *quotas: Quota) -> Plan:
        (child,) = plan(name).children
        return Plan(children=(replace(child, quotas=quotas),))

    await execute_together(counting, [sized(f"c{number}", large, small) for number in range(5)])
    assert created(counting.faults) == 2
    await execute_together(counting, [sized(f"d{number}", large) for number in range(5)])
    assert created(counting.faults) == 3, "reaching the limit exactly is allowed"


@pytest.mark.spec("DI-315")
async def test_the_status_is_written_also_without_a_place(counting: Bench) -> None:
    reported = {"status": "Pending"}
    done = await counting.executor.execute(counting.target(), replace(plan("c", most=0), status=reported))
    assert created(counting.faults) == 0
    assert [(write.kind, write.result) for write in done.writes] == [
        ("PersistentVolumeClaim", WriteResult.HELD),
        ("AIMService", WriteResult.DONE),
    ]
    assert counting.stored_status() == "Pending"


@pytest.mark.spec("DI-315")
async def test_the_record_tells_what_was_held_back_and_why(counting: Bench) -> None:
    decided = plan("c", most=0)
    counting.decision = lambda _obj, _view: decided
    await counting.worker.process(Key("default", "chat"))
    (record,) = counting.records
    (write,) = record.writes
    assert (write.verb, write.kind, write.name, write.result) == ("create", "PersistentVolumeClaim", "c", "held")
    assert record.outcome == f"held back: limit reached: 0 of {BOUND} 'all' exist already"
    assert record.outcome in deeds(record)
    assert canonical(record.plan) == canonical(plan_to_json(decided)), "a replay comes to the same"
