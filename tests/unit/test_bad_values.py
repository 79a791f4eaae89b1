"""Whatever the API server lets in, every reconciler decides about: no value of any field makes a pass raise."""

import os
import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bad_values import METADATA, MOMENTS, Field, fields_of
from support.builders import condition
from support.planned_schemas import refusals
from support.reported import assert_reported_once, expected, invalid_spec, is_judged
from support.whole_platform import own_passes, passes_after, stumbles_over, variants

from aim_domain.component_names import ComponentName
from controller_runtime.testing import NOW

VARIANTS = tuple(variants())
STRIDE = 1 if os.environ.get("AIM_EXPLORE") == "random" else 19
"""Of the values of a field each nineteenth is tried, of the next field those after them; all of them when exploring."""
ELSEWHERE = re.compile(r"spec\.profile(Overrides)?(\..*)?")
"""Fields of which the object has another way to be served: tests of profiles judge them (PR-011)."""
OTHERWISE = {
    "AIMService by image": ("model", "overrides", "template"),
    "AIMService of its own": ("model",),
    "AIMModel of its own": ("modelSources", "custom", "customTemplates"),
}
"""Members of the spec in which a variant differs from the usual object of its kind."""


def is_admitted(name: str, changes: Iterable[tuple[Field, object]]) -> bool:
    """Refused by schema and rules, or decided by every reconciler that it enqueues."""
    old = new = variants()[name]
    for field, value in changes:
        new = field.put(new, value)
    if refusals(new):
        return False
    for one in passes_after(old, new):
        assert one.plan.retry is None, f"{one.controller} tries {one.about} again and again: {one.plan.retry}"
    return True


@pytest.mark.parametrize("name", VARIANTS)
def test_the_objects_as_they_are(name: str) -> None:
    assert is_admitted(name, ())


@pytest.mark.spec("FW-478", "CC-312")
@pytest.mark.parametrize("name", VARIANTS)
def test_no_value_of_a_parsed_field_makes_a_pass_raise(name: str) -> None:
    about = OTHERWISE.get(name, ())
    every = fields_of(variants()[name]["kind"])
    fields = [field for field in every if field.parsed and (not about or set(about) & set(field.path))]
    for number, field in enumerate(fields):
        for value in field.values[number % STRIDE :: STRIDE]:
            is_admitted(name, [(field, value)])


@pytest.mark.spec("FW-474", "CC-301", "CC-310", "CC-312")
@pytest.mark.parametrize("name", VARIANTS)
def test_a_bad_value_is_reported_by_one_condition_and_one_event_that_name_the_field(name: str) -> None:
    usual, about = variants()[name], OTHERWISE.get(name, ())
    every = [one for one in fields_of(usual["kind"]) if not about or set(about) & set(one.path)]
    every = [one for one in every if usual["kind"] != "AIMService" or not ELSEWHERE.fullmatch(repr(one))]
    for number, field in enumerate(one for one in every if one.parsed or is_judged(one)):
        is_bad = expected(field)
        few = is_bad is None or not is_judged(field)
        for value in field.values[number % STRIDE :: STRIDE] if few else field.values:
            new = field.put(usual, value)
            if refusals(new):
                continue
            passes = own_passes(usual, new)
            reported = invalid_spec(passes[0]) is not None
            assert is_bad is None or reported == is_bad(value), f"{field}: {value!r}"
            if reported:
                assert_reported_once(passes, field)


@pytest.mark.spec("FW-478", "CC-312")
@pytest.mark.parametrize("name", VARIANTS)
def test_no_values_of_any_fields_make_a_pass_raise(name: str) -> None:
    spec, metadata = st.sampled_from(fields_of(variants()[name]["kind"])), st.sampled_from(METADATA)
    one = st.one_of(spec, spec, spec, metadata).flatmap(lambda f: st.tuples(st.just(f), st.sampled_from(f.values)))

    @given(st.lists(one, min_size=1, max_size=3))
    @settings(max_examples=40)
    def property_of_values(changes: list[tuple[Field, object]]) -> None:
        is_admitted(name, changes)

    property_of_values()


@pytest.mark.spec("FW-480")
@pytest.mark.parametrize("name", VARIANTS)
def test_whatever_spec_and_status_hold_every_index_takes_it_in(name: str) -> None:
    kind = variants()[name]["kind"]
    fields = [*fields_of(kind), *fields_of(kind, "status")]
    usual = variants()[name]
    changes = [
        (field, value) for number, field in enumerate(fields) for value in field.values[number % STRIDE :: STRIDE]
    ]
    found = stumbles_over([field.put(usual, value) for field, value in changes])
    assert [(changes[number], where) for number, where in found] == []


@pytest.mark.spec("FW-480", "DI-318")
@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if moment.endswith("Z")])
@pytest.mark.parametrize("name", ["AIMServiceTemplate", "AIMClusterServiceTemplate"])
def test_a_failed_discovery_at_the_end_of_the_calendar_is_taken_in(name: str, moment: str) -> None:
    failed = condition("Discovered", False, "DiscoveryFailed", since=NOW) | {"lastTransitionTime": moment}
    status = {
        "status": "Failed",
        "conditions": [failed, condition(ComponentName.MODEL.condition, True)],
        "discovery": {"attempts": 3, "lastFailureReason": "PodOOMKilled: x", "lastAttemptTime": moment},
    }
    assert list(stumbles_over([{**variants()[name], "status": status}])) == []
