"""A new version of a service on a node: requests divided by a real gateway, pods replaced, and the service killed."""

import asyncio
from collections import Counter
from contextlib import suppress

import aiohttp
import pytest
from support.nats import eventually
from support.node_release import leader
from support.on_node import OWN, OnNode

from aim_local.node import NodeError
from aim_local.node.platform import NAMESPACE
from controller_runtime import JsonObject

QWEN = "amdenterpriseai/aim-qwen-qwen3-32b"


def phase(service: JsonObject) -> tuple[str, int | None]:
    found = service["status"].get("rollout") or {}
    return found.get("phase", ""), found.get("weight")


async def answers(node: OnNode, path: str, count: int) -> Counter[str]:
    """Which of the two versions answered how often; empty text for what was not answered."""
    found: Counter[str] = Counter()
    async with aiohttp.ClientSession(node.gateway) as session:
        for _ in range(count):
            try:
                body: JsonObject = {"messages": [{"role": "user", "content": "x"}]}
                async with session.post(f"{path}/v1/chat/completions", json=body) as reply:
                    text = await reply.text() if reply.status == 200 else ""
            except aiohttp.ClientError:
                text = ""
            found["new" if "chat-next-" in text else "own" if text else ""] += 1
    return found


@pytest.mark.spec("SV-340", "SV-343", "SV-345", "RT-240")
async def test_a_version_takes_over_behind_a_real_gateway_while_serving_is_killed(node: OnNode) -> None:
    async with node.namespace("rollout") as namespace:
        steps = {"steps": [{"weight": 50}]}
        path = await node.service(namespace, "chat", model={"image": f"{QWEN}:0.8.4"}, rollout=steps)
        service = await node.running(path)
        route = service["status"]["routing"]["path"]
        await node.ask(route)
        await node.until(path, lambda one: phase(one) == ("Complete", None))
        await node.api.merge(path, {"spec": {"model": {"image": f"{QWEN}:0.8.5"}}})
        await node.until(path, lambda one: phase(one) == ("Paused", 50))
        await divided(node, route)
        counted: Counter[str] = Counter()
        asking = asyncio.create_task(ask_on(node, route, counted))
        await node.api.merge(path, {"metadata": {"annotations": {"aim.eai.amd.com/rollout": "promote"}}})
        # At a bad moment: between the status that says so and the InferenceService that follows.
        pod = await leader(node, "serving")
        await node.kubectl("-n", NAMESPACE, "delete", "pod", pod.partition("_")[0], "--grace-period=0", "--force")
        await node.until(path, lambda one: phase(one) == ("Complete", None), 240)
        await node.api.until(f"{OWN}/namespaces/{namespace}/aimservices", lambda one: len(one.body["items"]) == 1)
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        assert counted.total() > 20
        assert counted[""] == 0, counted
        [workload] = await node.objects("inferenceservices", "-n", namespace)
        own = f"serving.kserve.io/inferenceservice={workload['metadata']['name']}"
        images = {
            one["spec"]["containers"][0]["image"]
            for one in await node.objects("pods", "-n", namespace, "-l", own)
            if "deletionTimestamp" not in one["metadata"]
        }
        assert images == {f"{QWEN}:0.8.5"}


async def divided(node: OnNode, route: str) -> None:
    """Wait until both versions answer: the gateway learns of a route a moment later."""

    async def both() -> bool:
        return set(await answers(node, route, 10)) == {"own", "new"}

    await eventually(both, "both versions answer", interval=0.5)


async def ask_on(node: OnNode, route: str, counted: Counter[str]) -> None:
    while True:
        counted.update(await answers(node, route, 1))
        await asyncio.sleep(0.1)


@pytest.mark.spec("AR-114")
async def test_the_weights_of_a_service_that_runs_are_kept(node: OnNode) -> None:
    async with node.namespace("inuse") as namespace:
        path = await node.service(namespace, "chat")
        await node.running(path)
        with pytest.raises(NodeError, match=r"is in use: .* mounts its weights; .* kubectl delete aimservice chat -n"):
            await node.kubectl("delete", "aimartifacts", "--all", "-n", namespace)
        assert await node.objects("aimartifacts", "-n", namespace)
        await node.kubectl("delete", "aimservice", "chat", "-n", namespace)
        await node.kubectl("wait", "--for=delete", "inferenceservices", "--all", "-n", namespace, "--timeout=120s")
        await node.kubectl("delete", "aimartifacts", "--all", "-n", namespace)
