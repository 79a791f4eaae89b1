"""The fields of an AIMService as serving.md 2.1 and routing.md list them, against the definition that is installed."""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from support.apiserver_schemas import crd_schema
from support.crd_tables import node_at, nodes, schema

from aim_domain.kinds import AIM_CLUSTER_RUNTIME_CONFIG, AIM_RUNTIME_CONFIG, AIM_SERVICE
from controller_runtime import Kind
from embedded_apiserver.objects.cel import CelRules

SPECIFICATION: Final = Path(__file__).parents[3] / "docs/spec/serving.md"
SPEC: Final = node_at(schema(AIM_SERVICE), "spec")
TYPES: Final = {"object": "object", "string": "string", "bool": "boolean", "int32": "integer", "list": "array"}


@cache
def table() -> dict[str, tuple[str, str]]:
    """Type and default by path, of every field but those of routing."""
    text = SPECIFICATION.read_text(encoding="utf-8").partition("### 2.1 Spec fields")[2].partition("\n- SV-014")[0]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): (cells[1], cells[2]) for cells in lines if cells[0] != "`routing.*`"}


def node_of(path: str) -> dict[str, Any]:
    return node_at(SPEC, path.removesuffix("[]"))


@pytest.mark.spec("SV-014")
def test_no_field_is_missing_and_none_is_more() -> None:
    listed = set(table())
    own = {path for path, node in nodes(SPEC) if path and "." not in path and "[]" not in path}
    assert own == {path.partition(".")[0].removesuffix("[]") for path in listed} | {"routing"}
    for parent in ("model", "model.custom", "template", "caching", "storage", "overrides", "autoScaling"):
        members = {
            path.removeprefix(f"{parent}.").partition(".")[0] for path in listed if path.startswith(f"{parent}.")
        }
        assert set(node_of(parent)["properties"]) == {one.removesuffix("[]") for one in members}, parent


@pytest.mark.spec("SV-014", "SV-017")
@pytest.mark.parametrize("path", sorted(table()))
def test_type_values_default_and_minimum_are_the_documented_ones(path: str) -> None:
    described, default = table()[path]
    node = node_of(path)
    values = re.findall(r"`([^`]+)`", described) if described.startswith("`") else []
    assert node.get("enum", []) == values
    kind = re.match(r"\w+", described)
    if kind is not None and kind[0] in TYPES:
        assert node["type"] == TYPES[kind[0]]
    low = re.search(r"≥ (\d+)", described)
    assert node.get("minimum") == (int(low[1]) if low else None)
    # Effective values, of code and not of the schema, are told in words.
    in_schema = default.strip("`") if re.fullmatch(r"`\w+`|\d+", default) else None
    assert (str(node["default"]) if "default" in node else None) == in_schema


@pytest.mark.spec("SV-018")
@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("modelId", ["Qwen/Qwen3-32B", "a_b/c.d-e"], ["Qwen", "a/b/c", "a.b/c", "/b", "a/", "a b/c"]),
        ("sourceUri", ["hf://Qwen/Qwen3-32B", "s3://bucket/key"], ["hf://", "gs://b/k", "s3://a b", "HF://a"]),
    ],
)
def test_patterns_of_sources(field: str, good: list[str], bad: list[str]) -> None:
    pattern = node_of("model.custom.modelSources[]")["items"]["properties"][field]["pattern"]
    assert [one for one in (*good, *bad) if re.search(pattern, one)] == good


@pytest.mark.spec("SV-029")
def test_no_rule_relates_the_bounds_of_replicas() -> None:
    spec = {"model": {"name": "m"}, "minReplicas": 5, "maxReplicas": 1}
    assert CelRules.compile(crd_schema("aimservices")).validate({"spec": spec}, None) == []


@pytest.mark.spec("RT-020")
@pytest.mark.parametrize("kind", [AIM_SERVICE, AIM_RUNTIME_CONFIG, AIM_CLUSTER_RUNTIME_CONFIG], ids=str)
def test_a_gateway_reference_is_that_of_the_gateway_api(kind: Kind[Any]) -> None:
    node = node_at(schema(kind), "spec.routing.gatewayRef")
    limits = ("minLength", "maxLength", "minimum", "maximum", "default")
    found = {name: {key: one[key] for key in limits if key in one} for name, one in node["properties"].items()}
    assert found == {
        "group": {"maxLength": 253, "default": "gateway.networking.k8s.io"},
        "kind": {"minLength": 1, "maxLength": 63, "default": "Gateway"},
        "name": {"minLength": 1, "maxLength": 253},
        "namespace": {"minLength": 1, "maxLength": 63},
        "sectionName": {"minLength": 1, "maxLength": 253},
        "port": {"minimum": 1, "maximum": 65535},
    }
    assert node["required"] == ["name"]
    accepted = {
        "group": (["", "gateway.networking.k8s.io"], ["Gateway_", "-a", "A"]),
        "kind": (["Gateway", "X-1"], ["1X", "X-", "a.b"]),
        "namespace": (["infra", "a-1"], ["a.b", "A", "-a"]),
        "sectionName": (["https", "a.b"], ["A", "a_b", "-a"]),
    }
    for name, (good, bad) in accepted.items():
        pattern = node["properties"][name]["pattern"]
        assert [one for one in (*good, *bad) if re.search(pattern, one)] == good, name
