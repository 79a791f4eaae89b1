"""What holds for every set of components, errors and stored states."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aim_domain import AIMService
from controller_runtime import (
    RETRIED_CATEGORIES,
    Category,
    ClassifiedError,
    Component,
    ConditionStatus,
    Dependency,
    Evaluation,
    State,
    StatusValue,
    evaluate,
)
from controller_runtime.errors import BLOCKING_CATEGORIES
from controller_runtime.testing import NOW

KIND = "AIMService"
ERRORS = st.builds(
    ClassifiedError, st.sampled_from(list(Category)), st.sampled_from(["A", "B"]), st.sampled_from(["", "m"])
)
COMPONENTS = st.lists(
    st.builds(
        Component,
        st.sampled_from(AIMService.components),
        st.none() | st.sampled_from(list(State)),
        st.none() | st.sampled_from(["R", "no reason!"]),
        errors=st.lists(ERRORS, max_size=2).map(tuple),
        dependency=st.sampled_from(list(Dependency)),
        is_input=st.none() | st.booleans(),
    ),
    max_size=4,
    unique_by=lambda component: component.name,
)


def see(components: list[Component], before: Evaluation | None = None, seconds: float = 0) -> Evaluation:
    return evaluate(
        AIMService.components,
        components,
        generation=2,
        stored=before.conditions if before else (),
        stored_status=before.status if before else None,
        now=NOW + timedelta(seconds=seconds),
    )


@pytest.mark.spec("FW-013", "FW-103", "FW-124")
@given(COMPONENTS, COMPONENTS, st.floats(0, 30))
@settings(max_examples=150)
def test_the_same_view_again_changes_nothing(first: list[Component], then: list[Component], pause: float) -> None:
    one = see(then, see(first), pause)
    settled = see(then, one, pause + 60)
    again = see(then, settled, pause + 120)
    assert again.conditions == settled.conditions
    assert again.status is settled.status
    assert all(event.standing for event in again.events)


@pytest.mark.spec("FW-070", "FW-076", "FW-090", "FW-091", "FW-094", "FW-095")
@given(COMPONENTS, COMPONENTS, st.floats(0, 30))
@settings(max_examples=150)
def test_invariants(first: list[Component], then: list[Component], pause: float) -> None:
    before = see(first)
    result = see(then, before, pause)
    errors = {error.category for component in then for error in component.errors}
    inputs = {error.category for component in then if component.blocks for error in component.errors}
    conditions = {condition.type: condition for condition in result.conditions}
    assert len(conditions) == len(result.conditions)
    assert result.may_apply is not bool(inputs & BLOCKING_CATEGORIES)
    assert (result.retry is not None) is bool(errors & RETRIED_CATEGORIES)
    ready = conditions["Ready"].status is ConditionStatus.TRUE
    assert ready is (result.status is StatusValue.READY)
    if errors & {Category.AUTH, Category.INVALID_SPEC, Category.MISSING_UPSTREAM}:
        assert result.status is StatusValue.FAILED
    parents = {"DependenciesReachable", "AuthValid", "ConfigValid"}
    assert {c.type for c in before.conditions} & parents <= set(conditions)
