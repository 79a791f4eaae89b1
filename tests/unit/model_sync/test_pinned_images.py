"""Listed images that cannot be resolved: their models inspect them, and the source reports what these find."""

from datetime import timedelta

import pytest
from support.builders import condition, owner
from support.model_sources import DEFINITION, AtWork, Scene, cond, message, model, outcome, selected, source
from support.woken import woken

from aim_domain.parts import CLUSTER_MODELS, MODEL_SOURCES
from aim_model_sync.outcome import SyncOutcome
from controller_runtime import EventType, JsonObject, Plan
from controller_runtime.testing import NOW

FOUND: JsonObject = {"conditions": [condition("ImageMetadataReady", True, "ImageMetadataFound", since=NOW)]}


def refused(reason: str = "ImageNotFound", cause: str = "manifest unknown", **members: object) -> JsonObject:
    one = condition("ImageMetadataReady", False, reason, since=NOW)
    return {"status": "Degraded", "conditions": [{**one, "message": cause, **members}]}


def pinned(*texts: str) -> SyncOutcome:
    return outcome(*(selected(text, text, contacted=False) for text in texts))


def listing(*texts: str, status: JsonObject | None = None) -> JsonObject:
    return source(status, spec={"images": list(texts), "filters": None})


def at_work(*texts: str) -> AtWork:
    """A source whose sync was concluded, with the models that it made."""
    scene = AtWork(listing(*texts)).carry_out().carry_out()
    scene.synced(pinned(*texts), NOW + timedelta(seconds=1))
    return scene.carry_out(NOW + timedelta(seconds=2))


def report(scene: AtWork, image: str, status: JsonObject) -> None:
    """What discovery writes into the status of the image's model."""
    name = next(one["metadata"]["name"] for one in scene.live.all(CLUSTER_MODELS) if one["spec"]["image"] == image)
    scene.live.change(CLUSTER_MODELS, name, status=status)


def heard(scene: AtWork, after: int = 10) -> Plan:
    return scene.reconcile(NOW + timedelta(seconds=after))


@pytest.mark.spec("MS-385", "MS-386", "MS-391", "MS-392", "MS-393", "MS-316")
def test_an_image_that_does_not_exist_degrades_the_source_and_is_named() -> None:
    scene = at_work("org/a:1", "org/nope:1")
    assert scene.live.value(MODEL_SOURCES, "catalog") == "Ready"
    report(scene, "org/a:1", FOUND)
    report(scene, "org/nope:1", refused())
    plan = heard(scene)
    assert plan.status is not None
    assert plan.status["status"] == "Degraded"
    assert (plan.status["discoveredModels"], plan.status["availableModels"]) == (2, 1)
    for type_ in ("Ready", "FiltersReady"):
        assert cond(plan, type_) == ("False", "SomeFiltersFailed")
        assert "1 of 2 selectors failed: [1] org/nope:1: NotFound: AIMClusterModel org-nope-1-" in message(plan, type_)
        assert "manifest unknown" in message(plan, type_)
    assert cond(plan, "Syncing") == ("False", "SyncCompleted")
    (reported,) = (event for event in plan.events if event.reason == "ImageNotResolved")
    assert reported.type is EventType.WARNING
    assert "[1] org/nope:1: NotFound" in reported.message
    # No registry is asked for it, now or sooner than without it.
    assert plan.effects == ()
    assert plan.requeue_after is not None
    assert plan.requeue_after > 3500
    scene.carry_out(NOW + timedelta(seconds=10))
    settled = scene.reconcile(NOW + timedelta(seconds=20))
    assert (settled.status, settled.events, settled.effects) == (None, (), ())


@pytest.mark.spec("MS-385", "MS-393", "MS-294")
def test_a_source_of_nothing_that_exists_has_failed_until_it_exists() -> None:
    scene = at_work("org/nope:1")
    report(scene, "org/nope:1", refused())
    plan = heard(scene)
    assert plan.status is not None
    assert (plan.status["status"], plan.status["availableModels"]) == ("Failed", 0)
    assert cond(plan, "Ready") == ("False", "AllFiltersFailed")
    scene.carry_out(NOW + timedelta(seconds=10))
    report(scene, "org/nope:1", FOUND)
    healed = heard(scene, 20)
    assert healed.status is not None
    assert (healed.status["status"], healed.status["availableModels"]) == ("Ready", 1)
    assert cond(healed, "Ready") == ("True", "AllComponentsReady")


