"""News that waits before it is told (FW-510…FW-513)."""

from datetime import UTC, datetime, timedelta

import pytest

from controller_runtime import (
    UNREPORTED,
    Category,
    ClassifiedError,
    Component,
    Condition,
    ConditionStatus,
    Dependency,
    Evaluation,
    Hold,
    Plan,
    State,
    StatusValue,
    assemble,
    evaluate,
    status_json,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
DOWN = Dependency.DOWNSTREAM
SPAN = timedelta(seconds=2)
STEPS = {"PodsPending": State.PENDING}
STARTING = Component("Pods", State.STARTING, "PodsStarting", "it runs", dependency=DOWN)
JOB = Component("Job", State.PROGRESSING, "JobRunning", "it is running", dependency=DOWN)
BROKEN = Component(
    "Job", errors=(ClassifiedError(Category.INVALID_SPEC, "JobFailed", "it has failed"),), dependency=DOWN
)
ABSENT = Component(
    "Job", errors=(ClassifiedError(Category.MISSING_DOWNSTREAM, "NotYet", "it does not exist yet"),), dependency=DOWN
)
AWAY = ClassifiedError(Category.INFRASTRUCTURE, "Timeout", "no answer")


def stored(reason: str) -> Condition:
    since = NOW - timedelta(minutes=1)
    return Condition(
        type="PodsReady", status=ConditionStatus.FALSE, reason=reason, message="as told", last_transition_time=since
    )


def seen(
    *components: Component, before: tuple[Condition, ...] = (), failure: ClassifiedError | None = None
) -> Evaluation:
    return evaluate(
        ("Job", "Pods"), components, generation=1, stored=before, stored_status=None, now=NOW, failure=failure
    )


def planned(evaluation: Evaluation) -> Plan:
    return assemble(evaluation, status=status_json(evaluation))


def pods(evaluation: Evaluation) -> tuple[str, str] | None:
    found = next((one for one in evaluation.conditions if one.type == "PodsReady"), None)
    return None if found is None else (found.reason, found.message)


@pytest.mark.spec("FW-510", "FW-511")
@pytest.mark.parametrize(
    ("reason", "age", "reported", "again"),
    [
        ("PodsPending", 0.5, ("PodsPending", "as told"), 1.5),
        ("PodsPending", 2, ("PodsStarting", "it runs"), None),
        ("PodsPending", -1, ("PodsStarting", "it runs"), None),
        ("PodsReady", 0.5, ("PodsStarting", "it runs"), None),
        (None, 0.5, ("PodsStarting", "it runs"), None),
    ],
)
def test_a_step_is_reported_once_it_has_lasted(
    reason: str | None, age: float, reported: tuple[str, str], again: float | None
) -> None:
    step = STARTING.hold_for(SPAN, since=NOW - timedelta(seconds=age), over=STEPS)
    evaluation = seen(step, before=() if reason is None else (stored(reason),))
    assert (pods(evaluation), planned(evaluation).requeue_after) == (reported, again)
    assert planned(evaluation).status is not None


@pytest.mark.spec("FW-510")
def test_what_stands_has_the_state_of_then_and_no_event() -> None:
    evaluation = seen(STARTING.hold_for(SPAN, since=NOW, over=STEPS), before=(stored("PodsPending"),))
    assert evaluation.status is StatusValue.PENDING
    assert [event.condition for event in evaluation.events] == ["Ready"]


@pytest.mark.spec("FW-510")
def test_an_error_that_has_still_to_be_explained_is_none_yet() -> None:
    failing = Component("Pods", errors=BROKEN.errors, dependency=DOWN).hold_until_known(over=STEPS)
    evaluation = seen(failing, before=(stored("PodsPending"),))
    assert (evaluation.status, pods(evaluation)) == (StatusValue.PENDING, ("PodsPending", "as told"))
    assert planned(evaluation).requeue_after is None, "the fact wakes it"
    assert seen(failing).status is StatusValue.FAILED


@pytest.mark.spec("FW-510", "FW-513")
def test_what_was_never_reported_only_counts() -> None:
    step = STARTING.hold_for(SPAN, since=NOW, over={UNREPORTED: State.PROGRESSING})
    evaluation = seen(JOB, step)
    assert (pods(evaluation), evaluation.status) == (None, StatusValue.PROGRESSING)
    assert evaluation.conditions[-1].message == "Waiting for Job: it is running"
    done = seen(Component("Job", State.READY), step)
    assert (done.status, done.conditions[-1].message) == (StatusValue.PROGRESSING, "Waiting for Pods")


@pytest.mark.spec("FW-511")
def test_the_first_hold_that_ends_is_looked_at_also_when_an_error_is_retried() -> None:
    early = STARTING.hold_for(SPAN, since=NOW - timedelta(seconds=1), over={UNREPORTED: State.PROGRESSING})
    late = JOB.hold_for(SPAN, since=NOW, over={UNREPORTED: State.PROGRESSING})
    assert planned(seen(early, late)).requeue_after == 1
    retried = planned(seen(early, late, failure=AWAY))
    assert (retried.retry is None, retried.retry_within) == (False, 1)
    assert assemble(seen(early), status={}, requeue_after=0.5).requeue_after == 0.5


@pytest.mark.spec("FW-512")
def test_the_whole_status_waits_unless_something_is_wrong() -> None:
    step = STARTING.hold_for(SPAN, since=NOW, whole=True)
    for quiet in (planned(seen(JOB, step)), planned(seen(ABSENT, step))):
        assert (quiet.status, quiet.events, quiet.requeue_after) == (None, (), 2)
    for wrong in (planned(seen(BROKEN, step)), planned(seen(JOB, step, failure=AWAY))):
        assert wrong.status is not None
        assert [one["reason"] for one in wrong.status["conditions"] if one["type"] == "PodsReady"] == ["PodsStarting"]
        assert wrong.events


@pytest.mark.spec("FW-090", "FW-510")
def test_news_that_waits_keeps_blocking_what_it_blocks() -> None:
    wrong = ClassifiedError(Category.INVALID_SPEC, "Wrong", "the model is wrong")
    unsound = Component("Pods", errors=(wrong,), dependency=Dependency.UPSTREAM)
    waiting = seen(unsound.hold_until_known(over={"PodsStarting": State.STARTING}), before=(stored("PodsStarting"),))
    assert not waiting.may_apply


@pytest.mark.spec("FW-510")
@pytest.mark.parametrize(("span", "since"), [(SPAN, None), (None, NOW)])
def test_a_span_needs_its_beginning(span: timedelta | None, since: datetime | None) -> None:
    with pytest.raises(ValueError, match="go together"):
        Hold(span, since)


def first_status(
    *components: Component,
    age: float = 1,
    before: tuple[Condition, ...] = (),
    progressing: tuple[str, str] | None = None,
) -> Plan:
    """What is told of an object of that many seconds."""
    created = NOW - timedelta(seconds=age)
    return planned(
        evaluate(
            ("Job", "Pods"),
            components,
            generation=1,
            stored=before,
            stored_status=None,
            now=NOW,
            progressing=progressing,
            created=created,
        )
    )


READY = Component("Job", State.READY, dependency=DOWN)


@pytest.mark.spec("FW-518")
@pytest.mark.parametrize(
    "said", [JOB, ABSENT, STARTING, Component("Job", State.PENDING, "Waiting", "for somebody", dependency=DOWN)]
)
def test_of_a_new_object_nothing_is_reported_while_something_is_under_way(said: Component) -> None:
    plan = first_status(said)
    assert (plan.status, plan.events, plan.requeue_after) == (None, (), 1)
    assert first_status(said, age=2).status is not None


@pytest.mark.spec("FW-518")
@pytest.mark.parametrize(
    "said",
    [
        READY,
        BROKEN,
        Component("Job", State.NOT_AVAILABLE, "NoGpu", "there is none", dependency=DOWN),
        Component("Job", State.DEGRADED, "Half", "of it works", dependency=DOWN),
        Component(
            "Job",
            errors=(ClassifiedError(Category.MISSING_UPSTREAM, "ModelNotFound", "there is none"),),
            dependency=Dependency.UPSTREAM,
        ),
    ],
)
def test_what_is_ready_wrong_or_not_available_is_reported_at_once(said: Component) -> None:
    plan = first_status(said)
    assert plan.status is not None
    assert plan.events


@pytest.mark.spec("FW-518", "AR-485")
def test_only_the_first_status_waits_and_not_that_of_who_waits_for_room() -> None:
    reported = Condition(
        type="Ready", status=ConditionStatus.FALSE, reason="Progressing", message="", observed_generation=1
    )
    assert first_status(JOB, before=(reported,)).status is not None
    assert first_status(JOB, progressing=("NamespaceQuotaExceeded", "no room")).status is not None
    of_others = stored("PodsStarting")
    assert first_status(JOB, before=(of_others,)).status is None, "another service may have told its part"
