"""Whole passes: queue, decision, execution, record."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
import structlog
from pydantic import BaseModel, ConfigDict
from structlog.testing import capture_logs
from support.deciding import decide
from support.reconcile_bench import CONFIG_MAPS, SERVICES, Bench, Looking, config_map, service

from aim_domain import AIMService
from aim_domain.component_names import COMPONENT_ORDER
from aim_domain.kinds import AIM_SERVICE
from aim_local.apiserver.http import Request
from controller_runtime import (
    FACTS,
    AimError,
    ApiError,
    Category,
    Change,
    Child,
    Component,
    Delete,
    Dependency,
    Effect,
    JsonObject,
    Key,
    Plan,
    State,
    Summary,
    View,
    WakeBy,
    assemble,
    canonical,
    evaluate,
    get_fact,
    status_json,
)
from controller_runtime.bus.view import WorldView
from controller_runtime.core import ConfigMap
from controller_runtime.kinds import CONFIG_MAP, EVENT
from controller_runtime.reconcile.plan_json import plan_to_json
from controller_runtime.reconcile.queue import Priority

CHAT = Key("default", "chat")


@asynccontextmanager
async def running(bench: Bench, workers: int = 2) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        group.create_task(bench.worker.run(workers))
        try:
            yield
        finally:
            bench.queue.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that passes bring about."""
    async with asyncio.timeout(60):
        for _ in iter(condition, True):
            await asyncio.sleep(0.005)


def serve(obj: AIMService, view: View) -> Plan:
    """A small reconciler: one ConfigMap, one component, one status."""
    child = view.get(CONFIG_MAPS, "default", "c")
    component = Component(
        "InferenceService", State.READY if child.value else State.PROGRESSING, dependency=Dependency.DOWNSTREAM
    )
    evaluation = evaluate(
        COMPONENT_ORDER["AIMService"],
        [component],
        generation=obj.metadata.generation,
        stored=obj.status.conditions,
        stored_status=obj.status.status,
        now=Bench.clock,
        failure=view.failure,
    )
    running_ = {"Ready": "Running", "Progressing": "Starting"}
    status = {**status_json(evaluation), "status": running_.get(evaluation.status, evaluation.status)}
    return assemble(evaluation, status=status, children=[Child(CONFIG_MAPS, config_map("c", a="1"))])


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


async def test_a_record_allows_the_same_decision_again(bench: Bench) -> None:
    bench.decision = serve
    obj = bench.world.get(SERVICES, CHAT)
    assert obj is not None
    assert obj.object is not None
    before = decide(bench.reconciler, obj.object, WorldView(bench.world), bench.clock)
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


class Greeting(BaseModel):
    """What ConfigMaps say."""

    model_config = ConfigDict(frozen=True)

    word: str


GREETINGS = Summary(
    CONFIG_MAPS,
    "greetings",
    Greeting,
    lambda found: [(word, Greeting(word=word)) for word in found.data.values()],
)


@pytest.mark.spec("FW-454")
async def test_who_read_a_summary_is_woken_when_it_changes(bench: Bench) -> None:
    bench.index(GREETINGS)

    def look(_obj: AIMService, view: View) -> Plan:
        view.summary(GREETINGS, "hello")
        return Plan()

    bench.decision = look
    await bench.worker.process(CHAT)

    async def woken(body: JsonObject) -> bool:
        """Whether a new ConfigMap wakes the service; if so, the pass takes place."""
        await bench.create(CONFIG_MAPS, body)
        if not bench.queue.statistics.depth:
            return False
        bench.queue.done((await bench.queue.get()).key)
        await bench.worker.process(CHAT)
        return True

    assert not await woken(config_map("a", text="good bye")), "another group"
    assert await woken(config_map("b", text="hello"))
    assert not await woken(config_map("c", text="hello")), "nothing new"
    bench.decision = lambda _obj, _view: Plan()
    await bench.worker.process(CHAT)
    for name in ("b", "c"):
        gone = bench.world.get(CONFIG_MAPS, Key("default", name))
        assert gone is not None
        bench.access.absorb(CONFIG_MAPS, gone.raw, gone=True)
    assert bench.queue.statistics.depth == 0, "its last pass did not look"


@pytest.mark.spec("FW-454", "FW-477")
async def test_who_read_a_summary_and_raised_is_woken_by_what_changes_while_that_is_told(bench: Bench) -> None:
    bench.index(GREETINGS)
    bench.on_virtual_time()
    woken: list[int] = []

    def stumble(_obj: AIMService, view: View) -> Plan:
        view.summary(GREETINGS, "hello")
        raise ValueError("surprise")

    def somebody_speaks(request: Request) -> bool:
        if request.path.endswith("aimservices/chat/status"):
            body = config_map("c", text="hello")
            metadata = {**body["metadata"], "uid": "u-c", "resourceVersion": "999998"}
            bench.access.absorb(CONFIG_MAPS, {**body, "metadata": metadata})
            woken.append(bench.queue.statistics.depth)
        return False

    bench.decision = stumble
    bench.faults.rules.append((somebody_speaks, 0, {}))
    await bench.worker.process(CHAT)
    assert woken == [1], "by that change alone, before the answer to the own write"


