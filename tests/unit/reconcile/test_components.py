"""Component health derived from look-ups and errors."""

import pytest

from aim_domain.component_names import ComponentName
from aim_domain.kinds import OWN_KINDS
from controller_runtime import (
    Category,
    ClassifiedError,
    Component,
    Dependency,
    Lookup,
    ObjectMeta,
    Resource,
    State,
    downstream,
    upstream,
)
from controller_runtime.reconcile.conditions import plain, state_of

FOUND: Lookup[Resource] = Lookup(Resource(metadata=ObjectMeta(name="x")))
ABSENT: Lookup[Resource] = Lookup()
STALE: Lookup[Resource] = Lookup(error=ClassifiedError(Category.INFRASTRUCTURE, "ViewStale", "no marker"))


def error(category: Category, reason: str = "Why") -> ClassifiedError:
    return ClassifiedError(category, reason, f"because of {category}")


@pytest.mark.spec("FW-034", "FW-047", "DI-034", "FW-S31", "AR-034")
@pytest.mark.parametrize(
    ("categories", "state"),
    [
        ([], State.READY),
        ([Category.AUTH], State.FAILED),
        ([Category.RESOURCE_EXHAUSTION], State.FAILED),
        ([Category.INFRASTRUCTURE, Category.INVALID_SPEC], State.FAILED),
        ([Category.MISSING_UPSTREAM], State.DEGRADED),
        ([Category.MISSING_DOWNSTREAM, Category.INFRASTRUCTURE], State.DEGRADED),
        ([Category.MISSING_DOWNSTREAM], State.PROGRESSING),
        ([Category.UNKNOWN], State.PROGRESSING),
    ],
)
def test_state_follows_from_errors(categories: list[Category], state: State) -> None:
    assert state_of(tuple(error(category) for category in categories)) is state


@pytest.mark.spec("FW-032", "FW-033", "DI-033", "FW-030")
def test_explicit_values_win_over_derived_ones() -> None:
    derived = Component("Model", errors=(error(Category.AUTH, "First"), error(Category.AUTH, "Second")))
    assert (derived.effective_state, derived.effective_reason) == (State.FAILED, "First")
    assert derived.effective_message == "because of Auth"
    explicit = Component("Model", State.PENDING, "Waiting", "soon", errors=(error(Category.AUTH),))
    assert (explicit.effective_state, explicit.effective_reason, explicit.effective_message) == (
        State.PENDING,
        "Waiting",
        "soon",
    )
    assert (Component("Model").effective_reason, Component("Model").effective_message) == ("Ready", "")


@pytest.mark.spec("FW-035")
def test_condition_type() -> None:
    assert Component("Model").condition_type == "ModelReady"
    assert ComponentName.HTTP_ROUTE.condition == "HTTPRouteReady"


@pytest.mark.spec("FW-039", "FW-031", "FW-090")
def test_a_missing_reference_is_an_input_error() -> None:
    component = upstream("Model", ABSENT, what="AIMModel ml/qwen")
    [missing] = component.errors
    assert (missing.category, missing.reason) == (Category.MISSING_UPSTREAM, "ReferenceNotFound")
    assert "AIMModel ml/qwen" in missing.message
    assert component.blocks


@pytest.mark.spec("FW-039", "FW-091")
def test_a_missing_child_is_not_there_yet() -> None:
    component = downstream("Cache", ABSENT, what="AIMTemplateCache ml/qwen")
    [missing] = component.errors
    assert (missing.category, missing.reason) == (Category.MISSING_DOWNSTREAM, "ResourceNotReady")
    assert component.effective_state is State.PROGRESSING
    assert not component.blocks


@pytest.mark.spec("FW-039", "FW-004", "FW-090")
def test_a_failed_read_is_an_input_error_whatever_the_direction() -> None:
    for component in (
        upstream("Model", STALE, what="x"),
        downstream("Model", STALE, what="x"),
        plain("Model", STALE, what="x"),
    ):
        assert component.errors == (STALE.error,)
        assert component.blocks


@pytest.mark.spec("FW-039")
def test_what_is_found_is_inspected() -> None:
    component = downstream("Cache", FOUND, lambda _: Component("", State.STARTING, "Warm"), what="x")
    assert (component.name, component.dependency) == ("Cache", Dependency.DOWNSTREAM)
    assert component.effective_reason == "Warm"
    assert plain("Cache", ABSENT, what="x").errors[0].reason == "NotFound"


@pytest.mark.spec("FW-039")
def test_every_listed_component_is_a_known_name() -> None:
    listed = {name for kind in OWN_KINDS for name in kind.model.components}
    assert listed == set(ComponentName)
