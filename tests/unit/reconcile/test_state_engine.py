"""Scenarios of the state engine: components and stored state in, conditions, status and decisions out."""

from collections.abc import Iterable
from dataclasses import replace
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
    Event,
    EventType,
    Observability,
    State,
    StatusValue,
    assemble,
    condition,
    evaluate,
    settle,
    status_json,
)

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
UP, DOWN = Dependency.UPSTREAM, Dependency.DOWNSTREAM


def error(category: Category, reason: str = "Why", message: str = "because") -> ClassifiedError:
    return ClassifiedError(category, reason, message)


INFRA = error(Category.INFRASTRUCTURE, "Timeout", "no answer")


class Object:
    """An AIMService whose stored status follows its evaluations, as after a status write."""

    def __init__(self, *stored: Condition, status: StatusValue | None = None) -> None:
        self.stored: tuple[Condition, ...] = stored
        self.status = status
        self.now = NOW
        self.generation = 3

    def see(
        self,
        *components: Component,
        errors: Iterable[ClassifiedError] = (),
        failure: ClassifiedError | None = None,
        extra: Iterable[Desired] = (),
    ) -> Evaluation:
        result = evaluate(
            AIMService.components,
            components,
            generation=self.generation,
            stored=self.stored,
            stored_status=self.status,
            now=self.now,
            errors=tuple(errors),
            failure=failure,
            extra=tuple(extra),
        )
        self.stored, self.status = result.conditions, result.status
        return result

    def after(self, seconds: float) -> "Object":
        self.now += timedelta(seconds=seconds)
        return self


def find(result: Evaluation, type_: str) -> Condition:
    return next(item for item in result.conditions if item.type == type_)


def brief(result: Evaluation, type_: str) -> tuple[str, str]:
    found = find(result, type_)
    return found.status.value, found.reason


READY_MODEL = Component("Model", State.READY, "ModelResolved", "qwen", dependency=UP)


@pytest.mark.spec("FW-076", "FW-071", "FW-081", "FW-036", "FW-104", "DI-033", "DI-043", "AR-030")
def test_everything_ready() -> None:
    result = Object().see(READY_MODEL, Component("InferenceService", State.READY, dependency=DOWN))
    assert result.status is StatusValue.READY
    assert result.may_apply
    assert result.retry is None
    assert [item.type for item in result.conditions] == ["ModelReady", "InferenceServiceReady", "Ready"]
    assert brief(result, "Ready") == ("True", "AllComponentsReady")
    assert {item.observed_generation for item in result.conditions} == {3}


@pytest.mark.spec("FW-037", "SV-P01", "FW-P02", "FW-S19")
def test_a_component_without_name_is_discarded() -> None:
    result = Object().see(Component("", State.FAILED), READY_MODEL)
    assert [item.type for item in result.conditions] == ["ModelReady", "Ready"]


@pytest.mark.spec("FW-076", "FW-070", "FW-075", "FW-079", "FW-090", "DI-040", "AR-033")
@pytest.mark.parametrize(
    ("categories", "ready", "parent"),
    [
        ([Category.AUTH, Category.INVALID_SPEC], "AuthError", ("AuthValid", "AuthError")),
        ([Category.MISSING_UPSTREAM, Category.INVALID_SPEC], "InvalidSpec", ("ConfigValid", "InvalidSpec")),
        ([Category.MISSING_UPSTREAM], "ReferenceNotFound", ("ConfigValid", "ReferenceNotFound")),
    ],
)
def test_fatal_categories_fail_the_object(categories: list[Category], ready: str, parent: tuple[str, str]) -> None:
    component = Component("Model", errors=tuple(error(category) for category in categories), dependency=UP)
    result = Object().see(component)
    assert result.status is StatusValue.FAILED
    assert brief(result, "Ready") == ("False", ready)
    assert brief(result, parent[0]) == ("False", parent[1])
    assert not result.may_apply
    assert result.retry is None


@pytest.mark.spec("FW-090", "DI-037")
def test_observations_never_block() -> None:
    pods = Component("InferenceServicePods", errors=(error(Category.AUTH, "ImagePullAuthFailure"),), dependency=DOWN)
    result = Object().see(READY_MODEL, pods)
    assert result.status is StatusValue.FAILED
    assert result.may_apply


