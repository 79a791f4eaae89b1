"""Which claims pods mount, read from the embedded control plane."""

from typing import Any

import pytest
from support.controlplane import RawApi

from aim_artifacts.limits.mounts import MountReader, MountsParams
from controller_runtime import EffectError, JsonObject, KubeClient
from controller_runtime.kube.config import Connection, NoCredentials
from controller_runtime.kube.transport import TransportSettings
from embedded_apiserver import ControlPlane

NAMESPACE = "default"
READING = MountsParams(namespace=NAMESPACE)


async def run_pod(api: RawApi, name: str, *claims: str, namespace: str = NAMESPACE, phase: str = "") -> None:
    volumes = [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": one}} for number, one in enumerate(claims)]
    spec = {"containers": [{"name": "c", "image": "i:1"}], "volumes": [*volumes, {"name": "tmp", "emptyDir": {}}]}
    body: JsonObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods"
    await api.created(path, {**body, "spec": spec})
    if phase:
        answer = await api.merge(f"{path}/{name}/status", {"status": {"phase": phase}})
        assert answer.status == 200, answer.body


@pytest.mark.spec("AR-463", "AR-480")
async def test_claims_of_all_pods_that_have_not_ended_page_by_page(
    controlplane: ControlPlane, api: RawApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    await run_pod(api, "waits", "c", "a")
    await run_pod(api, "runs", "a", phase="Running")
    await run_pod(api, "without")
    for phase in ("Succeeded", "Failed"):
        await run_pod(api, phase.lower(), f"of-{phase.lower()}", phase=phase)
    await run_pod(api, "elsewhere", "z", namespace="other")
    read, asked = KubeClient.list_in_form, list[dict[str, Any]]()

    async def two_at_a_time(kube: KubeClient, *arguments: Any, **options: Any) -> Any:
        asked.append(options)
        return await read(kube, *arguments, **{**options, "limit": 2})

    monkeypatch.setattr(KubeClient, "list_in_form", two_at_a_time)
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="artifacts") as kube:
        assert (await MountReader(kube)(READING)).claims == ("a", "c")
    assert len({one["continue_token"] for one in asked}) == 3
    assert all("resource_version" not in one for one in asked), "what a cache remembers is no last check"


@pytest.mark.spec("AR-480")
async def test_half_an_answer_is_none(controlplane: ControlPlane, api: RawApi, monkeypatch: pytest.MonkeyPatch) -> None:
    read = KubeClient.list_in_form

    async def never_ends(kube: KubeClient, *arguments: Any, **options: Any) -> Any:
        page = await read(kube, *arguments, **{**options, "continue_token": ""})
        return type(page)(page.items, page.resource_version, "again")

    await run_pod(api, "runs", "a")
    monkeypatch.setattr(KubeClient, "list_in_form", never_ends)
    async with KubeClient(Connection(controlplane.url, NoCredentials()), service="artifacts") as kube:
        with pytest.raises(EffectError, match="the list of the pods of namespace default does not end"):
            await MountReader(kube)(READING)


@pytest.mark.spec("AR-480")
async def test_a_server_that_does_not_answer_fails_the_reading() -> None:
    quick = TransportSettings(attempts=1)
    async with KubeClient(Connection("http://127.0.0.1:1", NoCredentials()), service="a", settings=quick) as kube:
        with pytest.raises(EffectError, match="the pods of namespace default cannot be listed"):
            await MountReader(kube)(READING)
