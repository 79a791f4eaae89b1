"""Services behind one gateway: their URLs, and two namespaces that want the same one."""

import aiohttp
import pytest
from support.stack import OWN, Platform

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes"


def route_condition(obj: JsonObject) -> JsonObject:
    conditions: list[JsonObject] = (obj.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "HTTPRouteReady"), {})


def is_accepted(obj: JsonObject) -> bool:
    return route_condition(obj).get("status") == "True"


@pytest.mark.spec("RT-S21", "RT-051")
async def test_requests_reach_the_model_under_the_path_of_the_config(platform: Platform) -> None:
    namespace = "integration"
    await platform.namespace(namespace)
    config = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMRuntimeConfig",
        "metadata": {"name": "default", "namespace": namespace},
        "spec": {"routing": {"pathTemplate": "/integration/gpu-cached/{.metadata.name}", "requestTimeout": "180s"}},
    }
    await platform.api.created(f"{OWN}/namespaces/{namespace}/aimruntimeconfigs", config)
    path = await platform.service(namespace, "test-gpu-cached", model={"image": IMAGE}, routing={"enabled": True})
    service = await platform.running(path)

    url = service["status"]["routing"]["path"]
    assert url == "/integration/gpu-cached/test-gpu-cached"
    (route,) = (await platform.api.get(ROUTES.format(namespace))).body["items"]
    assert route["spec"]["rules"][0]["timeouts"] == {"request": "3m0s"}
    async with (
        aiohttp.ClientSession(platform.stack.gateway_url) as session,
        session.get(f"{url}/v1/models") as answer,
    ):
        assert answer.status == 200
        assert [one["object"] for one in (await answer.json())["data"]] == ["model"]
    assert (await platform.chat(url, "hello"))["choices"]


@pytest.mark.spec("RT-122", "RT-S33", "RT-173")
async def test_a_path_belongs_to_the_older_of_two_namespaces(platform: Platform) -> None:
    # In this order, because of services of one second the name of the namespace decides.
    owner, guest = "shared-first", "shared-second"
    for namespace in (owner, guest):
        await platform.namespace(namespace)

    async def routes_of(namespace: str) -> list[JsonObject]:
        found: list[JsonObject] = (await platform.api.get(ROUTES.format(namespace))).body["items"]
        return found

    async def service(namespace: str, template: str, hostnames: list[str]) -> str:
        routing = {"enabled": True, "pathTemplate": template, "hostnames": hostnames}
        return await platform.service(namespace, "chat", model={"image": IMAGE}, routing=routing)

    held = await service(owner, f"/{owner}/chat", ["chat.example.com"])
    await platform.until(held, is_accepted)
    refused = await service(guest, f"//{owner.upper()}/Chat/v1/", ["*.example.com"])

    reported = await platform.until(refused, lambda obj: route_condition(obj).get("reason") == "PathConflict")
    assert f"namespace {owner}," in route_condition(reported)["message"]
    assert f"/{owner}/chat/v1 " in route_condition(reported)["message"]
    assert "routing" not in reported["status"]
    assert await routes_of(guest) == []
    held_now = (await platform.api.get(held)).body
    assert held_now["status"]["routing"] == {"path": f"/{owner}/chat", "hostnames": ["chat.example.com"]}

    await platform.api.delete(held)
    healed = await platform.until(refused, is_accepted)
    assert healed["status"]["routing"] == {"path": f"/{owner}/chat/v1", "hostnames": ["*.example.com"]}
    assert len(await routes_of(guest)) == 1


@pytest.mark.spec("RT-210", "RT-212", "RT-215", "RT-S34")
async def test_an_older_service_that_moves_takes_no_url_of_a_running_one(platform: Platform) -> None:
    old, running = "moves-first", "moves-second"
    for namespace in (old, running):
        await platform.namespace(namespace)

    async def service(namespace: str) -> str:
        routing = {"enabled": True, "pathTemplate": f"/{namespace}/chat"}
        return await platform.service(namespace, "chat", model={"image": IMAGE}, routing=routing)

    async def move(path: str, template: str) -> None:
        await platform.api.merge(path, {"spec": {"routing": {"pathTemplate": template}}})

    moving, holder = await service(old), await service(running)
    await platform.running(moving)
    await platform.running(holder)
    (before,) = (await platform.api.get(ROUTES.format(running))).body["items"]

    def is_refused(obj: JsonObject) -> bool:
        condition = route_condition(obj)
        return (condition.get("observedGeneration"), condition.get("reason")) == (
            obj["metadata"]["generation"],
            "PathConflict",
        )

    for template in (f"/{running}/chat", "/", f"/{running}"):
        await move(moving, template)
        refused = await platform.until(moving, is_refused)
        assert refused["status"]["routing"]["path"] == f"/{old}/chat", "its former route stays"
        (after,) = (await platform.api.get(ROUTES.format(running))).body["items"]
        assert (after["metadata"]["uid"], after["spec"]) == (before["metadata"]["uid"], before["spec"])
        assert is_accepted((await platform.api.get(holder)).body)

    # The two steps of a move on purpose: the holder goes elsewhere, then the path is free.
    await move(holder, f"/{running}/chat-2")
    await move(moving, f"/{running}/chat")
    moved = await platform.until(
        moving, lambda obj: is_accepted(obj) and obj["status"]["routing"]["path"] == f"/{running}/chat"
    )
    assert moved["status"]["routing"]["path"] == f"/{running}/chat"
