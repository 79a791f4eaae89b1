"""Syncs that fail, wholly or in part: what is told, and when it is tried again."""

from datetime import datetime, timedelta

import pytest
from support.builders import fact, owner
from support.model_sources import (
    BROKEN,
    DEFINITION,
    FINISHED,
    AtWork,
    Scene,
    cond,
    facts_part,
    images,
    message,
    model,
    outcome,
    selected,
    source,
    sync_of,
    syncing,
)
from support.woken import Awake

from aim_domain.parts import CLUSTER_MODELS, MODEL_SOURCES
from aim_model_sync import SERVICE_NAME
from aim_model_sync.sync import PULL_SECRETS, SYNC
from controller_runtime import Category, ClassifiedError, Key
from controller_runtime.testing import NOW


@pytest.mark.spec(
    "MS-111",
    "MS-279",
    "MS-294",
    "MS-308",
    "MS-323",
    "MS-328",
    "MS-331",
    "MS-254",
    "MS-S091",
    "MS-S093",
    "MS-344",
    "MS-P05",
)
def test_what_works_is_used_and_what_does_not_is_named() -> None:
    scene = AtWork(source(syncing()))
    result = outcome(selected("org/a", "org/a:1"), selected("org/b", code="Unreachable", registry="ghcr.io"))
    plan = scene.synced(result).reconcile()
    assert images(plan) == ["org/a:1"]
    assert plan.status is not None
    assert plan.status["status"] == "Degraded"
    assert "lastSyncTime" in plan.status
    for type_ in ("Ready", "FiltersReady"):
        assert cond(plan, type_) == ("False", "SomeFiltersFailed")
        assert "[1] org/b: Unreachable: why" in message(plan, type_)
        assert "1 of 2" in message(plan, type_)
    assert cond(plan, "Degraded") == ("True", "SomeFiltersFailed")
    assert cond(plan, "RegistryReachable") == ("False", "RegistryUnreachable")
    assert "ghcr.io" in message(plan, "RegistryReachable")
    assert plan.requeue_after is not None
    assert 25 <= plan.requeue_after <= 33
    assert {event.type.value for event in plan.events if event.condition == "FiltersReady"} == {"Warning"}
    retry = scene.carry_out().reconcile(NOW + timedelta(seconds=40))
    assert sync_of(retry)["attempt"] == 2
    assert cond(retry, "Ready") == ("False", "SomeFiltersFailed")


@pytest.mark.spec("MS-294", "MS-299", "MS-307", "MS-332", "MS-337", "MS-S092", "MS-S095")
def test_when_everything_fails_the_last_good_figures_stay() -> None:
    scene = AtWork(source(syncing()))
    good = scene.synced(outcome(selected("org/a", "org/a:1"), selected("org/b", "org/b:1"))).reconcile()
    scene.carry_out()
    later = NOW + timedelta(minutes=62)
    scene.carry_out(later)
    bad = outcome(selected("org/a", code="Unreachable"), selected("org/b", code="AuthFailed"))
    plan = scene.synced(bad, later + timedelta(seconds=1)).reconcile(later + timedelta(seconds=1))
    assert good.status is not None
    assert plan.status is not None
    for name in ("lastSyncTime", "availableModels", "discoveredModels", "modelsLimitReached"):
        assert plan.status[name] == good.status[name]
    assert plan.status["status"] == "Failed"
    assert cond(plan, "Ready") == ("False", "AllFiltersFailed")
    assert cond(plan, "FiltersReady") == ("False", "AllFiltersFailed")
    assert cond(plan, "AuthValid") == ("False", "AuthError")
    assert cond(plan, "Syncing") == ("False", "SyncFailed")
    scene.carry_out(later + timedelta(seconds=1))
    scene.carry_out(later + timedelta(seconds=40))
    again = later + timedelta(seconds=42)
    fine = scene.synced(outcome(selected("org/a", "org/a:1"), selected("org/b", "org/b:1")), again).reconcile(again)
    assert cond(fine, "Ready") == ("True", "AllComponentsReady")
    assert cond(fine, "AuthValid") == ("True", "AuthenticationValid")


@pytest.mark.spec("MS-255", "MS-262", "MS-335")
def test_a_mistake_in_the_spec_is_not_retried_soon() -> None:
    bad = selected("org/a*", code="InvalidSelector", registry="", contacted=False)
    plan = Scene(source(syncing())).synced(outcome(bad)).reconcile()
    assert plan.status is not None
    assert plan.status["status"] == "Failed"
    assert cond(plan, "ConfigValid") == ("False", "InvalidSpec")
    assert cond(plan, "RegistryReachable") == ("Unknown", "NotChecked")
    assert plan.requeue_after is not None
    assert plan.requeue_after > 3000


