"""What clients learn about the server before they use it."""

import pytest
from support.suite import SuiteApi

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUP = "test.example.com"


@pytest.mark.parametrize("accept", [AGGREGATED, f"{AGGREGATED},application/json"])
async def test_all_groups_in_one_document(widgets: SuiteApi, accept: str) -> None:
    # The real server takes a moment to publish a new kind there.
    reply = await widgets.repeated(
        lambda: widgets.send("GET", "/apis", accept=accept),
        lambda reply: GROUP in {item["metadata"]["name"] for item in reply.body["items"]},
    )
    assert reply.headers["Content-Type"] == AGGREGATED
    assert (reply.body["kind"], reply.body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    groups = {item["metadata"]["name"]: item["versions"] for item in reply.body["items"]}
    ((version,), (batch,)) = groups[GROUP], groups["batch"]
    found = {one["resource"]: one for one in version["resources"]}["widgets"]
    assert found["responseKind"] == {"group": GROUP, "version": "v1", "kind": "Widget"}
    assert (found["scope"], found["singularResource"], found["shortNames"]) == ("Namespaced", "widget", ["wd"])
    assert set(found["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    subresources = {one["subresource"]: one["responseKind"]["kind"] for one in found["subresources"]}
    assert subresources == {"status": "Widget", "scale": "Scale"}
    jobs = {one["resource"]: one for one in batch["resources"]}["jobs"]
    assert jobs["responseKind"] == {"group": "", "version": "", "kind": "Job"}


async def test_the_core_group_in_one_document(api: SuiteApi) -> None:
    (core,) = (await api.send("GET", "/api", accept=AGGREGATED)).body["items"]
    resources = {one["resource"]: one for one in core["versions"][0]["resources"]}
    assert (resources["nodes"]["scope"], resources["pods"]["shortNames"]) == ("Cluster", ["po"])
    assert {"log", "status", "binding"} <= {one["subresource"] for one in resources["pods"]["subresources"]}


async def test_an_unchanged_document_is_not_sent_again(api: SuiteApi) -> None:
    async with api.session.get("/api", headers={"accept": AGGREGATED}) as first:
        tag = first.headers["ETag"]
    async with api.session.get("/api", headers={"accept": AGGREGATED, "if-none-match": tag}) as second:
        assert (second.status, await second.read()) == (304, b"")


async def test_openapi_describes_custom_kinds(widgets: SuiteApi) -> None:
    index = await widgets.until("/openapi/v3", lambda reply: f"apis/{GROUP}/v1" in reply.body["paths"])
    document = (await widgets.get(index.body["paths"][f"apis/{GROUP}/v1"]["serverRelativeURL"])).body
    schema = document["components"]["schemas"]["com.example.test.v1.Widget"]
    assert schema["x-kubernetes-group-version-kind"] == [{"group": GROUP, "version": "v1", "kind": "Widget"}]
    spec = schema["properties"]["spec"]
    assert spec["required"] == ["size"]
    assert spec["properties"]["colour"]["default"] == "red"
    assert spec["properties"]["parts"]["x-kubernetes-list-map-keys"] == ["name"]
    single = document["paths"]["/apis/test.example.com/v1/namespaces/{namespace}/widgets/{name}"]
    assert set(single["patch"]["requestBody"]["content"]) >= {
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    }
    assert "fieldValidation" in {parameter["name"] for parameter in single["patch"]["parameters"]}
