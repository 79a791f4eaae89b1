"""From a model source to a streamed answer, with nothing simulated but the weights and the GPU."""

import asyncio
import json
import os
from pathlib import Path

import aiohttp
from support.object_store import ObjectStore, object_store
from support.on_node import IMAGE, OWN, OnNode

from controller_runtime import JsonObject, loads


async def test_the_catalogue_of_the_nodes_registry_becomes_models(node: OnNode) -> None:
    listed = f"{OWN}/aimclustermodels"
    reply = await node.api.until(
        listed, lambda found: IMAGE in {one["spec"]["image"].removeprefix("docker.io/") for one in found.body["items"]}
    )
    [model] = [one for one in reply.body["items"] if one["spec"]["image"].endswith(IMAGE)]
    await node.until(
        f"{listed}/{model['metadata']['name']}", lambda obj: (obj.get("status") or {}).get("status") == "Ready"
    )


async def test_a_service_downloads_runs_and_answers_through_the_gateway(node: OnNode) -> None:
    async with node.namespace("main") as namespace:
        path = await node.service(namespace, "chat")
        service = await node.running(path)
        route = service["status"]["routing"]["path"]
        answer = await node.ask(route, "Hello")
        assert "Hello" in answer["choices"][0]["message"]["content"]
        [claim] = await node.objects("pvc", "-n", namespace)
        assert claim["status"]["phase"] == "Bound"
        assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
        [artifact] = await node.objects("aimartifacts", "-n", namespace)
        assert artifact["status"]["status"] == "Ready"
        [predictor] = await node.objects("pods", "-n", namespace, "-l", "serving.kserve.io/inferenceservice")
        assert all(one["ready"] for one in predictor["status"]["containerStatuses"])


async def test_a_custom_model_downloads_from_a_bucket_and_answers(node: OnNode, tmp_path: Path) -> None:
    address = str(node.platform.node.settings.address)
    async with object_store(tmp_path, host=address) as store, node.namespace("bucket") as namespace:
        store.put("tuned/config.json", b"{}")
        store.put("tuned/model.safetensors", os.urandom(1 << 20))
        await node.kubectl("create", "secret", "generic", "weights", "-n", namespace, *literals(store))
        service = await node.running(await node.service(namespace, "tuned", **from_bucket(store)))
        await node.ask(service["status"]["routing"]["path"])
        [artifact] = await node.objects("aimartifacts", "-n", namespace)
        assert artifact["status"]["download"]["protocol"] == "S3"
        progress = artifact["status"]["progress"]
        assert progress["downloadedBytes"] == progress["totalBytes"] == (1 << 20) + 2


def literals(store: ObjectStore) -> list[str]:
    """Arguments of `kubectl create secret` with the keys of a store."""
    return [f"--from-literal={name}={value}" for name, value in store.variables.items() if name != "AWS_ENDPOINT_URL"]


def from_bucket(store: ObjectStore) -> JsonObject:
    """Fields of an AIMService whose weights lie in a bucket, with keys from the Secret `weights`."""
    keys = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "weights", "key": name}}}
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    ]
    env = [{"name": "AWS_ENDPOINT_URL", "value": store.url}, *keys]
    source = {"modelId": "our-team/tuned", "sourceUri": "s3://models/tuned", "env": env}
    custom = {
        "baseImage": "amdenterpriseai/aim-base:0.9.0",
        "modelSources": [source],
        "hardware": {"gpu": {"requests": 1, "model": "MI300X"}},
    }
    return {"model": {"custom": custom}, "template": {"allowUnoptimized": True}}


async def test_an_answer_is_streamed(node: OnNode) -> None:
    async with node.namespace("stream") as namespace:
        service = await node.running(await node.service(namespace, "chat"))
        route = service["status"]["routing"]["path"]
        await node.ask(route)
        events = await streamed(node, route)
        assert events[-1] == "[DONE]"
        parts = [json.loads(one)["choices"][0]["delta"].get("content", "") for one in events[:-1]]
        assert len(parts) > 2, "in one piece"
        assert "Hello" in "".join(parts)


async def streamed(node: OnNode, route: str) -> list[str]:
    body: JsonObject = {"stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    url = f"{node.gateway}{route}/v1/chat/completions"
    async with aiohttp.ClientSession() as session, session.post(url, json=body) as answer:
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.decode().strip() async for line in answer.content]
    return [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]


async def test_a_hostname_and_a_path_of_its_own_lead_to_the_service(node: OnNode) -> None:
    async with node.namespace("routes") as namespace:
        routing = {"enabled": True, "pathTemplate": "/own/{.metadata.name}-{.metadata.namespace}"}
        service = await node.running(await node.service(namespace, "chat", routing=routing))
        assert service["status"]["routing"]["path"] == f"/own/chat-{namespace}"
        await node.ask(f"/own/chat-{namespace}")
        async with aiohttp.ClientSession(node.gateway) as session:
            async with session.get(f"/{namespace}/chat/v1/models") as answer:
                assert answer.status == 404, "the default path leads nowhere"
            async with session.get(f"/own/chat-{namespace}/v1/models") as answer:
                found = loads(await answer.read())
                assert found["object"] == "list", "the prefix was rewritten"


async def test_two_namespaces_have_services_of_the_same_name(node: OnNode) -> None:
    async with node.namespace("first") as first, node.namespace("second") as second:
        paths = await asyncio.gather(*(node.service(one, "chat") for one in (first, second)))
        services = await asyncio.gather(*map(node.running, paths))
        routes = [one["status"]["routing"]["path"] for one in services]
        assert routes == [f"/{first}/chat", f"/{second}/chat"]
        for route in routes:
            await node.ask(route)


async def test_a_timeout_of_requests_is_on_the_route(node: OnNode) -> None:
    async with node.namespace("timeout") as namespace:
        routing = {"enabled": True, "requestTimeout": "2s"}
        await node.running(await node.service(namespace, "slow", routing=routing))
        [route] = await node.objects("httproutes", "-n", namespace)
        [rule] = route["spec"]["rules"]
        # Traefik accepts the route and has no such timeout: docs/development/node-lane.md.
        assert rule["timeouts"]["request"] == "2s"


async def test_what_was_deleted_leaves_no_pod_route_or_service(node: OnNode) -> None:
    async with node.namespace("gone") as namespace:
        path = await node.service(namespace, "chat")
        await node.running(path)
        await node.api.delete(path)
        for kind in ("inferenceservices", "httproutes", "deployments", "services"):
            await node.kubectl("wait", "--for=delete", kind, "--all", "-n", namespace, "--timeout=120s")
        predictors = ("pods", "-l", "serving.kserve.io/inferenceservice")
        await node.kubectl("wait", "--for=delete", *predictors, "-n", namespace, "--timeout=120s")
        assert await node.objects("aimartifacts", "-n", namespace), "weights stay for the next service"
