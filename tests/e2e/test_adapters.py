"""LoRA adapters beside the model of a service, loaded and unloaded while its pods run (docs/spec/adapters.md)."""

import asyncio

import aiohttp
import pytest
from support.stack import OWN, PATIENCE, Platform, status_of

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.4"
SQL = {"name": "sql", "sourceUri": "hf://team/sql-lora"}
CHAT = {"name": "chat", "sourceUri": "s3://adapters/chat"}


def states(service: JsonObject) -> dict[str, str]:
    return {one["name"]: one["state"] for one in (service.get("status") or {}).get("adapters") or ()}


def reason(service: JsonObject) -> str:
    return next((one["reason"] for one in service["status"]["conditions"] if one["type"] == "AdaptersReady"), "")


async def models(platform: Platform, team: str) -> list[str]:
    """What the gateway says is served, without the model itself; what it says in place of that, while it cannot."""
    url = f"{platform.stack.gateway_url}/{team}/chat/v1/models"
    async with aiohttp.ClientSession() as session, session.get(url) as reply:
        if reply.status != 200:
            return [f"{reply.status} {await reply.text()}"]
        return sorted(one["id"] for one in (await reply.json())["data"] if one["parent"])


async def served(platform: Platform, team: str, wanted: list[str]) -> None:
    """Wait until each of two pods, which answer in turn, has these adapters."""

    for _ in range(int(600 * PATIENCE)):
        found = [await models(platform, team) for _ in range(2)]
        if found == [wanted, wanted]:
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"served are {found}, not {wanted}")


async def answer(platform: Platform, team: str, model: str) -> tuple[int, str]:
    url = f"{platform.stack.gateway_url}/{team}/chat/v1/chat/completions"
    body = {"model": model, "messages": [{"role": "user", "content": "x"}]}
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as reply:
        return reply.status, await reply.text()


async def pods(platform: Platform, team: str) -> dict[str, str]:
    found = (await platform.api.get(f"/api/v1/namespaces/{team}/pods")).body["items"]
    serving = [one for one in found if "serving.kserve.io/inferenceservice" in one["metadata"]["labels"]]
    return {one["metadata"]["uid"]: one["metadata"]["name"] for one in serving}


@pytest.mark.spec("LA-001", "LA-003", "LA-010", "LA-011", "LA-020", "LA-021", "LA-030", "LA-031", "LA-040", "LA-041")
async def test_adapters_come_and_go_while_the_pods_run(platform: Platform) -> None:
    team = "adapted"
    await platform.namespace(team)
    path = await platform.service(team, "chat", model={"image": IMAGE}, adapters=[SQL], replicas=2)
    await platform.running(path)
    ready = await platform.until(path, lambda one: states(one) == {"sql": "Ready"})
    assert (reason(ready), ready["status"]["adapters"][0]["pods"]) == ("AdaptersLoaded", "2/2")
    before = await pods(platform, team)
    assert await models(platform, team) == ["sql"]
    status, text = await answer(platform, team, "sql")
    assert (status, "This is sql" in text) == (200, True)
    await platform.api.merge(path, {"spec": {"adapters": [SQL, CHAT]}})
    await platform.until(path, lambda one: states(one) == {"sql": "Ready", "chat": "Ready"})
    assert await models(platform, team) == ["chat", "sql"]
    await platform.api.merge(path, {"spec": {"adapters": [CHAT]}})
    await platform.until(path, lambda one: states(one) == {"chat": "Ready"})
    await served(platform, team, ["chat"])
    assert (await answer(platform, team, "sql"))[0] == 404
    assert await pods(platform, team) == before, "no pod was replaced"
    artifacts = (await platform.api.get(f"{OWN}/namespaces/{team}/aimartifacts")).body["items"]
    kinds = sorted(one["spec"].get("type", "model") for one in artifacts)
    assert kinds == ["adapter", "adapterDisk", "model"]
    claims = (await platform.api.get(f"/api/v1/namespaces/{team}/persistentvolumeclaims")).body["items"]
    assert len(claims) == 2, "of the weights, and of all adapters"
    await platform.api.delete(path)


@pytest.mark.spec("LA-031")
async def test_a_pod_that_restarts_gets_its_adapters_again(platform: Platform) -> None:
    team = "adapted-again"
    await platform.namespace(team)
    path = await platform.service(team, "chat", model={"image": IMAGE}, adapters=[SQL])
    await platform.until(path, lambda one: states(one) == {"sql": "Ready"})
    [name] = (await pods(platform, team)).values()
    await platform.api.delete(f"/api/v1/namespaces/{team}/pods/{name}")
    await platform.until(path, lambda one: status_of(one) == "Running" and states(one) == {"sql": "Ready"})
    await served(platform, team, ["sql"])
    await platform.api.delete(path)


@pytest.mark.spec("LA-033", "LA-042")
async def test_a_bad_adapter_leaves_the_model_and_the_other_adapters_alone(platform: Platform) -> None:
    team = "adapted-badly"
    await platform.namespace(team)
    missing = {"name": "missing"}
    limits = {"maxRank": 8}
    path = await platform.service(team, "chat", model={"image": IMAGE}, adapters=[SQL, missing], adapterRuntime=limits)
    failed = await platform.until(path, lambda one: states(one) == {"sql": "Failed", "missing": "Pending"})
    assert reason(failed) == "AdapterFailed"
    message = next(one["message"] for one in failed["status"]["conditions"] if one["type"] == "AdaptersReady")
    assert "LoRA rank 16 is greater than max_lora_rank 8" in message
    running = await platform.running(path)
    assert next(one["status"] for one in running["status"]["conditions"] if one["type"] == "Ready") == "True"
    assert (await answer(platform, team, ""))[0] == 200
    await platform.api.merge(path, {"spec": {"adapterRuntime": {"maxRank": 16}, "adapters": [SQL]}})
    await platform.until(path, lambda one: states(one) == {"sql": "Ready"})
    await platform.api.delete(path)


@pytest.mark.spec("LA-010", "LA-013", "LA-033", "LA-041")
async def test_a_disk_above_the_limit_keeps_no_model_from_running(platform: Platform) -> None:
    team, limit = "adapted-within-limits", "aim.eai.amd.com/artifact-storage-quota"
    await platform.namespace(team, **{limit: "80Gi"})
    disk = {"diskSize": "50Gi"}
    path = await platform.service(team, "chat", model={"image": IMAGE}, adapters=[SQL], adapterRuntime=disk)
    await platform.running(path)
    refused = await platform.until(path, lambda one: reason(one) == "AdapterDiskNotReady")
    assert status_of(refused) == "Running"
    assert (await answer(platform, team, ""))[0] == 200
    await platform.api.merge(f"/api/v1/namespaces/{team}", {"metadata": {"annotations": {limit: "500Gi"}}})
    await platform.until(path, lambda one: states(one) == {"sql": "Ready"})
    await platform.api.delete(path)
