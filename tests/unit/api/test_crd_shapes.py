"""Shared shapes that no table has, and what is said of all definitions."""

from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.crd_tables import node_at, nodes, schema

from aim_domain.kinds import (
    AIM_ARTIFACT,
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_MODEL,
    AIM_RUNTIME_CONFIG,
    AIM_SERVICE,
    AIM_SERVICE_TEMPLATE,
    OWN_KINDS,
)

CHECKED_IN = Path(__file__).parents[3] / "deploy/crds"
SPECIFICATION = Path(__file__).parents[3] / "docs/spec/runtime-config.md"
SAID = ("description", "default")


def bare(node: Any) -> Any:
    """A schema without words."""
    if isinstance(node, dict):
        return {name: bare(child) for name, child in node.items() if name not in SAID or isinstance(child, dict)}
    return [bare(item) for item in node] if isinstance(node, list) else node


def types(node: dict[str, Any]) -> dict[str, str]:
    return {name: child.get("type", "any") for name, child in node["properties"].items()}


@pytest.mark.spec("CC-004")
def test_there_are_definitions_and_no_webhooks() -> None:
    bodies = [yaml.safe_load(file.read_text()) for file in CHECKED_IN.glob("*.yaml")]
    assert {body["kind"] for body in bodies} == {"CustomResourceDefinition"}
    assert all("webhook" not in body["spec"].get("conversion", {}) for body in bodies)


@pytest.mark.spec("CC-025")
def test_resource_requirements() -> None:
    node = node_at(schema(AIM_SERVICE), "spec.resources")
    assert types(node) == {"requests": "object", "limits": "object", "claims": "array"}
    for side in ("requests", "limits"):
        assert node["properties"][side]["additionalProperties"]["x-kubernetes-int-or-string"] is True
    claims = node["properties"]["claims"]
    assert claims["x-kubernetes-list-map-keys"] == ["name"]
    assert (types(claims["items"]), claims["items"]["required"]) == ({"name": "string", "request": "string"}, ["name"])


@pytest.mark.spec("CC-027")
def test_node_affinity() -> None:
    node = node_at(schema(AIM_SERVICE_TEMPLATE), "status.resolvedNodeAffinity")["properties"]
    required = node["requiredDuringSchedulingIgnoredDuringExecution"]
    preferred = node["preferredDuringSchedulingIgnoredDuringExecution"]
    assert (required["x-kubernetes-map-type"], required["required"]) == ("atomic", ["nodeSelectorTerms"])
    terms = required["properties"]["nodeSelectorTerms"]
    assert (terms["x-kubernetes-list-type"], preferred["x-kubernetes-list-type"]) == ("atomic", "atomic")
    weighted = preferred["items"]
    assert sorted(weighted["required"]) == ["preference", "weight"]
    assert (
        weighted["properties"]["weight"]["format"],
        weighted["properties"]["preference"]["x-kubernetes-map-type"],
    ) == ("int32", "atomic")
    for term in (terms["items"], weighted["properties"]["preference"]):
        for name in ("matchExpressions", "matchFields"):
            found = term["properties"][name]
            assert found["x-kubernetes-list-type"] == "atomic"
            assert sorted(found["items"]["required"]) == ["key", "operator"]
            assert found["items"]["properties"]["values"]["x-kubernetes-list-type"] == "atomic"


@pytest.mark.spec("CC-034")
def test_download_filters_have_no_limits() -> None:
    for kind, path in (
        (AIM_ARTIFACT, "spec.downloadFilter"),
        (AIM_SERVICE, "spec.storage.downloadFilter"),
        (AIM_RUNTIME_CONFIG, "spec.storage.downloadFilter"),
    ):
        node = node_at(schema(kind), path)
        assert types(node) == {"include": "array", "exclude": "array"}
        assert "required" not in node
        assert all(set(bare(child)) <= {"type", "items"} for child in node["properties"].values())
        assert all(set(bare(child["items"])) == {"type"} for child in node["properties"].values())


@pytest.mark.spec("CC-036")
def test_routing() -> None:
    for kind in (AIM_SERVICE, AIM_RUNTIME_CONFIG):
        node = node_at(schema(kind), "spec.routing")
        assert types(node) == {
            "enabled": "boolean", "gatewayRef": "object", "pathTemplate": "string", "hostnames": "array",
            "requestTimeout": "string", "annotations": "object",
        }  # fmt: skip
        properties = node["properties"]
        assert "default" not in properties["enabled"]
        assert all(set(bare(properties[name])) == {"type"} for name in ("enabled", "requestTimeout"))
        assert bare(properties["pathTemplate"]) == {"type": "string", "maxLength": 1024}
        assert properties["annotations"]["additionalProperties"] == {"type": "string"}


