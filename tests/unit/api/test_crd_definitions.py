"""Names, columns, subresources and structure of the CRDs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.crd_tables import SPECIFICATION, node_at, nodes, schema

from aim_domain.crd import definition, differing, rendered, write
from aim_domain.kind_names import SHARED
from aim_domain.kinds import AIM_SERVICE, AIM_TEMPLATE_CACHE, OLDER_KINDS, OWN_KINDS
from controller_runtime import Kind

PROFILES = {"profileCopy", "derivedFrom", "source", "accelerator"}
"""Kept for the Go operator (CC-351)."""
CHECKED_IN = SPECIFICATION.parents[2] / "deploy/crds"
ALL_KINDS = pytest.mark.parametrize("kind", OWN_KINDS, ids=str)


def _columns_table() -> dict[str, str]:
    """Kind → its columns as CC-060 has them."""
    text = SPECIFICATION.read_text().partition("- **CC-060**")[2].partition("- **CC-061**")[0]
    rows = re.findall(r"^\| (AIM[^|]+) \| (.+) \|$", text, re.MULTILINE)
    return {kind: columns for kinds, columns in rows for kind in kinds.split(", ")}


def _column(column: dict[str, Any]) -> str:
    kind = "" if column["type"] == "string" else f" ({column['type']})"
    created = column["jsonPath"] == ".metadata.creationTimestamp"
    path = "" if created else f" ← `{column['jsonPath']}`"
    priority = f" (priority {column['priority']})" if "priority" in column else ""
    return f"`{column['name']}`{kind}{path}{priority}"


def _names_table() -> dict[str, tuple[str, ...]]:
    lines = [re.sub(r"[` ]", "", line).split("|")[1:-1] for line in SPECIFICATION.read_text().splitlines()]
    return {line[0]: tuple(line[1:]) for line in lines if len(line) == 5 and line[3].startswith("aim")}


@pytest.mark.spec("CC-001", "CC-350", "CC-005", "CC-006", "CC-050", "FW-360", "DI-012", "DI-006", "SV-032")
def test_names_scopes_and_categories() -> None:
    table = _names_table()
    assert set(table) == {kind.kind for kind in OWN_KINDS}
    for kind in OWN_KINDS:
        spec = definition(kind)["spec"]
        names = spec["names"]
        assert (names["plural"], names["singular"], *names["shortNames"], spec["scope"]) == table[kind.kind]
        assert names["categories"] == ["aim", "all"]
        assert names["listKind"] == f"{kind.kind}List"
        newer = [("v1alpha2", True, False)] if kind.name in SHARED else []
        own = "v1alpha2" if "Profile" in kind.kind else "v1alpha1"
        assert [(v["name"], v["served"], v["storage"]) for v in spec["versions"]] == [(own, True, True), *newer]
        # Conversion is none, so what one version lacks would be pruned from objects of the other.
        first, *others = spec["versions"]
        assert [{**one, "name": "", "storage": None} for one in others] == [
            {**first, "name": "", "storage": None} for _ in others
        ]
        assert spec["group"] == "aim.eai.amd.com"
        assert spec["conversion"] == {"strategy": "None"}


@pytest.mark.spec("CC-060", "CC-061", "CC-062", "DI-013", "DI-014", "SV-033")
@ALL_KINDS
def test_printer_columns(kind: Kind[Any]) -> None:
    columns = definition(kind)["spec"]["versions"][0].get("additionalPrinterColumns", [])
    written = "; ".join(_column(column) for column in columns)
    assert _columns_table()[kind.kind] == (written or "none; the API server shows name and age")


@pytest.mark.spec("CC-003", "DI-012")
@ALL_KINDS
def test_subresources(kind: Kind[Any]) -> None:
    subresources = definition(kind)["spec"]["versions"][0]["subresources"]
    assert subresources["status"] == {}
    assert ("scale" in subresources) == (kind is AIM_SERVICE)


@pytest.mark.spec("CC-003")
def test_scale_paths_lead_to_fields() -> None:
    scale = definition(AIM_SERVICE)["spec"]["versions"][0]["subresources"]["scale"]
    types = {key: node_at(schema(AIM_SERVICE), path.lstrip("."))["type"] for key, path in scale.items()}
    assert types == {
        "specReplicasPath": "integer",
        "statusReplicasPath": "integer",
        "labelSelectorPath": "string",
    }


@pytest.mark.spec("CC-002", "CC-009", "CC-010", "CC-020")
@ALL_KINDS
def test_schemas_are_structural(kind: Kind[Any]) -> None:
    free = set()
    for path, node in nodes(schema(kind)):
        assert not {"$ref", "nullable", "oneOf", "allOf", "not"} & set(node), path
        assert node.get("format") in {None, "int32", "int64", "date-time"}, path
        if node.get("x-kubernetes-int-or-string"):
            assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}], path
            is_share = path.rpartition(".")[2] in {"maxSurge", "maxUnavailable"}
            assert node["pattern"].startswith("^[0-9]+%?$" if is_share else r"^(\+|-)?"), path
        elif node.get("x-kubernetes-preserve-unknown-fields"):
            # Of those of the Go operator a rule asks whether they are there.
            assert node.get("type", "object") == "object"
            free.add(path.rpartition(".")[2])
        else:
            assert node["type"] in {"object", "array", "string", "integer", "boolean"}, path
            assert "anyOf" not in node
    assert free <= {"engineArgs", "engine_args", "originalDiscoveryOutput", "securityContext", *PROFILES}


@pytest.mark.spec("CC-011")
@ALL_KINDS
def test_every_property_is_described(kind: Kind[Any]) -> None:
    root = schema(kind)
    for path, node in nodes(root):
        for name, child in node.get("properties", {}).items():
            if (path, name) != ("", "metadata"):
                assert child.get("description"), f"{path}.{name}"


@pytest.mark.spec("CC-011")
def test_deprecated_fields_name_their_replacement() -> None:
    replaced = {"cacheModel": "caching.mode"}
    config = {
        "defaultStorageClassName": "storage.defaultStorageClassName",
        "pvcHeadroomPercent": "storage.pvcHeadroomPercent",
    }
    for kind in OWN_KINDS:
        fields = replaced if kind is AIM_SERVICE else config if kind.kind.endswith("RuntimeConfig") else {}
        for name, path in fields.items():
            description = node_at(schema(kind), f"spec.{name}")["description"]
            assert description.startswith("Deprecated")
            assert path in description


@pytest.mark.spec("CC-022", "CC-023", "CC-024", "CC-041")
@ALL_KINDS
def test_list_types(kind: Kind[Any]) -> None:
    keys = {"conditions": ["type"], "env": ["name"], "containerEnv": ["name"], "claims": ["name"]}
    for path, node in nodes(schema(kind)):
        if node.get("type") == "array":
            # Adapters of a spec; those of a status are one list of one owner.
            name = "claims" if path == "spec.adapters" else path.rpartition(".")[2]
            assert node.get("x-kubernetes-list-map-keys") == keys.get(name), path
            assert node.get("x-kubernetes-list-type") in ({"map"} if name in keys else {None, "atomic"}), path


@pytest.mark.spec("CC-007")
@ALL_KINDS
def test_metadata_is_left_to_the_api_server(kind: Kind[Any]) -> None:
    assert node_at(schema(kind), "metadata") == {"type": "object"}


@pytest.mark.spec("CC-030", "FW-022", "SV-030")
@ALL_KINDS
def test_status_values(kind: Kind[Any]) -> None:
    expected = {
        "AIMService": "Pending Starting Running Degraded Failed",
        "AIMClusterModelSource": "Pending Starting Progressing Ready Running Degraded NotAvailable Failed",
        "AIMRuntimeConfig": None,
        "AIMClusterRuntimeConfig": None,
    }.get(kind.kind, "Pending Progressing Ready Degraded Failed NotAvailable")
    status = node_at(schema(kind), "status")["properties"].get("status")
    assert (status and " ".join(status["enum"])) == expected


@pytest.mark.spec("CC-030", "CC-031")
def test_enumerations() -> None:
    expected = {
        "spec.overrides.metric": "latency throughput",
        "spec.overrides.precision": "auto fp4 fp8 fp16 fp32 bf16 int4 int8",
        "spec.caching.mode": "Dedicated Shared Auto Always Never",
        "spec.autoScaling.metrics[].type": "PodMetric",
        "spec.autoScaling.metrics[].podmetric.target.type": "Value AverageValue Utilization",
        "spec.autoScaling.metrics[].podmetric.metric.backend": "opentelemetry",
        "status.resolvedModel.scope": "Namespace Cluster Merged Unknown",
    }
    for path, values in expected.items():
        assert " ".join(node_at(schema(AIM_SERVICE), path)["enum"]) == values
    cache = schema(AIM_TEMPLATE_CACHE)
    assert node_at(cache, "spec.templateScope")["enum"] == ["Namespace", "Cluster", "Unknown"]
    assert node_at(cache, "spec.mode")["enum"] == ["Dedicated", "Shared"]


@pytest.mark.spec("CC-012", "CC-S34")
def test_checked_in_manifests_are_what_the_models_give() -> None:
    assert differing(CHECKED_IN) == []


@pytest.mark.spec("CC-012")
def test_writing_repairs_a_folder(tmp_path: Path) -> None:
    assert len(write(tmp_path)) == len(OWN_KINDS) + len(OLDER_KINDS)
    (tmp_path / "aimservices.yaml").write_text("changed")
    (tmp_path / "aimforgotten.yaml").write_text("old")
    assert write(tmp_path) == ["aimforgotten.yaml", "aimservices.yaml"]
    assert differing(tmp_path) == []


def test_manifests_are_plain_yaml() -> None:
    kinds = sorted(OWN_KINDS + OLDER_KINDS, key=lambda kind: kind.plural)
    for kind, text in zip(kinds, sorted(rendered().items()), strict=True):
        assert text[0] == f"{kind.plural}.yaml"
        assert yaml.safe_load(text[1]) == definition(kind)
        assert "&id" not in text[1]
