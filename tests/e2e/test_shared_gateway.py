"""Two namespaces on one gateway: what a path leads to belongs to the older service, and is free when that goes."""

import pytest
from support.stack import Platform

from controller_runtime import JsonObject

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes"


def route_condition(obj: JsonObject) -> JsonObject:
    conditions: list[JsonObject] = (obj.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == "HTTPRouteReady"), {})


def is_accepted(obj: JsonObject) -> bool:
    return route_condition(obj).get("status") == "True"


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

    told = await platform.until(refused, lambda obj: route_condition(obj).get("reason") == "PathConflict")
    assert f"namespace {owner}," in route_condition(told)["message"]
    assert f"/{owner}/chat/v1 " in route_condition(told)["message"]
    assert "routing" not in told["status"]
    assert await routes_of(guest) == []
    held_now = (await platform.api.get(held)).body
    assert held_now["status"]["routing"] == {"path": f"/{owner}/chat", "hostnames": ["chat.example.com"]}

    await platform.api.delete(held)
    healed = await platform.until(refused, is_accepted)
    assert healed["status"]["routing"] == {"path": f"/{owner}/chat/v1", "hostnames": ["*.example.com"]}
    assert len(await routes_of(guest)) == 1
