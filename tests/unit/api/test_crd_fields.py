"""Fields, types, defaults and limits of the CRDs against the tables of the specification."""

from __future__ import annotations

import re
from typing import Any

import pytest
from support.crd_tables import Row, node_at, nodes, parent_at, rows, schema

from aim_domain.kinds import (
    AIM_ARTIFACT,
    AIM_CLUSTER_MODEL,
    AIM_CLUSTER_MODEL_SOURCE,
    AIM_CLUSTER_PROFILE,
    AIM_CLUSTER_PROFILE_SET,
    AIM_CLUSTER_RUNTIME_CONFIG,
    AIM_CLUSTER_SERVICE_TEMPLATE,
    AIM_MODEL,
    AIM_PROFILE,
    AIM_PROFILE_CACHE,
    AIM_PROFILE_SET,
    AIM_RUNTIME_CONFIG,
    AIM_SERVICE,
    AIM_SERVICE_TEMPLATE,
    AIM_TEMPLATE_CACHE,
    OWN_KINDS,
)
from controller_runtime import Kind

TABLES = [
    (AIM_SERVICE, "spec", "CC-070"),
    (AIM_SERVICE, "status", "CC-071"),
    (AIM_MODEL, "spec", "CC-081"),
    (AIM_CLUSTER_MODEL, "spec", "CC-081"),
    (AIM_SERVICE_TEMPLATE, "spec", "CC-091"),
    (AIM_CLUSTER_SERVICE_TEMPLATE, "spec", "CC-091"),
    (AIM_SERVICE_TEMPLATE, "status", "CC-092"),
    (AIM_CLUSTER_SERVICE_TEMPLATE, "status", "CC-092"),
    (AIM_RUNTIME_CONFIG, "spec", "CC-100"),
    (AIM_CLUSTER_RUNTIME_CONFIG, "spec", "CC-100"),
    (AIM_CLUSTER_MODEL_SOURCE, "spec", "CC-110"),
    (AIM_ARTIFACT, "spec", "CC-120"),
    (AIM_ARTIFACT, "status", "CC-121"),
    (AIM_TEMPLATE_CACHE, "spec", "CC-130"),
    (AIM_PROFILE, "spec", "CC-401"),
    (AIM_CLUSTER_PROFILE, "spec", "CC-401"),
    (AIM_PROFILE, "status", "CC-402"),
    (AIM_CLUSTER_PROFILE, "status", "CC-402"),
    (AIM_PROFILE_SET, "spec", "CC-403"),
    (AIM_CLUSTER_PROFILE_SET, "spec", "CC-403"),
    (AIM_PROFILE_SET, "status", "CC-404"),
    (AIM_CLUSTER_PROFILE_SET, "status", "CC-404"),
    (AIM_PROFILE_CACHE, "spec", "CC-405"),
]
MODEL_STATUS = (
    "observedGeneration conditions status resolvedRuntimeConfig imageMetadata sourceType aimId baseImage version"
    " discoveredProfiles managedProfiles discovery discoveryCacheRef profileSetRef"
)
# What the specification says in prose instead of a table.
PROSE_STATUS = {
    AIM_MODEL: MODEL_STATUS,
    AIM_CLUSTER_MODEL: MODEL_STATUS,
    AIM_RUNTIME_CONFIG: "observedGeneration conditions",
    AIM_CLUSTER_RUNTIME_CONFIG: "observedGeneration conditions",
    AIM_CLUSTER_MODEL_SOURCE: "status lastSyncTime discoveredModels availableModels modelsLimitReached"
    " conditions observedGeneration",
    AIM_TEMPLATE_CACHE: "observedGeneration conditions resolvedRuntimeConfig status resolvedTemplateKind artifacts",
    AIM_PROFILE_CACHE: "observedGeneration conditions resolvedRuntimeConfig status artifacts",
}
OVERRIDES = (
    "modelSources features acceleratorModel acceleratorVendor acceleratorCount acceleratorPartitioningMode containerEnv"
    " engineEnv engineArgs"
)
SHAPES = {
    "S2": "type status reason message lastTransitionTime observedGeneration",
    "S3": "name value valueFrom",
    "S4": "name",
    "S5": "requests limits claims",
    "S6": "name group kind namespace sectionName port",
    "S7": "requiredDuringSchedulingIgnoredDuringExecution preferredDuringSchedulingIgnoredDuringExecution",
    "S8": "gpu cpu",
    "S9": "modelId sourceUri size env",
    "S10": "include exclude",
    "S11": "defaultStorageClassName pvcHeadroomPercent downloadFilter",
    "S12": "enabled gatewayRef pathTemplate hostnames requestTimeout annotations",
    "S13": "engineArgs envVars",
    "S14": "engine_args env_vars metadata originalDiscoveryOutput",
    "S15": "name namespace kind uid scope",
    "S16": "model oci originalLabels",
    "S17": "resources tolerations nodeSelector priorityClassName serviceAccountName imagePullSecrets annotations"
    " securityContext",
    "S18": "type rollingUpdate",
    "S19": "aimId modelId profileId engine metric precision type minimumType acceleratorModel acceleratorVendor"
    " acceleratorType acceleratorCount acceleratorPartitioningMode engineArgs modelRef role origin",
    "S20": OVERRIDES,
    "S21": f"{OVERRIDES} aimId modelId profileId image",
}
LISTS_OF_SHAPE = {"S2", "S3", "S4"}
SCALARS: dict[str, dict[str, Any]] = {
    "str": {"type": "string", "format": None},
    "bool": {"type": "boolean"},
    "int": {"type": "integer", "format": None},
    "i32": {"type": "integer", "format": "int32"},
    "i64": {"type": "integer", "format": "int64"},
    "time": {"type": "string", "format": "date-time"},
    "qty": {"type": None, "x-kubernetes-int-or-string": True},
    "object": {"type": "object"},
    "free JSON": {"type": None, "x-kubernetes-preserve-unknown-fields": True},
    "free object": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "list": {"type": "array"},
    "[str]": {"type": "array"},
}


