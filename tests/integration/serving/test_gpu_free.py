"""Free GPUs of nodes, read from the pods of the embedded control plane."""

from typing import Any

import pytest
from support.controlplane import RawApi

from aim_serving.gpu import SHARED_SECONDS, GpuReader, NodesParams
from controller_runtime import EffectError, JsonObject, KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.transport import TransportSettings
from embedded_apiserver import ControlPlane

NAMESPACE = "default"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
GPU = "amd.com/gpu"


def reading(**allocatable: int) -> NodesParams:
    return NodesParams(resource=GPU, allocatable=allocatable, is_all=True)


async def run_pod(api: RawApi, name: str, node: str, gpus: int) -> None:
    amounts = {"limits": {GPU: str(gpus)}, "requests": {GPU: str(gpus)}} if gpus else {}
    container = {"name": "c", "image": "i:1", "resources": amounts}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    body: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}}
    await api.created(PODS, {**body, "spec": spec})


@pytest.mark.spec("SV-287", "SV-288")
async def test_what_is_free_is_read_once_for_all_who_wait(controlplane: ControlPlane, api: RawApi) -> None:
    for name, node, gpus in (("p", "a", 4), ("q", "a", 1), ("r", "b", 7), ("other", "a", 0), ("waits", "", 8)):
        await run_pod(api, name, node, gpus)
    now = 0.0
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="serving") as kube:
        reader = GpuReader(kube, lambda: now)
        found = await reader(reading(a=8, b=8))
        assert found.free == {"a": 3, "b": 1}
        assert found.allocatable == {"a": 8, "b": 8}
        lists = kube.statistics().attempts
        assert lists == 2, "one for each node"
        await run_pod(api, "late", "a", 3)
        now = SHARED_SECONDS - 1
        assert (await reader(reading(a=8, c=8))).free == {"a": 3, "c": 8}
        assert kube.statistics().attempts == lists + 1, "only of the node that nobody had asked for"
        now = SHARED_SECONDS
        assert (await reader(reading(a=8))).free == {"a": 0}
        ended = await api.merge(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
        assert ended.status == 200, ended.body
        now += SHARED_SECONDS
        assert (await reader(reading(a=8))).free == {"a": 4}


@pytest.mark.spec("SV-287", "FW-464")
async def test_a_server_that_gives_pages_hides_nobody(
    controlplane: ControlPlane, api: RawApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        await run_pod(api, name, "a", 2)
    read, tokens = KubeClient.list_in_form, list[str]()

    async def one_by_one(kube: KubeClient, *arguments: Any, **options: Any) -> Any:
        tokens.append(options["continue_token"])
        return await read(kube, *arguments, **{**options, "limit": 1, "resource_version": ""})

    monkeypatch.setattr(KubeClient, "list_in_form", one_by_one)
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="serving") as kube:
        assert (await GpuReader(kube)(reading(a=8))).free == {"a": 2}
    assert len(set(tokens)) == 3


@pytest.mark.spec("SV-287")
async def test_a_server_that_does_not_answer_fails_the_reading(controlplane: ControlPlane) -> None:
    async with KubeClient(
        Connection("http://127.0.0.1:1", NoCredentials()), service="serving", settings=TransportSettings(attempts=1)
    ) as kube:
        with pytest.raises(EffectError, match="the pods of a node cannot be listed"):
            await GpuReader(kube)(reading(a=8))
