"""``aim plan`` before a control plane: what it asks, that it writes nothing, and what it cannot know."""

import asyncio
from pathlib import Path
from typing import Final

import pytest
import yaml
from support.controlplane import RawApi, api, controlplane

from aim_cli.answer import Answer
from aim_cli.cluster.asking import reading
from aim_cli.cluster.targets import Where
from aim_cli.planning.files import documents
from aim_cli.planning.gathering import plan
from controller_runtime import JsonObject
from embedded_apiserver import ControlPlane

__all__ = ["api", "controlplane"]

OWN: Final = "/apis/aim.eai.amd.com/v1alpha1/namespaces/default"
SERVICE: Final = """\
apiVersion: aim.eai.amd.com/v1alpha1
kind: AIMService
metadata: {{name: {name}, namespace: default}}
spec: {{model: {{image: "registry.example/qwen:1"}}{more}}}
"""


async def planned(controlplane: ControlPlane, folder: Path, text: str, nats_url: str = "") -> Answer:
    file, kubeconfig = folder / "file.yaml", folder / "kubeconfig"
    file.write_text(text, encoding="utf-8")
    kubeconfig.write_text(controlplane.kubeconfig(), encoding="utf-8")

    def ask() -> Answer:
        with reading(str(kubeconfig), None) as cluster:
            return plan(cluster, documents([str(file)]), Where(namespace="default"), nats_url)

    return await asyncio.to_thread(ask)


def reported(answer: Answer) -> JsonObject:
    """Of the only object."""
    assert isinstance(answer.data, dict)
    (one,) = answer.data["objects"]
    assert isinstance(one, dict)
    return one


@pytest.mark.spec("FW-613")
async def test_nothing_is_written_and_what_is_there_is_known(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    text = SERVICE.format(name="chat", more="")
    assert reported(await planned(controlplane, tmp_path, text))["would"] == "created"
    for plural in ("aimservices", "aimmodels"):
        assert (await api.get(f"{OWN}/{plural}")).body["items"] == []
    await api.created(f"{OWN}/aimservices", yaml.safe_load(text))
    assert reported(await planned(controlplane, tmp_path, text))["would"] == "unchanged"
    changed = SERVICE.format(name="chat", more=", replicas: 3")
    assert reported(await planned(controlplane, tmp_path, changed))["would"] == "changed"
    assert (await api.get(f"{OWN}/aimservices/chat")).body["spec"].get("replicas") != 3


@pytest.mark.spec("FW-613")
async def test_the_api_server_says_why_it_would_refuse(controlplane: ControlPlane, tmp_path: Path) -> None:
    found = await planned(controlplane, tmp_path, SERVICE.format(name="chat", more=", bogus: 1"))
    assert "bogus" in reported(found)["refused"]
    assert isinstance(found.data, dict)
    assert found.data["steps"] == []


@pytest.mark.spec("FW-613")
async def test_what_is_not_known_is_reported(controlplane: ControlPlane, api: RawApi, tmp_path: Path) -> None:
    text = SERVICE.format(name="chat", more="")
    assert "not known without the event log" in " ".join((await planned(controlplane, tmp_path, text)).remarks)
    forbidden = {"fault": {"kind": "error", "code": 403}, "verbs": ["list", "apply"]}
    for resource in ("aimservices", "nodes"):
        group = "aimservices.aim.eai.amd.com" if resource == "aimservices" else resource
        assert (await api.post("/debug/faults", {**forbidden, "resources": [group]})).status == 201
    answer = await planned(controlplane, tmp_path, text, "nats://127.0.0.1:9")
    remarks = "\n".join(answer.remarks)
    assert reported(answer)["would"] == "created"
    assert "not known: whether the API server takes AIMService default/chat: " in remarks
    assert "not known: aimservices: " in remarks
    assert "not known: nodes: " in remarks
    assert "not known: what was read of registries before: " in remarks
    remarks = "\n".join((await planned(controlplane, tmp_path, text, "yesterday.aimlog")).remarks)
    assert (
        "not known: what was read of registries before: yesterday.aimlog is a file, and this asks the broker" in remarks
    )


@pytest.mark.spec("FW-613")
async def test_what_may_not_be_read_is_not_taken_for_absent(
    controlplane: ControlPlane, api: RawApi, tmp_path: Path
) -> None:
    async def reasons() -> list[str]:
        named = SERVICE.replace('image: "registry.example/qwen:1"', "name: qwen").format(name="chat", more="")
        conditions = reported(await planned(controlplane, tmp_path, named))["conditions"]
        return [one["reason"] for one in conditions if one["type"] == "ModelReady"]

    assert await reasons() == ["ModelNotFound"]
    models = ["aimmodels.aim.eai.amd.com", "aimclustermodels.aim.eai.amd.com"]
    forbidden = {"fault": {"kind": "error", "code": 403}, "verbs": ["list"], "resources": models}
    assert (await api.post("/debug/faults", forbidden)).status == 201
    assert await reasons() == ["ViewStale"]
