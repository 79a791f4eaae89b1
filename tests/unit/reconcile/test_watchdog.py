"""Objects that hold the event loop: what notices them, and what the next process knows of them."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from support.builders import make
from support.virtual_clock import VirtualClock

from aim_domain import AIMModel
from aim_domain.kinds import AIM_MODEL
from aim_domain.parts import MODELS, NODES
from controller_runtime import Index, JsonObject, Key, Part, Plan, Reconciler
from controller_runtime.annotation_keys import APPLIED_HASH
from controller_runtime.kinds import NODE
from controller_runtime.log.cache.store import Cache
from controller_runtime.log.wire.version import Entry, Version
from controller_runtime.reconcile.enqueue import ChangeRouter, Enqueuer
from controller_runtime.reconcile.queue import WorkQueue
from controller_runtime.reconcile.watchdog import Memory, Stage, Subject, Watchdog
from controller_runtime.reconcile.worker import of_overrun
from controller_runtime.testing import NOW

BUDGET = 0.02
LONG = 60.0


def entry_of(raw: JsonObject, part: Part[Any] = MODELS) -> Entry[Any]:
    metadata = raw["metadata"]
    version = Version(metadata["uid"], metadata["resourceVersion"])
    return Entry.of(part, Key(metadata.get("namespace", ""), metadata["name"]), raw, version)


def subject_of(raw: JsonObject, part: Part[Any] = MODELS) -> Subject:
    entry = entry_of(raw, part)
    assert entry.object is not None
    return Subject.of("model", entry, entry.object)


def qwen(**changes: Any) -> Subject:
    return subject_of(make(AIM_MODEL, "qwen", uid="uid-1", **changes))


def compute(seconds: float) -> None:
    """Occupy the processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def noticed(watchdog: Watchdog, subject: Subject) -> None:
    """A decision that ends only because it was noticed."""
    deadline = time.monotonic() + LONG
    while watchdog.overrun(subject) is None:
        assert time.monotonic() < deadline


@pytest.mark.spec("FW-745")
def test_a_decision_that_does_not_end_is_noticed_while_it_runs_and_logged_with_its_frames() -> None:
    watchdog, subject = Watchdog(BUDGET), qwen(generation=7)
    with capture_logs() as logs, watchdog.running():
        assert watchdog.watch(qwen(), lambda: 1) == 1
        watchdog.watch(subject, lambda: noticed(watchdog, subject))
        watchdog.watch(subject, lambda: compute(2 * BUDGET))
    [line] = logs
    assert (line["log_level"], line["kind"], line["namespace"], line["name"], line["version"]) == (
        "error",
        "AIMModel",
        "ml",
        "qwen",
        "generation 7",
    )
    assert line["seconds"] > BUDGET
    assert any(frame.endswith(" noticed") and __file__ in frame for frame in line["frames"])


@pytest.mark.spec("FW-745")
def test_a_decision_that_ends_after_its_budget_reports_itself_but_none_of_a_process_that_stood_still() -> None:
    # Without its thread, as while code in C keeps that from running.
    watchdog = Watchdog(BUDGET)
    watchdog.watch(qwen(), lambda: time.sleep(2 * BUDGET))
    assert watchdog.overrun(qwen()) is None

    def fails() -> None:
        compute(2 * BUDGET)
        raise LookupError

    with pytest.raises(LookupError):
        watchdog.watch(qwen(), fails)
    found = watchdog.overrun(qwen())
    assert found is not None
    assert found.overrun > BUDGET
    watchdog.forget("model", "uid-1")
    assert watchdog.overrun(qwen()) is None


@pytest.mark.spec("FW-745")
async def test_each_step_of_carrying_out_has_the_budget_and_waits_take_none() -> None:
    watchdog = Watchdog(BUDGET)

    async def carried_out(computed: float) -> str:
        await asyncio.sleep(2 * BUDGET)
        compute(computed)
        with pytest.raises(LookupError):
            await failing
        return "done"

    async def fail() -> None:
        raise LookupError

    for computed, is_held in ((0.0, False), (2 * BUDGET, True)):
        failing = asyncio.ensure_future(fail())
        assert await watchdog.steps(qwen(), carried_out(computed)) == "done"
        assert (watchdog.overrun(qwen()) is not None) is is_held


