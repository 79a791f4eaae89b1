"""Statuses, tables and names of the platform's own kinds (CC-S01…CC-S03, CC-S29…CC-S33)."""

from typing import Any, Final

import pytest
from support.suite import SuiteApi

from aim_domain.kind_names import SHARED
from aim_domain.kinds import OWN_KINDS
from controller_runtime import JsonObject

KINDS: Final = {kind.kind: kind for kind in OWN_KINDS}
GROUP: Final = "/apis/aim.eai.amd.com/v1alpha1"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
SPECS: Final[dict[str, JsonObject]] = {
    "AIMService": {"model": {"name": "a"}},
    "AIMModel": {"image": "a/b:1"},
    "AIMClusterModel": {"image": "a/b:1"},
    "AIMServiceTemplate": {"modelName": "m"},
    "AIMClusterServiceTemplate": {"modelName": "m"},
    "AIMTemplateCache": {"templateName": "t", "templateScope": "Namespace"},
    "AIMArtifact": {"sourceUri": "hf://a/b"},
    "AIMRuntimeConfig": {},
    "AIMClusterRuntimeConfig": {},
    "AIMClusterModelSource": {"filters": [{"image": "org/repo"}]},
    "AIMProfile": {"image": "a/b:1"},
    "AIMClusterProfile": {"image": "a/b:1"},
    "AIMProfileSet": {"selector": {"aimId": "a"}, "versionPolicy": "all"},
    "AIMClusterProfileSet": {"selector": {"aimId": "a"}, "versionPolicy": "all"},
    "AIMProfileCache": {"profileName": "p", "profileScope": "Namespace"},
}
SHORT_NAMES: Final = {
    "v1alpha1": {
        "aimsvc",
        "aimmdl",
        "aimclmdl",
        "aimtpl",
        "aimcltpl",
        "aimrc",
        "aimclrc",
        "aimclsrc",
        "aimart",
        "aimtc",
    },
    "v1alpha2": {"aimsvc", "aimmdl", "aimclmdl", "aimprf", "aimclprf", "aimprfset", "aimclprfset", "aimpc"},
}
READY: Final = {"type": "Ready", "status": "True", "reason": "Fine", "message": "m"}
SINCE: Final = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
REFERENCE: Final = {"kind": "aim.eai.amd.com/v1alpha1/AIMModel", "namespace": "n", "uid": "u", "scope": "Namespace"}


def path_of(kind: str) -> str:
    """Where objects of the kind are."""
    known = KINDS[kind]
    return f"/apis/{known.api_version}{'/namespaces/$ns' if known.namespaced else ''}/{known.plural}"


async def made(api: SuiteApi, kind: str, **status: Any) -> str:
    """The path of a new object with a status."""
    body = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": {"name": "$ns-one"}}
    obj = await api.created(path_of(kind), body | {"spec": SPECS[kind]})
    path = f"{path_of(kind)}/{obj['metadata']['name']}"
    if status:
        reply = await api.put(f"{path}/status", {**obj, "status": status})
        assert reply.status == 200, reply.message
    return path


async def cells(api: SuiteApi, kind: str) -> dict[str, tuple[int, Any]]:
    """Priority and value of each column of the only object."""
    table = (await api.send("GET", path_of(kind), accept=TABLE)).body
    (row,) = table["rows"]
    named = zip(table["columnDefinitions"], row["cells"], strict=True)
    return {column["name"]: (column["priority"], value) for column, value in named}


@pytest.mark.spec("CC-S01", "PR-001", "RC-001")
@pytest.mark.parametrize("version", SHORT_NAMES)
async def test_every_kind_has_its_short_name_and_is_in_the_category(api: SuiteApi, version: str) -> None:
    resources = [
        one for one in (await api.get(f"/apis/aim.eai.amd.com/{version}")).body["resources"] if "/" not in one["name"]
    ]
    ours = [one for one in resources if "aim" in one.get("categories", ())]
    shared = {one.kind for one in SHARED}
    assert {one["kind"] for one in ours} == {
        name for name, kind in KINDS.items() if kind.version == version or name in shared
    }
    assert {name for one in ours for name in one["shortNames"]} == SHORT_NAMES[version]
    assert all("all" in one["categories"] for one in ours if one["kind"].endswith("RuntimeConfig"))


@pytest.mark.spec("CC-S02")
async def test_a_service_in_a_table(api: SuiteApi) -> None:
    resolved = {"resolvedModel": {"name": "m", **REFERENCE}, "resolvedTemplate": {"name": "t", **REFERENCE}}
    await made(api, "AIMService", status="Running", runtime={"replicas": "1"}, **resolved)
    found = await cells(api, "AIMService")
    assert list(found) == ["Name", "Status", "Model", "Template", "Profile", "Replicas", "Age"]
    assert [value for _, value in found.values()][:4] == ["$ns-one", "Running", "m", "t"]
    assert [name for name, (priority, _) in found.items() if priority] == ["Profile"]


