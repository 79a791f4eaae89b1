"""Strategic merge patches of built-in kinds: keys, directives, order."""

import pytest
from support.suite import SuiteApi

from controller_runtime import JsonObject

DEPLOYMENT = "/apis/apps/v1/namespaces/$ns/deployments/d"
STRATEGIC = "application/strategic-merge-patch+json"


async def _deployment(api: SuiteApi) -> None:
    containers = [
        {"name": name, "image": "i", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
        for name in ("one", "two")
    ]
    pod = {"containers": containers, "nodeSelector": {"a": "1", "b": "2"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.created(DEPLOYMENT.removesuffix("/d"), {"metadata": {"name": "d"}, "spec": spec})


async def _patched(api: SuiteApi, pod: JsonObject) -> JsonObject:
    await _deployment(api)
    reply = await api.send("PATCH", DEPLOYMENT, {"spec": {"template": {"spec": pod}}}, STRATEGIC)
    assert reply.status == 200, reply.body
    found: JsonObject = reply.body["spec"]["template"]["spec"]
    return found


def _names(items: list[JsonObject]) -> list[str]:
    return [item["name"] for item in items]


async def test_list_items_merge_by_their_key(api: SuiteApi) -> None:
    env = [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]
    pod = await _patched(api, {"containers": [{"name": "two", "env": env}]})
    two = {one["name"]: one for one in pod["containers"]}["two"]
    assert {variable["name"]: variable["value"] for variable in two["env"]} == {"A": "1", "B": "3", "C": "4"}
    assert two["image"] == "i"


async def test_an_item_is_deleted_by_its_key(api: SuiteApi) -> None:
    pod = await _patched(api, {"containers": [{"name": "one", "$patch": "delete"}]})
    assert _names(pod["containers"]) == ["two"]


async def test_a_list_is_replaced_as_a_whole(api: SuiteApi) -> None:
    pod = await _patched(api, {"containers": [{"name": "three", "image": "j"}, {"$patch": "replace"}]})
    assert _names(pod["containers"]) == ["three"]


async def test_a_map_is_replaced_or_loses_members(api: SuiteApi) -> None:
    pod = await _patched(api, {"nodeSelector": {"$patch": "replace", "c": "3"}})
    assert pod["nodeSelector"] == {"c": "3"}
    patch = {"spec": {"template": {"spec": {"nodeSelector": {"c": None, "d": "4"}}}}}
    reply = await api.send("PATCH", DEPLOYMENT, patch, STRATEGIC)
    assert reply.body["spec"]["template"]["spec"]["nodeSelector"] == {"d": "4"}


async def test_items_are_put_in_the_wanted_order(api: SuiteApi) -> None:
    order = [{"name": "three"}, {"name": "two"}, {"name": "one"}]
    pod = await _patched(api, {"containers": [{"name": "three", "image": "j"}], "$setElementOrder/containers": order})
    assert _names(pod["containers"]) == ["three", "two", "one"]


async def test_retained_keys_are_the_only_ones_left(api: SuiteApi) -> None:
    await _deployment(api)
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    reply = await api.send("PATCH", DEPLOYMENT, patch, STRATEGIC)
    assert reply.body["spec"]["strategy"] == {"type": "Recreate"}


async def test_finalizers_merge_and_leave_one_by_one(api: SuiteApi) -> None:
    path = "/api/v1/namespaces/$ns/configmaps"
    await api.created(path, {"metadata": {"name": "a", "finalizers": ["x.io/a"]}})
    added = await api.send("PATCH", f"{path}/a", {"metadata": {"finalizers": ["x.io/b"]}}, STRATEGIC)
    assert set(added.body["metadata"]["finalizers"]) == {"x.io/a", "x.io/b"}
    removal = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.io/a", "x.io/b"]}}
    left = await api.send("PATCH", f"{path}/a", removal, STRATEGIC)
    assert "finalizers" not in left.body["metadata"]


@pytest.mark.parametrize("pod", [{"containers": [{"image": "i"}]}, {"nodeSelector": {"$patch": "grow"}}])
async def test_a_patch_that_makes_no_sense_is_refused(api: SuiteApi, pod: JsonObject) -> None:
    await _deployment(api)
    reply = await api.send("PATCH", DEPLOYMENT, {"spec": {"template": {"spec": pod}}}, STRATEGIC)
    assert reply.status >= 400