def _on_this_kind(row: Row, kind: Kind[Any]) -> bool:
    if "namespaced kind only" in row.constraint:
        return kind.namespaced
    return not (row.on == "cluster kind only" and kind.namespaced)


def _fields(kind: Kind[Any], part: str, requirement: str) -> list[tuple[str, Row]]:
    return [(f"{part}.{row.path}", row) for row in rows(requirement) if _on_this_kind(row, kind)]


def _with_parents(path: str) -> list[str]:
    members = path.split(".")
    return [".".join(members[:count]).removesuffix("[]") for count in range(1, len(members) + 1)]


def _ids(entry: object) -> str:
    return str(entry)


@pytest.mark.spec(
    "CC-070",
    "CC-071",
    "CC-081",
    "CC-091",
    "CC-092",
    "CC-100",
    "CC-110",
    "CC-120",
    "CC-121",
    "CC-130",
    "CC-401",
    "CC-402",
    "CC-403",
    "CC-404",
    "CC-405",
    "DI-015",
    "DI-026",
    "PR-001",
)
@pytest.mark.parametrize(("kind", "part", "requirement"), TABLES, ids=_ids)
def test_every_documented_field_has_its_type(kind: Kind[Any], part: str, requirement: str) -> None:
    root = schema(kind)
    documented = _fields(kind, part, requirement)
    assert documented
    for path, row in documented:
        node = node_at(root, path)
        if row.type in SCALARS:
            assert {key: node.get(key) for key in SCALARS[row.type]} == SCALARS[row.type], path
        elif row.type.startswith("enum"):
            assert node["enum"], path
        else:
            shape = row.type.strip("[]")
            item = node["items"] if row.type.startswith("[") or shape in LISTS_OF_SHAPE else node
            further = {other.removeprefix(f"{path}.") for other, _ in documented if other.startswith(f"{path}.")}
            assert set(item["properties"]) == {*SHAPES[shape].split(), *further}, path


