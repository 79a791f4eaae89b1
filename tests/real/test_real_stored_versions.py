"""A cluster that ran a newer release of the Go operator, on a real API server: its definitions are replaced by ours."""

import asyncio
import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from support.controlplane import RawApi
from support.real_cluster import raw_api
from typer.testing import CliRunner, Result

from aim_cli.__main__ import app
from aim_domain.crd import definition
from aim_domain.kinds import AIM_SERVICE
from aim_local.realcluster import ClusterSettings, RealCluster, User
from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMES: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION: Final = f"{NAMES}/{AIM_SERVICE.resource}"
NEWER: Final = "/apis/aim.eai.amd.com/v1alpha2/namespaces/default/aimservices"
OURS: Final = "/apis/aim.eai.amd.com/v1alpha1/namespaces/default/aimservices"
PROFILE: Final[JsonObject] = {"selector": {"aimId": "qwen/qwen3-32b", "acceleratorCount": 1}}
MANAGER: Final = "kubectl"


def versions(stored: str, *names: str) -> JsonObject:
    """Our definition with these versions, of which one is stored."""
    there = copy.deepcopy(definition(AIM_SERVICE))
    there["spec"]["versions"] = [
        {**one, "storage": one["name"] == stored} for one in there["spec"]["versions"] if one["name"] in names
    ]
    return there


@pytest_asyncio.fixture(loop_scope="session")
async def empty(tmp_path: Path) -> AsyncIterator[RealCluster]:
    """An API server with the other kinds of the platform, without controllers."""
    settings = ClusterSettings(tmp_path / "cluster", controllers=(), scheduler=False, kserve=False, roles=False)
    async with RealCluster(settings) as cluster:
        yield cluster


async def migrate(cluster: RealCluster) -> Result:
    words = ["migrate", "--storage", "--kubeconfig", str(cluster.kubeconfig_for(User.KUBECTL))]
    return await asyncio.to_thread(CliRunner().invoke, app, words)


async def stored_versions(api: RawApi) -> list[str]:
    found: list[str] = (await api.get(DEFINITION)).body["status"]["storedVersions"]
    return found


@pytest.mark.spec("CC-350", "CC-351", "CC-353")
async def test_definitions_replace_those_that_store_the_newer_version(empty: RealCluster) -> None:
    async with raw_api(empty.kubeconfig_for(User.KUBECTL)) as api:
        # An API server takes in a definition a moment after it has it. Only one that has taken in this one serves
        # v1alpha2, and so stores it.
        await api.apply(DEFINITION, versions("v1alpha1", "v1alpha1"), MANAGER, force="true")
        await api.until(NEWER, lambda reply: reply.status == 404)
        await api.apply(DEFINITION, versions("v1alpha2", "v1alpha1", "v1alpha2"), MANAGER, force="true")
        await api.until(NEWER, lambda reply: reply.status == 200)
        body = {"apiVersion": "aim.eai.amd.com/v1alpha2", "kind": "AIMService", "metadata": {"name": "chat"}}
        spec = {"profile": PROFILE, "profileOverrides": {"engineArgs": {"max-model-len": 8192}}}
        # For a moment after a change of a definition the API server answers 503 for its objects.
        made = await api.repeated(lambda: api.post(NEWER, {**body, "spec": spec}), lambda reply: reply.status == 201)
        created = made.body
        assert "v1alpha2" in await stored_versions(api)

        refused = await api.apply(DEFINITION, versions("v1alpha1", "v1alpha1"), MANAGER, force="true")
        assert (refused.status, "status.storedVersions" in refused.body["message"]) == (422, True)
        assert (await api.apply(DEFINITION, definition(AIM_SERVICE), MANAGER, force="true")).status == 200
        kept = (await api.until(f"{OURS}/chat", lambda reply: reply.status == 200)).body
        assert (kept["apiVersion"], kept["spec"]["profile"]) == ("aim.eai.amd.com/v1alpha1", PROFILE)
        assert kept["spec"]["profileOverrides"] == spec["profileOverrides"]

        done = await migrate(empty)
        assert (done.exit_code, "1 objects written" in done.output) == (0, True), done.output
        assert await stored_versions(api) == ["v1alpha1"]
        after = (await api.get(f"{OURS}/chat")).body
        assert after["spec"] == kept["spec"]
        # Written again, without a change of the object: the API server had taken in what it stores.
        assert after["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
        assert (after["metadata"]["generation"], after["metadata"]["managedFields"]) == (
            kept["metadata"]["generation"],
            kept["metadata"]["managedFields"],
        )
        # Nothing needs the newer version any more.
        assert (await api.apply(DEFINITION, versions("v1alpha1", "v1alpha1"), MANAGER, force="true")).status == 200
        last = await api.until(f"{OURS}/chat", lambda reply: reply.status == 200)
        assert last.body["spec"] == kept["spec"]
