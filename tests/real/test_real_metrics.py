"""Metrics by HTTPS where a real API server says who a token is of, and what it may."""

import asyncio
from pathlib import Path

import pytest
from support.controlplane import RawApi
from support.helm import rendered
from support.nats import eventually
from support.scraping import Certificates, anybody, scrape

from aim_local.ports import free_port
from aim_local.realcluster import RealCluster
from controller_runtime import JsonObject, KubeClient
from controller_runtime.kube.config import from_kubeconfig
from controller_runtime.manager.certificates import CertificateFiles, tls_from_files
from controller_runtime.manager.http import HttpServer, metrics_only
from controller_runtime.manager.scrapers import Scrapers
from controller_runtime.manager.settings import Address
from controller_runtime.telemetry.metrics import Metrics

pytestmark = pytest.mark.asyncio(loop_scope="session")

RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def token_of(api: RawApi, namespace: str, account: str) -> str:
    """A token as the kubelet gives it to pods."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.created(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = await api.created(f"{accounts}/{account}/token", request)
    return str(answer["status"]["token"])


async def apply_roles(api: RawApi, objects: list[JsonObject]) -> None:
    """What the chart says of metrics."""
    for one in objects:
        plural = {"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}.get(one["kind"])
        if plural is not None and "metrics" in one["metadata"]["name"]:
            await api.created(f"{RBAC}/{plural}", one)


@pytest.mark.spec("FW-305", "FW-348", "FW-557", "FW-559")
async def test_with_the_roles_of_the_chart_a_reader_gets_them_and_nobody_else(
    real_cluster: RealCluster, api: RawApi, namespace: str, tmp_path: Path
) -> None:
    reader = f"Bearer {await token_of(api, namespace, 'prometheus')}"
    other = f"Bearer {await token_of(api, namespace, 'other')}"
    certificates = Certificates(tmp_path / "tls")
    certificates.issue("before.example")
    tls = tls_from_files(CertificateFiles(certificates.folder / "tls.crt", certificates.folder / "tls.key"))
    connection = await from_kubeconfig(str(real_cluster.kubeconfig_for("serving")))
    port = free_port()
    address = f"127.0.0.1:{port}"
    async with KubeClient(connection, service="serving") as kube:
        app = metrics_only(Metrics(), Scrapers(kube, "aim-serving"))
        running = asyncio.ensure_future(HttpServer(app, Address("127.0.0.1", port), tls).run())
        try:
            assert (await scrape(address, anybody(), reader))[0] == 503, "nobody may ask about tokens yet"
            readers = [{"name": "prometheus", "namespace": namespace}]
            await apply_roles(api, (await rendered(tmp_path, {"metrics": {"readers": readers}})).objects)

            async def allowed() -> bool:
                return (await scrape(address, anybody(), reader))[0] == 200

            # The authorizer of the API server hears of new roles a moment later.
            await eventually(allowed, "a reader that is allowed")
            assert (await scrape(address, anybody()))[0] == 401
            assert (await scrape(address, anybody(), "Bearer forged"))[0] == 401
            assert (await scrape(address, anybody(), other))[0] == 403
            certificates.issue("after.example")
            assert (await scrape(address, certificates.client, reader, "after.example"))[0] == 200
        finally:
            running.cancel()
            await asyncio.wait((running,))
