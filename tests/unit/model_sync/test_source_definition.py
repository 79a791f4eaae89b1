"""The definition of AIMClusterModelSource: names, columns, fields and what it leaves free."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from aim_domain.crd import definition
from aim_domain.kinds import AIM_CLUSTER_MODEL_SOURCE
from controller_runtime import JsonObject

DEFINITION: Final = definition(AIM_CLUSTER_MODEL_SOURCE)
VERSION: Final[JsonObject] = DEFINITION["spec"]["versions"][0]
SCHEMA: Final[JsonObject] = VERSION["schema"]["openAPIV3Schema"]["properties"]
SPEC: Final[JsonObject] = SCHEMA["spec"]
STATUS: Final[JsonObject] = SCHEMA["status"]


def members(node: Any, key: str) -> Iterator[Any]:
    """Every value of a key, however deep."""
    if isinstance(node, dict):
        yield from (value for name, value in node.items() if name == key)
        node = list(node.values())
    if isinstance(node, list):
        for one in node:
            yield from members(one, key)


@pytest.mark.spec("MS-001", "MS-002", "MS-003")
def test_names_and_scope() -> None:
    spec = DEFINITION["spec"]
    assert DEFINITION["metadata"]["name"] == "aimclustermodelsources.aim.eai.amd.com"
    assert (spec["group"], spec["scope"], VERSION["name"]) == ("aim.eai.amd.com", "Cluster", "v1alpha1")
    assert spec["names"] == {
        "kind": "AIMClusterModelSource",
        "listKind": "AIMClusterModelSourceList",
        "plural": "aimclustermodelsources",
        "singular": "aimclustermodelsource",
        "shortNames": ["aimclsrc"],
        "categories": ["aim", "all"],
    }
    assert VERSION["subresources"] == {"status": {}}


@pytest.mark.spec("MS-005", "MS-006", "MS-007", "MS-008", "MS-009", "MS-010")
def test_columns() -> None:
    columns = [(one["name"], one["jsonPath"], one["type"]) for one in VERSION["additionalPrinterColumns"]]
    assert columns == [
        ("Status", ".status.status", "string"),
        ("Models", ".status.discoveredModels", "integer"),
        ("LastSync", ".status.lastSyncTime", "date"),
        ("Age", ".metadata.creationTimestamp", "date"),
    ]


@pytest.mark.spec(
    "MS-011", "MS-012", "MS-013", "MS-014", "MS-015", "MS-016", "MS-017", "MS-018", "MS-019", "MS-020", "MS-021",
    "MS-023", "MS-024", "MS-025",
)  # fmt: skip
def test_fields_of_the_spec() -> None:
    fields = SPEC["properties"]
    assert set(fields) == {
        "registry", "imagePullSecrets", "images", "filters", "versions", "syncInterval", "maxModels",
    }  # fmt: skip
    assert not SPEC.get("required"), "which of the two lists is set is a rule, not a required member"
    assert (fields["registry"]["type"], fields["registry"]["default"]) == ("string", "docker.io")
    assert fields["imagePullSecrets"]["items"]["properties"]["name"]["type"] == "string"
    for name in ("images", "filters"):
        assert (fields[name]["minItems"], fields[name]["maxItems"]) == (1, 100)
    assert (fields["images"]["items"]["minLength"], fields["images"]["items"]["maxLength"]) == (1, 512)
    one = fields["filters"]["items"]
    assert (set(one["properties"]), one["required"]) == ({"image", "exclude", "versions"}, ["image"])
    assert (one["properties"]["image"]["minLength"], one["properties"]["image"]["maxLength"]) == (1, 512)
    for texts in (one["properties"]["exclude"], one["properties"]["versions"], fields["versions"]):
        assert (texts["type"], texts["items"]["type"]) == ("array", "string")
    assert fields["syncInterval"]["default"] == "1h"
    limit = fields["maxModels"]
    assert (limit["default"], limit["minimum"], limit["maximum"]) == (100, 1, 10_000)


@pytest.mark.spec("MS-004")
def test_no_field_is_immutable() -> None:
    rules = [rule["rule"] for rules in members(SPEC, "x-kubernetes-validations") for rule in rules]
    assert rules, "images and filters exclude each other"
    assert not [rule for rule in rules if "oldSelf" in rule]


@pytest.mark.spec("MS-285", "MS-286", "MS-291")
def test_fields_of_the_status() -> None:
    fields = STATUS["properties"]
    assert set(fields) == {
        "status", "lastSyncTime", "discoveredModels", "availableModels", "modelsLimitReached", "conditions",
        "observedGeneration",
    }  # fmt: skip
    assert fields["lastSyncTime"]["format"] == "date-time"
    values = {"Pending", "Starting", "Progressing", "Ready", "Running", "Degraded", "NotAvailable", "Failed"}
    assert set(fields["status"]["enum"]) == values
    conditions = fields["conditions"]
    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])
