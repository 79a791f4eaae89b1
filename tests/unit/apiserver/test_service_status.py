"""The status of an AIMService under two managers, on the schema of its CRD."""

import pytest
from support.apiserver_ownership import LATE, apply, owned
from support.apiserver_schemas import crd_schema

from controller_runtime import JsonObject
from embedded_apiserver.objects.cel import CelRules
from embedded_apiserver.objects.managedfields import key_element
from embedded_apiserver.objects.patch import PatchError, json_patch
from embedded_apiserver.objects.schema import Schema

SERVING, ROUTING = "aim-serving", "aim-routing"
SCHEMA = Schema.compile(crd_schema("aimservices"))
IDENTITY: JsonObject = {
    "apiVersion": "aim.eai.amd.com/v1alpha1",
    "kind": "AIMService",
    "metadata": {"name": "chat", "namespace": "team"},
}


def condition(kind: str, status: str = "True") -> JsonObject:
    return {
        "type": kind,
        "status": status,
        "reason": "Because",
        "message": "",
        "lastTransitionTime": "2024-01-01T00:00:00Z",
    }


def service() -> JsonObject:
    made = apply(None, {**IDENTITY, "spec": {"model": {"name": "m"}}}, "user", schema=SCHEMA)
    SCHEMA.default(made)
    return made


def with_status(live: JsonObject, manager: str, status: JsonObject | None) -> JsonObject:
    """The object after a forced apply of the manager's part of the status, defaulted and valid."""
    config = IDENTITY if status is None else {**IDENTITY, "status": status}
    result = apply(live, config, manager, subresource="status", force=True, schema=SCHEMA, now=LATE)
    SCHEMA.default(result)
    assert SCHEMA.validate(result, live) == []
    assert CelRules.compile(crd_schema("aimservices")).validate(result, live) == []
    return result


def types(obj: JsonObject) -> list[str]:
    return [found["type"] for found in obj["status"].get("conditions", [])]


def test_the_default_of_the_status_appears_with_the_first_apply_and_belongs_to_nobody() -> None:
    live = with_status(service(), ROUTING, {"conditions": [condition("HTTPRouteReady")]})
    assert live["status"]["status"] == "Pending"
    assert ".status.status" not in owned(live, ROUTING)
    live = with_status(live, SERVING, {"status": "Running", "conditions": [condition("Ready")]})
    assert live["status"]["status"] == "Running"
    assert ".status.status" in owned(live, SERVING)


@pytest.mark.spec("FW-371")
def test_both_sets_of_conditions_coexist() -> None:
    live = with_status(service(), SERVING, {"status": "Starting", "conditions": [condition("Ready", "False")]})
    live = with_status(live, ROUTING, {"conditions": [condition("HTTPRouteReady")]})
    live = with_status(live, SERVING, {"status": "Running", "conditions": [condition("Ready")]})
    assert types(live) == ["Ready", "HTTPRouteReady"]
    assert live["status"]["conditions"][0]["status"] == "True"


@pytest.mark.spec("FW-372")
def test_routing_removes_its_part_by_applying_none_of_it() -> None:
    live = with_status(service(), SERVING, {"status": "Running", "conditions": [condition("Ready")]})
    live = with_status(live, ROUTING, {"conditions": [condition("HTTPRouteReady")]})
    live = with_status(live, ROUTING, None)
    assert types(live) == ["Ready"]
    assert live["status"]["status"] == "Running"
    assert owned(live, ROUTING) == set()


@pytest.mark.spec("FW-412")
def test_a_shared_condition_is_removed_by_a_json_patch_and_then_the_apply_passes() -> None:
    live = with_status(service(), SERVING, {"status": "Running", "conditions": [condition("Ready"), condition("Old")]})
    meddler = {**IDENTITY, "status": {"conditions": [{"type": "Old", "reason": "Mine"}]}}
    live = apply(live, meddler, "meddler", subresource="status", force=True, schema=SCHEMA)
    wanted = {**IDENTITY, "status": {"status": "Running", "conditions": [condition("Ready")]}}
    dropped = apply(live, wanted, SERVING, subresource="status", force=True, schema=SCHEMA)
    assert "status.conditions[1].status: Required value" in map(str, SCHEMA.validate(dropped, live))

    index = types(live).index("Old")
    guard = {"op": "test", "path": f"/status/conditions/{index}/type", "value": "Old"}
    live = json_patch(live, [guard, {"op": "remove", "path": f"/status/conditions/{index}"}])
    assert types(with_status(live, SERVING, wanted["status"])) == ["Ready"]
    with pytest.raises(PatchError, match="the server rejected our request"):
        json_patch(live, [guard])


def test_a_condition_is_owned_by_its_type() -> None:
    live = with_status(service(), SERVING, {"conditions": [condition("Ready")]})
    entry = next(found for found in live["metadata"]["managedFields"] if found["manager"] == SERVING)
    assert entry["subresource"] == "status"
    assert set(entry["fieldsV1"]["f:status"]["f:conditions"]) == {key_element({"type": "Ready"})}


def test_an_unchanged_status_changes_nothing() -> None:
    status = {"status": "Running", "conditions": [condition("Ready")]}
    live = with_status(service(), SERVING, status)
    assert with_status(live, SERVING, status) == live
