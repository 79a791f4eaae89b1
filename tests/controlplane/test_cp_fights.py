"""managedFields name who has overwritten a field, and what is sent meanwhile leaves the field to that manager."""

import pytest
import pytest_asyncio
from support.suite import Server, SuiteApi

from aim_domain.kinds import AIM_SERVICE_TEMPLATE, CONFIG_MAP
from controller_runtime import JsonObject, KubeClient, load_connection
from controller_runtime.reconcile.fights import other_manager, wanted_fields, yielding

OURS = "aim-serving"
OTHER = "argocd-controller"


@pytest_asyncio.fixture
async def kube(server: Server) -> KubeClient:
    connection = await load_connection(str(server.kubeconfig))
    return KubeClient(connection, service="serving")


def template(name: str, namespace: str, metric: str) -> JsonObject:
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMServiceTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"modelName": "m", "metric": metric, "env": [{"name": "A", "value": "ours"}]},
    }


@pytest.mark.spec("FW-813", "FW-814")
async def test_the_manager_of_an_overwritten_field_is_named_by_the_api_server(kube: KubeClient, api: SuiteApi) -> None:
    async with kube:
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "c", "namespace": api.namespace},
            "data": {"a": "ours", "b": "ours"},
        }
        made = await kube.apply(CONFIG_MAP, body, OURS)
        live = await kube.merge_patch(
            CONFIG_MAP, "c", api.namespace, {"data": {"a": "theirs"}},
            resource_version=made["metadata"]["resourceVersion"], field_manager=OTHER,
        )  # fmt: skip
        path = ("data", "a")
        assert path in wanted_fields(body, live)
        assert other_manager(live, path, OURS) == OTHER
        assert other_manager(live, ("data", "b"), OURS) == ""

        changed = {**body, "data": {"a": "ours", "b": "new"}}
        sent = await kube.apply(CONFIG_MAP, yielding(changed, live, [path]), OURS)
        assert sent["data"] == {"a": "theirs", "b": "new"}
        assert other_manager(sent, path, OURS) == OTHER, "both have it now, with one value"


@pytest.mark.spec("FW-814")
async def test_the_manager_of_an_item_of_a_list_is_named(kube: KubeClient, api: SuiteApi) -> None:
    async with kube:
        made = await kube.apply(AIM_SERVICE_TEMPLATE, template("t", api.namespace, "latency"), OURS)
        live = await kube.merge_patch(
            AIM_SERVICE_TEMPLATE, "t", api.namespace, {"spec": {"env": [{"name": "A", "value": "theirs"}]}},
            resource_version=made["metadata"]["resourceVersion"], field_manager=OTHER,
        )  # fmt: skip
        assert other_manager(live, ("spec", "env", 0, "value"), OURS) == OTHER
