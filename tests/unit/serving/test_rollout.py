"""A new version beside the one that runs: steps, requests of people, what ends a rollout (serving.md section 18b)."""

from datetime import timedelta
from typing import Any

import pytest
from support.builders import condition, make, owner
from support.serving import (
    TEAM,
    aim_service,
    children_of,
    condition_of,
    config,
    model,
    node,
    plan_for,
    serving_cache,
    template,
    template_cache,
    workload,
)

from aim_domain import AIMService, RolloutPhase, RolloutStatus, labels
from aim_domain.kinds import NAMESPACE, POD
from aim_domain.parts import INFERENCE_SERVICES, TEMPLATE_CACHES, TEMPLATES
from aim_serving.rollout import (
    Course,
    Versions,
    build_candidate,
    candidate_name,
    decide,
    forget_request,
    former_candidates,
    is_candidate,
    rolled_out,
)
from controller_runtime import JsonObject, Plan, to_json
from controller_runtime.core import Pod
from controller_runtime.testing import NOW, BuiltCache

STEPS = [{"weight": 10, "pause": "10m"}, {"weight": 50}]
USUAL = "qwen3-lat-a04542d9"
OLD, NEW = "old-digest", "new-digest"
LATER = NOW + timedelta(minutes=10)


def service(
    status: RolloutStatus | None = None, annotation: str = "", steps: list[JsonObject] | None = None, **spec: Any
) -> AIMService:
    body = aim_service(
        rollout={"steps": steps or STEPS}, **spec, status={} if status is None else {"rollout": to_json(status)}
    )
    if annotation:
        body["metadata"]["annotations"] = {labels.ANNOTATION_ROLLOUT: annotation}
    return AIMService.model_validate(body)


def beside(status: str = "Running", version: str = NEW) -> AIMService:
    """The AIMService of the new version."""
    body = aim_service(candidate_name(service(), version))
    ready = condition("Ready", status == "Running", "PodFailed", "its pod ends with code 1")
    return AIMService.model_validate({**body, "status": {"status": status, "conditions": [ready]}})


def pod(version: str, *, ready: bool = True) -> Pod:
    status = {"phase": "Running", "conditions": [condition("Ready", ready, "x")]}
    return Pod.model_validate(
        make(POD, f"p-{version}", namespace=TEAM, labels={"pod-template-hash": version}, status=status)
    )


def course(
    one: AIMService, candidate: AIMService | None = None, wanted: str = NEW, now: Any = NOW, **more: Any
) -> Course:
    assert one.spec.rollout is not None
    known = {"adopted": OLD if wanted != OLD else wanted, "pods": (pod("former"),), **more}
    return decide(one, one.spec.rollout, Versions(wanted=wanted, candidate=candidate, **known), now)


def outline(found: Course) -> tuple[str, int | None, int | None, bool, bool]:
    state = found.status
    return (state.phase.value, state.step, state.weight, found.held, found.beside)


def at(phase: RolloutPhase, **fields: Any) -> RolloutStatus:
    known = {"revision": NEW, "running": OLD, "since": NOW, "candidate": candidate_name(service(), NEW)}
    return RolloutStatus(phase=phase, **{**known, **fields})


@pytest.mark.spec("SV-341")
def test_what_runs_is_taken_as_it_is_when_a_service_gets_a_rollout() -> None:
    found = course(service(), wanted=OLD)
    assert outline(found) == ("Complete", None, None, False, False)
    assert (found.status.running, found.status.revision) == (OLD, OLD)
    assert course(service(found.status), wanted=OLD).status == found.status, "and nothing is written again"


@pytest.mark.spec("SV-340", "SV-342")
def test_a_new_version_starts_beside_the_one_that_runs_and_gets_no_request_before_it_runs() -> None:
    begun = course(service(RolloutStatus(phase=RolloutPhase.COMPLETE, revision=OLD, running=OLD)))
    assert outline(begun) == ("Preparing", None, None, True, True)
    assert begun.again == NOW + timedelta(hours=1)
    waiting = course(service(begun.status), beside("Starting"))
    assert outline(waiting) == ("Preparing", None, None, True, True)
    assert "its pod ends with code 1" in (waiting.status.message or "")
    assert outline(course(service(begun.status), beside())) == ("Progressing", 1, 10, True, True)


