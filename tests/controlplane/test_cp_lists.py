"""Lists: selectors, pages, versions, Tables and metadata-only forms."""

import base64

import pytest
from support.suite import SuiteApi
from support.suite_widgets import GADGETS, gadget, widget

from controller_runtime import JsonObject

CONFIG_MAPS = "/api/v1/namespaces/$ns/configmaps"
PODS = "/api/v1/namespaces/$ns/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def _names(body: JsonObject) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("tier=web", ["a"]),
        ("tier==web,zone=eu", ["a"]),
        ("tier!=web", ["b", "c"]),
        ("tier in (web, db)", ["a", "b"]),
        ("tier notin (web)", ["b", "c"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c"]),
        ("rank>1", ["b"]),
        ("rank<2,zone", ["a"]),
    ],
)
async def test_label_selectors(api: SuiteApi, selector: str, names: list[str]) -> None:
    for name, labels in {
        "a": {"tier": "web", "zone": "eu", "rank": "1"},
        "b": {"tier": "db", "rank": "2"},
        "c": {},
    }.items():
        await api.created(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})
    assert _names((await api.get(CONFIG_MAPS, labelSelector=selector)).body) == names


async def test_a_malformed_selector_is_a_bad_request(api: SuiteApi) -> None:
    assert (await api.get(CONFIG_MAPS, labelSelector="a=b=c")).status == 400
    assert (await api.get(CONFIG_MAPS, fieldSelector="data.x=1")).status == 400


async def test_field_selectors(api: SuiteApi) -> None:
    for name, node in {"p": "n1", "q": "n2"}.items():
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        await api.created(PODS, {"metadata": {"name": name}, "spec": spec})
    assert _names((await api.get(PODS, fieldSelector="spec.nodeName=n1")).body) == ["p"]
    assert _names((await api.get("/api/v1/pods", fieldSelector="metadata.name!=p,metadata.namespace=$ns")).body) == [
        "q"
    ]
    assert _names((await api.get(PODS, fieldSelector="status.phase=Pending")).body) == ["p", "q"]


async def test_pages_show_one_version_of_the_whole(api: SuiteApi) -> None:
    for number in range(5):
        await api.created(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
    first = (await api.get(CONFIG_MAPS, limit="2")).body
    assert first["metadata"]["remainingItemCount"] == 3
    await api.delete(f"{CONFIG_MAPS}/c3")
    await api.created(CONFIG_MAPS, {"metadata": {"name": "c9"}})
    second = (await api.get(CONFIG_MAPS, limit="2", **{"continue": first["metadata"]["continue"]})).body
    third = (await api.get(CONFIG_MAPS, limit="2", **{"continue": second["metadata"]["continue"]})).body
    assert _names(first) + _names(second) + _names(third) == ["c0", "c1", "c2", "c3", "c4"]
    assert "continue" not in third["metadata"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }


@pytest.mark.spec("FW-464")
async def test_a_limit_counts_for_all_but_what_is_cached(api: SuiteApi) -> None:
    for number in range(5):
        await api.created(CONFIG_MAPS, {"metadata": {"name": f"c{number}"}})
    version = (await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"]
    not_older = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}
    for query in ({}, not_older):
        page = (await api.get(CONFIG_MAPS, limit="2", **query)).body
        assert _names(page) == ["c0", "c1"]
        assert page["metadata"]["continue"]
    cached = (await api.get(CONFIG_MAPS, limit="2", resourceVersion="0")).body
    assert len(_names(cached)) == 5
    assert "continue" not in cached["metadata"]


async def test_versions_of_the_past_and_the_future(api: SuiteApi) -> None:
    made = await api.created(CONFIG_MAPS, {"metadata": {"name": "a"}})
    await api.created(CONFIG_MAPS, {"metadata": {"name": "b"}})
    version = made["metadata"]["resourceVersion"]
    exact = await api.get(CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="Exact")
    assert (_names(exact.body), exact.body["metadata"]["resourceVersion"]) == (["a"], version)
    newer = await api.get(CONFIG_MAPS, resourceVersion=version, resourceVersionMatch="NotOlderThan")
    assert _names(newer.body) == ["a", "b"]
    future = await api.get(CONFIG_MAPS, resourceVersion="999999", resourceVersionMatch="NotOlderThan")
    assert (future.status, future.body["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


async def test_compacted_versions_are_gone(gadgets: SuiteApi) -> None:
    for name in "abc":
        await gadgets.created(GADGETS, gadget(name))
    await gadgets.compact()
    exact = await gadgets.get(GADGETS, resourceVersion="1", resourceVersionMatch="Exact")
    assert (exact.status, exact.reason) == (410, "Expired")
    assert exact.message == "The resourceVersion for the provided list is too old."
    page = base64.urlsafe_b64encode(b'{"v":"meta.k8s.io/v1","rv":1,"start":"/a\\u0000"}').decode().rstrip("=")
    expired = await gadgets.get(GADGETS, limit="1", **{"continue": page})
    assert (expired.status, expired.reason) == (410, "Expired")
    assert expired.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    # Whoever can live with a gap goes on with the token of the refusal.
    rest = await gadgets.get(GADGETS, **{"continue": expired.body["metadata"]["continue"]})
    assert _names(rest.body) == ["b", "c"]


async def test_tables_carry_columns_and_metadata(widgets: SuiteApi) -> None:
    path = "/apis/test.example.com/v1/namespaces/$ns/widgets"
    await widgets.created(path, widget("a", size=3))
    table = (await widgets.send("GET", path, accept=TABLE)).body
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Phase"]
    assert table["rows"][0]["cells"] == ["a", 3, None]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_metadata_only_lists(api: SuiteApi) -> None:
    await api.created(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"x": "y"}})
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    body = (await api.send("GET", CONFIG_MAPS, accept=accept)).body
    assert body["kind"] == "PartialObjectMetadataList"
    assert set(body["items"][0]) == {"kind", "apiVersion", "metadata"}


async def test_discovery_names_every_kind(widgets: SuiteApi) -> None:
    groups = {group["name"] for group in (await widgets.get("/apis")).body["groups"]}
    assert {"batch", "apps", "test.example.com", "aim.eai.amd.com", "gateway.networking.k8s.io"} <= groups
    resources = {r["name"]: r for r in (await widgets.get("/apis/test.example.com/v1")).body["resources"]}
    assert set(resources) == {"widgets", "widgets/status", "widgets/scale"}
    assert resources["widgets"]["shortNames"] == ["wd"]
    assert (await widgets.get("/version")).body["minor"] == "34"
    paths = (await widgets.get("/openapi/v3")).body["paths"]
    document = await widgets.get(paths["apis/test.example.com/v1"]["serverRelativeURL"])
    assert document.body["openapi"] == "3.0.0"