@pytest.mark.spec("FW-010", "FW-094")
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
        await until(lambda: (bench.world.get(CONFIG_MAPS, Key("default", "c"))) is not None)


@pytest.mark.spec("FW-010", "FW-504")
async def test_an_interceptor_that_fails_afterwards_keeps_no_failure_from_being_told(
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


@pytest.mark.spec("FW-010", "FW-095")
async def test_a_rejected_child_fails_the_object_without_timed_retry(bench: Bench) -> None:
    bench.decision = serve
    bench.faults.fail("PATCH", "configmaps/c", 422, reason="Invalid", message="no", details={"name": "c"})
    await bench.worker.process(CHAT)
    live = await bench.get(AIM_SERVICE, "chat")
    assert live["status"]["status"] == "Failed"
    assert bench.queue.statistics.retries == 0


@pytest.mark.spec("FW-182", "FW-184", "FW-188")
async def test_a_clean_up_and_then_the_finalizer(bench: Bench) -> None:
    cache = await bench.create(CONFIG_MAPS, config_map("cache"))
    bench.finalizing("aim.eai.amd.com/x", lambda _: None if gone(bench) else Plan(deletes=(deletion(cache),)))
    await bench.worker.process(CHAT)
    live = await bench.get(AIM_SERVICE, "chat")
    assert live["metadata"]["finalizers"] == ["aim.eai.amd.com/x"]
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=live["metadata"]["uid"])
    await bench.see(SERVICES, "chat")
    await bench.worker.process(CHAT)
    await bench.worker.process(CHAT)
    with pytest.raises(ApiError) as error:
        await bench.get(AIM_SERVICE, "chat")
    assert error.value.is_not_found


@pytest.mark.spec("FW-500")
async def test_what_a_clean_up_reads_is_noted_and_wakes_it(bench: Bench) -> None:
    def clean_up(view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "blocks")
        return Plan(requeue_after=60)

    bench.finalizing("aim.eai.amd.com/x", clean_up)
    await bench.worker.process(CHAT)
    live = await bench.see(SERVICES, "chat")
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=live["metadata"]["uid"])
    await bench.see(SERVICES, "chat")
    await bench.worker.process(CHAT)
    assert (CONFIG_MAPS.name, Key("default", "blocks")) in bench.saw[-1].objects
    while bench.queue.statistics.depth:
        bench.queue.done((await bench.queue.get()).key)
    await bench.create(CONFIG_MAPS, config_map("blocks"))
    assert (await asyncio.wait_for(bench.queue.get(), 60)).key == CHAT


@pytest.mark.spec("FW-184")
async def test_a_forbidden_clean_up_lets_the_object_go(bench: Bench) -> None:
    cache = await bench.create(CONFIG_MAPS, config_map("cache"))
    bench.finalizing("aim.eai.amd.com/x", lambda _: Plan(deletes=(deletion(cache),)))
    bench.faults.fail("DELETE", "configmaps/cache", 403, reason="Forbidden", message="no")
    await bench.worker.process(CHAT)
    live = await bench.see(SERVICES, "chat")
    await bench.kube.delete(AIM_SERVICE, "chat", "default", uid=live["metadata"]["uid"])
    await bench.see(SERVICES, "chat")
    await bench.worker.process(CHAT)
    with pytest.raises(ApiError):
        await bench.get(AIM_SERVICE, "chat")


def gone(bench: Bench) -> bool:
    return bench.world.get(CONFIG_MAPS, Key("default", "cache")) is None


def deletion(obj: JsonObject) -> Delete:
    return Delete(CONFIG_MAPS, "default", obj["metadata"]["name"], obj["metadata"]["uid"], "unused")


@pytest.mark.spec("FW-014")
async def test_a_missing_object_is_forgotten(bench: Bench) -> None:
    await bench.worker.process(CHAT)
    entry = bench.world.get(SERVICES, CHAT)
    assert entry is not None
    bench.world.absorb_deleted(SERVICES, CHAT, entry.version.uid, 0.0)
    await bench.worker.process(CHAT)
    assert bench.forgotten == [entry.version.uid]
    assert bench.faults.seen == []


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
            await until(lambda: bench.world.get(CONFIG_MAPS, Key("default", "other")) is not None)
    assert any(record.outcome == "exception: KeyError: 'surprise'" for record in bench.records)
    failed = next(line for line in logs if line["event"] == "reconcile failed unexpectedly")
    assert (failed["controller"], failed["namespace"], failed["name"]) == ("service", "default", "chat")


