"""Fixtures for tests against a real control plane, which runs once per test process."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from support.controlplane import RawApi
from support.used_permissions import FOLDER, note

from aim_local.assets import AssetError
from aim_local.realcluster import ClusterSettings, RealCluster, User
from controller_runtime.kube.config import from_kubeconfig


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def real_cluster(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealCluster]:
    """The cluster with its controllers and KServe; where its programs are not built, the run ends with a line."""
    settings = ClusterSettings(tmp_path_factory.mktemp("real"))
    try:
        cluster = RealCluster(settings)
    except AssetError as error:
        pytest.exit(str(error), returncode=1)
    async with cluster:
        yield cluster
    if FOLDER:
        await asyncio.to_thread(note, settings.folder, Path(FOLDER))


@pytest_asyncio.fixture(loop_scope="session")
async def api(real_cluster: RealCluster) -> AsyncIterator[RawApi]:
    """Plain HTTP access as the user of kubectl."""
    async with raw_api(real_cluster.kubeconfig_for(User.KUBECTL)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def namespace(api: RawApi) -> str:
    """A namespace of the test's own, in which Pods can be made."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    # Until the controller manager has made it, Pods are refused.
    await api.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda reply: reply.status == 200, seconds=30)
    return name


@asynccontextmanager
async def raw_api(kubeconfig: Path, *, impersonated: str = "") -> AsyncIterator[RawApi]:
    """A client of the API server of a kubeconfig, as its user or as somebody else."""
    connection = await from_kubeconfig(str(kubeconfig))
    authorization = await connection.credentials.authorization()
    connector = aiohttp.TCPConnector(ssl=connection.tls or True)
    headers = {"authorization": authorization} if authorization else {}
    if impersonated:
        headers["impersonate-user"] = impersonated
    async with aiohttp.ClientSession(
        connection.server, connector=connector, headers=headers, read_bufsize=2**21
    ) as session:
        yield RawApi(session)
