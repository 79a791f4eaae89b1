"""Strategic merge patch of built-in kinds."""

from typing import Any

import pytest

from controller_runtime import JsonObject
from embedded_apiserver.objects.builtin import schema_for
from embedded_apiserver.objects.patch import PatchError, strategic_merge

POD = schema_for("", "v1", "Pod")
DEPLOYMENT = schema_for("apps", "v1", "Deployment")


def patched(patch: JsonObject, **spec: Any) -> JsonObject:
    """The spec of a pod after the patch of its spec."""
    result: JsonObject = strategic_merge({"metadata": {"name": "p"}, "spec": spec}, {"spec": patch}, POD)["spec"]
    return result


def test_list_items_merge_by_their_key() -> None:
    containers = [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]
    patch = {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}
    assert patched(patch, containers=containers)["containers"] == [
        {"name": "a", "image": "1", "args": ["x"]},
        {"name": "b", "image": "2"},
        {"name": "c", "image": "3"},
    ]


def test_an_atomic_list_is_replaced() -> None:
    containers = [{"name": "a", "args": ["x"]}]
    patch = {"containers": [{"name": "a", "args": ["y"]}]}
    assert patched(patch, containers=containers)["containers"] == [{"name": "a", "args": ["y"]}]


def test_an_item_is_deleted_by_directive() -> None:
    containers = [{"name": "a"}, {"name": "b"}]
    patch = {"containers": [{"name": "a", "$patch": "delete"}]}
    assert patched(patch, containers=containers)["containers"] == [{"name": "b"}]


def test_a_list_is_replaced_by_directive() -> None:
    containers = [{"name": "a"}, {"name": "b"}]
    patch = {"containers": [{"name": "c"}, {"$patch": "replace"}]}
    assert patched(patch, containers=containers)["containers"] == [{"name": "c"}]


def test_an_object_is_replaced_or_deleted_by_directive() -> None:
    spec = {"nodeSelector": {"a": "1"}, "securityContext": {"runAsUser": 1}}
    assert patched({"nodeSelector": {"$patch": "replace", "b": "2"}}, **spec)["nodeSelector"] == {"b": "2"}
    assert "securityContext" not in patched({"securityContext": {"$patch": "delete"}}, **spec)


def test_null_removes() -> None:
    assert patched({"nodeName": None}, nodeName="n", hostNetwork=True) == {"hostNetwork": True}


def test_primitive_lists_merge_and_lose_items_by_directive() -> None:
    obj = {"metadata": {"name": "p", "finalizers": ["a", "b"]}}
    merged = strategic_merge(obj, {"metadata": {"finalizers": ["c", "a"]}}, POD)
    assert merged["metadata"]["finalizers"] == ["a", "b", "c"]
    removed = strategic_merge(merged, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, POD)
    assert removed["metadata"]["finalizers"] == ["b", "c"]


def test_the_order_of_elements_can_be_set() -> None:
    containers = [{"name": "a"}, {"name": "b"}]
    patch = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [{"name": "c", "image": "3"}],
    }
    names = [container["name"] for container in patched(patch, containers=containers)["containers"]]
    assert names == ["c", "b", "a"]


def test_retain_keys_drops_the_others() -> None:
    obj = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert strategic_merge(obj, patch, DEPLOYMENT) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_conditions_merge_by_type() -> None:
    obj = {"status": {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}}
    patch = {"status": {"conditions": [{"type": "A", "status": "False"}]}}
    assert strategic_merge(obj, patch, POD)["status"]["conditions"] == [
        {"type": "A", "status": "False"},
        {"type": "B", "status": "True"},
    ]


def test_service_ports_merge_by_port() -> None:
    service = schema_for("", "v1", "Service")
    obj = {"spec": {"ports": [{"port": 80, "name": "web"}]}}
    patch = {"spec": {"ports": [{"port": 80, "targetPort": 8080}, {"port": 443}]}}
    assert strategic_merge(obj, patch, service)["spec"]["ports"] == [
        {"port": 80, "name": "web", "targetPort": 8080},
        {"port": 443},
    ]


def test_without_a_schema_lists_are_replaced() -> None:
    assert strategic_merge({"l": [{"name": "a"}]}, {"l": [{"name": "b"}]}, None) == {"l": [{"name": "b"}]}


@pytest.mark.parametrize("patch", [[], {"spec": {"containers": [{"image": "x"}]}}, {"spec": {"$patch": "explode"}}])
def test_malformed_patches_are_a_bad_request(patch: object) -> None:
    with pytest.raises(PatchError) as caught:
        strategic_merge({"spec": {"containers": [{"name": "a"}]}}, patch, POD)
    assert caught.value.code == 400


def test_the_object_stays_unchanged() -> None:
    obj = {"spec": {"containers": [{"name": "a"}], "nodeSelector": {"a": "1"}}}
    strategic_merge(obj, {"spec": {"containers": [{"name": "a", "image": "2"}], "nodeSelector": {"b": "1"}}}, POD)
    assert obj == {"spec": {"containers": [{"name": "a"}], "nodeSelector": {"a": "1"}}}
