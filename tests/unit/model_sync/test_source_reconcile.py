"""Starting and concluding syncs: given source, models and facts, when reconciled, then this plan."""

from datetime import timedelta

import pytest
from support.builders import make, owner
from support.model_sources import (
    AtWork,
    Scene,
    cond,
    images,
    message,
    model,
    outcome,
    selected,
    source,
    sync_of,
    syncing,
)

from aim_domain.kinds import AIM_CLUSTER_MODEL_SOURCE, AIM_CLUSTER_RUNTIME_CONFIG
from aim_domain.parts import CLUSTER_MODELS, MODEL_SOURCES
from aim_model_sync.sync import SYNC
from controller_runtime import Child, JsonObject, Plan, WriteMode
from controller_runtime.testing import NOW

# Starting


@pytest.mark.spec("MS-286", "MS-303", "MS-322", "MS-326")
def test_a_source_that_was_only_seen_is_pending() -> None:
    plan = Scene(source()).reconcile()
    assert plan.status is not None
    assert plan.status["status"] == "Pending"
    assert cond(plan, "Ready") == ("False", "AwaitingFirstSync")
    assert cond(plan, "Syncing") == ("False", "AwaitingFirstSync")
    assert (plan.effects, plan.events, plan.requeue_after) == ((), (), 0.0)


@pytest.mark.spec("MS-243", "MS-305", "MS-326")
def test_a_new_source_is_synced_at_once() -> None:
    scene = AtWork(source(spec={"versions": [">=1"], "imagePullSecrets": [{"name": "pull"}]}))
    plan = scene.carry_out().reconcile()
    assert sync_of(plan)["secrets"] == ["pull"]
    assert sync_of(plan)["attempt"] == 1
    assert [one["text"] for one in sync_of(plan)["selectors"]] == ["org/a", "org/b"]
    assert plan.status is not None
    assert plan.status["status"] == "Progressing"
    assert cond(plan, "Ready") == ("False", "Progressing")
    assert cond(plan, "Syncing") == ("True", "SyncInProgress")
    assert not plan.children


@pytest.mark.spec("MS-251", "MS-368")
def test_a_pass_during_a_sync_asks_for_the_same_again() -> None:
    scene = AtWork(source())
    first = scene.carry_out().reconcile()
    again = scene.carry_out().reconcile(NOW + timedelta(seconds=3))
    assert (again.effects, again.status, again.events) == (first.effects, first.status, ())


@pytest.mark.spec("MS-258", "MS-S108")
def test_a_paused_source_stands_still() -> None:
    paused = {"aim.eai.amd.com/reconciliation-paused": "true"}
    assert Scene(source(annotations=paused)).reconcile() == Plan()


@pytest.mark.spec("MS-031", "MS-034", "MS-304", "MS-295", "MS-335")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"images": ["a/b"]}, "both"),
        ({"filters": None}, "neither"),
        ({"syncInterval": "1d"}, "1d"),
        ({"syncInterval": "-5m"}, "-5m"),
    ],
)
def test_an_unusable_spec_asks_no_registry(spec: JsonObject, words: str) -> None:
    scene = Scene(source(spec=spec), (model("org/a:1"),))
    plan = scene.reconcile()
    assert not plan.effects
    assert plan.status is not None
    assert plan.status["status"] == "Failed"
    assert plan.status["observedGeneration"] == 1
    assert plan.status["discoveredModels"] == 1
    for type_ in ("Ready", "ConfigValid"):
        assert cond(plan, type_) == ("False", "InvalidSpec")
        assert words in message(plan, type_)
    assert cond(plan, "Degraded") == ("True", "InvalidSpec")
    assert cond(plan, "Syncing") == ("False", "AwaitingFirstSync")
    scene.cache.put(MODEL_SOURCES, {**scene.obj, "status": plan.status})
    assert scene.reconcile(NOW + timedelta(hours=9)).status == plan.status


# Concluding


@pytest.mark.spec(
    "MS-213", "MS-214", "MS-215", "MS-216", "MS-217", "MS-219", "MS-220", "MS-221", "MS-223", "MS-224", "MS-225",
    "MS-S077", "MS-S081",
)  # fmt: skip
def test_a_model_says_where_it_comes_from_and_nothing_else() -> None:
    scene = Scene(source(syncing(), spec={"imagePullSecrets": [{"name": "pull"}]}))
    plan = scene.synced(outcome(selected("org/a", "org/a:1.0.0"))).reconcile()
    assert plan.children == (
        Child(
            CLUSTER_MODELS,
            {
                "apiVersion": "aim.eai.amd.com/v1alpha1",
                "kind": "AIMClusterModel",
                "metadata": {
                    "name": plan.children[0].name,
                    "labels": {
                        "aim.eai.amd.com/model-source": "catalog",
                        "aim.eai.amd.com/origin": "auto-generated",
                        "aim.eai.amd.com/cluster-model-source.name": "catalog",
                        "app.kubernetes.io/managed-by": "aim-cluster-model-source-controller",
                    },
                    "annotations": {
                        "aim.eai.amd.com/source-registry": "docker.io",
                        "aim.eai.amd.com/source-repository": "org/a",
                        "aim.eai.amd.com/source-tag": "1.0.0",
                    },
                },
                "spec": {"image": "org/a:1.0.0", "imagePullSecrets": [{"name": "pull"}]},
            },
            owned=True,
            mode=WriteMode.CREATE,
        ),
    )


