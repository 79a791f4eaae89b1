"""Acceptance scenarios of the state engine (FW-S01 to FW-S21): stored state and components in, what a user sees out."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from aim_domain import AIMService
from controller_runtime import (
    Category,
    ClassifiedError,
    Component,
    Condition,
    ConditionStatus,
    Dependency,
    Desired,
    Evaluation,
    EventType,
    State,
    StatusValue,
    condition,
    evaluate,
    settle,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(seconds=60)
UP, DOWN = Dependency.UPSTREAM, Dependency.DOWNSTREAM
PARENTS = ("AuthValid", "ConfigValid", "DependenciesReachable")


def error(category: Category, reason: str) -> ClassifiedError:
    return ClassifiedError(category, reason, "because")


TIMEOUT = error(Category.INFRASTRUCTURE, "NetworkTimeout")
MODEL = Component("Model", State.READY, "ModelResolved", "qwen", dependency=UP)


def model(*errors: ClassifiedError) -> Component:
    """An input that has errors."""
    return Component("Model", errors=errors, dependency=UP)


def stored(*given: tuple[str, bool, str], ago: float = 60) -> tuple[Condition, ...]:
    """Conditions as they were written so many seconds ago."""
    wanted = [condition(type_, true, reason) for type_, true, reason in given]
    return tuple(settle(wanted, [], generation=1, now=NOW - timedelta(seconds=ago)))


def see(
    *components: Component, before: Iterable[Condition] = (), status: StatusValue | None = None, generation: int = 1
) -> Evaluation:
    return evaluate(
        AIMService.components,
        components,
        generation=generation,
        stored=tuple(before),
        stored_status=status,
        now=NOW,
    )


def reported(result: Evaluation) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status.value, one.reason) for one in result.conditions}


@dataclass(frozen=True)
class Outcome:
    """What has to come of it; of the conditions that are not named nothing is said, of parents that they are absent."""

    status: StatusValue
    may_apply: bool
    retried: bool
    conditions: dict[str, tuple[str, str]]


AUTH, INVALID = error(Category.AUTH, "Unauthorized"), error(Category.INVALID_SPEC, "InvalidSpec")
MISSING = error(Category.MISSING_UPSTREAM, "SecretNotFound")
ABSENT = error(Category.MISSING_DOWNSTREAM, "NoPods")
PODS = Component("InferenceServicePods", errors=(AUTH, TIMEOUT), dependency=DOWN)
UNREACHABLE = {"DependenciesReachable": ("False", "InfrastructureError")}
REFUSED = {"AuthValid": ("False", "AuthError"), "Ready": ("False", "AuthError")}
FAILED, DEGRADED = StatusValue.FAILED, StatusValue.DEGRADED


@pytest.mark.parametrize(
    ("component", "outcome"),
    [
        pytest.param(
            MODEL,
            Outcome(
                StatusValue.READY,
                may_apply=True,
                retried=False,
                conditions={"ModelReady": ("True", "ModelResolved"), "Ready": ("True", "AllComponentsReady")},
            ),
            marks=pytest.mark.spec("FW-S01"),
        ),
        pytest.param(
            model(TIMEOUT),
            Outcome(
                DEGRADED,
                may_apply=False,
                retried=True,
                conditions={"ModelReady": ("False", "NetworkTimeout"), **UNREACHABLE},
            ),
            marks=pytest.mark.spec("FW-S02"),
        ),
        pytest.param(
            model(AUTH), Outcome(FAILED, may_apply=False, retried=False, conditions=REFUSED),
            marks=pytest.mark.spec("FW-S03"),
        ),
        pytest.param(
            model(INVALID),
            Outcome(FAILED, may_apply=False, retried=False, conditions={"ConfigValid": ("False", "InvalidSpec")}),
            marks=pytest.mark.spec("FW-S04"),
        ),
        pytest.param(
            model(MISSING),
            Outcome(
                FAILED,
                may_apply=False,
                retried=False,
                conditions={
                    "ConfigValid": ("False", "ReferenceNotFound"),
                    "ModelReady": ("False", "SecretNotFound"),
                    "Ready": ("False", "ReferenceNotFound"),
                },
            ),
            marks=pytest.mark.spec("FW-S05"),
        ),
        pytest.param(
            Component("Cache", errors=(ABSENT,), dependency=DOWN),
            Outcome(
                StatusValue.PROGRESSING, may_apply=True, retried=False, conditions={"CacheReady": ("False", "NoPods")}
            ),
            marks=pytest.mark.spec("FW-S06"),
        ),
        pytest.param(
            model(AUTH, TIMEOUT),
            Outcome(FAILED, may_apply=False, retried=True, conditions={**REFUSED, **UNREACHABLE}),
            marks=pytest.mark.spec("FW-S07", "FW-093"),
            id="an input",
        ),
        pytest.param(
            PODS,
            Outcome(FAILED, may_apply=True, retried=True, conditions={**REFUSED, **UNREACHABLE}),
            marks=pytest.mark.spec("FW-S07", "FW-093"),
            id="an observation",
        ),
    ],
)  # fmt: skip
def test_what_comes_of_an_error(component: Component, outcome: Outcome) -> None:
    result = see(component)
    found = reported(result)
    assert (result.status, result.may_apply, result.retry is not None) == (
        outcome.status,
        outcome.may_apply,
        outcome.retried,
    )
    assert {type_: found[type_] for type_ in outcome.conditions} == outcome.conditions
    assert {type_ for type_ in PARENTS if type_ in found} == {type_ for type_ in PARENTS if type_ in outcome.conditions}
    if outcome.status is not StatusValue.READY and outcome.status is not StatusValue.PROGRESSING:
        assert {event.type for event in result.events} == {EventType.WARNING}


WAS_READY = (("ModelReady", True, "ModelResolved"), ("Ready", True, "AllComponentsReady"))


@pytest.mark.spec("FW-S08", "FW-110", "FW-P06")
def test_inside_the_grace_period() -> None:
    before = stored(*WAS_READY)
    result = see(model(TIMEOUT), before=before, status=StatusValue.READY)
    assert reported(result)["DependenciesReachable"] == ("False", "InfrastructureError")
    for was in before:
        (kept,) = (one for one in result.conditions if one.type == was.type)
        assert (kept.status, kept.reason, kept.last_transition_time) == (
            was.status,
            was.reason,
            was.last_transition_time,
        )
    assert result.status is StatusValue.READY
    assert result.retry is not None


@pytest.mark.spec("FW-S09", "FW-863")
@pytest.mark.parametrize(
    ("ago", "over"), [(9, False), (11, True), (-9, False), pytest.param(-3600, True, id="the clock was set back")]
)
def test_the_grace_period_ends(ago: float, over: bool) -> None:
    before = (*stored(*WAS_READY), *stored(("DependenciesReachable", False, "InfrastructureError"), ago=ago))
    result = see(model(TIMEOUT), before=before, status=StatusValue.READY)
    assert (reported(result)["ModelReady"][0], result.status) == (
        ("False", StatusValue.DEGRADED) if over else ("True", StatusValue.READY)
    )


@pytest.mark.spec("FW-S10")
def test_recovery_inside_the_grace_period() -> None:
    before = (*stored(*WAS_READY), *stored(("DependenciesReachable", False, "InfrastructureError"), ago=5))
    result = see(MODEL, before=before, status=StatusValue.READY)
    assert reported(result)["DependenciesReachable"] == ("True", "Reachable")
    assert reported(result)["ModelReady"] == ("True", "ModelResolved")
    assert result.status is StatusValue.READY


@pytest.mark.spec("FW-S11")
@pytest.mark.parametrize(
    ("type_", "was", "becomes"),
    [
        ("AuthValid", "AuthError", "AuthenticationValid"),
        ("ConfigValid", "InvalidSpec", "ConfigurationValid"),
        ("ConfigValid", "ReferenceNotFound", "ConfigurationValid"),
    ],
)
def test_what_was_wrong_stays_as_a_trace(type_: str, was: str, becomes: str) -> None:
    result = see(MODEL, before=stored((type_, False, was), ("Ready", False, was)), status=StatusValue.FAILED)
    assert reported(result)[type_] == ("True", becomes)
    assert {event.type for event in result.events if event.condition == type_} == {EventType.NORMAL}


@pytest.mark.spec("FW-S12")
@pytest.mark.parametrize(
    ("components", "status"),
    [
        ([MODEL, Component("Template", State.PROGRESSING, dependency=UP)], StatusValue.PENDING),
        ([MODEL, Component("Cache", State.PROGRESSING, dependency=DOWN)], StatusValue.PROGRESSING),
        ([MODEL, Component("Cache", State.PROGRESSING)], StatusValue.PROGRESSING),
        (
            [
                Component("Template", State.PROGRESSING, dependency=UP),
                Component("Cache", State.PROGRESSING, dependency=DOWN),
            ],
            StatusValue.PENDING,
        ),
        (
            [MODEL, Component("InferenceServicePods", State.PENDING, "PodsPending", dependency=DOWN)],
            StatusValue.PENDING,
        ),
    ],
)
def test_who_is_waited_for(components: list[Component], status: StatusValue) -> None:
    result = see(*components)
    assert result.status is status
    if components[-1].reason == "PodsPending":
        assert reported(result)["InferenceServicePodsReady"] == ("False", "PodsPending")


@pytest.mark.spec("FW-S13")
@pytest.mark.parametrize(
    ("component", "of_component", "of_ready"),
    [
        (Component("Cache", State.READY, dependency=DOWN), EventType.NORMAL, EventType.NORMAL),
        (Component("Cache", State.PROGRESSING, dependency=DOWN), EventType.NORMAL, EventType.NORMAL),
        (Component("Cache", State.FAILED, dependency=DOWN), EventType.WARNING, EventType.WARNING),
        (Component("Cache", State.DEGRADED, dependency=DOWN), EventType.WARNING, EventType.WARNING),
        (Component("Cache", State.NOT_AVAILABLE, dependency=DOWN), EventType.WARNING, EventType.WARNING),
        (Component("Cache", errors=(AUTH,), is_input=True), EventType.WARNING, EventType.WARNING),
    ],
)
def test_what_is_an_error_for_who_watches(component: Component, of_component: EventType, of_ready: EventType) -> None:
    first = see(component)
    by_condition = {event.condition: event for event in first.events}
    assert by_condition["CacheReady"].type is of_component
    assert by_condition["Ready"].type is of_ready
    assert all(by_condition[type_].type is EventType.WARNING for type_ in PARENTS if type_ in by_condition)
    again = see(component, before=first.conditions, status=first.status)
    standing = {event.condition for event in again.events if event.standing}
    assert ("CacheReady" in standing) is (of_component is EventType.WARNING)
    assert all(event.standing for event in again.events), "no transition, nothing of the info class"


@pytest.mark.spec("FW-S14", "FW-101", "FW-105")
@pytest.mark.parametrize(
    ("reason", "message", "moved"), [("Waiting", "another", False), ("Pulling", "one", True)]
)  # fmt: skip
def test_what_a_transition_is(reason: str, message: str, moved: bool) -> None:
    def cache(reason: str, message: str) -> Component:
        return Component("Cache", State.PROGRESSING, reason, message, dependency=DOWN)

    first = see(cache("Waiting", "one"))
    old = tuple(settle([Desired("CacheReady", ConditionStatus.FALSE, "Waiting", "one")], [], generation=1, now=EARLIER))
    before = (*old, *(one for one in first.conditions if one.type != "CacheReady"))
    result = see(cache(reason, message), before=before, status=first.status)
    (found,) = (one for one in result.conditions if one.type == "CacheReady")
    assert found.message == message
    assert found.last_transition_time == (NOW if moved else EARLIER)
    assert [event.condition for event in result.events] == (["CacheReady"] if moved else [])


@pytest.mark.spec("FW-S16", "FW-094")
@pytest.mark.parametrize("number", [1, 3])
def test_the_words_of_a_retry_are_the_same_whatever_the_causes(number: int) -> None:
    kinds = [Category.INFRASTRUCTURE, Category.UNKNOWN, Category.INFRASTRUCTURE]
    causes = [ClassifiedError(kind, f"Reason{place}", f"cause {place}") for place, kind in enumerate(kinds)]
    others = [ClassifiedError(kind, "Other", "words") for kind in kinds]
    first, second = see(model(*causes[:number])).retry, see(model(*others[:number])).retry
    assert first is not None
    assert first == second
    assert str(number) in str(first)


@pytest.mark.spec("FW-S19", "FW-P02", "SV-P01")
def test_an_empty_result_leaves_no_trace_in_either_of_two_passes() -> None:
    empty = Component("", State.READY)
    first = see(MODEL, empty)
    assert set(reported(first)) == {"ModelReady", "Ready"}
    later = evaluate(
        AIMService.components,
        (empty, MODEL),
        generation=1,
        stored=first.conditions,
        stored_status=first.status,
        now=NOW + timedelta(seconds=60),
    )
    assert (later.conditions, later.status, later.events) == (first.conditions, first.status, ())


@pytest.mark.spec("FW-S20", "FW-P03")
def test_what_is_not_reported_any_more_holds_nothing_down() -> None:
    first = see(MODEL, Component("HPA", State.FAILED, "HPANotFound", dependency=DOWN))
    assert reported(first)["Ready"] == ("False", "HPANotFound")
    second = see(MODEL, before=first.conditions, status=first.status)
    assert reported(second) == {"ModelReady": ("True", "ModelResolved"), "Ready": ("True", "AllComponentsReady")}


@pytest.mark.spec("FW-S21", "FW-P16")
def test_every_condition_names_the_generation_that_it_is_about() -> None:
    first = see(MODEL, generation=1)
    second = see(MODEL, before=first.conditions, status=first.status, generation=2)
    assert {one.observed_generation for one in second.conditions} == {2}


@pytest.mark.spec("FW-P07")
def test_a_lack_of_resources_fails_the_component_alone() -> None:
    result = see(Component("Cache", errors=(error(Category.RESOURCE_EXHAUSTION, "StorageFull"),), is_input=True))
    assert reported(result) == {"CacheReady": ("False", "StorageFull"), "Ready": ("False", "StorageFull")}
    assert (result.status, result.may_apply, result.retry) == (StatusValue.FAILED, True, None)
