"""Whole passes: queue, decision, execution, record."""

from datetime import timedelta

import pytest
import structlog
from structlog.testing import capture_logs
from support.deciding import decide
from support.passes import CHAT, deletion, running, serve, until
from support.reconcile_bench import CONFIG_MAPS, SERVICES, Bench, config_map

from aim_domain import AIMService
from controller_runtime import (
    ApiError,
    Category,
    Child,
    ClassifiedError,
    Effect,
    Plan,
    View,
    canonical,
)
from controller_runtime.kinds import CONFIG_MAP
from controller_runtime.log.cache.view import CacheView
from controller_runtime.log.history.facts import get_fact
from controller_runtime.reconcile.record import plan_to_json
from embedded_apiserver.http import Request


@pytest.mark.spec("FW-001", "FW-013", "FW-015")
async def test_an_object_converges_and_then_nothing_is_written(bench: Bench) -> None:
    bench.decision = serve
    async with running(bench):
        await until(lambda: bench.stored_status() == "Running" and bench.idle)
        records = len(bench.records)
        bench.faults.seen.clear()
        passes = bench.queue.statistics.taken
        bench.worker.resync()
        await until(lambda: bench.queue.statistics.taken > passes and bench.idle)
    assert bench.faults.seen == []
    assert len(bench.records) == records == 2


@pytest.mark.spec("FW-286")
async def test_objects_are_counted_by_the_status_that_their_last_pass_gave_them(bench: Bench) -> None:
    assert bench.worker.statuses == {}
    bench.decision = serve
    await bench.worker.process(CHAT)
    assert bench.worker.statuses == {"Starting": 1}
    await bench.worker.process(CHAT)
    assert bench.worker.statuses == {"Running": 1}
    entry = bench.cache.get(SERVICES, CHAT)
    assert entry is not None
    bench.cache.absorb_deleted(SERVICES, CHAT, entry.version.uid, 0.0)
    await bench.worker.process(CHAT)
    assert bench.worker.statuses == {}


@pytest.mark.spec("FW-560")
async def test_decisions_are_counted_by_the_reason_of_ready(bench: Bench) -> None:
    ready = {"type": "Ready", "status": "False", "reason": "ModelNotFound", "message": "there is no model qwen"}
    ready["lastTransitionTime"] = "2026-11-21T12:00:00Z"
    bench.decision = lambda *_: Plan(status={"status": "Pending", "conditions": [ready]})
    await bench.worker.process(CHAT)
    await bench.worker.process(CHAT)
    assert bench.worker.reasons == {"ModelNotFound": 2}
    for number in range(200):
        ready["reason"] = f"OfAPod{number}"
        await bench.worker.process(CHAT)
    assert (len(bench.worker.reasons), bench.worker.reasons["(others)"]) == (101, 101)


async def test_a_record_allows_the_same_decision_again(bench: Bench) -> None:
    bench.decision = serve
    obj = bench.cache.get(SERVICES, CHAT)
    assert obj is not None
    assert obj.object is not None
    before = decide(bench.reconciler, obj.object, CacheView(bench.cache), bench.clock)
    await bench.worker.process(CHAT)
    [record] = bench.records
    assert canonical(record.plan) == canonical(plan_to_json(before))
    assert (record.service, record.controller, record.part) == ("serving", "service", "aimservices")
    assert (record.key, record.at, record.outcome) == (CHAT, bench.clock, "done")
    read = {(one.part, one.name): one.uid for one in record.reads.objects}
    assert read == {("aimservices", "chat"): record.uid, ("configmaps", "c"): None}
    assert [(write.verb, write.kind, write.result) for write in record.writes] == [
        ("apply", "ConfigMap", "done"),
        ("status", "AIMService", "done"),
    ]
    assert record.traceparent.startswith("00-") or record.traceparent == ""


@pytest.mark.spec("FW-014")
async def test_a_missing_object_is_forgotten(bench: Bench) -> None:
    await bench.worker.process(CHAT)
    entry = bench.cache.get(SERVICES, CHAT)
    assert entry is not None
    bench.cache.absorb_deleted(SERVICES, CHAT, entry.version.uid, 0.0)
    await bench.worker.process(CHAT)
    assert bench.forgotten == [entry.version.uid]
    assert bench.faults.seen == []


@pytest.mark.spec("FW-407")
async def test_a_pass_of_a_former_leader_starts_and_writes_nothing(bench: Bench) -> None:
    bench.leads = False
    bench.decision = lambda _obj, _view: Plan(
        children=(Child(CONFIG_MAPS, config_map("c")),), effects=(Effect("inspect", "x"),)
    )
    await bench.worker.process(CHAT)
    assert (bench.faults.seen, bench.effects, bench.records) == ([], [], [])


