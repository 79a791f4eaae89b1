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


async def test_every_verb_takes_another_version_than_the_stored_one(api: SuiteApi) -> None:
    path = "/apis/aim.eai.amd.com/v1alpha2/namespaces/$ns/aimservices"
    stored = path.replace("v1alpha2", "v1alpha1")
    kind = {"apiVersion": "aim.eai.amd.com/v1alpha2", "kind": "AIMService"}
    await api.created(path, kind | {"metadata": {"name": "s"}, "spec": {"model": {"image": "registry/model:1.0.0"}}})
    assert (await api.merge(f"{path}/s/scale", {"spec": {"replicas": 2}})).status == 200
    scale = (await api.get(f"{path}/s/scale")).body
    assert (await api.put(f"{path}/s/scale", scale | {"spec": {"replicas": 3}})).status == 200
    assert (await api.get(f"{stored}/s")).body["spec"]["replicas"] == 3
    applied = await api.apply(f"{path}/s", kind | {"metadata": {"name": "s"}, "spec": {"minReplicas": 1}}, "user")
    assert (applied.status, applied.body["apiVersion"]) == (200, "aim.eai.amd.com/v1alpha2")
    assert (await api.merge(f"{path}/s/status", {"status": {"status": "Running"}})).status == 200
    changed = (await api.get(f"{stored}/s")).body
    assert (changed["spec"]["minReplicas"], changed["status"]["status"]) == (1, "Running")
    assert (
        await api.put(f"{path}/s", (await api.get(f"{path}/s")).body | {"metadata": changed["metadata"]})
    ).status == 200
    assert (await api.delete(f"{path}/s")).status == 200
    assert (await api.get(f"{stored}/s")).status == 404
