"""Patch formats and server-side apply."""

from support.suite import SuiteApi
from support.suite_widgets import WIDGETS, bare_widget

from controller_runtime import JsonObject

DEPLOYMENTS = "/apis/apps/v1/namespaces/$ns/deployments"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def _deployment() -> JsonObject:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "one"}]}}
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}


async def test_json_patch_tests_and_replaces(widgets: SuiteApi) -> None:
    await widgets.created(WIDGETS, bare_widget("a", size=3))
    replace = {"op": "replace", "path": "/spec/size", "value": 4}
    good = [{"op": "test", "path": "/spec/size", "value": 3}, replace]
    assert (await widgets.send("PATCH", f"{WIDGETS}/a", good, JSON_PATCH)).body["spec"]["size"] == 4
    stale = await widgets.send("PATCH", f"{WIDGETS}/a", good, JSON_PATCH)
    assert (stale.status, stale.reason) == (422, "Invalid")


async def test_merge_patch_with_a_stale_version_is_a_conflict(widgets: SuiteApi) -> None:
    made = await widgets.created(WIDGETS, bare_widget("a", size=3))
    version = made["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version}, "spec": {"size": 4}}
    assert (await widgets.merge(f"{WIDGETS}/a", patch)).status == 200
    assert (await widgets.merge(f"{WIDGETS}/a", patch)).status == 409


async def test_strategic_merge_is_for_built_in_kinds(widgets: SuiteApi) -> None:
    await widgets.created(DEPLOYMENTS, _deployment())
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}}
    merged = await widgets.send("PATCH", f"{DEPLOYMENTS}/d", patch, STRATEGIC)
    assert [c["image"] for c in merged.body["spec"]["template"]["spec"]["containers"]] == ["two"]
    await widgets.created(WIDGETS, bare_widget("a", size=3))
    refused = await widgets.send("PATCH", f"{WIDGETS}/a", {"spec": {"size": 4}}, STRATEGIC)
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")


async def test_apply_creates_then_changes_then_does_nothing(widgets: SuiteApi) -> None:
    first = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3), "one")
    assert first.status == 201
    assert first.body["metadata"]["managedFields"][0]["operation"] == "Apply"
    changed = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=4), "one")
    assert (changed.status, changed.body["metadata"]["generation"]) == (200, 2)
    again = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=4), "one")
    assert again.body == changed.body


async def test_apply_removes_what_its_manager_leaves_out(widgets: SuiteApi) -> None:
    await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3, replicas=2), "one")
    left = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3), "one")
    assert "replicas" not in left.body["spec"]


async def test_apply_conflicts_name_manager_and_field(widgets: SuiteApi) -> None:
    await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3), "one")
    refused = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=4), "two")
    assert (refused.status, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "one": .spec.size'
    assert refused.body["details"]["causes"][0] == {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "one"',
        "field": ".spec.size",
    }
    forced = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=4), "two", force="true")
    assert forced.body["spec"]["size"] == 4


async def test_two_managers_share_a_keyed_list(widgets: SuiteApi) -> None:
    one = bare_widget("a", size=3, parts=[{"name": "x", "weight": 1}])
    await widgets.apply(f"{WIDGETS}/a", one, "one")
    two = bare_widget("a", size=3, parts=[{"name": "y", "weight": 2}])
    both = await widgets.apply(f"{WIDGETS}/a", two, "two")
    assert {part["name"] for part in both.body["spec"]["parts"]} == {"x", "y"}


async def test_two_managers_share_a_status(widgets: SuiteApi) -> None:
    await widgets.created(WIDGETS, bare_widget("a", size=3))

    def status(**fields: object) -> JsonObject:
        return {k: v for k, v in bare_widget("a").items() if k != "spec"} | {"status": fields}

    await widgets.apply(f"{WIDGETS}/a/status", status(phase="Ready"), "one")
    both = await widgets.apply(f"{WIDGETS}/a/status", status(note="fine"), "two")
    assert both.body["status"] == {"phase": "Ready", "note": "fine"}
    assert both.body["spec"]["size"] == 3
    left = await widgets.apply(f"{WIDGETS}/a/status", status(), "one")
    assert left.body["status"] == {"note": "fine"}