@pytest.mark.spec("CC-P12", "CC-S03")
async def test_an_artifact_shows_protocol_and_attempt_in_wide_tables(api: SuiteApi) -> None:
    await made(api, "AIMArtifact", status="Progressing", download={"protocol": "XET", "attempt": 2})
    found = await cells(api, "AIMArtifact")
    assert (found["Protocol"], found["Attempt"]) == ((1, "XET"), (1, "2"))


@pytest.mark.parametrize(
    ("kind", "status", "field"),
    [
        pytest.param(kind, status, field, marks=pytest.mark.spec(name), id=f"{name}-{field}")
        for name, kind, status, field in (
            ("CC-S29", "AIMService", {"status": "NotAvailable"}, "status.status"),
            ("CC-S29", "AIMService", {"conditions": [{**READY, **SINCE, "reason": "Not Valid!"}]},
             "status.conditions[0].reason"),
            ("CC-S29", "AIMService", {"conditions": [{**SINCE, "type": "A", "status": "True", "reason": "R"}]},
             "status.conditions[0].message"),
            ("CC-S30", "AIMServiceTemplate", {"resolvedHardware": {}}, "status.resolvedHardware"),
            ("CC-S30", "AIMServiceTemplate", {"profile": {"metadata": {"metric": ""}}},
             "status.profile.metadata.metric"),
            ("CC-S31", "AIMArtifact", {"progress": {"percentage": 101}}, "status.progress.percentage"),
            ("CC-S31", "AIMTemplateCache", {"artifacts": {"a": {"name": "a", "model": "m", "status": "Ready"}}},
             "status.artifacts.a.uid"),
        )
    ],
)  # fmt: skip
async def test_a_status_that_is_refused(api: SuiteApi, kind: str, status: JsonObject, field: str) -> None:
    path = await made(api, kind)
    reply = await api.put(f"{path}/status", {**(await api.get(path)).body, "status": status})
    assert reply.status == 422
    assert reply.body["details"]["causes"][0]["field"] == field, reply.message


@pytest.mark.spec("CC-S30", "CC-013")
async def test_arguments_of_engines_are_stored_as_they_are(api: SuiteApi) -> None:
    arguments = {"a": {"b": None, "c": [1, {"d": 0.5}]}}
    path = await made(api, "AIMServiceTemplate", profile={"engine_args": arguments})
    assert (await api.get(path)).body["status"]["profile"]["engine_args"] == arguments


@pytest.mark.spec("PR-093")
async def test_arguments_of_a_profile_are_applied_as_they_are_and_once(api: SuiteApi) -> None:
    arguments = {"flag": None, "a": {"b": None, "c": [1, {"d": 0.5}]}, "whole": 1.0, "largest": 2**63 - 1}
    known = KINDS["AIMProfile"]
    body = {"apiVersion": known.api_version, "kind": "AIMProfile", "metadata": {"name": "$ns-one"}}
    body["spec"] = {**SPECS["AIMProfile"], "engineArgs": arguments}
    path = f"{path_of('AIMProfile')}/$ns-one"
    first = (await api.apply(path, body, "one")).body
    assert first["spec"]["engineArgs"] == arguments
    again = (await api.apply(path, body, "one")).body
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


@pytest.mark.spec("CC-S29")
async def test_conditions_of_two_managers_are_both_kept(api: SuiteApi) -> None:
    path = await made(api, "AIMService")
    body = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService", "metadata": {"name": "$ns-one"}}
    for manager, type_ in (("one", "Ready"), ("two", "HTTPRouteReady")):
        conditions = [{**READY, **SINCE, "type": type_}]
        reply = await api.apply(f"{path}/status", body | {"status": {"conditions": conditions}}, manager)
        assert reply.status == 200, reply.message
    types = [one["type"] for one in (await api.get(path)).body["status"]["conditions"]]
    assert sorted(types) == ["HTTPRouteReady", "Ready"]


@pytest.mark.spec("CC-S32")
async def test_spec_and_status_have_each_their_own_way_in(api: SuiteApi) -> None:
    path = await made(api, "AIMService", status="Running")
    obj = (await api.get(path)).body
    changed = {**obj, "spec": {**obj["spec"], "replicas": 3}, "status": {"status": "Failed"}}
    after = (await api.put(path, changed)).body
    assert (after["spec"]["replicas"], after["status"]["status"]) == (3, "Running")
    generation = after["metadata"]["generation"]
    other = {**after, "spec": {**after["spec"], "replicas": 5}, "status": {"status": "Failed"}}
    last = (await api.put(f"{path}/status", other)).body
    assert (last["spec"]["replicas"], last["status"]["status"]) == (3, "Failed")
    assert last["metadata"]["generation"] == generation


@pytest.mark.spec("CC-S33")
@pytest.mark.parametrize("kind", KINDS)
async def test_an_unknown_field_is_pruned(api: SuiteApi, kind: str) -> None:
    body: JsonObject = {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": {"name": "$ns-one"}}
    body["spec"] = {**SPECS[kind], "foo": 1}
    loose = await api.post(path_of(kind), body, dryRun="All")
    assert loose.status == 201
    assert "foo" not in loose.body["spec"]
    strict = await api.post(path_of(kind), body, dryRun="All", fieldValidation="Strict")
    assert (strict.status, 'unknown field "spec.foo"' in strict.message) == (400, True)