@pytest.mark.spec("FW-090", "FW-092")
def test_errors_of_the_spec_block_without_a_component() -> None:
    result = Object().see(READY_MODEL, errors=[error(Category.INVALID_SPEC, "InvalidSpec", "bad timeout")])
    assert not result.may_apply
    assert brief(result, "ConfigValid") == ("False", "InvalidSpec")
    assert find(result, "Ready").message == "bad timeout"


@pytest.mark.spec("FW-073", "FW-074", "FW-091")
@pytest.mark.parametrize("category", [Category.RESOURCE_EXHAUSTION, Category.MISSING_DOWNSTREAM])
def test_some_categories_touch_no_parent_and_never_block(category: Category) -> None:
    result = Object().see(Component("Model", errors=(error(category),), is_input=True))
    assert [item.type for item in result.conditions] == ["ModelReady", "Ready"]
    assert result.may_apply
    assert result.retry is None


@pytest.mark.spec("FW-077", "FW-078", "DI-041")
@pytest.mark.parametrize(
    ("components", "status"),
    [
        ([("Model", UP, State.PROGRESSING)], StatusValue.PENDING),
        ([("Cache", DOWN, State.STARTING)], StatusValue.PROGRESSING),
        ([("Cache", DOWN, State.PROGRESSING), ("Model", UP, State.PROGRESSING)], StatusValue.PENDING),
        ([("Cache", DOWN, State.PENDING)], StatusValue.PENDING),
        ([("Cache", DOWN, State.PROGRESSING)], StatusValue.PROGRESSING),
        ([("Cache", DOWN, State.NOT_AVAILABLE), ("Model", UP, State.DEGRADED)], StatusValue.NOT_AVAILABLE),
        ([("Cache", DOWN, State.FAILED), ("Model", UP, State.READY)], StatusValue.FAILED),
    ],
)
def test_the_worst_component_decides(components: list[tuple[str, Dependency, State]], status: StatusValue) -> None:
    result = Object().see(*(Component(name, state, dependency=way) for name, way, state in components))
    assert result.status is status


@pytest.mark.spec("FW-080", "FW-076", "DI-044", "AR-033")
def test_the_first_broken_component_by_order_explains() -> None:
    result = Object().see(
        Component("HPA", State.FAILED, "HPANotFound", dependency=DOWN),
        Component("Cache", State.DEGRADED, "CacheLost", "gone", dependency=DOWN),
        Component("Model", State.PROGRESSING, "CreatingModel", dependency=DOWN),
    )
    assert brief(result, "Ready") == ("False", "CacheLost")
    assert find(result, "Ready").message == "gone"
    assert result.status is StatusValue.FAILED


@pytest.mark.spec("FW-076", "FW-039")
def test_only_components_of_the_kind_are_aggregated() -> None:
    result = Object().see(
        READY_MODEL, Component("Unheard", State.FAILED), extra=[condition("CacheReady2", False, "No")]
    )
    assert result.status is StatusValue.READY
    assert brief(result, "UnheardReady")[0] == "False"
    assert brief(result, "CacheReady2") == ("False", "No")


@pytest.mark.spec("FW-076", "DI-044")
def test_waiting_is_named() -> None:
    result = Object().see(READY_MODEL, Component("Cache", State.PROGRESSING, "CacheCreating", dependency=DOWN))
    assert brief(result, "Ready") == ("False", "Progressing")
    assert "Cache" in find(result, "Ready").message


@pytest.mark.spec("FW-374")
def test_a_foreign_component_counts_but_gets_no_condition() -> None:
    route = Component("HTTPRoute", State.PROGRESSING, "HTTPRouteCreating", dependency=DOWN, counted_only=True)
    result = Object().see(READY_MODEL, route)
    assert result.status is StatusValue.PROGRESSING
    assert [item.type for item in result.conditions] == ["ModelReady", "Ready"]