@pytest.mark.spec("FW-745")
async def test_carrying_out_can_be_cancelled() -> None:
    watchdog, ended = Watchdog(BUDGET), []

    async def carried_out() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("carried out")

    async def attempt() -> None:
        await watchdog.steps(qwen(), carried_out())

    task = asyncio.create_task(attempt())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["carried out"]


@pytest.mark.spec("FW-745")
def test_what_is_taken_in_meanwhile_is_accused_itself() -> None:
    watchdog, child = Watchdog(BUDGET), entry_of(make(AIM_MODEL, "phi", uid="uid-2"))
    watchdog.watch(qwen(), lambda: watchdog.take_in(child, lambda: compute(2 * BUDGET)))
    assert watchdog.overrun(qwen()) is None
    assert watchdog.unread(child) is not None


@pytest.mark.spec("FW-747")
def test_what_held_the_loop_when_it_was_taken_in_is_not_read_until_it_changes() -> None:
    def version(**changes: Any) -> Entry[Any]:
        return entry_of(make(AIM_MODEL, "phi", uid="uid-2", **changes))

    watchdog, read = Watchdog(BUDGET), []
    assert not watchdog.take_in(version(), lambda: compute(2 * BUDGET))
    assert not watchdog.take_in(version(status={"status": "Failed"}), lambda: read.append("a status more"))
    [refused] = watchdog.refused
    assert (refused.kind, refused.name, refused.stage) == ("AIMModel", "phi", Stage.READ)
    assert watchdog.take_in(version(labels={"a": "b"}), lambda: read.append("another label"))
    assert (read, watchdog.refused) == (["another label"], [])
    assert not watchdog.take_in(version(), lambda: compute(2 * BUDGET))
    watchdog.let_go("uid-2")
    assert watchdog.refused == []


@pytest.mark.spec("FW-747", "FW-480")
def test_what_is_not_read_is_there_in_no_index_and_wakes_what_asked_for_it_without_a_look() -> None:
    watchdog, looked = Watchdog(BUDGET), []

    def by_image(obj: AIMModel) -> list[str]:
        looked.append(obj.spec.image)
        if obj.spec.image == "slow":
            compute(2 * BUDGET)
        return [obj.spec.image or ""]

    def ignores(_change: object) -> bool:
        raise AssertionError("looked at")

    index = Index(MODELS, "image", by_image)
    cache = Cache((MODELS,), (index,), watchdog)
    reconciler = Reconciler("model", MODELS, lambda *_: Plan(), ignores=ignores)
    enqueuer = Enqueuer(reconciler, cache, queue := WorkQueue[Key](VirtualClock()))
    router = ChangeRouter(cache, (), (enqueuer,), watchdog)
    slow, quick = (make(AIM_MODEL, "phi", uid="uid-2", spec={"image": image}) for image in ("slow", "quick"))
    for raw, generation in ((slow, 1), (slow, 1), (quick, 2)):
        raw["metadata"] |= {"generation": generation, "resourceVersion": str(len(looked) + 10 * generation)}
        changes = cache.put(entry_of(raw), 0.0)
        found = [entry.key.name for image in ("slow", "quick") for entry in cache.select(index, image)]
        if raw is slow:
            assert found == []
            assert cache.get(MODELS, Key("ml", "phi")) is not None
            for change in changes:
                router.route(change)
            assert queue.statistics.depth == 1
    assert found == ["phi"]
    assert (looked, enqueuer.failed) == (["slow", "quick"], 0)


