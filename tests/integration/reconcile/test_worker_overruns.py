"""Decisions that take longer than their budget: no second time, until the object changes."""

import time

import pytest
from support.passes import CHAT, conditions, events, serve
from support.reconcile_bench import CONFIG_MAPS, SERVICES, Bench, config_map

from aim_domain import AIMService
from aim_domain.kinds import AIM_SERVICE
from controller_runtime import Child, Plan, View

BUDGET = 0.02


@pytest.mark.spec("FW-747", "FW-748")
async def test_what_took_too_long_is_skipped_and_reported_once_until_the_object_changes(bench: Bench) -> None:
    bench.within(BUDGET)
    decided = 0

    def slow(_obj: AIMService, _view: View) -> Plan:
        nonlocal decided
        decided += 1
        until = time.thread_time() + 2 * BUDGET
        while time.thread_time() < until:
            pass
        return Plan(children=(Child(CONFIG_MAPS, config_map("c")),))

    bench.decision = slow
    for _ in range(3):
        await bench.worker.process(CHAT)
        stored = await bench.see(SERVICES, "chat")
    assert decided == 1
    assert conditions(stored)["Reconciled"][:2] == ("False", "TimeBudgetExceeded")
    assert "AIMService chat not reconciled" in conditions(stored)["Reconciled"][2]
    assert await events(bench) == [("TimeBudgetExceeded", 1)]
    assert [tail for _, tail in bench.writes] == ["chat/status"], "nothing of the plan is carried out"
    assert not bench.queue.statistics.retries
    assert not bench.queue.statistics.delayed

    bench.decision = serve
    version = stored["metadata"]["resourceVersion"]
    noted = {"metadata": {"annotations": {"note": "again"}}}
    await bench.kube.merge_patch(AIM_SERVICE, "chat", "default", noted, resource_version=version, field_manager="user")
    await bench.see(SERVICES, "chat")
    await bench.worker.process(CHAT)
    assert "Reconciled" not in conditions(await bench.get(AIM_SERVICE, "chat"))
