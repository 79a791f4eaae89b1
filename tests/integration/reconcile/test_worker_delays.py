"""When a pass is tried again, on virtual time: conflicts, refusals, and what the API server asks for."""

import itertools

import pytest
from support.reconcile_bench import CONFIG_MAPS, SERVICES, Bench, config_map, service

from aim_domain.kinds import AIM_SERVICE
from aim_domain.labels import FINALIZER_SERVICE
from controller_runtime import Child, Key, Plan, WriteMode

CHAT = Key("default", "chat")
ROUTED = {**service(), "status": {"observedGeneration": 1}}


@pytest.mark.spec("FW-181", "FW-098")
async def test_a_conflict_is_retried_with_backoff_while_the_cache_lags(bench: Bench) -> None:
    bench.finalizing(FINALIZER_SERVICE, lambda _: None)
    bench.on_virtual_time()
    # Another service writes, and our cache does not see it.
    await bench.kube.apply(AIM_SERVICE, ROUTED, "aim-routing", subresource="status")
    bench.faults.seen.clear()
    bench.queue.add(CHAT)
    await bench.work_for(60)
    assert 5 <= len(bench.faults.seen) <= 12
    assert {method for method, _ in bench.faults.seen} == {"PATCH"}


@pytest.mark.spec("FW-181")
async def test_the_newer_version_ends_a_conflict_at_once(bench: Bench) -> None:
    bench.finalizing(FINALIZER_SERVICE, lambda _: None)
    bench.on_virtual_time()
    await bench.kube.apply(AIM_SERVICE, ROUTED, "aim-routing", subresource="status")
    await bench.worker.process(CHAT)
    await bench.see(SERVICES, "chat")
    assert (await bench.work_for(1))[0] == 0.0
    assert (await bench.get(AIM_SERVICE, "chat"))["metadata"]["finalizers"] == [FINALIZER_SERVICE]


@pytest.mark.spec("FW-095")
async def test_a_forbidden_write_is_tried_again_as_nobody_sees_a_permission_being_granted(bench: Bench) -> None:
    bench.finalizing(FINALIZER_SERVICE, lambda _: None)
    bench.on_virtual_time()
    bench.faults.fail("PATCH", "aimservices/chat", 403, reason="Forbidden", message="the roles are not known yet")
    bench.queue.add(CHAT)
    await bench.work_for(30)
    assert 4 <= len(bench.faults.seen) <= 12
    bench.faults.rules.clear()
    await bench.work_for(60)
    assert (await bench.get(AIM_SERVICE, "chat"))["metadata"]["finalizers"] == [FINALIZER_SERVICE]


@pytest.mark.spec("FW-431")
async def test_a_status_that_lost_a_conflict_is_written_again_although_the_winner_wakes_nobody(bench: Bench) -> None:
    bench.on_virtual_time()
    bench.decision = lambda _obj, _view: Plan(status={"observedGeneration": 1, "status": "Pending"})
    bench.faults.fail("PATCH", "/status", 409, reason="Conflict")
    bench.queue.add(CHAT)
    # Nothing comes over the bus: routing ignores what serving writes into the status that they share.
    passes = await bench.work_for(60)
    assert 5 <= len(passes) <= 12, "often enough, and no hot loop"
    bench.faults.rules.clear()
    await bench.work_for(60)
    assert (await bench.get(AIM_SERVICE, "chat"))["status"]["status"] == "Pending"


@pytest.mark.spec("FW-094", "FW-098")
async def test_no_pass_before_the_time_that_the_api_server_asked_for(bench: Bench) -> None:
    bench.on_virtual_time()
    bench.faults.fail("POST", "/configmaps", 429, reason="TooManyRequests", details={"retryAfterSeconds": 5})
    child = Child(CONFIG_MAPS, config_map("c", a="1"), mode=WriteMode.CREATE)
    bench.decision = lambda _obj, view: Plan(
        children=(child,), status={"observedGeneration": 1, "status": "Failed" if view.failure else "Pending"}
    )
    bench.queue.add(CHAT)
    passes = await bench.work_for(12)
    # The status that tells of the failure enqueues the object; that must not count.
    assert [round(at) for at in passes] == [0, 5, 10]


@pytest.mark.spec("FW-097", "FW-810")
async def test_a_pass_that_was_refused_a_write_comes_again_at_the_latest_when_it_had_asked_to(bench: Bench) -> None:
    bench.on_virtual_time()
    bench.faults.fail("POST", "/configmaps", 422, reason="Invalid", message="bad", details={"name": "c"})
    child = Child(CONFIG_MAPS, config_map("c", a="1"), mode=WriteMode.CREATE)
    bench.decision = lambda _obj, _view: Plan(children=(child,), requeue_after=30)
    bench.queue.add(CHAT)
    passes = await bench.work_for(300)
    assert max(after - before for before, after in itertools.pairwise(passes)) <= 30.2