@pytest.mark.spec("FW-121", "FW-474", "FW-377")
def test_what_another_service_tells_is_not_reported_again() -> None:
    own = Component("HTTPRoute", State.FAILED, "PathTemplateInvalid", "no result", dependency=DOWN)
    of_own, of_foreign = Object().see(own), Object().see(replace(own, counted_only=True))
    assert brief(of_foreign, "Ready") == brief(of_own, "Ready") == ("False", "PathTemplateInvalid")
    assert [one.reason for one in of_foreign.events if one.type is EventType.WARNING] == []
    assert "PathTemplateInvalid" in [one.reason for one in of_own.events]


def failing_model(error_: ClassifiedError = INFRA) -> Component:
    return Component("Model", errors=(error_,), dependency=UP)


@pytest.mark.spec("FW-061", "FW-065", "FW-066", "FW-067", "FW-070", "DI-036", "DI-038", "AR-035")
@pytest.mark.parametrize("category", [Category.INFRASTRUCTURE, Category.UNKNOWN])
def test_a_short_outage_changes_nothing_but_reachability(category: Category) -> None:
    service = Object()
    healthy = service.see(READY_MODEL)
    outage = service.after(60).see(failing_model(error(category, "Timeout", "no answer")))
    for type_ in ("ModelReady", "Ready"):
        assert find(outage, type_) == find(healthy, type_)
    assert outage.status is StatusValue.READY
    assert brief(outage, "DependenciesReachable") == ("False", "InfrastructureError")
    assert not outage.may_apply
    recovered = service.after(5).see(READY_MODEL)
    assert find(recovered, "ModelReady") == find(healthy, "ModelReady")
    assert brief(recovered, "DependenciesReachable") == ("True", "Reachable")


@pytest.mark.spec("FW-060", "FW-064", "FW-068", "DI-038", "AR-035")
def test_the_grace_period_ends_after_exactly_ten_seconds() -> None:
    service = Object()
    service.see(READY_MODEL)
    first = service.after(60).see(failing_model())
    assert first.retry_within == 10
    inside = service.after(9.9).see(failing_model())
    assert brief(inside, "ModelReady") == ("True", "ModelResolved")
    assert inside.retry_within == pytest.approx(0.1)
    outside = service.after(0.1).see(failing_model())
    assert brief(outside, "ModelReady") == ("False", "Timeout")
    assert outside.status is StatusValue.DEGRADED
    assert brief(outside, "Ready") == ("False", "Timeout")
    assert outside.retry_within is None


@pytest.mark.spec("FW-062")
def test_a_progressing_component_keeps_its_state_in_the_grace_period() -> None:
    service = Object()
    before = service.see(READY_MODEL, Component("Cache", State.PROGRESSING, "CacheCreating", dependency=DOWN))
    outage = service.after(60).see(READY_MODEL, Component("Cache", errors=(INFRA,), dependency=DOWN))
    assert find(outage, "CacheReady") == find(before, "CacheReady")
    assert find(outage, "Ready") == find(before, "Ready")
    assert outage.status is StatusValue.PROGRESSING


@pytest.mark.spec("FW-062", "FW-067")
@pytest.mark.parametrize("state", [State.FAILED, State.DEGRADED, State.NOT_AVAILABLE])
def test_a_failing_component_keeps_its_state_in_the_grace_period(state: State) -> None:
    service = Object()
    broken = Component("Cache", state, "CacheBroken", "it does not work", dependency=DOWN)
    before = service.see(READY_MODEL, broken)
    outage = service.after(60).see(READY_MODEL, Component("Cache", errors=(INFRA,), dependency=DOWN))
    for type_ in ("CacheReady", "Ready"):
        assert find(outage, type_) == find(before, type_)
    assert outage.status is before.status is StatusValue(state)
    recovered = service.after(5).see(READY_MODEL, broken)
    assert find(recovered, "Ready") == find(before, "Ready")
    outside = service.after(60).see(READY_MODEL, Component("Cache", errors=(INFRA,), dependency=DOWN))
    assert outside.status is before.status, "another outage, another grace period"
    over = service.after(10).see(READY_MODEL, Component("Cache", errors=(INFRA,), dependency=DOWN))
    assert (brief(over, "CacheReady"), over.status) == (("False", "Timeout"), StatusValue.DEGRADED)


