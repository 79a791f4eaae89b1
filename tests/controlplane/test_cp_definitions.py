"""Custom resource definitions: acceptance, conditions, changes, several versions."""

from support.controlplane import RawApi

from aim_shared.json import JsonObject

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/test.example.com/v1/namespaces/default/widgets"


async def test_a_definition_is_established_and_served(widgets: RawApi) -> None:
    crd = (await widgets.get(f"{DEFINITIONS}/widgets.test.example.com")).body
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["spec"]["names"]["listKind"] == "WidgetList"
    assert (await widgets.get(WIDGETS)).body["kind"] == "WidgetList"


async def test_a_changed_schema_holds_from_then_on(widgets: RawApi) -> None:
    path = f"{DEFINITIONS}/widgets.test.example.com"
    crd = (await widgets.get(path)).body
    size = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
    size["maximum"] = 5
    assert (await widgets.put(path, crd)).status == 200
    refused = await widgets.post(WIDGETS, {"metadata": {"name": "a"}, "spec": {"size": 6}})
    assert refused.status == 422


async def test_what_is_malformed_is_refused(widgets: RawApi) -> None:
    crd: JsonObject = {"metadata": {"name": "wrong"}, "spec": {"group": "x.io", "scope": "Cluster"}}
    missing = await widgets.post(DEFINITIONS, crd)
    assert missing.status == 422
    assert {cause["field"] for cause in missing.body["details"]["causes"]} >= {"spec.names.plural", "spec.versions"}
    good = (await widgets.get(f"{DEFINITIONS}/widgets.test.example.com")).body
    renamed = {"metadata": {"name": "other.test.example.com"}, "spec": good["spec"]}
    assert (await widgets.post(DEFINITIONS, renamed)).status == 422


async def test_all_versions_show_the_same_objects(widgets: RawApi) -> None:
    path = f"{DEFINITIONS}/widgets.test.example.com"
    crd = (await widgets.get(path)).body
    crd["spec"]["versions"].append(crd["spec"]["versions"][0] | {"name": "v2", "storage": False})
    assert (await widgets.put(path, crd)).status == 200
    made = await widgets.created(WIDGETS.replace("/v1/", "/v2/"), {"metadata": {"name": "a"}, "spec": {"size": 3}})
    assert made["apiVersion"] == "test.example.com/v2"
    assert (await widgets.get(f"{WIDGETS}/a")).body["apiVersion"] == "test.example.com/v1"


async def test_the_platforms_own_kinds_are_accepted(api: RawApi) -> None:
    path = "/apis/aim.eai.amd.com/v1alpha1/namespaces/default/aimservices"
    service = await api.created(path, {"metadata": {"name": "s"}, "spec": {"model": {"image": "registry/model:1.0.0"}}})
    assert service["spec"]["replicas"] == 1
    refused = await api.post(path, {"metadata": {"name": "t"}, "spec": {"model": {}}})
    assert refused.status == 422