@pytest.mark.spec("MS-312", "MS-308", "MS-S094")
def test_partial_results_of_the_only_selector_are_degraded() -> None:
    partial = selected("ghcr.io/o/aim-*", "o/aim-a:1", code="AuthFailed")
    plan = Scene(source(syncing())).synced(outcome(partial)).reconcile()
    assert plan.status is not None
    assert (plan.status["status"], images(plan)) == ("Degraded", ["o/aim-a:1"])


@pytest.mark.spec("MS-314", "MS-300", "MS-071", "MS-P41")
def test_nothing_found_is_fine_and_written_as_zero() -> None:
    plan = Scene(source(syncing())).synced(outcome(selected("org/a*"))).reconcile()
    assert plan.status is not None
    assert (plan.status["status"], plan.status["discoveredModels"], plan.status["availableModels"]) == ("Ready", 0, 0)


@pytest.mark.spec("MS-317", "MS-329", "MS-S067")
def test_pinned_selectors_alone_say_nothing_about_registries() -> None:
    pinned = selected("org/a:1", "org/a:1", contacted=False)
    plan = Scene(source(syncing())).synced(outcome(pinned)).reconcile()
    assert cond(plan, "RegistryReachable") == ("Unknown", "NotChecked")
    assert cond(plan, "Ready")[0] == "True"


@pytest.mark.spec("MS-165", "MS-336", "MS-348")
def test_a_missing_secret_is_reported_once_per_sync() -> None:
    problem = {"name": "pull", "reason": "SecretNotFound", "message": "Secret aim-system/pull: does not exist"}
    refused = selected("org/a", code="AuthFailed")
    result = outcome(refused, secret_problems=[problem], secrets=[{"name": "pull"}])
    scene = AtWork(source(syncing(), spec={"imagePullSecrets": [{"name": "pull"}]})).synced(result)
    plan = scene.reconcile()
    assert [event.message for event in plan.events if event.reason == "SecretNotFound"] == [problem["message"]]
    assert cond(plan, "ConfigValid") == ("False", "ReferenceNotFound")
    assert "pull" in message(plan, "ConfigValid")
    assert "aim-system" in message(plan, "ConfigValid")
    again = scene.carry_out().reconcile(NOW + timedelta(seconds=5))
    assert [event for event in again.events if event.reason == "SecretNotFound"] == []


@pytest.mark.spec("MS-247", "MS-P36")
def test_a_changed_secret_brings_a_sync() -> None:
    result = outcome(selected("org/a", code="AuthFailed"), secrets=[{"name": "pull"}])
    scene = AtWork(source(syncing(), spec={"imagePullSecrets": [{"name": "pull"}]})).synced(result)
    plan = scene.reconcile()
    assert [(effect.kind, effect.not_before) for effect in plan.effects] == [
        (PULL_SECRETS.name, FINISHED + timedelta(seconds=60))
    ]
    scene.carry_out()

    def seen(version: str, when: datetime) -> None:
        about = {"secrets": [{"name": "pull", "uid": version, "resourceVersion": version}]}
        key = scene.obj["metadata"]["uid"]
        scene.cache.put(
            facts_part(),
            fact(SERVICE_NAME, PULL_SECRETS.name, key, scene.obj, MODEL_SOURCES, outcome=about, observed=when),
        )

    unchanged, changed = FINISHED + timedelta(seconds=60), FINISHED + timedelta(seconds=120)
    seen("", unchanged)
    waiting = scene.reconcile(unchanged)
    assert [effect.kind for effect in waiting.effects] == [PULL_SECRETS.name]
    seen("7", changed)
    soon = scene.reconcile(changed)
    assert (soon.effects, soon.requeue_after) == ((), 5.0)
    assert [effect.kind for effect in scene.reconcile(changed + timedelta(seconds=5)).effects] == [SYNC.name]


