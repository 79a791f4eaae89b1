"""kubernetes-asyncio, unchanged: typed and custom objects, apply, watch."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from kubernetes_asyncio import client, config, watch
from support.suite import Server, SuiteApi
from support.suite_widgets import widget


@pytest_asyncio.fixture
async def kubernetes(server: Server) -> AsyncIterator[client.ApiClient]:
    configuration = client.Configuration()
    await config.load_kube_config(str(server.kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as api:
        yield api


async def test_typed_objects(kubernetes: client.ApiClient, api: SuiteApi) -> None:
    core = client.CoreV1Api(kubernetes)
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"x": "y"})
    await core.create_namespaced_config_map(api.namespace, body)
    assert (await core.read_namespaced_config_map("a", api.namespace)).data == {"x": "y"}
    assert [item.metadata.name for item in (await core.list_namespaced_config_map(api.namespace)).items] == ["a"]
    await core.delete_namespaced_config_map("a", api.namespace)


async def test_watching_typed_objects(kubernetes: client.ApiClient, api: SuiteApi) -> None:
    core = client.CoreV1Api(kubernetes)
    version = (await core.list_namespaced_config_map(api.namespace)).metadata.resource_version
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"))
    await core.create_namespaced_config_map(api.namespace, body)
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, api.namespace, resource_version=version, timeout_seconds=5
    )
    async with asyncio.timeout(60), stream as events:
        async for event in events:
            assert (event["type"], event["object"].metadata.name) == ("ADDED", "a")
            break


async def test_custom_objects_and_apply(kubernetes: client.ApiClient, widgets: SuiteApi) -> None:
    custom = client.CustomObjectsApi(kubernetes)
    place = ("test.example.com", "v1", widgets.namespace, "widgets")
    body = widget("a", size=3)
    await custom.create_namespaced_custom_object(*place, body)
    # The generated signature does not name the content type, though the library reads it.
    apply: dict[str, Any] = {"_content_type": "application/apply-patch+yaml", "field_manager": "one", "force": True}
    applied = await custom.patch_namespaced_custom_object(*place, "a", body, **apply)
    assert applied["metadata"]["managedFields"][0]["operation"] == "Apply"
    listed = await custom.list_namespaced_custom_object(*place)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]


async def test_leases_are_taken_with_optimistic_locking(kubernetes: client.ApiClient, api: SuiteApi) -> None:
    leases = client.CoordinationV1Api(kubernetes)
    body = client.V1Lease(metadata=client.V1ObjectMeta(name="l"), spec=client.V1LeaseSpec(holder_identity="one"))
    held = await leases.create_namespaced_lease(api.namespace, body)
    held.spec.holder_identity = "two"
    await leases.replace_namespaced_lease("l", api.namespace, held)
    with pytest.raises(client.ApiException) as refused:
        await leases.replace_namespaced_lease("l", api.namespace, held)
    assert refused.value.status == 409