@pytest.mark.spec("FW-019", "FW-016")
async def test_a_stale_view_deletes_nothing(bench: Bench) -> None:
    old = await bench.create(CONFIG_MAPS, config_map("old"))
    bench.cache.mark(CONFIG_MAPS, fresh=False)

    def decision(_: AIMService, view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "old")
        return Plan(deletes=(deletion(old),))

    bench.decision = decision
    await bench.worker.process(CHAT)
    assert (await bench.get(CONFIG_MAP, "old"))["metadata"]["uid"] == old["metadata"]["uid"]
    assert bench.queue.statistics.delayed == 1
    bench.cache.mark(CONFIG_MAPS, fresh=True)
    await bench.worker.process(CHAT)
    with pytest.raises(ApiError):
        await bench.get(CONFIG_MAP, "old")


async def test_effects_are_started_and_recorded_once(bench: Bench) -> None:
    effect = Effect("image-inspection", "ghcr.io/x:1")
    bench.decision = lambda _obj, _view: Plan(effects=(effect,))
    await bench.worker.process(CHAT)
    await bench.worker.process(CHAT)
    assert bench.effects == [effect, effect]
    assert len(bench.records) == 1


@pytest.mark.spec("FW-522")
async def test_an_effect_that_ended_while_its_plan_was_carried_out_is_not_run_again(bench: Bench) -> None:
    effect, other = Effect("image-inspection", "ghcr.io/x:1"), Effect("image-inspection", "ghcr.io/x:2")
    bench.results[other.key] = bench.clock - timedelta(minutes=5)
    child = Child(CONFIG_MAPS, config_map("c", a="1"))
    unread = Effect("image-inspection", "ghcr.io/x:3")

    def decides(_obj: AIMService, view: View) -> Plan:
        for one in (effect, other):
            get_fact(view, "serving", one.kind, one.key)
        return Plan(children=(child,), effects=(effect, other, unread))

    bench.decision = decides

    def ends(_: Request) -> bool:
        bench.results[effect.key] = bench.results[unread.key] = bench.clock
        return False

    bench.faults.rules.append((ends, 0, {}))
    await bench.worker.process(CHAT)
    # A result that the decision did not ask for enqueues nothing.
    assert bench.effects == [other, unread]
    # Whoever asks knowing the result wants another one.
    await bench.worker.process(CHAT)
    assert bench.effects == [other, unread, effect, other, unread]


@pytest.mark.spec("FW-523")
async def test_a_record_tells_when_an_effect_is_started_and_not_when_it_is_only_asked_for(bench: Bench) -> None:
    effect = Effect("image-inspection", "ghcr.io/x:1")

    def decides(_obj: AIMService, view: View) -> Plan:
        get_fact(view, "serving", effect.kind, effect.key)
        return Plan(children=(Child(CONFIG_MAPS, config_map("c", a="1")),), effects=(effect,))

    def ends(_: Request) -> bool:
        bench.results[effect.key] = bench.clock
        return False

    bench.decision = decides
    bench.faults.rules.append((ends, 0, {}))
    await bench.worker.process(CHAT)
    assert (len(bench.records), bench.effects) == (1, []), "recorded for its write"
    await bench.worker.process(CHAT)
    assert (len(bench.records), bench.effects) == (2, [effect]), "recorded for the effect that starts"
    await bench.worker.process(CHAT)
    assert len(bench.records) == 2


@pytest.mark.spec("FW-128", "DI-359")
async def test_conditions_are_logged(bench: Bench) -> None:
    bench.decision = serve
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
        await bench.worker.process(CHAT)
    line = next(line for line in logs if line.get("condition") == "Ready")
    assert {"controller": "service", "namespace": "default", "name": "chat", "status": "False"}.items() <= line.items()
    assert (line["reason"], line["log_level"]) == ("Progressing", "info")


@pytest.mark.spec("FW-097")
async def test_a_requested_delay_counts_only_without_error(bench: Bench) -> None:
    bench.decision = lambda _obj, _view: Plan(requeue_after=60)
    await bench.worker.process(CHAT)
    assert (bench.queue.statistics.delayed, bench.queue.statistics.retries) == (1, 0)
    bench.queue.forget(CHAT)
    failing = ClassifiedError(Category.INFRASTRUCTURE, "Timeout", "x")
    bench.decision = lambda _obj, _view: Plan(requeue_after=60, retry=failing)
    await bench.worker.process(CHAT)
    assert (bench.queue.statistics.delayed, bench.queue.statistics.retries) == (1, 1)
