"""A real node with the platform on it, and what tests do there.

One node serves a whole run, because a start takes a minute. One that runs already (`make node`) is used and stays.
Each test makes namespaces of its own and deletes them, because the node has eight accelerators and two cores.
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from support.controlplane import RawApi
from support.real_cluster import raw_api
from support.restricted import RESTRICTED

from aim_local.assets import AssetError
from aim_local.demo.run import apply_all, demo_files, read_manifests
from aim_local.demo.summary import complaints
from aim_local.node import NodeError, NodeSettings
from aim_local.node.platform import EXAMPLES, NodePlatform
from controller_runtime import JsonObject, KubeClient, loads
from controller_runtime.kube.config import from_kubeconfig

OWN = "/apis/aim.eai.amd.com/v1alpha1"
IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
SMALL: JsonObject = {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
"""Resources of an engine: those of a GPU's default fit no node of two cores."""


@dataclass(frozen=True, slots=True)
class OnNode:
    """The platform on a node.

    Attributes:
        platform: node and chart.
        api: plain HTTP access to the API server as its administrator.
        gateway: base URL of the gateway.
    """

    platform: NodePlatform
    api: RawApi
    gateway: str

    @asynccontextmanager
    async def namespace(self, prefix: str = "test", **labels: str) -> AsyncIterator[str]:
        """A namespace that takes restricted pods alone; deleted at the end, with all that is in it."""
        name = f"{prefix}-{uuid.uuid4().hex[:6]}"
        metadata = {"name": name, "labels": {**RESTRICTED, **labels}}
        await self.api.created("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        try:
            yield name
        finally:
            await self.api.delete(f"/api/v1/namespaces/{name}")
            await self.api.until(f"/api/v1/namespaces/{name}", lambda reply: reply.status == 404, 180)

    async def service(self, namespace: str, name: str, **spec: object) -> str:
        """Make an AIMService with an image and resources that fit the node unless given; returns its path."""
        body = {
            "apiVersion": "aim.eai.amd.com/v1alpha1",
            "kind": "AIMService",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"model": {"image": IMAGE}, "resources": SMALL, **spec},
        }
        collection = f"{OWN}/namespaces/{namespace}/aimservices"
        await self.api.created(collection, body)
        return f"{collection}/{name}"

    async def until(self, path: str, accept: Callable[[JsonObject], bool], seconds: float = 180) -> JsonObject:
        """The object once it is as wished; else the test fails with its status and conditions."""
        last: JsonObject = {}

        def holds(obj: JsonObject) -> bool:
            nonlocal last
            last = obj
            return accept(obj)

        try:
            found = await self.api.until(path, lambda reply: reply.status == 200 and holds(reply.body), seconds)
        except TimeoutError:
            state = last.get("status") or {}
            pytest.fail(f"{path} after {seconds:g} s: {state.get('status', 'no status')}\n{complaints(last)}")
        return found.body

    async def running(self, path: str, seconds: float = 180) -> JsonObject:
        """The AIMService once it runs."""
        return await self.until(path, lambda obj: (obj.get("status") or {}).get("status") == "Running", seconds)

    async def ask(self, path: str, text: str = "Hello", *, seconds: float = 30, **body: object) -> JsonObject:
        """The answer of a model through the gateway; the gateway learns of routes and pods a moment later."""
        whole = {"messages": [{"role": "user", "content": text}], **body}
        last = "no answer"
        try:
            async with aiohttp.ClientSession(self.gateway) as session, asyncio.timeout(seconds):
                while True:
                    async with session.post(f"{path}/v1/chat/completions", json=whole) as answer:
                        content = await answer.read()
                        if answer.status == 200:
                            found: JsonObject = loads(content)
                            return found
                        last = f"{answer.status} {content[:300]!r}"
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pytest.fail(f"{path} answers {last} after {seconds:g} s")

    async def kubectl(self, *arguments: str, given: object | None = None) -> str:
        """What kubectl prints; the test fails where it fails."""
        return await asyncio.to_thread(lambda: self.platform.node.kubectl(*arguments, given=given))

    async def objects(self, *arguments: str) -> list[JsonObject]:
        """What `kubectl get -o json` lists."""
        found: list[JsonObject] = json.loads(await self.kubectl("get", "-o", "json", *arguments))["items"]
        return found

    async def apply(self, files: list[Path]) -> None:
        """Apply YAML files as the demo does."""
        async with KubeClient(await from_kubeconfig(str(self.platform.kubeconfig)), service="suite") as client:
            await apply_all(client, read_manifests(files))


@asynccontextmanager
async def platform_on_node() -> AsyncIterator[OnNode]:
    """A node with the platform, the demo's gateway, runtime config and model source, but no AIMService.

    Where this machine cannot run a node, the run ends with one line.
    """
    try:
        platform = NodePlatform(NodeSettings.from_environment(), print)
        await platform.__aenter__()
    except (NodeError, AssetError) as error:
        pytest.exit(str(error), returncode=1)
    try:
        gateway = await asyncio.to_thread(lambda: platform.gateway_url)
        async with raw_api(platform.kubeconfig) as api:
            found = OnNode(platform, api, gateway)
            await found.apply(demo_files(EXAMPLES)[:-1])
            yield found
    finally:
        await platform.__aexit__(None, None, None)