@pytest.mark.spec("SV-343")
def test_a_step_lasts_as_long_as_it_says_and_one_without_a_pause_waits_for_a_person() -> None:
    first = at(RolloutPhase.PROGRESSING, step=1, weight=10)
    early = course(service(first), beside(), now=LATER - timedelta(seconds=1))
    assert outline(early) == ("Progressing", 1, 10, True, True)
    assert early.again == LATER
    second = course(service(first), beside(), now=LATER)
    assert outline(second) == ("Paused", 2, 50, True, True)
    assert second.again is None
    much_later = course(service(second.status), beside(), now=LATER + timedelta(days=9))
    assert outline(much_later) == ("Paused", 2, 50, True, True)


@pytest.mark.spec("SV-343")
def test_steps_whose_time_is_over_follow_each_other_from_now_on() -> None:
    steps = [{"weight": 10, "pause": "0s"}, {"weight": 20, "pause": "1m"}, {"weight": 30, "pause": "1m"}]
    found = course(service(at(RolloutPhase.PROGRESSING, step=1, weight=10), steps=steps), beside(), now=LATER)
    assert outline(found) == ("Progressing", 2, 20, True, True), "each step lasts its time, however late the pass is"


@pytest.mark.spec("SV-344")
@pytest.mark.parametrize(
    ("annotation", "found"),
    [
        ("continue", ("Promoting", None, 100, False, True)),
        ("promote", ("Promoting", None, 100, False, True)),
        ("abort", ("Aborted", None, None, True, True)),
        ("retry", ("Paused", 2, 50, True, True)),
        ("contine", ("Paused", 2, 50, True, True)),
    ],
)
def test_a_person_decides_by_an_annotation(annotation: str, found: tuple[Any, ...]) -> None:
    paused = at(RolloutPhase.PAUSED, step=2, weight=50)
    decided = course(service(paused, annotation), beside())
    assert outline(decided) == found
    one = rolled_out(service(paused, annotation), decided.status)
    assert ("set one of continue, promote, abort, retry" in one.message) is (annotation == "contine")


@pytest.mark.spec("SV-344")
def test_an_annotation_acts_once_and_is_removed_then() -> None:
    steps = [{"weight": 10}, {"weight": 20}, {"weight": 30}]
    first = at(RolloutPhase.PAUSED, step=1, weight=10)
    second = course(service(first, "continue", steps), beside())
    assert outline(second) == ("Paused", 2, 20, True, True)
    assert forget_request(service(first, "continue", steps)) == ()
    [patch] = forget_request(service(second.status, "continue", steps))
    assert patch.body == {"metadata": {"annotations": {labels.ANNOTATION_ROLLOUT: None}}}
    assert outline(course(service(second.status, "continue", steps), beside())) == outline(second)
    gone = course(service(second.status, "", steps), beside())
    assert outline(course(service(gone.status, "continue", steps), beside())) == ("Paused", 3, 30, True, True)
    assert forget_request(service(first, "contine", steps)) == (), "a word that means nothing stays to be seen"