@pytest.mark.spec("FW-063")
def test_a_new_component_gets_no_grace() -> None:
    result = Object().see(failing_model())
    assert brief(result, "ModelReady") == ("False", "Timeout")
    assert result.status is StatusValue.DEGRADED


@pytest.mark.spec("FW-046", "FW-047", "FW-076", "DI-042", "DI-044")
def test_an_unknown_error_leaves_the_component_progressing_and_degrades_the_object() -> None:
    result = Object().see(failing_model(error(Category.UNKNOWN, "UnknownError")))
    assert brief(result, "Ready") == ("False", "InfrastructureError")
    assert result.status is StatusValue.DEGRADED
    assert not result.may_apply


@pytest.mark.spec("FW-072", "DI-036", "AR-036")
def test_parent_conditions_stay_once_created() -> None:
    service = Object()
    service.see(Component("Model", errors=(error(Category.AUTH),), dependency=UP))
    result = service.after(60).see(READY_MODEL)
    assert brief(result, "AuthValid") == ("True", "AuthenticationValid")
    assert result.status is StatusValue.READY


@pytest.mark.spec("FW-038", "DI-035", "DI-P35", "AR-038", "AR-P01")
def test_a_component_that_is_not_reported_loses_its_condition() -> None:
    service = Object()
    service.see(READY_MODEL, Component("HPA", State.FAILED, dependency=DOWN))
    result = service.after(1).see(READY_MODEL)
    assert [item.type for item in result.conditions] == ["ModelReady", "Ready"]
    assert result.status is StatusValue.READY


@pytest.mark.spec("FW-010", "FW-094", "DI-039")
def test_a_failed_write_is_reported_and_retried() -> None:
    failure = error(Category.INFRASTRUCTURE, "ServiceUnavailable", "apply of InferenceService ml/x failed")
    result = Object().see(READY_MODEL, failure=failure)
    assert brief(result, "DependenciesReachable") == ("False", "InfrastructureError")
    assert "apply of InferenceService ml/x" in find(result, "DependenciesReachable").message
    assert not result.may_apply
    assert result.retry is not None


@pytest.mark.spec("FW-010")
def test_a_rejected_write_is_categorised() -> None:
    result = Object().see(READY_MODEL, failure=error(Category.INVALID_SPEC, "InvalidSpec", "spec.x: unknown"))
    assert result.status is StatusValue.FAILED
    assert brief(result, "ConfigValid") == ("False", "InvalidSpec")
    assert result.retry is None


@pytest.mark.spec("FW-094", "FW-095")
def test_the_retry_text_depends_on_the_number_alone() -> None:
    one = Object().see(failing_model(error(Category.INFRASTRUCTURE, "Timeout", "a")))
    other = Object().see(failing_model(error(Category.INFRASTRUCTURE, "DNSFailure", "b")))
    assert one.retry == other.retry
    assert one.retry is not None
    assert one.retry.category is Category.INFRASTRUCTURE


@pytest.mark.spec("FW-101", "FW-102", "FW-103", "FW-105", "DI-046", "AR-037")
def test_transition_times() -> None:
    stored = settle([Desired("A", ConditionStatus.FALSE, "X", "one")], [], generation=1, now=NOW)
    later = NOW + timedelta(seconds=9)
    [message_only] = settle([Desired("A", ConditionStatus.FALSE, "X", "two")], stored, generation=2, now=later)
    assert (message_only.last_transition_time, message_only.message) == (NOW, "two")
    [reason] = settle([Desired("A", ConditionStatus.FALSE, "Y")], stored, generation=2, now=later)
    assert reason.last_transition_time == later
    flapping = [Desired("A", ConditionStatus.TRUE, "Z"), Desired("A", ConditionStatus.FALSE, "X", "one")]
    [final] = settle(flapping, stored, generation=1, now=later)
    assert final == stored[0]


@pytest.mark.spec("FW-107")
def test_reasons_and_messages_fit_the_schema() -> None:
    [settled] = settle([Desired("A", ConditionStatus.FALSE, "not a reason", "m" * 40000)], [], generation=1, now=NOW)
    assert settled.reason == "Unknown"
    assert settled.message.startswith("reason 'not a reason': mmm")
    assert len(settled.message) == 32768