@pytest.mark.spec("MS-235", "MS-296", "MS-309", "MS-P37")
def test_failed_creations_are_reported_and_tried_again_without_the_registry() -> None:
    scene = Scene(source(syncing()), (model("org/a:1"),))
    result = outcome(selected("org/a", "org/a:2,1"))
    scene.synced(result)
    report = scene.reconcile(failure=BROKEN)
    assert report.status is not None
    assert (report.status["status"], report.status["discoveredModels"]) == ("Degraded", 1)
    assert cond(report, "Ready") == ("False", "ModelCreationFailed")
    assert cond(report, "DependenciesReachable") == ("False", "InfrastructureError")
    assert "1 model could not be created: create of AIMClusterModel x failed: 503" in message(report, "Ready")
    assert report.retry is not None
    scene.cache.put(MODEL_SOURCES, {**scene.obj, "status": report.status})
    retry = scene.reconcile(NOW + timedelta(seconds=2))
    assert images(retry) == ["org/a:2"]
    assert retry.effects == ()
    assert cond(retry, "Ready") == ("True", "AllComponentsReady")
    assert cond(retry, "DependenciesReachable") == ("True", "Reachable")


@pytest.mark.spec("MS-235")
def test_a_source_whose_every_creation_failed_has_failed() -> None:
    refused = ClassifiedError(Category.INVALID_SPEC, "Invalid", "422")
    plan = Scene(source(syncing())).synced(outcome(selected("org/a", "org/a:1"))).reconcile(failure=refused)
    assert plan.status is not None
    assert (plan.status["status"], plan.status["discoveredModels"]) == ("Failed", 0)
    assert "lastSyncTime" not in plan.status


@pytest.mark.spec("MS-283", "MS-306", "MS-334")
def test_models_that_are_not_known_keep_anything_from_being_created() -> None:
    scene = Scene(source(syncing())).synced(outcome(selected("org/a", "org/a:1")))
    scene.cache.make_stale(CLUSTER_MODELS)
    patient = scene.reconcile()
    assert (patient.children, patient.status) == ((), None)
    assert patient.retry is not None
    plan = scene.reconcile(NOW + timedelta(seconds=10))
    assert plan.children == ()
    assert cond(plan, "ExistingModelsReady")[0] == "False"
    assert cond(plan, "DependenciesReachable") == ("False", "InfrastructureError")
    assert plan.status is not None
    assert plan.status["status"] == "Degraded"
    scene.cache.cache.mark(CLUSTER_MODELS, fresh=True)
    scene.cache.put(MODEL_SOURCES, {**scene.obj, "status": plan.status})
    assert images(scene.reconcile(NOW + timedelta(seconds=12))) == ["org/a:1"]


@pytest.mark.spec("MS-177", "MS-239", "MS-305")
@pytest.mark.parametrize("late", [0, 10, 600])
def test_models_of_an_earlier_source_of_the_name_are_waited_for(late: int) -> None:
    old = model("org/a:1", owners=[owner(source(uid="the-earlier-one"))])
    scene = Scene(source(syncing()), (old,)).synced(outcome(selected("org/a", "org/a:1")))
    plan = scene.reconcile(NOW + timedelta(seconds=late))
    assert (plan.children, plan.retry) == ((), None)
    assert plan.status is not None
    assert plan.status["status"] == "Progressing"
    assert cond(plan, "Ready") == ("False", "Progressing")
    assert message(plan, "Ready") == (
        "waiting until garbage collection has removed 1 model of an earlier source of this name, first org-a-1"
    )
    assert {event.type.value for event in plan.events} <= {"Normal"}
    scene.cache.put(MODEL_SOURCES, {**scene.obj, "status": plan.status})
    again = scene.reconcile(NOW + timedelta(seconds=late + 1))
    assert again.status == plan.status, "waiting writes nothing anew"
    cache = scene.cache.cache
    entry = cache.get(CLUSTER_MODELS, Key("", "org-a-1"))
    assert entry is not None
    awake = Awake(DEFINITION, scene.cache, NOW + timedelta(seconds=late + 1))
    assert awake.delete(CLUSTER_MODELS, entry.key) == {"cluster-model-source": {Key("", "catalog")}}
    assert images(scene.reconcile(NOW + timedelta(seconds=late + 2))) == ["org/a:1"]


@pytest.mark.spec("MS-338", "MS-370")
def test_a_sync_that_could_not_ask_kubernetes_is_tried_again() -> None:
    scene = AtWork(source(syncing()))
    body = fact(
        SERVICE_NAME,
        SYNC.name,
        scene.obj["metadata"]["uid"],
        scene.obj,
        MODEL_SOURCES,
        failure=BROKEN,
        attempts=1,
        observed=FINISHED,
    )
    scene.cache.put(facts_part(), body)
    plan = scene.reconcile()
    assert cond(plan, "DependenciesReachable") == ("False", "InfrastructureError")
    assert plan.requeue_after is not None
    assert 25 <= plan.requeue_after <= 33
    assert [effect.kind for effect in scene.carry_out().reconcile(NOW + timedelta(seconds=40)).effects] == [SYNC.name]