@pytest.mark.spec("SV-345")
def test_the_new_version_answers_alone_until_the_pods_of_the_service_are_replaced() -> None:
    promoted = course(service(at(RolloutPhase.PAUSED, step=2, weight=50), "promote"), beside()).status
    assert (promoted.running, promoted.former_pods) == (NEW, ("former",))
    promoted = promoted.model_copy(update={"request": None})
    for pods in ((pod("former"),), (pod("former"), pod("next")), (pod("next", ready=False),), ()):
        assert outline(course(service(promoted), beside(), pods=pods)) == ("Promoting", None, 100, False, True)
    lost = course(service(promoted), beside("Failed"), pods=(pod("former"),))
    assert outline(lost) == ("Promoting", None, None, False, True), "requests go where pods are"
    done = course(service(promoted), beside(), pods=(pod("next"),))
    assert outline(done) == ("Draining", None, None, False, True)
    assert outline(course(service(done.status), beside(), now=NOW + timedelta(seconds=29)))[0] == "Draining"
    over = course(service(done.status), beside(), now=NOW + timedelta(seconds=30))
    assert outline(over) == ("Complete", None, None, False, False)
    assert over.status.candidate is None
    assert outline(course(service(promoted), beside(), pods=(), at_zero=True))[0] == "Draining"


@pytest.mark.spec("SV-346")
@pytest.mark.parametrize("phase", [RolloutPhase.PROGRESSING, RolloutPhase.PAUSED])
@pytest.mark.parametrize("health", ["Failed", "Degraded", "Starting", None])
def test_a_new_version_that_stops_running_ends_the_rollout(phase: RolloutPhase, health: str | None) -> None:
    state = at(phase, step=1, weight=10)
    found = course(service(state), None if health is None else beside(health))
    assert outline(found) == ("Aborted", None, None, True, True)
    one = rolled_out(service(state), found.status)
    assert (one.status, one.reason) == ("False", "RolloutAborted")
    assert "no longer runs" in one.message
    assert one.message.endswith(
        f"kubectl annotate --overwrite aimservice qwen-chat -n {TEAM} {labels.ANNOTATION_ROLLOUT}=retry"
    )


@pytest.mark.spec("SV-346")
def test_a_new_version_that_fails_or_takes_too_long_gets_no_request() -> None:
    preparing = at(RolloutPhase.PREPARING)
    assert outline(course(service(preparing), beside("Failed"))) == ("Aborted", None, None, True, True)
    late = course(service(preparing), beside("Starting"), now=NOW + timedelta(hours=1))
    assert outline(late) == ("Aborted", None, None, True, True)
    assert "does not run after 1h" in (late.status.message or "")


@pytest.mark.spec("SV-349")
def test_a_check_above_its_limit_aborts_and_one_without_an_answer_holds_the_step() -> None:
    state = at(RolloutPhase.PROGRESSING, step=1, weight=10)
    exceeded = course(service(state), beside(), exceeded="check errors is 0.5, above 0.05")
    assert outline(exceeded) == ("Aborted", None, None, True, True)
    assert exceeded.status.message == "check errors is 0.5, above 0.05 while the new version answered 10 %"
    early = course(service(state), beside(), unread="check errors has no answer")
    assert (outline(early), early.status.message) == (("Progressing", 1, 10, True, True), None)
    held = course(service(state), beside(), now=LATER, unread="check errors has no answer")
    assert outline(held) == ("Progressing", 1, 10, True, True)
    one = rolled_out(service(state), held.status)
    assert (
        one.message
        == "step 1 of 2, 10 % of the requests go to the new version; its time is over, but check errors has no answer"
    )
    assert outline(course(service(held.status), beside(), now=LATER)) == ("Paused", 2, 50, True, True)
    overruled = course(service(held.status, "continue"), beside(), now=LATER, unread="check errors has no answer")
    assert outline(overruled) == ("Paused", 2, 50, True, True)


@pytest.mark.spec("SV-346")
def test_what_was_aborted_ends_after_its_last_answers_and_stays_so_until_it_is_asked_for_again() -> None:
    aborted = at(RolloutPhase.ABORTED, message="x")
    over = course(service(aborted), beside(), now=NOW + timedelta(seconds=30))
    assert outline(over) == ("Aborted", None, None, True, False)
    assert over.status.candidate is None
    assert outline(course(service(over.status), None, now=LATER)) == ("Aborted", None, None, True, False)
    assert outline(course(service(over.status, "retry"), None)) == ("Preparing", None, None, True, True)


