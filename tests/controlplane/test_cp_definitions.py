"""Custom resource definitions: acceptance, conditions, changes, several versions."""

from support.suite import SuiteApi
from support.suite_widgets import DEFINITIONS, GADGETS, gadget

from controller_runtime import JsonObject


async def test_a_definition_is_established_and_served(gadgets: SuiteApi) -> None:
    crd = (await gadgets.get(f"{DEFINITIONS}/gadgets.$ns.example.com")).body
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["spec"]["names"]["listKind"] == "GadgetList"
    assert (await gadgets.get(GADGETS)).body["kind"] == "GadgetList"


async def test_a_changed_schema_holds_from_then_on(gadgets: SuiteApi) -> None:
    path = f"{DEFINITIONS}/gadgets.$ns.example.com"
    crd = (await gadgets.get(path)).body
    size = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
    size["maximum"] = 5
    assert (await gadgets.put(path, crd)).status == 200
    # The real server needs a moment to take it up.
    too_large = gadget("a", size=6)
    await gadgets.repeated(lambda: gadgets.post(GADGETS, too_large, dryRun="All"), lambda reply: reply.status == 422)


async def test_what_is_malformed_is_refused(gadgets: SuiteApi) -> None:
    crd: JsonObject = {"metadata": {"name": "wrong"}, "spec": {"group": "x.io", "scope": "Cluster"}}
    missing = await gadgets.post(DEFINITIONS, crd)
    assert missing.status == 422
    assert {cause["field"] for cause in missing.body["details"]["causes"]} >= {"spec.names.plural", "spec.versions"}
    good = (await gadgets.get(f"{DEFINITIONS}/gadgets.$ns.example.com")).body
    renamed = {"metadata": {"name": "other.$ns.example.com"}, "spec": good["spec"]}
    assert (await gadgets.post(DEFINITIONS, renamed)).status == 422


async def test_all_versions_show_the_same_objects(gadgets: SuiteApi) -> None:
    path = f"{DEFINITIONS}/gadgets.$ns.example.com"
    crd = (await gadgets.get(path)).body
    crd["spec"]["versions"].append(crd["spec"]["versions"][0] | {"name": "v2", "storage": False})
    assert (await gadgets.put(path, crd)).status == 200
    second = GADGETS.replace("/v1/", "/v2/")
    await gadgets.until(second, lambda reply: reply.status == 200)
    made = await gadgets.created(second, gadget("a") | {"apiVersion": "$ns.example.com/v2"})
    assert made["apiVersion"] == "$ns.example.com/v2"
    assert (await gadgets.get(f"{GADGETS}/a")).body["apiVersion"] == "$ns.example.com/v1"


async def test_the_platforms_own_kinds_are_accepted(api: SuiteApi) -> None:
    path = "/apis/aim.eai.amd.com/v1alpha1/namespaces/$ns/aimservices"
    kind = {"apiVersion": "aim.eai.amd.com/v1alpha1", "kind": "AIMService"}
    service = await api.created(
        path, kind | {"metadata": {"name": "s"}, "spec": {"model": {"image": "registry/model:1.0.0"}}}
    )
    assert service["spec"]["replicas"] == 1
    refused = await api.post(path, kind | {"metadata": {"name": "t"}, "spec": {"model": {}}})
    assert refused.status == 422