@pytest.mark.spec("MS-393", "MS-238", "MS-254")
def test_the_next_sync_comes_at_its_time_and_finds_the_same() -> None:
    scene = at_work("org/nope:1")
    report(scene, "org/nope:1", refused())
    scene.carry_out(NOW + timedelta(seconds=10))
    before = scene.live.status(MODEL_SOURCES, "catalog")
    later = NOW + timedelta(minutes=70)
    scene.carry_out(later).synced(pinned("org/nope:1"), later + timedelta(seconds=1))
    scene.carry_out(later + timedelta(seconds=2))
    after = scene.live.status(MODEL_SOURCES, "catalog")
    assert (after["status"], after["lastSyncTime"]) == ("Failed", before["lastSyncTime"])
    waiting = scene.reconcile(later + timedelta(seconds=30))
    assert (waiting.effects, waiting.children) == ((), ())
    assert waiting.requeue_after is not None
    assert waiting.requeue_after > 3500


@pytest.mark.spec("MS-387", "MS-388", "MS-389", "MS-390", "MS-394", "MS-337")
@pytest.mark.parametrize(
    ("reason", "code", "access"),
    [
        ("ImagePullAuthFailure", "AuthFailed", False),
        ("SecretNotFound", "MissingCredentials", False),
        ("SecretAccessFailed", "SecretAccessFailed", False),
        ("MetadataExtractionFailed", "ImageUnreadable", True),
    ],
)
def test_whatever_keeps_an_image_from_being_read_is_reported(reason: str, code: str, access: bool) -> None:
    scene = at_work("org/a:1", "org/b:1")
    report(scene, "org/b:1", refused(reason, "why"))
    plan = heard(scene)
    assert f"[1] org/b:1: {code}: " in message(plan, "FiltersReady")
    assert plan.status is not None
    types = {one["type"]: one["reason"] for one in plan.status["conditions"]}
    assert types.get("AuthValid") == (None if access else "AuthError")


@pytest.mark.spec("MS-336", "MS-388")
def test_a_missing_pull_secret_is_named_with_its_namespace() -> None:
    problem = {"name": "gone", "reason": "SecretNotFound", "message": "Secret aim-system/gone: does not exist"}
    asked = outcome(selected("org/a:1", "org/a:1", contacted=False), secret_problems=[problem])
    made = model("org/a:1", status=refused("SecretNotFound", "pull secret aim-system/gone does not exist"))
    plan = Scene(listing("org/a:1"), (made,)).synced(asked).reconcile()
    assert cond(plan, "ConfigValid") == ("False", "ReferenceNotFound")
    assert "Secret gone does not exist in namespace aim-system" in message(plan, "ConfigValid")


@pytest.mark.spec("MS-385")
@pytest.mark.parametrize(
    "status",
    [
        refused("ExtractingMetadata"),
        refused("MetadataFormatInvalid"),
        refused(observedGeneration=7),
        FOUND,
        {"status": "Failed", "conditions": [condition("ServiceTemplatesReady", False, "AllTemplatesFailed")]},
        {},
    ],
    ids=["asking", "labels", "another generation", "found", "templates", "nothing"],
)
def test_what_says_nothing_about_the_image_fails_nothing(status: JsonObject) -> None:
    plan = Scene(listing("org/a:1"), (model("org/a:1", status=status),)).synced(pinned("org/a:1")).reconcile()
    assert cond(plan, "Ready") == ("True", "AllComponentsReady")


@pytest.mark.spec("MS-391", "MS-177")
def test_a_model_of_others_speaks_where_the_source_has_none() -> None:
    foreign = model("org/a:1", labels={}, status=refused())
    plan = Scene(listing("docker.io/org/a:1"), (foreign,)).synced(pinned("org/a:1")).reconcile()
    assert cond(plan, "Ready") == ("False", "AllFiltersFailed")
    better = model("org/a:1", "by-hand", labels={}, status=FOUND)
    plan = Scene(listing("org/a:1"), (foreign, better)).synced(pinned("org/a:1")).reconcile()
    assert cond(plan, "Ready") == ("True", "AllComponentsReady")