@pytest.mark.spec("MS-226", "MS-228", "MS-S080")
@pytest.mark.parametrize("propagates", [False, True])
def test_labels_of_the_source(propagates: bool) -> None:
    config = make(
        AIM_CLUSTER_RUNTIME_CONFIG, "default", spec={"labelPropagation": {"enabled": propagates, "match": ["team"]}}
    )
    given = source(syncing(), labels={"team": "a", "aim.eai.amd.com/tier": "gold"})
    plan = Scene(given, (config,)).synced(outcome(selected("org/a", "org/a:1"))).reconcile()
    labels = plan.children[0].body["metadata"]["labels"]
    assert labels["aim.eai.amd.com/tier"] == "gold"
    assert labels.get("team") == ("a" if propagates else None)


@pytest.mark.spec(
    "MS-176", "MS-286", "MS-287", "MS-288", "MS-289", "MS-290", "MS-292", "MS-293", "MS-295", "MS-310", "MS-325",
    "MS-327", "MS-330", "MS-333", "MS-346", "MS-S079", "MS-S090",
)  # fmt: skip
def test_a_clean_sync_makes_the_source_ready() -> None:
    scene = Scene(source(syncing()), (model("docker.io/org/a:1.0.0"),))
    result = outcome(selected("org/a", "org/a:2.0.0,1.0.0"), selected("org/b", "org/b:1.0.0"))
    plan = scene.synced(result).reconcile()
    assert images(plan) == ["org/a:2.0.0", "org/b:1.0.0"]
    assert plan.status is not None
    counts = {key: value for key, value in plan.status.items() if key != "conditions"}
    assert counts == {
        "status": "Ready",
        "lastSyncTime": "2026-11-21T11:59:59Z",
        "discoveredModels": 3,
        "availableModels": 3,
        "modelsLimitReached": False,
        "observedGeneration": 1,
    }
    assert {one["type"]: (one["status"], one["reason"]) for one in plan.status["conditions"]} == {
        "Ready": ("True", "AllComponentsReady"),
        "Degraded": ("False", "AsExpected"),
        "Syncing": ("False", "SyncCompleted"),
        "RegistryReachable": ("True", "Reachable"),
        "FiltersReady": ("True", "AllFiltersSucceeded"),
        "ExistingModelsReady": ("True", "Listed"),
        "MaxModelsLimitReached": ("False", "WithinLimit"),
    }
    assert [event.message for event in plan.events if event.reason == "ModelsCreated"] == ["created 2 models"]
    assert plan.requeue_after is not None
    assert 3599 <= plan.requeue_after <= 3660


@pytest.mark.spec("MS-244", "MS-245", "MS-301", "MS-311")
def test_a_concluded_source_waits_and_writes_nothing() -> None:
    scene = AtWork(source(syncing()))
    scene.synced(outcome(selected("org/a", "org/a:1")))
    scene.carry_out()
    plan = scene.reconcile(NOW + timedelta(minutes=5))
    assert (plan.children, plan.status, plan.events, plan.effects) == ((), None, (), ())
    later = NOW + timedelta(minutes=62)
    resync = scene.reconcile(later)
    assert [effect.kind for effect in resync.effects] == [SYNC.name]
    assert cond(resync, "Ready") == ("True", "AllComponentsReady")
    assert cond(resync, "Syncing") == ("True", "SyncInProgress")
    assert resync.events == ()
    scene.carry_out(later).synced(outcome(selected("org/a", "org/a:1")), later + timedelta(seconds=2))
    done = scene.reconcile(later + timedelta(seconds=2))
    assert done.children == ()
    assert done.events == ()
    assert done.status is not None
    assert done.status["lastSyncTime"] == "2026-11-21T13:02:02Z"


