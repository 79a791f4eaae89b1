"""Passes that fail: what cannot be written, read or decided, and how that is told."""

from datetime import timedelta

import pytest
import structlog
from structlog.testing import capture_logs
from support.passes import CHAT, conditions, events, running, serve, until
from support.reconcile_bench import CONFIG_MAPS, SERVICES, Bench, Looking, config_map, service

from aim_domain import AIMService
from aim_domain.kinds import AIM_SERVICE
from controller_runtime import Child, JsonObject, Key, Plan, View
from embedded_apiserver.http import Request


@pytest.mark.spec("FW-010", "FW-094", "FW-S15")
async def test_a_failed_apply_is_reported_in_the_status_and_retried(bench: Bench) -> None:
    bench.decision = serve
    bench.faults.fail("PATCH", "configmaps/c", 503, reason="ServiceUnavailable", message="down")
    await bench.worker.process(CHAT)
    live = await bench.get(AIM_SERVICE, "chat")
    conditions = {condition["type"]: condition for condition in live["status"]["conditions"]}
    assert conditions["DependenciesReachable"]["status"] == "False"
    assert "apply of ConfigMap default/c failed" in conditions["DependenciesReachable"]["message"]
    assert bench.queue.statistics.retries == 1
    failed, reported = bench.records
    assert failed.outcome.startswith("failed: ServiceUnavailable")
    assert reported.failure is not None
    assert reported.failure.reason == "ServiceUnavailable"
    began = bench.clock
    bench.clock += timedelta(seconds=30)
    await bench.worker.process(CHAT)
    assert (failed.failing_since, reported.failing_since, bench.records[-1].failing_since) == (None, None, began)
    bench.faults.rules.clear()
    async with running(bench):
        await until(lambda: (bench.cache.get(CONFIG_MAPS, Key("default", "c"))) is not None)


@pytest.mark.spec("FW-010", "FW-014")
async def test_nothing_is_decided_about_an_object_that_went_while_its_plan_failed(bench: Bench) -> None:
    bench.decision = serve
    entry = bench.cache.get(SERVICES, CHAT)
    assert entry is not None
    uid = entry.version.uid

    def goes(request: Request) -> bool:
        if not request.path.endswith("configmaps/c"):
            return False
        bench.cache.absorb_deleted(SERVICES, CHAT, uid, 0.0)
        return True

    bench.faults.rules.append((goes, 503, {"code": 503, "reason": "ServiceUnavailable", "message": "down"}))
    await bench.worker.process(CHAT)
    # A second one would be of an object that its record has as absent.
    (only,) = bench.records
    assert only.outcome.startswith("failed: ServiceUnavailable")
    assert [one.uid for one in only.reads.objects if one.key == CHAT] == [uid]
    await bench.worker.process(CHAT)
    assert bench.forgotten == [uid]


@pytest.mark.spec("FW-010", "FW-504")
async def test_an_interceptor_that_fails_afterwards_keeps_no_failure_from_being_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug of whoever watches")

    monkeypatch.setattr(Looking, "carried_out", fail)
    bench.decision = serve
    bench.faults.fail("PATCH", "configmaps/c", 503, reason="ServiceUnavailable", message="down")
    await bench.worker.process(CHAT)
    live = await bench.get(AIM_SERVICE, "chat")
    conditions = {condition["type"]: condition["status"] for condition in live["status"]["conditions"]}
    assert conditions["DependenciesReachable"] == "False"
    assert bench.queue.statistics.retries == 1


@pytest.mark.spec("FW-010", "FW-810", "FW-P05")
async def test_a_rejected_child_fails_the_object_and_is_tried_again(bench: Bench) -> None:
    bench.decision = serve
    bench.faults.fail("PATCH", "configmaps/c", 422, reason="Invalid", message="no", details={"name": "c"})
    await bench.worker.process(CHAT)
    live = await bench.get(AIM_SERVICE, "chat")
    assert live["status"]["status"] == "Failed"
    assert bench.queue.statistics.retries == 1


async def test_a_bug_concerns_its_object_alone(bench: Bench) -> None:
    def decision(obj: AIMService, _: View) -> Plan:
        if obj.name == "chat":
            raise KeyError("surprise")
        return Plan(children=(Child(CONFIG_MAPS, config_map(obj.name)),))

    bench.decision = decision
    await bench.create(SERVICES, service("other"))
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as logs:
        async with running(bench):
            bench.queue.add(CHAT)
            bench.queue.add(Key("default", "other"))
            await until(lambda: bench.queue.statistics.retries >= 2)
            await until(lambda: bench.cache.get(CONFIG_MAPS, Key("default", "other")) is not None)
    assert any(record.outcome == "exception: KeyError: 'surprise'" for record in bench.records)
    failed = next(line for line in logs if line["event"] == "reconcile failed unexpectedly")
    assert (failed["controller"], failed["namespace"], failed["name"]) == ("service", "default", "chat")