@pytest.mark.spec("FW-746")
def test_the_next_process_knows_what_held_the_one_before(tmp_path: Path) -> None:
    first, phi = Watchdog(BUDGET, lambda: Memory(tmp_path, "pod-1")), subject_of(make(AIM_MODEL, "phi", uid="uid-2"))
    with first.running():
        first.watch(qwen(), lambda: noticed(first, qwen()))
    with (tmp_path / "pod-1.overruns").open("ab") as torn:
        torn.write(b'\n{"controller": "mo')
    second = Watchdog(BUDGET, lambda: Memory(tmp_path, "pod-1"))
    with second.running():
        assert second.overrun(qwen()) == first.overrun(qwen())
        second.watch(phi, lambda: noticed(second, phi))
    third = Watchdog(BUDGET, lambda: Memory(tmp_path, "pod-1"))
    with third.running():
        assert None not in (third.overrun(qwen()), third.overrun(phi))
    other = Watchdog(BUDGET, lambda: Memory(tmp_path, "pod-2"))
    with other.running():
        assert other.overrun(qwen()) is None


@pytest.mark.spec("FW-746")
@pytest.mark.parametrize("fired", [False, True])
def test_a_process_that_ended_within_a_decision_accuses_it_only_if_its_timer_had_fired(
    tmp_path: Path, *, fired: bool
) -> None:
    ended = Memory(tmp_path, "pod-1")
    ended.begin(qwen())
    if fired:
        os.write(ended.trace, b'Stack (most recent call first):\n  File "decide.py", line 3 in decide\n')
    logged = []
    # It has to be known to the process after the next, too.
    for _ in range(2):
        with capture_logs() as logs, (watchdog := Watchdog(memory=lambda: Memory(tmp_path, "pod-1"))).running():
            assert (watchdog.overrun(qwen()) is not None) is fired
        logged += [line["frames"] for line in logs]
    assert logged == ([['File "decide.py", line 3 in decide']] if fired else [])


@pytest.mark.spec("FW-746")
def test_a_folder_that_cannot_be_written_is_named_and_the_process_runs(tmp_path: Path) -> None:
    watchdog = Watchdog(BUDGET, lambda: Memory(tmp_path / "missing", "pod-1"))
    with capture_logs() as logs, watchdog.running():
        watchdog.watch(qwen(), lambda: noticed(watchdog, qwen()))
    assert [line["log_level"] for line in logs] == ["warning", "error"]
    assert "missing" in logs[0]["error"]


@pytest.mark.spec("FW-747")
def test_an_object_is_tried_again_when_anything_but_its_status_differs() -> None:
    before = qwen()
    same = qwen(status={"status": "Failed"}, annotations={APPLIED_HASH: "1"})
    assert same.resource_version != before.resource_version
    assert same.digest == before.digest
    changed = (
        qwen(generation=2),
        qwen(labels={"a": "b"}),
        qwen(annotations={"a": "b"}),
        qwen(deleting=NOW, finalizers=["aim/x"]),
    )
    assert len({before.digest, *(one.digest for one in changed)}) == 5


@pytest.mark.spec("FW-747")
def test_of_a_kind_without_a_generation_all_but_the_status_counts() -> None:
    def node(**changes: Any) -> Subject:
        return subject_of(make(NODE, "n1", uid="uid-2", generation=0, **changes), NODES)

    assert node().digest == node(status={"capacity": {"cpu": "1"}}).digest
    assert node().digest != node(labels={"gpu": "many"}).digest
    assert node().version.startswith("resourceVersion ")


@pytest.mark.spec("FW-747")
def test_the_condition_names_the_version_and_what_to_do() -> None:
    def nothing(*_: object) -> Plan:
        return Plan()

    raw = make(AIM_MODEL, "qwen", uid="uid-1", generation=7)
    plan = of_overrun(Reconciler("model", MODELS, nothing), raw, subject_of(raw), 10.0, NOW)
    assert plan.status is not None
    [condition] = plan.status["conditions"]
    [event] = plan.events
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "Reconciled",
        "False",
        "TimeBudgetExceeded",
    )
    assert condition["message"] == event.message
    assert event.message == (
        "AIMModel qwen not reconciled: a decision about it took longer than 10 s at generation 7; "
        "change its spec, or delete it"
    )
