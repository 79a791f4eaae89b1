"""What a real API server answers to a service that lacks something, and what becomes of it in words."""

from dataclasses import replace

import pytest
from support.controlplane import RawApi

from aim_domain.kinds import AIM_SERVICE
from aim_local.realcluster import RealCluster, User
from controller_runtime import Kind, KubeClient
from controller_runtime.api.meta import Resource
from controller_runtime.kinds import LEASE, ROLE_BINDING, SECRET
from controller_runtime.kube.config import KubeconfigCredentials, from_kubeconfig
from controller_runtime.kube.errors import ApiError
from controller_runtime.manager.causes import Cause
from controller_runtime.manager.settings import Settings
from controller_runtime.manager.trouble_events import event_of, own_pod
from controller_runtime.manager.troubles import Trouble, of_refusals
from controller_runtime.reconcile.events import EventWriter

pytestmark = pytest.mark.asyncio(loop_scope="session")

ABSENT = Kind("aim.eai.amd.com", "v9", "AIMService", "aimservices", True, model=Resource)


def troubles(kube: KubeClient) -> list[Trouble]:
    return list(of_refusals(kube.refusals.current(), optional=(), of_roles={(LEASE.group, LEASE.plural)}))


@pytest.mark.spec("FW-586", "FW-583")
async def test_words_of_a_real_api_server_become_lines_that_name_everything(
    real_cluster: RealCluster, api: RawApi, namespace: str
) -> None:
    connection = await from_kubeconfig(str(real_cluster.kubeconfig_for("serving")))
    role = "Role aim-engine-serving should grant"
    async with KubeClient(connection, service="serving") as kube:
        # The object whose Secret may not be read reports that itself.
        with pytest.raises(ApiError):
            await kube.list(SECRET)
        with pytest.raises(ApiError):
            await kube.list(ROLE_BINDING)
        with pytest.raises(ApiError):
            await kube.get(LEASE, "aim-routing", namespace)
        found = [one.found for one in troubles(kube)]
        who = "ServiceAccount aim-system/aim-engine-serving may not"
        assert found == [
            f"{who} list rolebindings.rbac.authorization.k8s.io in the whole cluster, which the Cluster{role}",
            f"{who} get leases.coordination.k8s.io in namespace {namespace}, which the {role}",
        ]


@pytest.mark.spec("FW-586", "FW-583")
async def test_a_real_definition_that_is_not_served_or_lacks_a_field_is_named(
    real_cluster: RealCluster, api: RawApi, namespace: str
) -> None:
    body = {
        "apiVersion": AIM_SERVICE.api_version,
        "kind": "AIMService",
        "metadata": {"name": "newer", "namespace": namespace},
        "spec": {"model": {"name": "m"}},
    }
    await api.created(f"/apis/aim.eai.amd.com/v1alpha1/namespaces/{namespace}/aimservices", body)
    connection = await from_kubeconfig(str(real_cluster.kubeconfig_for(User.ADMIN)))
    async with KubeClient(connection, service="serving") as kube:
        with pytest.raises(ApiError):
            await kube.list(ABSENT)
        newer = {**body, "status": {"ofTheNextRelease": "x"}}
        with pytest.raises(ApiError):
            await kube.apply(AIM_SERVICE, newer, "aim-serving", subresource="status")
        missing, old = troubles(kube)
    assert missing.cause is Cause.DEFINITION_MISSING
    assert "/apis/aim.eai.amd.com/v9/aimservices" in missing.found
    assert old.cause is Cause.DEFINITION_OLD
    assert "aimservices.aim.eai.amd.com has no field .status.ofTheNextRelease" in old.found


@pytest.mark.spec("FW-583", "FW-587")
async def test_a_token_that_a_real_api_server_does_not_know_is_named_and_not_shown(real_cluster: RealCluster) -> None:
    async def same() -> str:
        return "Bearer canary"

    known = await from_kubeconfig(str(real_cluster.kubeconfig_for("serving")))
    connection = replace(known, credentials=KubeconfigCredentials("Bearer canary", same))
    async with KubeClient(connection, service="serving") as kube:
        with pytest.raises(ApiError):
            await kube.list(SECRET)
        (trouble,) = troubles(kube)
    assert trouble.cause is Cause.API_CREDENTIALS
    assert "canary" not in trouble.line


@pytest.mark.spec("FW-584", "FW-301")
async def test_each_service_may_leave_an_event_on_its_pod_with_the_roles_of_the_chart(
    real_cluster: RealCluster, api: RawApi, namespace: str
) -> None:
    users = ("model-sync", "discovery", "artifacts", "serving", "routing")
    for user in users:
        pod = own_pod(Settings(pod_name=f"aim-{user}-0", pod_uid=f"uid-{user}", system_namespace=namespace))
        assert pod is not None
        connection = await from_kubeconfig(str(real_cluster.kubeconfig_for(user)))
        async with KubeClient(connection, service=user) as kube:
            writer, event = EventWriter(kube, f"aim-{user}"), event_of(Trouble(Cause.BROKER_UNREACHABLE, "away"))
            assert await writer.post(pod, f"aim-{user}", event)
            assert await writer.post(pod, f"aim-{user}", event), "the second counts on the first"
    found = (await api.get(f"/api/v1/namespaces/{namespace}/events")).body["items"]
    reported = {one["involvedObject"]["name"]: (one["reason"], one["count"]) for one in found}
    assert reported == {f"aim-{user}-0": ("BrokerUnreachable", 2) for user in users}
