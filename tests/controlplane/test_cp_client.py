"""kubernetes-asyncio, unchanged: typed and custom objects, apply, watch."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from kubernetes_asyncio import client, config, watch
from support.controlplane import RawApi, raw_api

from aim_local.apiserver import ControlPlane, Handler, Request, Response


@pytest_asyncio.fixture
async def kubernetes(controlplane: ControlPlane, tmp_path: Path) -> AsyncIterator[client.ApiClient]:
    path = tmp_path / "kubeconfig"
    path.write_text(controlplane.kubeconfig())
    configuration = client.Configuration()
    await config.load_kube_config(str(path), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        yield api


async def test_typed_objects(kubernetes: client.ApiClient) -> None:
    core = client.CoreV1Api(kubernetes)
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"x": "y"})
    await core.create_namespaced_config_map("default", body)
    assert (await core.read_namespaced_config_map("a", "default")).data == {"x": "y"}
    assert [item.metadata.name for item in (await core.list_config_map_for_all_namespaces()).items] == ["a"]
    await core.delete_namespaced_config_map("a", "default")


async def test_watching_typed_objects(kubernetes: client.ApiClient) -> None:
    core = client.CoreV1Api(kubernetes)
    version = (await core.list_namespaced_config_map("default")).metadata.resource_version
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"))
    await core.create_namespaced_config_map("default", body)
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=5
    )
    async with asyncio.timeout(5), stream as events:
        async for event in events:
            assert (event["type"], event["object"].metadata.name) == ("ADDED", "a")
            break


async def test_custom_objects_and_apply(kubernetes: client.ApiClient, widgets: RawApi) -> None:
    custom = client.CustomObjectsApi(kubernetes)
    place = ("test.example.com", "v1", "default", "widgets")
    body = {"apiVersion": "test.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 3}}
    await custom.create_namespaced_custom_object(*place, body)
    # The generated signature does not name the content type, though the library reads it.
    apply: dict[str, Any] = {"_content_type": "application/apply-patch+yaml", "field_manager": "one", "force": True}
    applied = await custom.patch_namespaced_custom_object(*place, "a", body, **apply)
    assert applied["metadata"]["managedFields"][0]["operation"] == "Apply"
    listed = await custom.list_namespaced_custom_object(*place)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]


async def test_leases_are_taken_with_optimistic_locking(kubernetes: client.ApiClient) -> None:
    leases = client.CoordinationV1Api(kubernetes)
    body = client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=client.V1LeaseSpec(holder_identity="one"))
    held = await leases.create_namespaced_lease("default", body)
    held.spec.holder_identity = "two"
    await leases.replace_namespaced_lease("l", "default", held)
    with pytest.raises(client.ApiException) as refused:
        await leases.replace_namespaced_lease("l", "default", held)
    assert refused.value.status == 409


async def test_middleware_sees_every_request() -> None:
    async def refuse_writes(request: Request, handler: Handler) -> Response:
        if request.method == "POST":
            return Response(503, b"{}")
        return await handler(request)

    async with ControlPlane(middleware=refuse_writes) as plane, raw_api(plane.url) as api:
        assert (await api.post("/api/v1/namespaces", {"metadata": {"name": "a"}})).status == 503
        assert (await api.get("/api/v1/namespaces/default")).status == 200


async def test_kube_system_names_the_life_of_the_server() -> None:
    uids = set()
    for _ in range(2):
        async with ControlPlane() as plane, raw_api(plane.url) as api:
            uids |= {(await api.get("/api/v1/namespaces/kube-system")).body["metadata"]["uid"] for _ in range(2)}
    assert len(uids) == 2
