"""Validation of values, and its wording."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.apiserver_schemas import condition, widget, widget_schema, widget_status

from embedded_apiserver.objects.errors import FieldError
from embedded_apiserver.objects.schema import Schema, validate
from embedded_apiserver.objects.schema_node import compile_node


def problems(property_schema: dict[str, Any], value: Any) -> list[str]:
    schema = Schema.compile(
        {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": property_schema}}}}
    )
    return [str(error) for error in schema.validate(widget(x=value))]


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "integer"}, "3", 'Invalid value: "string": spec.x in body must be of type integer: "string"'),
        ({"type": "integer"}, True, 'Invalid value: "boolean": spec.x in body must be of type integer: "boolean"'),
        ({"type": "string"}, 3, 'Invalid value: "integer": spec.x in body must be of type string: "integer"'),
        ({"type": "string"}, None, 'Invalid value: "null": spec.x in body must be of type string: "null"'),
        ({"type": "object"}, [], 'Invalid value: "array": spec.x in body must be of type object: "array"'),
        ({"type": "string", "enum": ["a", "b"]}, "x", 'Unsupported value: "x": supported values: "a", "b"'),
        ({"type": "string", "pattern": "^a"}, "b", "Invalid value: \"b\": spec.x in body should match '^a'"),
        ({"type": "string", "maxLength": 2}, "abc", "Too long: may not be more than 2 bytes"),
        (
            {"type": "string", "minLength": 1},
            "",
            'Invalid value: "": spec.x in body should be at least 1 chars long',
        ),
        (
            {"type": "integer", "minimum": 1},
            0,
            "Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            {"type": "number", "minimum": 1, "exclusiveMinimum": True},
            1,
            "Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            {"type": "integer", "maximum": 5},
            6,
            "Invalid value: 6: spec.x in body should be less than or equal to 5",
        ),
        ({"type": "array", "items": {}, "maxItems": 1}, [1, 2], "Too many: 2: must have at most 1 items"),
        (
            {"type": "array", "items": {}, "minItems": 1},
            [],
            "Invalid value: 0: spec.x in body should have at least 1 items",
        ),
        (
            {"type": "string", "format": "date-time"},
            "yesterday",
            'Invalid value: "yesterday": spec.x in body must be of type date-time: "yesterday"',
        ),
        (
            {"x-kubernetes-int-or-string": True},
            True,
            'Invalid value: "boolean": spec.x in body must be of type integer,string: "boolean"',
        ),
        (
            {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
        ),
        (
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 1},
            (
                '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). '
                "Found 2 valid alternatives"
            ),
        ),
        (
            {"type": "string", "not": {"enum": ["bad"]}},
            "bad",
            '<nil>: Invalid value: "": "spec.x" must not validate the schema (not)',
        ),
    ],
)
def test_a_violation_is_worded_as_the_real_server_does(schema: dict[str, Any], value: Any, problem: str) -> None:
    assert problems(schema, value) == [problem if problem.startswith("<nil>") else f"spec.x: {problem}"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 3.0),
        ({"type": "number"}, 3),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, "50%"),
        ({"x-kubernetes-int-or-string": True}, 3),
        ({"type": "string", "format": "date-time"}, "2024-02-29T10:00:00.123Z"),
        ({"type": "string", "format": "date-time"}, "2024-02-29T10:00:00+02:00"),
        ({"type": "integer", "format": "int32"}, 2**31 - 1),
        ({}, {"anything": [1]}),
        ({"type": "object", "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]}, {}),
    ],
)
def test_what_fits_passes(schema: dict[str, Any], value: Any) -> None:
    assert problems(schema, value) == []


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63 - 1, -(2**63)])
def test_only_built_in_kinds_enforce_int32(value: int) -> None:
    schema = {"type": "integer", "format": "int32"}
    built_in: list[FieldError] = []
    validate(compile_node(schema, builtin=True), value, None, "spec.count", built_in)
    assert [error.detail for error in built_in] == [f"spec.count in body must be of type int32: {value}"]
    assert problems(schema, value) == []


@pytest.mark.parametrize("name", ["int32", "int64"])
@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_no_integer_has_more_than_64_bits(name: str, value: int) -> None:
    assert len(problems({"type": "integer", "format": name}, value)) == 1


@pytest.mark.parametrize("text", ["2023-02-29T10:00:00Z", "2024-01-01T25:00:00Z", "2024-01-01", "2024-01-01T00:00:00"])
def test_impossible_times_are_refused(text: str) -> None:
    assert len(problems({"type": "string", "format": "date-time"}, text)) == 1


def test_required_fields_are_named_with_their_path() -> None:
    errors = widget_schema().validate(widget_status(conditions=[{"type": "Ready"}]))
    assert [str(error) for error in errors] == ["status.conditions[0].status: Required value"]


def test_duplicates_in_sets_and_list_maps_are_found() -> None:
    obj = widget(
        tags=["a", "b", "a"], ports=[{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "TCP", "name": "x"}]
    )
    assert [str(error) for error in widget_schema().validate(obj)] == [
        'spec.tags[2]: Duplicate value: "a"',
        'spec.ports[1]: Duplicate value: {"port":1,"protocol":"TCP"}',
    ]


@pytest.mark.spec("CC-014")
def test_what_did_not_change_is_not_refused_again() -> None:
    old = widget_status(conditions=[{"type": "Old"}])
    new = widget_status(conditions=[condition("New"), {"type": "Old"}])
    assert widget_schema().validate(new, old) == []
    changed = widget_status(conditions=[{"type": "Old", "reason": "Now"}])
    assert [error.path for error in widget_schema().validate(changed, old)] == ["status.conditions[0].status"]


def test_true_is_not_the_same_as_one() -> None:
    errors = widget_schema().validate(widget(replicas=True, color="red"), widget(replicas=1, color="red"))
    assert [error.path for error in errors] == ["spec.replicas"]


@given(st.text(max_size=6), st.integers(0, 5), st.integers(0, 5))
def test_lengths_agree_with_len(text: str, low: int, high: int) -> None:
    found = problems({"type": "string", "minLength": low, "maxLength": high}, text)
    assert bool(found) == (not low <= len(text) <= high)
