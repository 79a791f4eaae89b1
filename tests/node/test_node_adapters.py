"""LoRA adapters on a node: on a volume that pods mount, loaded by engines in containers, restored after a kill."""

import os
import signal
from collections.abc import Sequence

import aiohttp
import pytest
from support.node_pods import main_process
from support.on_node import OnNode

from controller_runtime import JsonObject

SQL = {"name": "sql", "sourceUri": "hf://team/sql-lora"}
CHAT = {"name": "chat", "sourceUri": "hf://team/chat-lora"}
LARGE = {"name": "large", "sourceUri": "hf://team/large-lora-r64"}


def states(service: JsonObject) -> dict[str, str]:
    return {one["name"]: one["state"] for one in (service.get("status") or {}).get("adapters") or ()}


async def served(node: OnNode, route: str) -> Sequence[str]:
    """The adapters in the list of models behind the gateway."""
    async with aiohttp.ClientSession(node.gateway) as session, session.get(f"{route}/v1/models") as reply:
        assert reply.status == 200, await reply.text()
        return sorted(one["id"] for one in (await reply.json())["data"] if one["parent"])


async def engines(node: OnNode, namespace: str) -> list[JsonObject]:
    return await node.objects("pods", "-n", namespace, "-l", "serving.kserve.io/inferenceservice")


@pytest.mark.spec("LA-001", "LA-012", "LA-021", "LA-025", "LA-031", "LA-033", "LA-034")
async def test_adapters_behind_a_real_gateway(node: OnNode) -> None:
    async with node.namespace("adapters") as namespace:
        path = await node.service(namespace, "chat", adapters=[SQL, LARGE])
        service = await node.running(path)
        route = service["status"]["routing"]["path"]
        await node.until(path, lambda one: states(one) == {"sql": "Ready", "large": "Failed"})
        answer = await node.ask(route, model="sql")
        assert "This is sql" in answer["choices"][0]["message"]["content"]
        assert "This is sql" not in (await node.ask(route))["choices"][0]["message"]["content"], "the model itself"
        [before] = await engines(node, namespace)
        await node.api.merge(path, {"spec": {"adapters": [SQL, CHAT]}})
        await node.until(path, lambda one: states(one) == {"sql": "Ready", "chat": "Ready"})
        assert await served(node, route) == ["chat", "sql"]
        [after] = await engines(node, namespace)
        assert after["metadata"]["uid"] == before["metadata"]["uid"], "nothing was restarted"
        name = after["metadata"]["name"]
        os.kill(await main_process(node, namespace, name), signal.SIGKILL)
        await node.until(
            f"/api/v1/namespaces/{namespace}/pods/{name}",
            lambda pod: (
                pod["status"]["containerStatuses"][0]["restartCount"] == 1
                and pod["status"]["containerStatuses"][0]["ready"]
            ),
        )
        await node.ask(route, model="chat", seconds=60)
        assert await served(node, route) == ["chat", "sql"]