@pytest.mark.spec("CC-037")
def test_custom_profiles() -> None:
    for kind, path in (
        (AIM_MODEL, "spec.customTemplates[].customProfile"),
        (AIM_SERVICE_TEMPLATE, "spec.customProfile"),
    ):
        node = node_at(schema(kind), path)["properties"]
        assert bare(node["engineArgs"]) == {"x-kubernetes-preserve-unknown-fields": True}
        assert node["envVars"]["additionalProperties"] == {"type": "string"}


@pytest.mark.spec("CC-039")
def test_resolved_references() -> None:
    for kind, name in ((AIM_SERVICE, "resolvedModel"), (AIM_SERVICE_TEMPLATE, "discoveryJob")):
        node = node_at(schema(kind), f"status.{name}")
        assert types(node) == dict.fromkeys(("name", "namespace", "kind", "uid", "scope"), "string")
        assert "required" not in node
        assert node["properties"]["scope"]["enum"] == ["Namespace", "Cluster", "Merged", "Unknown"]


@pytest.mark.spec("CC-040")
def test_image_metadata() -> None:
    words = dict.fromkeys(("title", "source"), "string")
    for path in ("spec.imageMetadata", "status.imageMetadata"):
        node = node_at(schema(AIM_MODEL), path)
        for inner, child in nodes(node):
            assert not {"required", "enum", "format", "pattern", "maxLength"} & set(child) or inner.endswith("gpuCount")
        model, oci = node["properties"]["model"], node["properties"]["oci"]
        assert types(model) == words | {
            "canonicalName": "string", "descriptionFull": "string", "releaseNotes": "string", "tags": "array",
            "versions": "array", "variants": "array", "hfTokenRequired": "boolean", "recommendedDeployments": "array",
        }  # fmt: skip
        assert types(model["properties"]["recommendedDeployments"]["items"]) == {
            **dict.fromkeys(("gpuModel", "precision", "metric", "profileId", "description"), "string"),
            "gpuCount": "integer",
        }
        further = ("description", "licenses", "vendor", "authors", "documentation", "created", "revision", "version")
        assert types(oci) == words | dict.fromkeys(further, "string")
        assert node["properties"]["originalLabels"]["additionalProperties"] == {"type": "string"}


@pytest.mark.spec("CC-016", "CC-160")
def test_every_rule_names_a_field_that_it_is_about() -> None:
    for kind in OWN_KINDS:
        for path, node in nodes(schema(kind)):
            known = {
                *node.get("properties", {}),
                path.rpartition(".")[2].removesuffix("[]").rstrip("s"),
                "model source",
            }
            for rule in node.get("x-kubernetes-validations", []):
                said = rule["message"].lower()
                assert any(name and name.lower() in said for name in known), f"{kind} {path}: {rule['message']}"


@pytest.mark.spec("CC-331")
def test_effective_defaults_are_reported_in_words() -> None:
    for kind in (AIM_SERVICE, AIM_RUNTIME_CONFIG):
        assert "10" in node_at(schema(kind), "spec.storage.pvcHeadroomPercent")["description"]
    assert "false" in node_at(schema(AIM_RUNTIME_CONFIG), "spec.labelPropagation.enabled")["description"].lower()


@pytest.mark.spec("CC-P08")
def test_no_enumeration_stands_twice() -> None:
    for kind in OWN_KINDS:
        for path, node in nodes(schema(kind)):
            assert "allOf" not in node, path
            assert len(node.get("enum", [])) == len(set(node.get("enum", []))), path


@pytest.mark.spec("RC-010", "RC-011", "RC-012", "RC-P11")
def test_runtime_configs_have_the_fields_of_both_documents_and_no_others() -> None:
    lines = SPECIFICATION.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| Path under `spec`"))
    table = [line.split("|") for line in takewhile(lambda line: line.startswith("|"), lines[start + 2 :])]
    known = {cells[1].strip(" `").removesuffix("[]"): cells[2].split() for cells in table}
    assert {"routing.hostnames", "artifactStorageQuota.clusterLimit"} <= set(known)
    for path, levels in known.items():
        for kind, level in ((AIM_CLUSTER_RUNTIME_CONFIG, "C"), (AIM_RUNTIME_CONFIG, "N"), (AIM_SERVICE, "S")):
            place, _, name = f"spec.{path}".rpartition(".")
            try:
                exists = name in node_at(schema(kind), place).get("properties", {})
            except KeyError:
                exists = False
            assert exists is (level in levels), f"{kind.kind} {path}"
    for name in ("serviceAccountName", "imagePullSecrets"):
        assert name not in node_at(schema(AIM_RUNTIME_CONFIG), "spec")["properties"]
    assert "creationScope" not in node_at(schema(AIM_RUNTIME_CONFIG), "spec.model")["properties"]
