"""The taint of GPU nodes against the embedded control plane: who else writes taints keeps them."""

from pathlib import Path
from typing import Any

import pytest
from support.controlplane import RawApi, Reply
from support.discovery_service import running_discovery

from aim_discovery.node_taint import NodeTainter, TaintParams
from controller_runtime import EffectError, JsonObject, KubeClient, to_json
from controller_runtime.kube.config import Connection, NoCredentials
from embedded_apiserver import ControlPlane

NODES = "/api/v1/nodes"
CONFIGS = "/apis/config.kaiwo.silogen.ai/v1alpha1/kaiwoconfigs"
KEY = "kaiwo.silogen.ai/gpu"
MARK = "aim.eai.amd.com/gpu-taint"
OURS = {"key": KEY, "value": "aim-engine", "effect": "NoSchedule"}
FOREIGN = {"key": "team", "value": "research", "effect": "NoSchedule"}
ANOTHER = {"key": "maintenance", "effect": "NoExecute"}


async def add_node(api: RawApi, name: str, *taints: JsonObject, gpu: bool = True) -> JsonObject:
    labels = {"amd.com/gpu.device-id": "74a1"} if gpu else {}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    await api.created(NODES, body)
    return await set_taints(api, name, *taints)


async def set_taints(api: RawApi, name: str, *taints: JsonObject) -> JsonObject:
    reply = await api.merge(f"{NODES}/{name}", {"spec": {"taints": list(taints) or None}})
    assert reply.status == 200, reply.body
    return reply.body


def has(*taints: JsonObject) -> Any:
    def check(reply: Reply) -> bool:
        found: list[JsonObject] = (reply.body.get("spec") or {}).get("taints", [])
        return found == list(taints)

    return check


async def tainted(controlplane: ControlPlane, key: str) -> JsonObject:
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="discovery") as kube:
        return to_json(await NodeTainter(kube)(TaintParams(node="gpu", key=key)))


@pytest.mark.spec("RC-158")
async def test_a_taint_is_put_and_taken_away_beside_the_others(controlplane: ControlPlane, api: RawApi) -> None:
    await add_node(api, "gpu", FOREIGN)
    for key, written, after in (
        (KEY, True, (FOREIGN, OURS)),
        (KEY, False, (FOREIGN, OURS)),
        ("", True, (FOREIGN,)),
        ("", False, (FOREIGN,)),
    ):
        before = (await api.get(f"{NODES}/gpu")).body["metadata"]["resourceVersion"]
        assert (await tainted(controlplane, key))["written"] is written
        now = await api.get(f"{NODES}/gpu")
        assert has(*after)(now)
        assert (now.body["metadata"].get("annotations") or {}).get(MARK, "") == key
        assert (now.body["metadata"]["resourceVersion"] != before) is written
    await api.delete(f"{NODES}/gpu")
    assert (await tainted(controlplane, KEY))["written"] is False


@pytest.mark.spec("RC-158")
async def test_who_is_faster_loses_nothing(
    controlplane: ControlPlane, api: RawApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await add_node(api, "gpu")
    read, rivals = KubeClient.get, [(FOREIGN,), (FOREIGN, ANOTHER)]

    async def get_and_be_overtaken(kube: KubeClient, *arguments: Any) -> JsonObject:
        found = await read(kube, *arguments)
        if rivals:
            await set_taints(api, "gpu", *rivals.pop(0))
        return found

    monkeypatch.setattr(KubeClient, "get", get_and_be_overtaken)
    assert (await tainted(controlplane, KEY))["written"] is True
    assert has(FOREIGN, ANOTHER, OURS)(await api.get(f"{NODES}/gpu"))
    await set_taints(api, "gpu", ANOTHER)
    rivals[:] = [(FOREIGN,), (ANOTHER,), (FOREIGN,)]
    with pytest.raises(EffectError, match="cannot be brought in order"):
        await tainted(controlplane, KEY)
    assert has(FOREIGN)(await api.get(f"{NODES}/gpu"))


@pytest.mark.spec("RC-158", "RC-151")
async def test_nodes_follow_the_config(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> None:
    await add_node(api, "gpu", FOREIGN)
    # What an administrator may well write, and what looks like ours.
    dedicated = {**OURS, "key": "dedicated"}
    await add_node(api, "plain", FOREIGN, dedicated, OURS, gpu=False)
    config = {"apiVersion": "config.kaiwo.silogen.ai/v1alpha1", "kind": "KaiwoConfig", "metadata": {"name": "kaiwo"}}
    async with running_discovery(controlplane, tmp_path):
        await api.created(CONFIGS, {**config, "spec": {"nodes": {"addTaintsToGpuNodes": True}}})
        await api.until(f"{NODES}/gpu", has(FOREIGN, OURS))
        await add_node(api, "later")
        await api.until(f"{NODES}/later", has(OURS))
        await set_taints(api, "gpu", ANOTHER)
        await api.until(f"{NODES}/gpu", has(ANOTHER, OURS))
        await api.merge(f"{CONFIGS}/kaiwo", {"spec": {"nodes": {"defaultGpuTaintKey": "mine/gpu"}}})
        await api.until(f"{NODES}/gpu", has(ANOTHER, {**OURS, "key": "mine/gpu"}))
        await api.delete(f"{CONFIGS}/kaiwo")
        await api.until(f"{NODES}/gpu", has(ANOTHER))
        await api.until(f"{NODES}/later", has())
        assert has(FOREIGN, dedicated, OURS)(await api.get(f"{NODES}/plain"))
