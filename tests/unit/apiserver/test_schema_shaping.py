"""Pruning and defaulting."""

from typing import Any

import pytest
from support.apiserver_schemas import crd_schema, widget, widget_schema

from controller_runtime import JsonObject
from embedded_apiserver.objects.schema import Schema

TEXT = {"type": "string"}


def schema_of(**spec: Any) -> Schema:
    return Schema.compile({"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}})


def pruned(schema: Schema, obj: JsonObject) -> list[str]:
    return schema.prune(obj)


@pytest.mark.spec("CC-002")
def test_unknown_fields_are_dropped_and_named() -> None:
    obj = {**widget(replicas=1, bogus=1, nested={"a": "x", "c": {"d": 1}}, ports=[{"port": 1, "zz": 2}]), "extra": 1}
    assert sorted(widget_schema().prune(obj)) == ["extra", "spec.bogus", "spec.nested.c", "spec.ports[0].zz"]
    assert obj == widget(replicas=1, nested={"a": "x"}, ports=[{"port": 1}])


def test_what_has_additional_properties_or_preserves_unknown_fields_stays() -> None:
    obj = widget(data={"any": "x"}, free={"deep": {"er": [1, {"x": 2}]}})
    before = widget(data={"any": "x"}, free={"deep": {"er": [1, {"x": 2}]}})
    assert widget_schema().prune(obj) == []
    assert obj == before


def test_a_named_property_below_a_preserving_object_is_still_pruned() -> None:
    free = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"known": {"type": "object", "properties": {"a": TEXT}}},
    }
    obj = widget(free={"other": {"b": 1}, "known": {"a": "1", "b": 2}})
    assert schema_of(free=free).prune(obj) == ["spec.free.known.b"]
    assert obj["spec"]["free"]["other"] == {"b": 1}


def test_unknown_metadata_is_dropped_and_the_standard_kept() -> None:
    obj = widget()
    obj["metadata"] |= {"labels": {"a": "b"}, "bogus": 1, "ownerReferences": [{"uid": "u", "bogus": 1}]}
    assert sorted(widget_schema().prune(obj)) == ["metadata.bogus", "metadata.ownerReferences[0].bogus"]
    assert obj["metadata"]["labels"] == {"a": "b"}


def test_an_embedded_resource_keeps_its_identity() -> None:
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}}
    obj = widget(template={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "bogus": 1})
    assert schema_of(template=embedded).prune(obj) == ["spec.template.bogus"]


def test_a_default_is_filled_in_only_where_the_parent_exists() -> None:
    child = {"type": "object", "properties": {"mode": {**TEXT, "default": "Auto"}}}
    schema = schema_of(child=child)
    absent, present = widget(), widget(child={})
    schema.default(absent)
    schema.default(present)
    assert absent == widget()
    assert present == widget(child={"mode": "Auto"})


def test_a_default_object_gets_its_own_defaults() -> None:
    child = {"type": "object", "default": {}, "properties": {"mode": {**TEXT, "default": "Auto"}}}
    obj = widget()
    schema_of(child=child).default(obj)
    assert obj["spec"] == {"child": {"mode": "Auto"}}


def test_two_objects_do_not_share_a_default() -> None:
    schema = schema_of(child={"type": "object", "default": {"a": []}, "properties": {"a": {"type": "array"}}})
    one, two = widget(), widget()
    schema.default(one)
    schema.default(two)
    one["spec"]["child"]["a"].append(1)
    assert two["spec"]["child"]["a"] == []


@pytest.mark.spec("CC-009")
def test_null_counts_as_absent_unless_nullable() -> None:
    schema = schema_of(
        plain=TEXT, defaulted={**TEXT, "default": "d"}, nullable={**TEXT, "nullable": True, "default": "d"}
    )
    obj = widget(plain=None, defaulted=None, nullable=None, unknown=None)
    schema.default(obj)
    assert obj["spec"] == {"defaulted": "d", "nullable": None, "unknown": None}


def test_defaults_reach_into_lists_and_maps() -> None:
    item = {"type": "object", "properties": {"p": {**TEXT, "default": "TCP"}}}
    schema = schema_of(items={"type": "array", "items": item}, by={"type": "object", "additionalProperties": item})
    obj = widget(items=[{}, {"p": "UDP"}], by={"x": {}})
    schema.default(obj)
    assert obj["spec"] == {"items": [{"p": "TCP"}, {"p": "UDP"}], "by": {"x": {"p": "TCP"}}}


def test_the_published_schema_has_a_full_metadata_with_own_limits_kept() -> None:
    schema = Schema.compile(
        {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"maxLength": 3}}}}}
    )
    assert schema.openapi["properties"]["metadata"]["properties"]["name"] == {"type": "string", "maxLength": 3}
    assert [str(error) for error in schema.validate({**widget(), "metadata": {"name": "long"}})] == [
        "metadata.name: Too long: may not be more than 3 bytes"
    ]
    assert "maxLength" not in widget_schema().openapi["properties"]["metadata"]["properties"]["name"]


def test_a_malformed_pattern_is_reported_with_the_pattern() -> None:
    with pytest.raises(ValueError, match=r"the pattern '\(' is malformed"):
        schema_of(x={**TEXT, "pattern": "("})


def test_the_platform_crds_compile() -> None:
    schema = Schema.compile(crd_schema("aimservices"))
    obj = {"apiVersion": "a/v1", "kind": "AIMService", "metadata": {"name": "x"}, "spec": {"model": {"name": "m"}}}
    assert pruned(schema, obj) == []
    schema.default(obj)
    assert schema.validate(obj) == []