@pytest.mark.spec("SV-347")
def test_a_third_version_begins_another_rollout_and_the_former_one_ends_it() -> None:
    state = at(RolloutPhase.PAUSED, step=2, weight=50)
    third = course(service(state), beside(version="third"), wanted="third")
    assert outline(third) == ("Progressing", 1, 10, True, True)
    assert third.status.candidate == candidate_name(service(), "third")
    back = course(service(state), None, wanted=OLD)
    assert outline(back) == ("Complete", None, None, False, False)
    unknown = course(service(state), beside(), wanted="")
    assert outline(unknown) == ("Paused", 2, 50, True, True), "while the version is not known nothing changes"


@pytest.mark.spec("SV-342")
def test_the_new_version_has_neither_route_nor_autoscaler_nor_rollout() -> None:
    scaled: dict[str, Any] = {
        "minReplicas": 2,
        "maxReplicas": 4,
        "routing": {"enabled": True},
        "env": [{"name": "A", "value": "1"}],
    }
    one = service(**scaled)
    assert one.spec.rollout is not None
    child = build_candidate(one, one.spec.rollout, NEW)
    assert child.owned
    spec = child.body["spec"]
    assert (spec["replicas"], spec["routing"], spec["env"]) == (1, {"enabled": False}, [{"name": "A", "value": "1"}])
    assert spec.keys().isdisjoint({"rollout", "minReplicas", "maxReplicas", "autoScaling"})
    assert child.name == candidate_name(one, NEW) != candidate_name(one, OLD)


@pytest.mark.spec("SV-342")
def test_only_what_was_made_for_a_version_is_removed() -> None:
    mine, stranger = beside(), beside(version="x")
    assert [one.name for one in former_candidates([mine, stranger], mine.name)] == [stranger.name]
    owned = {"ownerReferences": [{"uid": service().uid, "controller": True, "kind": "AIMService", "name": "chat"}]}
    marked = {**owned, "labels": {labels.COMPONENT: labels.COMPONENT_CANDIDATE}}
    for metadata, made in ((owned, False), (marked, True), ({"labels": marked["labels"]}, False)):
        body = to_json(mine)
        body["metadata"] |= metadata
        assert is_candidate(AIMService.model_validate(body), service()) is made


# Whole passes


ROLLOUT: JsonObject = {"steps": [{"weight": 10}]}


def cached(one: JsonObject, *objects: JsonObject) -> BuiltCache:
    return serving_cache(one, template(), model(), node(), make(NAMESPACE, TEAM), template_cache(USUAL), *objects)


def with_status(plan: Plan, **spec: Any) -> JsonObject:
    """The service as the pass has left it, with another spec."""
    assert plan.status is not None
    return aim_service(model={"name": "qwen"}, rollout=ROLLOUT, status=plan.status, **spec)


def adopted() -> tuple[JsonObject, JsonObject, Plan]:
    """A service that runs, its InferenceService with its label, and the first pass with a rollout."""
    one = aim_service(model={"name": "qwen"}, rollout=ROLLOUT)
    running = workload(one, ready=True)
    running["metadata"]["labels"] = {labels.TEMPLATE: "qwen3-lat"}
    return one, running, plan_for(cached(one, running))


@pytest.mark.spec("SV-340", "SV-341")
def test_without_a_rollout_nothing_is_read_or_reported_and_with_one_what_runs_is_kept_as_it_is() -> None:
    plain = aim_service(model={"name": "qwen"})
    without = plan_for(cached(plain, workload(plain, ready=True)))
    assert without.status is not None
    assert "rollout" not in without.status
    assert condition_of(without, "RolledOut") is None
    _, _, first = adopted()
    assert first.status is not None
    assert first.status["rollout"]["phase"] == "Complete"
    assert condition_of(first, "RolledOut") == ("True", "RolloutComplete")
    assert [one["metadata"] for one in children_of(first, "InferenceService")] == [
        one["metadata"] for one in children_of(without, "InferenceService")
    ], "adding a rollout changes no InferenceService"