def conditions(obj: JsonObject) -> dict[str, tuple[str, str, str]]:
    return {one["type"]: (one["status"], one["reason"], one["message"]) for one in obj["status"]["conditions"]}


async def events(bench: Bench) -> list[tuple[str, int]]:
    listed = await bench.kube.list(EVENT, "default")
    return sorted((one["reason"], one["count"]) for one in listed.items)


@pytest.mark.spec("CC-014", "CC-312", "FW-476")
async def test_an_unreadable_object_is_told_what_is_wrong_and_left_alone(bench: Bench) -> None:
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
    told = conditions(stored)
    assert told["ConfigValid"][:2] == told["Ready"][:2] == ("False", "InvalidSpec")
    assert "spec.model.name" in told["ConfigValid"][2]
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
async def test_a_reconcile_that_raises_is_told_once_and_retried_with_growing_pauses(bench: Bench) -> None:
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
async def test_it_is_counted_and_logged_when_an_object_is_not_told_that_its_reconcile_raises(bench: Bench) -> None:
    def stumble(_obj: AIMService, _view: View) -> Plan:
        raise ValueError("surprise")

    bench.decision = stumble
    bench.faults.fail("PATCH", "aimservices/chat/status", 403, reason="Forbidden", message="not yours")
    bench.faults.fail("PUT", "aimservices/chat/status", 403, reason="Forbidden", message="not yours")
    with capture_logs() as logs:
        await bench.worker.process(CHAT)
    assert bench.worker.untold == 1
    (told,) = [one for one in logs if one["event"] == "failure cannot be reported on the object"]
    assert (told["log_level"], told["object"]) == ("warning", "default/chat")
    assert "not yours" in told["error"]
    bench.faults.rules.clear()
    await bench.worker.process(CHAT)
    assert bench.worker.untold == 1


@pytest.mark.spec("FW-477")
async def test_it_is_counted_when_telling_an_object_raises_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object) -> Plan:
        raise ValueError("surprise")

    bench.decision = stumble
    monkeypatch.setattr(bench.executor, "report", stumble)
    await bench.worker.process(CHAT)
    assert bench.worker.untold == 1
    assert bench.queue.statistics.delayed == 1


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
    bench.world.mark(CONFIG_MAPS, fresh=False)

    def decision(_: AIMService, view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "old")
        return Plan(deletes=(deletion(old),))

    bench.decision = decision
    await bench.worker.process(CHAT)
    assert (await bench.get(CONFIG_MAP, "old"))["metadata"]["uid"] == old["metadata"]["uid"]
    assert bench.queue.statistics.delayed == 1
    bench.world.mark(CONFIG_MAPS, fresh=True)
    await bench.worker.process(CHAT)
    with pytest.raises(ApiError):
        await bench.get(CONFIG_MAP, "old")


@pytest.mark.spec("FW-490")
async def test_what_was_decided_without_an_answer_is_decided_again_when_there_is_one(bench: Bench) -> None:
    """Whatever the pass made of that: what is not there tells nobody that it is not."""

    def decision(_: AIMService, view: View) -> Plan:
        found = view.get(CONFIG_MAPS, "default", "gone")
        lost = found.error is None and found.value is None
        return Plan(children=(Child(CONFIG_MAPS, config_map("instead")),) if lost else ())

    bench.decision = decision
    bench.world.mark(CONFIG_MAPS, fresh=False)
    bench.queue.add(CHAT)
    async with running(bench):
        await until(lambda: bool(bench.queue.statistics.taken) and not bench.worker.active)
        assert bench.faults.seen == []
        bench.world.mark(CONFIG_MAPS, fresh=True)
        bench.worker.hurry({SERVICES.name})
        assert bench.queue.statistics.depth == 0, "another part than the one that did not answer"
        bench.worker.hurry({CONFIG_MAPS.name})
        # What it made is there for it to see, once more.
        await until(lambda: len(bench.faults.seen) == 1 and bench.queue.statistics.taken == 3)
        await until(lambda: not bench.worker.active)
        bench.worker.hurry({CONFIG_MAPS.name})
        assert bench.queue.statistics.depth == 0, "the answer came, and nobody waits for another one"