@pytest.mark.spec("CC-014", "CC-312", "FW-476")
async def test_an_unreadable_object_is_reported_what_is_wrong_and_left_alone(bench: Bench) -> None:
    bench.decision = serve

    def absorb_garbage(version: int, seen: JsonObject) -> None:
        metadata = {**seen["metadata"], "resourceVersion": str(version)}
        bench.access.absorb(SERVICES, {**seen, "metadata": metadata, "spec": {"model": {"name": 7}}})

    absorb_garbage(999_998, bench.target().raw)
    await bench.worker.process(CHAT)
    stored = await bench.get(AIM_SERVICE, "chat")
    written = len(bench.faults.seen)
    absorb_garbage(999_999, stored)
    await bench.worker.process(CHAT)
    assert len(bench.faults.seen) == written
    assert bench.queue.statistics.retries == 0
    reported = conditions(stored)
    assert reported["ConfigValid"][:2] == reported["Ready"][:2] == ("False", "InvalidSpec")
    assert "spec.model.name" in reported["ConfigValid"][2]
    assert stored["status"]["status"] == "Failed"
    assert await events(bench) == [("InvalidSpec", 1)]


@pytest.mark.spec("FW-476", "FW-431")
@pytest.mark.parametrize(("code", "reason"), [(503, "ServiceUnavailable"), (409, "Conflict")])
async def test_what_could_not_be_said_of_an_unreadable_object_is_said_later(
    bench: Bench, code: int, reason: str
) -> None:
    bench.on_virtual_time()
    bench.faults.fail("PATCH", "aimservices/chat/status", code, reason=reason, message="not now")
    seen = bench.target().raw
    metadata = {**seen["metadata"], "resourceVersion": "999998"}
    bench.access.absorb(SERVICES, {**seen, "metadata": metadata, "spec": {"model": {"name": 7}}})
    assert 5 < len(await bench.work_for(60)) <= 12
    assert await events(bench) == []
    bench.faults.rules.clear()
    await bench.work_for(60)
    assert conditions(await bench.get(AIM_SERVICE, "chat"))["ConfigValid"][:2] == ("False", "InvalidSpec")
    assert await events(bench) == [("InvalidSpec", 1)]
    assert await bench.work_for(600) == [], "nothing is left to say"


@pytest.mark.spec("FW-477")
async def test_a_reconcile_that_raises_is_reported_once_and_retried_with_growing_pauses(bench: Bench) -> None:
    await bench.executor.report(bench.target(), Plan(status={"status": "Running", "conditions": []}))
    bench.on_virtual_time()

    def stumble(_obj: AIMService, _view: View) -> Plan:
        raise ValueError("exceeds the limit of digits")

    bench.decision = stumble
    bench.queue.add(CHAT)
    passes = await bench.work_for(60)
    assert 5 < len(passes) <= 12
    stored = await bench.see(SERVICES, "chat")
    assert stored["status"]["status"] == "Running"
    status, reason, message = conditions(stored)["Reconciled"]
    assert (status, reason) == ("False", "InternalError")
    assert "ValueError: exceeds the limit of digits" in message
    assert await events(bench) == [("InternalError", 1)]

    bench.decision = serve
    await bench.worker.process(CHAT)
    assert "Reconciled" not in conditions(await bench.get(AIM_SERVICE, "chat"))


@pytest.mark.spec("FW-477")
async def test_it_is_counted_and_logged_when_an_object_is_not_reported_that_its_reconcile_raises(bench: Bench) -> None:
    def stumble(_obj: AIMService, _view: View) -> Plan:
        raise ValueError("surprise")

    bench.decision = stumble
    bench.faults.fail("PATCH", "aimservices/chat/status", 403, reason="Forbidden", message="not yours")
    bench.faults.fail("PUT", "aimservices/chat/status", 403, reason="Forbidden", message="not yours")
    with capture_logs() as logs:
        await bench.worker.process(CHAT)
    assert bench.worker.unreported == 1
    (reported,) = [one for one in logs if one["event"] == "failure cannot be reported on the object"]
    assert (reported["log_level"], reported["object"]) == ("warning", "default/chat")
    assert "not yours" in reported["error"]
    bench.faults.rules.clear()
    await bench.worker.process(CHAT)
    assert bench.worker.unreported == 1


@pytest.mark.spec("FW-477")
async def test_it_is_counted_when_telling_an_object_raises_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> Plan:
        raise ValueError("surprise")

    bench.decision = stumble
    monkeypatch.setattr(bench.executor, "report", stumble)
    await bench.worker.process(CHAT)
    assert bench.worker.unreported == 1
    assert bench.queue.statistics.delayed == 1