async def test_apply_edges(widgets: SuiteApi) -> None:
    missing = await widgets.apply(f"{WIDGETS}/a/status", bare_widget("a") | {"status": {"phase": "x"}}, "one")
    assert missing.status == 404
    with_uid = bare_widget("a", size=3) | {"metadata": {"name": "a", "uid": "gone"}}
    mismatch = await widgets.apply(f"{WIDGETS}/a", with_uid, "one")
    assert (mismatch.status, "uid mismatch" in mismatch.message) == (409, True)
    unknown = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3, flavour="sweet"), "one")
    assert unknown.status == 500
    assert unknown.message.startswith("failed to create typed patch object (/a; test.example.com/v1, Kind=Widget)")
    anonymous = await widgets.send("PATCH", f"{WIDGETS}/a", bare_widget("a", size=3), "application/apply-patch+yaml")
    assert (anonymous.status, anonymous.body["details"]["causes"][0]["field"]) == (422, "fieldManager")
    made = (await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3), "one")).body
    await widgets.merge(f"{WIDGETS}/a", {"spec": {"replicas": 1}})
    stale = bare_widget("a", size=3) | {
        "metadata": {"name": "a", "resourceVersion": made["metadata"]["resourceVersion"]}
    }
    assert (await widgets.apply(f"{WIDGETS}/a", stale, "one")).status == 409


async def test_apply_of_a_missing_object_is_validated(widgets: SuiteApi) -> None:
    refused = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=0), "one")
    assert (refused.status, refused.reason) == (422, "Invalid")


async def test_routes_get_defaults_inside_their_lists(api: SuiteApi) -> None:
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "r"},
        "spec": {"parentRefs": [{"name": "gw"}], "rules": [{"backendRefs": [{"name": "svc", "port": 80}]}]},
    }
    path = "/apis/gateway.networking.k8s.io/v1/namespaces/$ns/httproutes/r"
    made = (await api.apply(path, route, "one")).body["spec"]
    assert made["parentRefs"] == [{"name": "gw", "group": "gateway.networking.k8s.io", "kind": "Gateway"}]
    (rule,) = made["rules"]
    assert rule["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]
    assert rule["backendRefs"] == [{"name": "svc", "port": 80, "group": "", "kind": "Service", "weight": 1}]
    before = (await api.get(path)).body["metadata"]["resourceVersion"]
    again = await api.apply(path, route, "one")
    assert again.body["metadata"]["resourceVersion"] == before


async def test_managed_fields_can_be_reset_on_the_main_resource_only(widgets: SuiteApi) -> None:
    await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3), "one")
    reset: JsonObject = {"metadata": {"managedFields": [{}]}}
    ignored = await widgets.merge(f"{WIDGETS}/a/status", reset)
    assert ignored.status == 200
    assert ignored.body["metadata"]["managedFields"]
    assert "managedFields" not in (await widgets.merge(f"{WIDGETS}/a", reset)).body["metadata"]


async def test_fields_taken_by_force_and_left_out_are_deleted(widgets: SuiteApi) -> None:
    await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3, replicas=1), "one")
    await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3, replicas=2), "two", force="true")
    left = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3), "two")
    assert "replicas" not in left.body["spec"]


async def test_an_apply_after_the_deletion_makes_the_object_again(widgets: SuiteApi) -> None:
    first = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3), "one")
    await widgets.delete(f"{WIDGETS}/a")
    second = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3), "one")
    assert second.status == 201
    assert second.body["metadata"]["uid"] != first.body["metadata"]["uid"]


async def test_a_removed_field_of_a_client_side_manager_is_no_conflict(widgets: SuiteApi) -> None:
    await widgets.created(WIDGETS, bare_widget("a", size=3, replicas=1))
    await widgets.merge(f"{WIDGETS}/a", {"spec": {"replicas": None}}, fieldManager="other")
    applied = await widgets.apply(f"{WIDGETS}/a", bare_widget("a", size=3, replicas=7), "one")
    assert (applied.status, applied.body["spec"]["replicas"]) == (200, 7)


async def test_bodies_may_be_yaml(widgets: SuiteApi) -> None:
    metadata = b"metadata: {name: a, annotations: {at: 2026-01-01}}\n"
    text = b"apiVersion: test.example.com/v1\nkind: Widget\n" + metadata + b"spec: {size: 3}\n"
    headers = {"content-type": "application/apply-patch+yaml"}
    async with widgets.session.patch(
        widgets.path(f"{WIDGETS}/a?fieldManager=one"), data=text, headers=headers
    ) as response:
        assert response.status == 201
        assert (await response.json())["metadata"]["annotations"] == {"at": "2026-01-01"}
    where, headers = widgets.path(WIDGETS), {"content-type": "application/yaml"}
    async with widgets.session.post(where, data=b"{a: [", headers=headers) as response:
        assert response.status == 400
    refused = await widgets.send("POST", WIDGETS, {}, "text/plain")
    assert (refused.status, refused.reason) == (415, "UnsupportedMediaType")