@pytest.mark.spec("SV-340", "SV-342")
def test_a_change_of_the_pods_goes_to_a_service_beside_it_and_replicas_do_not() -> None:
    _, running, first = adopted()
    scaled = plan_for(cached(with_status(first, replicas=3), running))
    assert children_of(scaled, "AIMService") == []
    assert children_of(scaled, "InferenceService")[0]["spec"]["predictor"]["minReplicas"] == 3
    changed = with_status(first, env=[{"name": "A", "value": "1"}])
    plan = plan_for(cached(changed, running))
    assert children_of(plan, "InferenceService") == [], "it stays as it is"
    [candidate] = children_of(plan, "AIMService")
    assert candidate["spec"]["env"] == [{"name": "A", "value": "1"}]
    assert condition_of(plan, "RolledOut") == ("False", "RolloutPreparing")
    labelled = {**changed, "metadata": {**changed["metadata"], "labels": {"team": "a"}}}
    settings = config(labelPropagation={"enabled": True, "match": ["team"]})
    [inherited] = children_of(plan_for(cached(labelled, running, settings)), "AIMService")
    assert inherited["metadata"]["labels"]["team"] == "a"


@pytest.mark.spec("SV-340", "SV-341")
def test_what_is_not_known_ends_no_rollout() -> None:
    _, running, first = adopted()
    begun = plan_for(cached(with_status(first, env=[{"name": "A", "value": "1"}]), running))
    one = with_status(begun, env=[{"name": "A", "value": "1"}])
    assert begun.status is not None
    beside_it = {**aim_service(begun.status["rollout"]["candidate"]), "status": {"status": "Starting"}}
    beside_it["metadata"]["labels"] = {labels.COMPONENT: labels.COMPONENT_CANDIDATE}
    beside_it["metadata"]["ownerReferences"] = [owner(one)]
    for part in (INFERENCE_SERVICES, TEMPLATES, TEMPLATE_CACHES):
        known = cached(one, *([] if part is INFERENCE_SERVICES else [running]), beside_it)
        known.make_stale(part)
        plan = plan_for(known)
        assert plan.status is not None
        assert plan.status["rollout"]["phase"] == "Preparing", part
        assert (plan.deletes, children_of(plan, "InferenceService")) == ((), []), part
    gone = plan_for(cached(aim_service(model={"name": "qwen"}, status=begun.status), running, beside_it))
    assert [delete.name for delete in gone.deletes] == [beside_it["metadata"]["name"]], "the rollout was removed"
    assert gone.status is not None
    assert "rollout" not in gone.status


@pytest.mark.spec("SV-340")
def test_what_changes_no_pod_is_no_version() -> None:
    _, running, first = adopted()
    changed = with_status(first, storage={"pvcHeadroomPercent": 20})
    plan = plan_for(cached(changed, running))
    assert children_of(plan, "AIMService") == [], "else the promotion would wait for pods that nothing replaces"
    assert plan.status is not None
    found = plan.status["rollout"]
    assert (found["phase"], found["running"] == found["revision"]) == ("Complete", True)
    assert first.status is not None
    assert found["revision"] != first.status["rollout"]["revision"]
    undone = course(service(at(RolloutPhase.PAUSED, step=2, weight=50, pod_template="same")), beside(), template="same")
    assert outline(undone) == ("Complete", None, None, False, False)


@pytest.mark.spec("SV-340", "SV-271")
def test_a_dry_run_shows_the_candidate_and_begins_no_rollout() -> None:
    _, running, first = adopted()
    changed = with_status(first, env=[{"name": "A", "value": "1"}])
    changed["metadata"]["annotations"] = {labels.ANNOTATION_DRY_RUN: "plan"}
    plan = plan_for(cached(changed, running))
    assert plan.status is not None
    assert first.status is not None
    assert plan.status["rollout"] == first.status["rollout"]
    [reported] = children_of(plan, "ConfigMap")
    assert "create AIMService" in reported["data"]["plan"]