@pytest.mark.spec(
    "CC-070",
    "CC-071",
    "CC-081",
    "CC-091",
    "CC-092",
    "CC-100",
    "CC-102",
    "CC-110",
    "CC-120",
    "CC-130",
    "DI-015",
    "DI-021",
    "DI-025",
    "DI-026",
)
@pytest.mark.parametrize(("kind", "part", "requirement"), TABLES, ids=_ids)
def test_no_field_is_undocumented(kind: Kind[Any], part: str, requirement: str) -> None:
    documented = dict(_fields(kind, part, requirement))
    known = {known for path in documented for known in _with_parents(path)}
    inside_shapes = tuple(path for path, row in documented.items() if row.type.strip("[]") in SHAPES)
    for path, _ in nodes(node_at(schema(kind), part), part):
        outer = path.removesuffix("[]").removesuffix("{}")
        assert outer in known or outer.startswith(tuple(f"{p}{s}" for p in inside_shapes for s in ".[")), path


@pytest.mark.spec("CC-051", "CC-070", "CC-081", "CC-091", "CC-110", "CC-120", "CC-130", "CC-324")
@pytest.mark.parametrize(("kind", "part", "requirement"), TABLES, ids=_ids)
def test_required_fields_and_no_others(kind: Kind[Any], part: str, requirement: str) -> None:
    root = schema(kind)
    for path, row in _fields(kind, part, requirement):
        required = path.rpartition(".")[2] in parent_at(root, path).get("required", [])
        assert required == row.required, path


@pytest.mark.spec("CC-008")
def test_spec_is_required_where_something_in_it_is() -> None:
    optional = {kind.kind for kind in OWN_KINDS if "spec" not in schema(kind).get("required", [])}
    assert optional == {"AIMRuntimeConfig", "AIMClusterRuntimeConfig"}


@pytest.mark.spec("CC-083", "CC-101", "CC-113", "CC-131", "CC-406")
@pytest.mark.parametrize("kind", PROSE_STATUS, ids=_ids)
def test_status_fields_described_in_prose(kind: Kind[Any]) -> None:
    assert set(node_at(schema(kind), "status")["properties"]) == set(PROSE_STATUS[kind].split())


@pytest.mark.spec("CC-131")
def test_artifacts_of_a_template_cache() -> None:
    value = node_at(schema(AIM_TEMPLATE_CACHE), "status.artifacts")["additionalProperties"]
    assert set(value["properties"]) == {"uid", "name", "model", "status", "persistentVolumeClaim", "mountPoint"}
    assert value["required"] == ["model", "name", "status", "uid"]
    assert "enum" not in value["properties"]["status"]


LIMIT_KEYWORDS = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
}


def _limits(node: dict[str, Any]) -> tuple[int | None, int | None]:
    low, high = LIMIT_KEYWORDS.get(node.get("type", ""), ("", ""))
    return node.get(low), node.get(high)


def _documented_limits(constraint: str) -> tuple[int | None, int | None]:
    if both := re.search(r"(\d+)–(\d+)", constraint):
        return int(both[1]), int(both[2])
    low, high = re.search(r"≥ (\d+)", constraint), re.search(r"≤ (\d+)", constraint)
    return int(low[1]) if low else None, int(high[1]) if high else None


@pytest.mark.spec("CC-070", "CC-081", "CC-091", "CC-100", "CC-110", "CC-120", "CC-121", "CC-130", "DI-015", "AC-72")
@pytest.mark.parametrize(("kind", "part", "requirement"), TABLES, ids=_ids)
def test_limits_are_the_documented_ones(kind: Kind[Any], part: str, requirement: str) -> None:
    root = schema(kind)
    for path, row in _fields(kind, part, requirement):
        assert _limits(node_at(root, path)) == _documented_limits(row.constraint), path


@pytest.mark.spec("CC-110")
def test_limits_of_image_selectors() -> None:
    root = schema(AIM_CLUSTER_MODEL_SOURCE)
    for path in ("spec.images[]", "spec.filters[].image"):
        node = node_at(root, path)
        assert (node["minLength"], node["maxLength"]) == (1, 512)


