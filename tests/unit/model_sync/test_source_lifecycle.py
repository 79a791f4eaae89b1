"""Model sources over time: generations, restarts, edits, and what enqueues them."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import condition, make, owner
from support.model_sources import (
    DEFINITION,
    RECONCILER,
    AtWork,
    Scene,
    cond,
    message,
    model,
    outcome,
    selected,
    source,
    sync_of,
    syncing,
)
from support.woken import woken

from aim_domain import AIMClusterModelSource
from aim_domain.kinds import AIM_CLUSTER_MODEL_SOURCE
from aim_domain.parts import CLUSTER_MODELS, MODEL_SOURCES
from aim_model_sync.outcome import SyncOutcome
from aim_model_sync.sync import SYNC
from controller_runtime import Change, JsonObject, Key
from controller_runtime.log.wire.version import Entry, Version
from controller_runtime.testing import NOW


@pytest.mark.spec("MS-243", "MS-251", "MS-292")
def test_a_result_for_an_older_spec_is_not_used() -> None:
    scene = Scene(source(syncing(), generation=2)).synced(outcome(selected("org/a", "org/a:1"), generation=1))
    plan = scene.reconcile()
    assert plan.children == ()
    assert sync_of(plan)["generation"] == 2
    assert sync_of(plan)["attempt"] == 1


@pytest.mark.spec("MS-249")
def test_after_a_restart_without_facts_the_schedule_comes_from_the_status() -> None:
    stored = {
        "status": "Ready",
        "observedGeneration": 1,
        "conditions": [condition("Syncing", False, "SyncCompleted", since=NOW - timedelta(minutes=50))],
    }
    plan = Scene(source(stored)).reconcile()
    assert plan.effects == ()
    assert plan.requeue_after is not None
    assert 590 <= plan.requeue_after <= 670
    late = Scene(source(stored)).reconcile(NOW + timedelta(hours=3))
    assert [effect.kind for effect in late.effects] == [SYNC.name]
    assert late.effects[0].not_before is not None


@pytest.mark.spec("MS-395")
def test_the_next_sync_waits_one_interval_after_the_clock_was_set_back() -> None:
    stored = {
        "status": "Ready",
        "observedGeneration": 1,
        "conditions": [condition("Syncing", False, "SyncCompleted", since=NOW + timedelta(days=1))],
    }
    plan = Scene(source(stored)).reconcile()
    assert plan.effects == ()
    assert plan.requeue_after is not None
    assert 3600 <= plan.requeue_after <= 3660


@pytest.mark.spec("MS-243", "MS-305", "MS-311", "MS-323")
def test_an_edit_of_a_failed_source_starts_over() -> None:
    scene = AtWork(source(syncing())).synced(outcome(selected("org/a", code="Unreachable")))
    scene.carry_out()
    scene.live.change(MODEL_SOURCES, "catalog", spec={**scene.obj["spec"], "maxModels": 7})
    plan = scene.reconcile(NOW + timedelta(seconds=3))
    assert sync_of(plan)["attempt"] == 1
    assert plan.status is not None
    assert (plan.status["status"], plan.status["observedGeneration"]) == ("Progressing", 1)
    assert cond(plan, "Degraded") == ("False", "AsExpected")


@pytest.mark.spec("MS-243", "MS-292", "FW-491")
@pytest.mark.parametrize("generation", [1, 2])
def test_a_result_counts_although_the_start_of_its_sync_was_not_stored(generation: int) -> None:
    """The status was refused (409), and the registry answered within the second in which the last one was stored."""
    scene = AtWork(source())
    scene.carry_out()
    if generation > 1:
        scene.synced(outcome(selected("org/a", "org/a:1")), NOW)
        scene.carry_out()
        scene.live.change(MODEL_SOURCES, "catalog", spec={**scene.obj["spec"], "maxModels": 7})
    assert sync_of(scene.reconcile())["generation"] == generation
    scene.synced(outcome(selected("org/a", "org/a:2"), generation=generation), NOW + timedelta(milliseconds=300))
    plan = scene.reconcile(NOW + timedelta(milliseconds=400))
    assert [child.body["spec"]["image"] for child in plan.children] == ["org/a:2"]
    assert cond(plan, "Syncing") == ("False", "SyncCompleted")
    scene.carry_out(NOW + timedelta(milliseconds=400))
    later = scene.reconcile(NOW + timedelta(seconds=1))
    assert (later.children, later.effects) == ((), ()), "once"


# Enqueues


def change(before: JsonObject | None, after: JsonObject | None, part: Any) -> Change[Any]:
    def entry(body: JsonObject | None) -> Entry[Any] | None:
        metadata = body["metadata"] if body else {}
        return Entry.of(part, Key("", metadata["name"]), body, Version(metadata["uid"], "1")) if body else None

    some = before or after
    assert some is not None
    return Change(part, Key("", some["metadata"]["name"]), entry(before), entry(after))


@pytest.mark.spec("MS-245", "MS-246", "MS-316", "MS-S105")
def test_only_the_coming_and_going_of_models_wakes_their_source() -> None:
    given = source()
    cache, one = Scene(given).cache, model("org/a:1", owners=[owner(given)])
    noted, other = {**one, "status": {"status": "Ready"}}, model("org/a:2", labels={}, owners=[])

    def woken_by(before: JsonObject | None, after: JsonObject | None) -> set[str]:
        return woken(DEFINITION, cache, CLUSTER_MODELS, before, after)

    assert woken_by(None, one) == {"cluster-model-source:catalog"}
    assert woken_by(one, None) == {"cluster-model-source:catalog"}
    assert woken_by(one, noted) == set()
    assert woken_by(None, other) == set()


@pytest.mark.spec("MS-245", "MS-248", "MS-P01")
def test_own_status_and_labels_wake_nothing_but_the_pause_does() -> None:
    given = source()
    labelled = {**given, "metadata": {**given["metadata"], "labels": {"a": "b"}}, "status": {"status": "Ready"}}
    paused = source(annotations={"aim.eai.amd.com/reconciliation-paused": "true"})
    assert RECONCILER.ignores(change(given, labelled, MODEL_SOURCES))
    assert not RECONCILER.ignores(change(paused, given, MODEL_SOURCES))
    assert not RECONCILER.ignores(change(given, source(generation=2), MODEL_SOURCES))


@pytest.mark.spec("MS-280")
def test_long_lists_of_failures_stay_readable() -> None:
    many = [selected(f"org/r{number}" + "x" * 480, code="Timeout", message="m" * 900) for number in range(30)]
    plan = Scene(source(syncing())).synced(outcome(*many)).reconcile()
    assert len(message(plan, "Ready")) < 4096
    few = [selected(f"org/r{number}", code="Timeout") for number in range(13)]
    assert "and 3 more" in message(Scene(source(syncing())).synced(outcome(*few)).reconcile(), "Ready")


def test_the_source_is_decoded_as_its_own_kind() -> None:
    assert RECONCILER.part.model is AIMClusterModelSource


@pytest.mark.spec("MS-179", "MS-S089", "MS-230", "MS-P28")
def test_raising_the_limit_makes_the_withheld_ones_and_touches_no_other() -> None:
    tags = ",".join(f"1.0.{patch}" for patch in reversed(range(12)))
    result = outcome(selected("org/a", f"org/a:{tags}"))
    scene = AtWork(source(syncing(), spec={"maxModels": 8})).synced(result)
    scene.carry_out()
    for generation, limit, new in ((2, 3, 0), (3, 20, 4)):
        spec = {**scene.obj["spec"], "maxModels": limit, "imagePullSecrets": [{"name": "new"}]}
        scene.live.change(MODEL_SOURCES, "catalog", spec=spec)
        when = NOW + timedelta(minutes=generation)
        scene.carry_out(when)
        scene.synced(SyncOutcome(**{**dict(result), "generation": generation}), when + timedelta(seconds=1))
        plan = scene.reconcile(when + timedelta(seconds=1))
        assert (len(plan.children), plan.deletes) == (new, ())
        scene.carry_out(when + timedelta(seconds=1))


@pytest.mark.spec("MS-297", "MS-325")
def test_a_full_source_that_withholds_nothing_is_within_its_limit() -> None:
    plan = Scene(source(syncing(), spec={"maxModels": 1})).synced(outcome(selected("org/a", "org/a:1"))).reconcile()
    assert cond(plan, "MaxModelsLimitReached") == ("False", "WithinLimit")


@pytest.mark.spec("MS-297", "MS-325")
def test_what_is_only_counted_of_an_enormous_set_is_withheld_as_well() -> None:
    result = outcome(selected("org/a", "org/a:2,1"), available=9)
    plan = Scene(source(syncing(), spec={"maxModels": 1})).synced(result).reconcile()
    assert cond(plan, "MaxModelsLimitReached")[0] == "True"
    assert "8 " in message(plan, "MaxModelsLimitReached")


@pytest.mark.spec("MS-313")
def test_refused_access_alone_is_no_failure_of_the_source() -> None:
    result = outcome(
        selected("org/a", "org/a:1"), selected("org/b", code="AuthFailed"), selected("org/*", code="InvalidSelector")
    )
    plan = Scene(source(syncing())).synced(result).reconcile()
    assert plan.status is not None
    assert plan.status["status"] == "Degraded"
    assert cond(plan, "AuthValid") == ("False", "AuthError")
    assert cond(plan, "ConfigValid") == ("False", "InvalidSpec")


@pytest.mark.spec("MS-318", "MS-319", "MS-320", "MS-340")
def test_conditions_keep_their_time_and_appear_only_when_needed() -> None:
    scene = AtWork(source(syncing()))
    scene.synced(outcome(selected("org/a", "org/a:1")))
    scene.carry_out()
    scene.carry_out(NOW + timedelta(minutes=62))
    later = NOW + timedelta(minutes=62, seconds=1)
    again = scene.synced(outcome(selected("org/a", "org/a:2,1")), later).reconcile(later)
    assert again.status is not None
    since = {one["type"]: one["lastTransitionTime"] for one in again.status["conditions"]}
    assert since["FiltersReady"] == "2026-11-21T12:00:00Z"
    assert since["Syncing"] == "2026-11-21T13:02:01Z"
    assert not {"ConfigValid", "AuthValid", "DependenciesReachable"} & set(since)
    assert all(one["observedGeneration"] == 1 for one in again.status["conditions"])


@pytest.mark.spec("MS-345")
def test_what_stands_is_reported_once_per_sync() -> None:
    scene = AtWork(source(syncing())).synced(outcome(selected("org/a", code="NotFound")))
    first = scene.reconcile()
    assert [event for event in first.events if event.condition == "FiltersReady"]
    assert scene.carry_out().reconcile(NOW + timedelta(minutes=10)).events == ()


@pytest.mark.spec("MS-026", "MS-036")
def test_defaults_hold_where_the_server_did_not_set_them() -> None:
    bare = make(AIM_CLUSTER_MODEL_SOURCE, "bare", spec={"images": ["org/a"]})
    scene = AtWork(bare)
    params = sync_of(scene.carry_out().reconcile())
    assert (params["registry"], params["interval"]) == ("docker.io", 3600.0)
    assert AIMClusterModelSource.model_validate(bare).spec.max_models == 100
