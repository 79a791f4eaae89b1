"""Passes of a model source: given source, models and facts, when reconciled, then this plan."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.builders import NOW, BuiltWorld, condition, fact, make, owner, world_of

from aim_model_sync.effect_kinds import PULL_SECRETS, SERVICE_NAME, SYNC
from aim_model_sync.outcome import FoundImages, SelectorOutcome, SyncOutcome
from aim_model_sync.service import definition
from aim_model_sync.settings import ModelSyncSettings
from aim_shared.api import AIMClusterModelSource, to_json
from aim_shared.api.kinds import AIM_CLUSTER_MODEL, AIM_CLUSTER_MODEL_SOURCE, AIM_CLUSTER_RUNTIME_CONFIG
from aim_shared.bus.entry import Change, Entry, Version
from aim_shared.bus.part import Key
from aim_shared.bus.parts import CLUSTER_MODELS, MODEL_SOURCES
from aim_shared.errors import AimError, Category
from aim_shared.json import JsonObject
from aim_shared.reconcile.decide import decide
from aim_shared.reconcile.plan import Child, Plan, WriteMode

DEFINITION = definition(ModelSyncSettings(system_namespace="aim-system"))
RECONCILER = DEFINITION.reconcilers[0]
FINISHED = NOW - timedelta(seconds=1)
BROKEN = AimError(Category.INFRASTRUCTURE, "ServiceUnavailable", "create of AIMClusterModel x failed: 503")


def source(status: JsonObject | None = None, name: str = "catalog", **more: Any) -> JsonObject:
    spec = {"filters": [{"image": "org/a"}, {"image": "org/b"}], **more.pop("spec", {})}
    spec = {key: value for key, value in spec.items() if value is not None}
    return make(AIM_CLUSTER_MODEL_SOURCE, name, spec=spec, status=status or {}, **more)


def syncing(since: datetime = NOW - timedelta(minutes=1)) -> JsonObject:
    return {"status": "Progressing", "conditions": [condition("Syncing", True, "SyncInProgress", since=since)]}


def found(*images: str, registry: str = "docker.io") -> tuple[FoundImages, ...]:
    parts = [image.partition(":") for image in images]
    return tuple(
        FoundImages(registry=registry, repository=name, versions=tuple(tags.split(","))) for name, _, tags in parts
    )


def selected(text: str, *images: str, code: str | None = None, **more: Any) -> SelectorOutcome:
    own = found(*images)
    matched = sum(len(one.versions) for one in own)
    about = {"registry": "docker.io", "contacted": True, "matched": matched, "found": own, **more}
    return SelectorOutcome.model_validate({"text": text, "code": code, "message": "why" if code else "", **about})


def outcome(*selectors: SelectorOutcome, **more: Any) -> SyncOutcome:
    size = sum(len(one.versions) for selector in selectors for one in selector.found)
    return SyncOutcome(**{"generation": 1, "selectors": selectors, "available": size, **more})


def model(image: str, name: str = "", labels: dict[str, str] | None = None, **more: Any) -> JsonObject:
    label = {"aim.eai.amd.com/model-source": "catalog"} if labels is None else labels
    return make(
        AIM_CLUSTER_MODEL,
        name or image.replace("/", "-").replace(":", "-"),
        labels=label,
        spec={"image": image},
        **more,
    )


@dataclass
class Scene:
    """A source in a world; runs passes and applies their status."""

    obj: JsonObject
    others: tuple[JsonObject, ...] = ()
    world: BuiltWorld = field(init=False)

    def __post_init__(self) -> None:
        self.world = world_of(DEFINITION.consumes, self.obj, *self.others, indexes=DEFINITION.indexes)

    def reconcile(self, now: datetime = NOW, failure: AimError | None = None) -> Plan:
        name = self.obj["metadata"]["name"]
        return decide(RECONCILER, self.world.object(MODEL_SOURCES, "", name), self.world.view(failure), now)

    def synced(self, result: SyncOutcome, when: datetime = FINISHED) -> "Scene":
        body = fact(
            SERVICE_NAME,
            SYNC,
            self.obj["metadata"]["uid"],
            self.obj,
            MODEL_SOURCES,
            outcome=to_json(result),
            observed=when,
        )
        self.world.put(_facts(), body)
        return self

    def store(self, plan: Plan) -> "Scene":
        """Carry the plan out."""
        if plan.status is not None:
            self.obj = {**self.obj, "status": plan.status}
            self.world.put(MODEL_SOURCES, self.obj)
        for child in plan.children:
            owned = {**child.body["metadata"], "uid": f"{child.name}-uid", "ownerReferences": [owner(self.obj)]}
            self.world.put(CLUSTER_MODELS, {**child.body, "metadata": owned})
        return self


def _facts() -> Any:
    return next(part for part in DEFINITION.consumes if part.name == "facts")


def cond(plan: Plan, type_: str) -> tuple[str, str]:
    assert plan.status is not None
    one = next(entry for entry in plan.status["conditions"] if entry["type"] == type_)
    return one["status"], one["reason"]


def message(plan: Plan, type_: str) -> str:
    assert plan.status is not None
    return str(next(entry for entry in plan.status["conditions"] if entry["type"] == type_)["message"])


def images(plan: Plan) -> list[str]:
    return [child.body["spec"]["image"] for child in plan.children]


def sync_of(plan: Plan) -> JsonObject:
    effect = next(effect for effect in plan.effects if effect.kind == SYNC)
    return effect.params


# Starting


@pytest.mark.spec("MS-243", "MS-305", "MS-326")
def test_a_new_source_is_synced_at_once() -> None:
    plan = Scene(source(spec={"versions": [">=1"], "imagePullSecrets": [{"name": "pull"}]})).reconcile()
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
    scene = Scene(source())
    first = scene.reconcile()
    again = scene.store(first).reconcile(NOW + timedelta(seconds=3))
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
    assert scene.store(plan).reconcile(NOW + timedelta(hours=9)).status == plan.status


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
    scene = Scene(source(syncing()))
    scene.synced(outcome(selected("org/a", "org/a:1"))).store(scene.reconcile())
    plan = scene.reconcile(NOW + timedelta(minutes=5))
    assert (plan.children, plan.status, plan.events, plan.effects) == ((), None, (), ())
    later = NOW + timedelta(minutes=62)
    resync = scene.reconcile(later)
    assert [effect.kind for effect in resync.effects] == [SYNC]
    assert cond(resync, "Ready") == ("True", "AllComponentsReady")
    assert cond(resync, "Syncing") == ("True", "SyncInProgress")
    assert resync.events == ()
    scene.store(resync).synced(outcome(selected("org/a", "org/a:1")), later + timedelta(seconds=2))
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


@pytest.mark.spec("MS-178", "MS-298", "MS-315", "MS-324", "MS-S084", "MS-S085", "MS-S087")
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


@pytest.mark.spec("MS-178", "MS-237", "MS-S088", "MS-S089")
def test_models_that_nothing_selects_any_more_count_and_stay() -> None:
    models = tuple(model(f"old/x:{number}") for number in range(5))
    scene = Scene(source(syncing(), spec={"maxModels": 3}), models)
    plan = scene.synced(outcome(selected("org/a", "org/a:3,2,1"))).reconcile()
    assert (plan.children, plan.deletes) == ((), ())
    assert plan.status is not None
    assert (plan.status["discoveredModels"], plan.status["modelsLimitReached"]) == (5, True)


@pytest.mark.spec("MS-177", "MS-175", "MS-S104")
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


@pytest.mark.spec("MS-175", "MS-240", "MS-242")
def test_models_are_managed_by_owner_or_by_label() -> None:
    given = source(syncing())
    models = (model("org/a:1", labels={}, owners=[owner(given)]), model("org/a:2"))
    plan = Scene(given, models).synced(outcome(selected("org/a", "org/a:2,1"))).reconcile()
    assert plan.status is not None
    assert (plan.children, plan.status["discoveredModels"]) == ((), 2)


@pytest.mark.spec("MS-229", "MS-S110")
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


# Failures


@pytest.mark.spec(
    "MS-111", "MS-279", "MS-294", "MS-308", "MS-323", "MS-328", "MS-331", "MS-254", "MS-S091", "MS-S093", "MS-344"
)
def test_what_works_is_used_and_what_does_not_is_named() -> None:
    scene = Scene(source(syncing()))
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
    retry = scene.store(plan).reconcile(NOW + timedelta(seconds=40))
    assert sync_of(retry)["attempt"] == 2
    assert cond(retry, "Ready") == ("False", "SomeFiltersFailed")


@pytest.mark.spec("MS-294", "MS-299", "MS-307", "MS-332", "MS-337", "MS-S092", "MS-S095")
def test_when_everything_fails_the_last_good_figures_stay() -> None:
    scene = Scene(source(syncing()))
    good = scene.synced(outcome(selected("org/a", "org/a:1"), selected("org/b", "org/b:1"))).reconcile()
    scene.store(good)
    later = NOW + timedelta(minutes=62)
    scene.store(scene.reconcile(later))
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
    recovering = scene.store(plan).reconcile(later + timedelta(seconds=40))
    scene.store(recovering)
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


@pytest.mark.spec("MS-314", "MS-300", "MS-071")
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
def test_a_missing_secret_is_told_once_per_sync() -> None:
    problem = {"name": "pull", "reason": "SecretNotFound", "message": "Secret aim-system/pull: does not exist"}
    refused = selected("org/a", code="AuthFailed")
    result = outcome(refused, secret_problems=[problem], secrets=[{"name": "pull"}])
    scene = Scene(source(syncing(), spec={"imagePullSecrets": [{"name": "pull"}]})).synced(result)
    plan = scene.reconcile()
    assert [event.message for event in plan.events if event.reason == "SecretNotFound"] == [problem["message"]]
    assert cond(plan, "ConfigValid") == ("False", "ReferenceNotFound")
    assert "pull" in message(plan, "ConfigValid")
    assert "aim-system" in message(plan, "ConfigValid")
    again = scene.store(plan).reconcile(NOW + timedelta(seconds=5))
    assert [event for event in again.events if event.reason == "SecretNotFound"] == []


@pytest.mark.spec("MS-247")
def test_a_changed_secret_brings_a_sync() -> None:
    result = outcome(selected("org/a", code="AuthFailed"), secrets=[{"name": "pull"}])
    scene = Scene(source(syncing(), spec={"imagePullSecrets": [{"name": "pull"}]})).synced(result)
    plan = scene.reconcile()
    assert [(effect.kind, effect.not_before) for effect in plan.effects] == [
        (PULL_SECRETS, FINISHED + timedelta(seconds=60))
    ]
    scene.store(plan)

    def seen(version: str, when: datetime) -> None:
        about = {"secrets": [{"name": "pull", "uid": version, "resourceVersion": version}]}
        key = scene.obj["metadata"]["uid"]
        scene.world.put(
            _facts(), fact(SERVICE_NAME, PULL_SECRETS, key, scene.obj, MODEL_SOURCES, outcome=about, observed=when)
        )

    unchanged, changed = FINISHED + timedelta(seconds=60), FINISHED + timedelta(seconds=120)
    seen("", unchanged)
    waiting = scene.reconcile(unchanged)
    assert [effect.kind for effect in waiting.effects] == [PULL_SECRETS]
    seen("7", changed)
    soon = scene.reconcile(changed)
    assert (soon.effects, soon.requeue_after) == ((), 5.0)
    assert [effect.kind for effect in scene.reconcile(changed + timedelta(seconds=5)).effects] == [SYNC]


@pytest.mark.spec("MS-235", "MS-296", "MS-309")
def test_failed_creations_are_reported_and_tried_again_without_the_registry() -> None:
    scene = Scene(source(syncing()), (model("org/a:1"),))
    result = outcome(selected("org/a", "org/a:2,1"))
    scene.synced(result)
    report = scene.reconcile(failure=BROKEN)
    assert report.status is not None
    assert (report.status["status"], report.status["discoveredModels"]) == ("Degraded", 1)
    assert cond(report, "Ready") == ("False", "ModelCreationFailed")
    assert cond(report, "DependenciesReachable") == ("False", "InfrastructureError")
    assert "503" in message(report, "Ready")
    assert report.retry is not None
    retry = scene.store(Plan(status=report.status)).reconcile(NOW + timedelta(seconds=2))
    assert images(retry) == ["org/a:2"]
    assert retry.effects == ()
    assert cond(retry, "Ready") == ("True", "AllComponentsReady")
    assert cond(retry, "DependenciesReachable") == ("True", "Reachable")


@pytest.mark.spec("MS-235")
def test_a_source_whose_every_creation_failed_has_failed() -> None:
    refused = AimError(Category.INVALID_SPEC, "Invalid", "422")
    plan = Scene(source(syncing())).synced(outcome(selected("org/a", "org/a:1"))).reconcile(failure=refused)
    assert plan.status is not None
    assert (plan.status["status"], plan.status["discoveredModels"]) == ("Failed", 0)
    assert "lastSyncTime" not in plan.status


@pytest.mark.spec("MS-283", "MS-306", "MS-334")
def test_models_that_are_not_known_keep_anything_from_being_created() -> None:
    scene = Scene(source(syncing())).synced(outcome(selected("org/a", "org/a:1")))
    scene.world.make_stale(CLUSTER_MODELS)
    patient = scene.reconcile()
    assert (patient.children, patient.status) == ((), None)
    assert patient.retry is not None
    plan = scene.reconcile(NOW + timedelta(seconds=10))
    assert plan.children == ()
    assert cond(plan, "ExistingModelsReady")[0] == "False"
    assert cond(plan, "DependenciesReachable") == ("False", "InfrastructureError")
    assert plan.status is not None
    assert plan.status["status"] == "Degraded"
    scene.world.world.mark(CLUSTER_MODELS, fresh=True)
    assert images(scene.store(plan).reconcile(NOW + timedelta(seconds=12))) == ["org/a:1"]


@pytest.mark.spec("MS-338", "MS-370")
def test_a_sync_that_could_not_ask_kubernetes_is_tried_again() -> None:
    scene = Scene(source(syncing()))
    body = fact(
        SERVICE_NAME,
        SYNC,
        scene.obj["metadata"]["uid"],
        scene.obj,
        MODEL_SOURCES,
        failure=BROKEN,
        attempts=1,
        observed=FINISHED,
    )
    scene.world.put(_facts(), body)
    plan = scene.reconcile()
    assert cond(plan, "DependenciesReachable") == ("False", "InfrastructureError")
    assert plan.requeue_after is not None
    assert 25 <= plan.requeue_after <= 33
    assert [effect.kind for effect in scene.store(plan).reconcile(NOW + timedelta(seconds=40)).effects] == [SYNC]


# Generations and restarts


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
    assert [effect.kind for effect in late.effects] == [SYNC]
    assert late.effects[0].not_before is not None


@pytest.mark.spec("MS-243", "MS-305", "MS-311", "MS-323")
def test_an_edit_of_a_failed_source_starts_over() -> None:
    scene = Scene(source(syncing())).synced(outcome(selected("org/a", code="Unreachable")))
    scene.store(scene.reconcile())
    scene.obj = {**scene.obj, "metadata": {**scene.obj["metadata"], "generation": 2, "resourceVersion": "999999"}}
    scene.world.put(MODEL_SOURCES, scene.obj)
    plan = scene.reconcile(NOW + timedelta(seconds=3))
    assert sync_of(plan)["attempt"] == 1
    assert plan.status is not None
    assert (plan.status["status"], plan.status["observedGeneration"]) == ("Progressing", 1)
    assert cond(plan, "Degraded") == ("False", "AsExpected")


# Wakes


def change(before: JsonObject | None, after: JsonObject | None, part: Any) -> Change[Any]:
    def entry(body: JsonObject | None) -> Entry[Any] | None:
        metadata = body["metadata"] if body else {}
        return Entry(part, Key("", metadata["name"]), body, Version(metadata["uid"], "1")) if body else None

    some = before or after
    assert some is not None
    return Change(part, Key("", some["metadata"]["name"]), entry(before), entry(after))


@pytest.mark.spec("MS-245", "MS-246", "MS-316", "MS-S105")
def test_only_the_coming_and_going_of_models_wakes_their_source() -> None:
    given = source()
    view = Scene(given).world.view()
    (wake,) = RECONCILER.wakes
    one = model("org/a:1", owners=[owner(given)])
    assert set(wake.keys(change(None, one, CLUSTER_MODELS), view)) == {Key("", "catalog")}
    assert set(wake.keys(change(one, None, CLUSTER_MODELS), view)) == {Key("", "catalog")}
    assert set(wake.keys(change(one, {**one, "status": {"status": "Ready"}}, CLUSTER_MODELS), view)) == set()


@pytest.mark.spec("MS-245", "MS-248")
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


@pytest.mark.spec("MS-179", "MS-S089", "MS-230")
def test_raising_the_limit_makes_the_withheld_ones_and_touches_no_other() -> None:
    tags = ",".join(f"1.0.{patch}" for patch in reversed(range(12)))
    result = outcome(selected("org/a", f"org/a:{tags}"))
    scene = Scene(source(syncing(), spec={"maxModels": 8})).synced(result)
    scene.store(scene.reconcile())
    for generation, limit, new in ((2, 3, 0), (3, 20, 4)):
        spec = {**scene.obj["spec"], "maxModels": limit, "imagePullSecrets": [{"name": "new"}]}
        metadata = {**scene.obj["metadata"], "generation": generation, "resourceVersion": str(10**6 + generation)}
        scene.obj = {**scene.obj, "spec": spec, "metadata": metadata}
        scene.world.put(MODEL_SOURCES, scene.obj)
        when = NOW + timedelta(minutes=generation)
        scene.store(scene.reconcile(when))
        scene.synced(SyncOutcome(**{**dict(result), "generation": generation}), when + timedelta(seconds=1))
        plan = scene.reconcile(when + timedelta(seconds=1))
        assert (len(plan.children), plan.deletes) == (new, ())
        scene.store(plan)


@pytest.mark.spec("MS-297", "MS-325")
def test_a_full_source_that_withholds_nothing_is_within_its_limit() -> None:
    plan = Scene(source(syncing(), spec={"maxModels": 1})).synced(outcome(selected("org/a", "org/a:1"))).reconcile()
    assert cond(plan, "MaxModelsLimitReached") == ("False", "WithinLimit")


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
    scene = Scene(source(syncing()))
    plan = scene.store(scene.synced(outcome(selected("org/a", "org/a:1"))).reconcile())
    scene.store(scene.reconcile(NOW + timedelta(minutes=62)))
    later = NOW + timedelta(minutes=62, seconds=1)
    again = scene.synced(outcome(selected("org/a", "org/a:2,1")), later).reconcile(later)
    assert again.status is not None
    assert plan.obj["status"] is not None
    since = {one["type"]: one["lastTransitionTime"] for one in again.status["conditions"]}
    assert since["FiltersReady"] == "2026-11-21T12:00:00Z"
    assert since["Syncing"] == "2026-11-21T13:02:01Z"
    assert not {"ConfigValid", "AuthValid", "DependenciesReachable"} & set(since)
    assert all(one["observedGeneration"] == 1 for one in again.status["conditions"])


@pytest.mark.spec("MS-345")
def test_what_stands_is_told_once_per_sync() -> None:
    scene = Scene(source(syncing())).synced(outcome(selected("org/a", code="NotFound")))
    first = scene.reconcile()
    assert [event for event in first.events if event.condition == "FiltersReady"]
    assert scene.store(first).reconcile(NOW + timedelta(minutes=10)).events == ()


@pytest.mark.spec("MS-026", "MS-036")
def test_defaults_hold_where_the_server_did_not_set_them() -> None:
    bare = make(AIM_CLUSTER_MODEL_SOURCE, "bare", spec={"images": ["org/a"]})
    params = sync_of(Scene(bare).reconcile())
    assert (params["registry"], params["interval"]) == ("docker.io", 3600.0)
    assert AIMClusterModelSource.model_validate(bare).spec.max_models == 100