@pytest.mark.spec("MS-385", "MS-173")
def test_the_same_image_twice_and_a_digest() -> None:
    digest = "org/a@sha256:" + "0" * 64
    twice = outcome(selected("org/a:1", "org/a:1", contacted=False), selected("org/a:1", matched=1, contacted=False))
    made = (model("org/a:1", status=refused()), model(digest, "by-digest", status=refused()))
    plan = Scene(listing("org/a:1", "org/a:1"), made).synced(twice).reconcile()
    assert "2 of 2 selectors failed" in message(plan, "Ready")
    asked = outcome(selected(digest, contacted=False, matched=1))
    plan = Scene(listing(digest), made).synced(asked).reconcile()
    assert cond(plan, "Ready") == ("False", "AllFiltersFailed")


@pytest.mark.spec("MS-385")
def test_listed_repositories_and_excluded_images_have_no_verdict() -> None:
    made = (model("org/a:1", status=refused()), model("org/b:1", status=refused()))
    spec = {"images": None, "filters": [{"image": "org/a"}, {"image": "org/b:1", "exclude": ["org/b"]}]}
    asked = outcome(selected("org/a", "org/a:1"), selected("org/b:1", contacted=False))
    plan = Scene(source(spec=spec), made).synced(asked).reconcile()
    assert cond(plan, "Ready") == ("True", "AllComponentsReady")


@pytest.mark.spec("MS-280", "MS-392")
def test_each_of_many_images_is_named() -> None:
    texts = [f"org/nope:{number}" for number in range(14)]
    scene = at_work(*texts)
    for text in texts:
        report(scene, text, refused())
    plan = heard(scene)
    assert all(text in message(plan, "Ready") for text in texts)
    reported = [event.message for event in plan.events if event.reason == "ImageNotResolved"]
    assert len(reported) == len(texts)
    assert all(any(text in one for one in reported) for text in texts)


@pytest.mark.spec("MS-392")
def test_an_event_names_what_is_new() -> None:
    scene = at_work("org/a:1", "org/b:1", "org/c:1")
    report(scene, "org/a:1", refused())
    scene.carry_out(NOW + timedelta(seconds=10))
    report(scene, "org/b:1", refused())
    plan = heard(scene, 20)
    assert ["[1] org/b:1" in event.message for event in plan.events] == [True]
    assert "[0] org/a:1" in message(plan, "Ready")


@pytest.mark.spec("MS-233", "MS-391")
def test_a_name_that_another_image_has_stays_in_the_way() -> None:
    name = Scene(listing("org/b:1")).synced(pinned("org/b:1")).reconcile().children[0].name
    scene = AtWork(listing("org/a:1", "org/b:1"), (model("other/image:1", name=name, labels={}),))
    scene.carry_out().carry_out().synced(pinned("org/a:1", "org/b:1"), NOW + timedelta(seconds=1))
    scene.carry_out(NOW + timedelta(seconds=2))
    report(scene, "org/a:1", refused())
    plan = heard(scene)
    assert "[0] org/a:1: NotFound" in message(plan, "Ready")
    assert "NameCollision" in message(plan, "Ready")


@pytest.mark.spec("MS-245", "MS-391")
def test_a_verdict_wakes_the_source_and_other_news_of_a_model_does_not() -> None:
    given = listing("org/a:1")
    cache, one = Scene(given).synced(pinned("org/a:1")).cache, model("org/a:1", owners=[owner(given)])

    def woken_by(before: JsonObject, after: JsonObject) -> set[str]:
        return woken(DEFINITION, cache, CLUSTER_MODELS, before, after)

    bad, again = {**one, "status": refused()}, {**one, "status": {**refused(), "status": "Failed"}}
    assert woken_by(one, bad) == {"cluster-model-source:catalog"}
    assert woken_by(bad, one) == {"cluster-model-source:catalog"}
    assert woken_by(bad, again) == set()
    assert woken_by(one, {**one, "status": FOUND}) == set()