@pytest.mark.spec("FW-484")
async def test_what_failed_is_tried_again_when_a_part_that_it_read_is_fresh_again(bench: Bench) -> None:
    def decision(_: AIMService, view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "needed")
        return Plan(retry=AimError(Category.INFRASTRUCTURE, "NotNow", "the server is away"))

    bench.on_virtual_time()
    bench.decision = decision
    bench.queue.add(CHAT)
    assert len(await bench.work_for(80)) == 9
    bench.worker.hurry({"another"})
    assert await bench.work_for(2) == []
    bench.worker.hurry({CONFIG_MAPS.name})
    assert len(await bench.work_for(2)) == 1
    assert len(await bench.work_for(60)) == 0, "it failed once more, not for the first time"


@pytest.mark.spec("FW-484", "FW-477")
async def test_a_part_that_becomes_fresh_while_a_pass_writes_is_not_missed(bench: Bench) -> None:
    """The pass has read what was there before, and nothing tells it again."""
    bench.on_virtual_time()

    async def freshened() -> None:
        bench.worker.hurry({CONFIG_MAPS.name})

    def decision(_: AIMService, view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "needed")
        # Runs as soon as the pass waits for the API server.
        hurrying.append(asyncio.ensure_future(freshened()))
        error = AimError(Category.INFRASTRUCTURE, "NotNow", "the server is away")
        return Plan(status={"status": "Pending"}, retry=error)

    hurrying: list[asyncio.Future[None]] = []
    bench.decision = decision
    await bench.worker.process(CHAT)
    assert bench.queue.statistics.depth == 1


@pytest.mark.spec("FW-484", "FW-477", "FW-490")
async def test_what_raised_keeps_its_pauses_whatever_is_fresh_again(bench: Bench) -> None:
    bench.on_virtual_time()
    bench.world.mark(CONFIG_MAPS, fresh=False)

    def stumble(_: AIMService, view: View) -> Plan:
        view.get(CONFIG_MAPS, "default", "needed")
        raise ValueError("exceeds the limit of digits")

    bench.decision = stumble
    bench.queue.add(CHAT)
    passes: list[float] = []
    for _ in range(12):
        passes += await bench.work_for(5)
        bench.worker.hurry({CONFIG_MAPS.name, SERVICES.name})
    assert 5 < len(passes) <= 12


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
            get_fact(view, FACTS, "serving", one.kind, one.key)
        return Plan(children=(child,), effects=(effect, other, unread))

    bench.decision = decides

    def ends(_: Request) -> bool:
        bench.results[effect.key] = bench.results[unread.key] = bench.clock
        return False

    bench.faults.rules.append((ends, 0, {}))
    await bench.worker.process(CHAT)
    # A result that the decision did not ask for wakes nobody.
    assert bench.effects == [other, unread]
    # Whoever asks knowing the result wants another one.
    await bench.worker.process(CHAT)
    assert bench.effects == [other, unread, effect, other, unread]


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
    failing = AimError(Category.INFRASTRUCTURE, "Timeout", "x")
    bench.decision = lambda _obj, _view: Plan(requeue_after=60, retry=failing)
    await bench.worker.process(CHAT)
    assert (bench.queue.statistics.delayed, bench.queue.statistics.retries) == (1, 1)


async def test_changes_wake_the_right_keys(bench: Bench) -> None:
    await bench.queue.get()
    bench.queue.done(CHAT)
    bench.woken_by = _other_service
    await bench.create(CONFIG_MAPS, config_map("c"))
    await bench.create(CONFIG_MAPS, config_map("ignored"))
    taken = await bench.queue.get()
    assert (taken.key, taken.priority) == (Key("default", "other"), Priority.DEPENDENCY)
    await bench.create(SERVICES, service("new"))
    taken = await bench.queue.get()
    assert (taken.key, taken.priority) == (Key("default", "new"), Priority.USER)
    assert bench.queue.statistics.depth == 0


def _other_service(change: Change[ConfigMap]) -> list[Key]:
    return [Key("default", "other")] if change.key.name == "c" else []


@pytest.mark.spec("FW-432")
async def test_a_wake_that_raises_suppresses_no_other(bench: Bench) -> None:
    def stumbles(_change: Change[ConfigMap], _view: View) -> list[Key]:
        raise RuntimeError("not foreseen")

    def finds(change: Change[ConfigMap], _view: View) -> list[Key]:
        return [Key(change.key.namespace, "chat")]

    bench.waking(WakeBy(CONFIG_MAPS, stumbles), WakeBy(CONFIG_MAPS, finds))
    with capture_logs() as logs:
        await bench.create(CONFIG_MAPS, config_map("c"))
    assert (await asyncio.wait_for(bench.queue.get(), 5)).key == CHAT
    assert bench.worker.waking.failed == 1
    (told,) = [line for line in logs if line["event"] == "change handler failed"]
    assert (told["part"], told["key"], told["wake"].rpartition(".")[2]) == ("configmaps", "default/c", "stumbles")