@pytest.mark.spec("FW-121", "FW-122", "FW-124", "FW-125", "DI-354", "DI-355", "AR-039")
def test_events_of_an_error_come_at_the_transition_and_then_as_standing_ones() -> None:
    service = Object()
    component = Component("Cache", State.FAILED, "CacheFailed", "disk gone", dependency=DOWN)
    first = service.see(component)
    assert Event(EventType.WARNING, "CacheFailed", "disk gone", condition="CacheReady", status="False") in first.events
    assert all(event.standing for event in service.after(60).see(component).events)
    healed = service.after(60).see(Component("Cache", State.READY, dependency=DOWN))
    assert [(event.type, event.reason, event.message) for event in healed.events] == [
        (EventType.NORMAL, "Ready", "Cache is ready: Ready"),
        (EventType.NORMAL, "AllComponentsReady", "All components are ready"),
    ]
    assert service.after(60).see(Component("Cache", State.READY, dependency=DOWN)).events == ()


@pytest.mark.spec("FW-122", "FW-123")
def test_observability_can_be_overridden() -> None:
    def events_for(observe: Observability | None) -> list[tuple[EventType, bool]]:
        component = Component("Cache", State.PROGRESSING, "Retrying", dependency=DOWN, observe=observe)
        events = Object().see(component).events
        return [(event.type, event.standing) for event in events if event.condition == "CacheReady"]

    assert events_for(None) == [(EventType.NORMAL, False)]
    assert events_for(Observability.WARNING) == [(EventType.WARNING, False)]
    assert events_for(Observability.SILENT) == []


@pytest.mark.spec("FW-104", "FW-412", "FW-100", "DI-022")
def test_the_status_has_no_null_and_whole_seconds() -> None:
    result = Object().after(0.25).see(READY_MODEL)
    fields = {"resolvedModel": {"name": "qwen", "namespace": None}, "cache": None}
    status = status_json(result, fields, value=StatusValue.RUNNING)
    assert status["resolvedModel"] == {"name": "qwen"}
    assert "cache" not in status
    assert (status["status"], status["observedGeneration"]) == ("Running", 3)
    assert status["conditions"][0] == {
        "type": "ModelReady",
        "status": "True",
        "reason": "ModelResolved",
        "message": "qwen",
        "lastTransitionTime": "2026-11-21T12:00:00Z",
        "observedGeneration": 3,
    }
    assert "status" not in status_json(result, has_value=False)


@pytest.mark.spec("FW-120", "FW-010")
def test_what_is_not_deleted_is_not_reported_of() -> None:
    gone = Event(EventType.WARNING, "Evicted", "no room", of_deletes=True)
    hint = Event(EventType.WARNING, "ModelIdMissing", "none can be derived")
    allowed = assemble(Object().see(), status={}, events=(gone, hint))
    blocked = assemble(Object().see(failing_model()), status={}, events=(gone, hint))
    assert {gone, hint} <= set(allowed.events)
    assert hint in blocked.events
    assert gone not in blocked.events


@pytest.mark.spec("FW-009", "FW-097", "DI-037")
def test_a_blocked_plan_carries_status_and_events_only() -> None:
    result = Object().see(failing_model())
    plan = assemble(result, status={"status": "Degraded"}, requeue_after=60)
    assert (plan.children, plan.deletes, plan.patches) == ((), (), ())
    assert plan.status is not None
    assert plan.retry is not None


@pytest.mark.spec("FW-371")
def test_of_a_status_that_another_service_sums_up_only_the_components_are_reported() -> None:
    part = Component("HTTPRoute", errors=(error(Category.INVALID_SPEC, "NoMatchingParent", "no listener"),))
    found = evaluate(("HTTPRoute",), (part,), generation=3, stored=(), stored_status=None, now=NOW, sums_up=False)
    assert [(one.type, one.reason) for one in found.conditions] == [("HTTPRouteReady", "NoMatchingParent")]
    assert [one.condition for one in found.events] == ["HTTPRouteReady"]