@pytest.mark.spec("MS-238", "MS-246", "MS-S106")
def test_a_deleted_model_is_counted_now_and_made_again_at_the_next_sync() -> None:
    scene = Scene(source(syncing()))
    done = scene.synced(outcome(selected("org/a", "org/a:2,1"))).reconcile()
    gone = Scene({**scene.obj, "status": done.status}).synced(outcome(selected("org/a", "org/a:2,1")))
    plan = gone.reconcile(NOW + timedelta(minutes=1))
    assert plan.children == ()
    assert plan.status is not None
    assert plan.status["discoveredModels"] == 0
    assert plan.status["availableModels"] == 2


@pytest.mark.spec("MS-178", "MS-298", "MS-315", "MS-324", "MS-S084", "MS-S085", "MS-S087", "MS-P09")
def test_the_limit_withholds_the_last_candidates() -> None:
    tags = ",".join(f"1.0.{patch}" for patch in reversed(range(250)))
    scene = Scene(source(syncing(), spec={"maxModels": 100}))
    plan = scene.synced(outcome(selected("org/a", f"org/a:{tags}"))).reconcile()
    assert len(plan.children) == 100
    assert images(plan)[0] == "org/a:1.0.249"
    assert plan.status is not None
    assert (plan.status["status"], plan.status["modelsLimitReached"]) == ("Ready", True)
    assert (plan.status["discoveredModels"], plan.status["availableModels"]) == (100, 250)
    assert cond(plan, "MaxModelsLimitReached") == ("True", "LimitReached")
    assert "100" in message(plan, "MaxModelsLimitReached")
    assert "150" in message(plan, "MaxModelsLimitReached")


@pytest.mark.spec("MS-178", "MS-237", "MS-S088", "MS-S089", "MS-P29")
def test_models_that_nothing_selects_any_more_count_and_stay() -> None:
    models = tuple(model(f"old/x:{number}") for number in range(5))
    scene = Scene(source(syncing(), spec={"maxModels": 3}), models)
    plan = scene.synced(outcome(selected("org/a", "org/a:3,2,1"))).reconcile()
    assert (plan.children, plan.deletes) == ((), ())
    assert plan.status is not None
    assert (plan.status["discoveredModels"], plan.status["modelsLimitReached"]) == (5, True)


@pytest.mark.spec("MS-177", "MS-175", "MS-S104", "MS-P42")
def test_an_image_that_has_a_model_elsewhere_gets_no_second_one() -> None:
    other = make(AIM_CLUSTER_MODEL_SOURCE, "other", spec={})
    models = (
        model("org/a:1", labels={}),
        model("index.docker.io/org/b:1", owners=[owner(other)]),
    )
    plan = Scene(source(syncing()), models).synced(outcome(selected("x", "org/a:1", "org/b:1"))).reconcile()
    assert plan.children == ()
    assert plan.status is not None
    counts = ("discoveredModels", "availableModels", "modelsLimitReached")
    assert [plan.status[name] for name in counts] == [0, 2, False]


@pytest.mark.spec("MS-175", "MS-240", "MS-242", "MS-P31")
def test_models_are_managed_by_owner_or_by_label() -> None:
    given = source(syncing())
    models = (model("org/a:1", labels={}, owners=[owner(given)]), model("org/a:2"))
    plan = Scene(given, models).synced(outcome(selected("org/a", "org/a:2,1"))).reconcile()
    assert plan.status is not None
    assert (plan.children, plan.status["discoveredModels"]) == ((), 2)


@pytest.mark.spec("MS-229", "MS-S110", "MS-P27")
def test_a_long_name_is_cut_in_labels() -> None:
    name = "s" * 70
    scene = Scene(source(syncing(), name=name))
    done = scene.synced(outcome(selected("org/a", "org/a:1"))).reconcile()
    assert done.children[0].body["metadata"]["labels"]["aim.eai.amd.com/model-source"] == "s" * 63
    orphan = model("org/a:1", labels={"aim.eai.amd.com/model-source": "s" * 63})
    again = Scene(source(syncing(), name=name), (orphan,)).synced(outcome(selected("org/a", "org/a:1"))).reconcile()
    assert again.children == ()


@pytest.mark.spec("MS-233", "MS-235", "MS-276")
def test_a_name_that_another_image_has_is_left_alone() -> None:
    scene = Scene(source(syncing()))
    wanted = scene.synced(outcome(selected("org/a", "org/a:1"))).reconcile().children[0].name
    taken = model("other/image:1", name=wanted, labels={})
    plan = Scene(source(syncing()), (taken,)).synced(outcome(selected("org/a", "org/a:1", "org/b:1"))).reconcile()
    assert images(plan) == ["org/b:1"]
    assert plan.status is not None
    assert plan.status["status"] == "Degraded"
    assert cond(plan, "Ready") == ("False", "ModelCreationFailed")
    assert "NameCollision" in message(plan, "Ready")
    assert "org/a:1" in message(plan, "Ready")