@pytest.mark.spec("CC-021", "CC-026", "CC-032", "CC-033", "CC-035")
@pytest.mark.parametrize(
    ("requirement", "path"),
    [
        ("CC-021", "status.conditions[]"),
        ("CC-026", "spec.routing.gatewayRef"),
        ("CC-032", "spec.model.custom.hardware"),
        ("CC-033", "spec.model.custom.modelSources[]"),
        ("CC-035", "spec.storage"),
    ],
)
def test_shared_shapes(requirement: str, path: str) -> None:
    root = node_at(schema(AIM_SERVICE), path)
    for row in rows(requirement):
        node = node_at(root, row.path)
        required = row.path.rpartition(".")[2] in parent_at(root, row.path).get("required", [])
        if pattern := re.search(r"pattern `([^`]+)`", row.constraint):
            assert node["pattern"] == pattern[1], row.path
        assert (required, _limits(node)) == (row.required, _documented_limits(row.constraint)), row.path


DEFAULTS: dict[str, object] = {
    "spec.rollout.replicas": 1,
    "spec.rollout.progressDeadline": "1h",
    "spec.caching.mode": "Shared",
    "spec.replicas": 1,
    "spec.autoScaling.metrics[].podmetric.metric.backend": "opentelemetry",
    "spec.discovery.extractMetadata": True,
    "spec.discovery.createServiceTemplates": True,
    "spec.customTemplates[].type": "unoptimized",
    "spec.caching.enabled": False,
    "spec.registry": "docker.io",
    "spec.syncInterval": "1h",
    "spec.maxModels": 100,
    "spec.mode": "Shared",
    "spec.primary": False,
    "spec.manualSelectionOnly": False,
    "spec.acceleratorPartitioningMode": "unpartitioned",
    "spec.versionPolicy": "pinned",
    "spec.profiles.versionPolicy": "pinned",
    "status.deployable": False,
    "status.status": "Pending",
}
DEFAULTS_BY_ENDING: dict[str, object] = {
    "gpu.resourceName": "amd.com/gpu",
    "resolvedHardware.gpu.resourceName": "amd.com/gpu",
    "gatewayRef.group": "gateway.networking.k8s.io",
    "gatewayRef.kind": "Gateway",
    "KeyRef.name": "",
    "imagePullSecrets[].name": "",
    "fileKeyRef.optional": False,
    "modelRef.scope": "Auto",
}


@pytest.mark.spec("CC-150", "CC-330")
@pytest.mark.parametrize("kind", OWN_KINDS, ids=_ids)
def test_structural_defaults_are_exactly_the_listed_ones(kind: Kind[Any]) -> None:
    for path, node in nodes(schema(kind)):
        expected = next((v for end, v in DEFAULTS_BY_ENDING.items() if path.endswith(end)), DEFAULTS.get(path))
        if path == "status.status" and kind is AIM_CLUSTER_MODEL_SOURCE:
            expected = None
        assert node.get("default") == expected, path


@pytest.mark.spec("CC-150")
def test_every_listed_default_occurs() -> None:
    defaulted = {path for kind in OWN_KINDS for path, node in nodes(schema(kind)) if "default" in node}
    assert set(DEFAULTS) <= defaulted
    assert all(any(path.endswith(end) for path in defaulted) for end in DEFAULTS_BY_ENDING)


@pytest.mark.spec("CC-080", "CC-090")
def test_twin_kinds_have_the_same_schema() -> None:
    for part in ("spec", "status"):
        assert node_at(schema(AIM_MODEL), part) == node_at(schema(AIM_CLUSTER_MODEL), part)
    assert node_at(schema(AIM_SERVICE_TEMPLATE), "status") == node_at(schema(AIM_CLUSTER_SERVICE_TEMPLATE), "status")
    namespaced = dict(node_at(schema(AIM_SERVICE_TEMPLATE), "spec")["properties"])
    del namespaced["caching"]
    assert namespaced == node_at(schema(AIM_CLUSTER_SERVICE_TEMPLATE), "spec")["properties"]
