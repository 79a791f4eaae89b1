"""Autoscaling on a node: load on engines, metrics from outside the pods, and the command line."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web
from support.controlplane import Ran
from support.on_node import OnNode

from aim_local.assets import Program, find_toolset
from aim_local.ports import HOST, free_port
from aim_local.supervision.process import Program as Command
from aim_local.supervision.process import Supervised
from controller_runtime import JsonObject

RUNNING: Final = "vllm:num_requests_running"
SIDECAR: Final = "otc-container"
"""Name of the container that the OpenTelemetry operator injects."""
ADMITS_SIDECARS: Final = {"pod-security.kubernetes.io/enforce": "baseline"}
"""Namespace labels: the injected container has no security context, so `restricted` rejects the pod."""
_APIS: Final = ("v1beta1.metrics.k8s.io", "v1beta1.external.metrics.k8s.io")
_KSERVE: Final = ("-n", "kserve", "configmap", "inferenceservice-config")


async def until_measured(node: OnNode) -> None:
    """Wait until the APIs of resource metrics and of external metrics are available."""
    await node.kubectl("wait", "--for=condition=Available", "--timeout=180s", *(f"apiservice/{one}" for one in _APIS))


@asynccontextmanager
async def soon_scaled_down(node: OnNode, seconds: int) -> AsyncIterator[None]:
    """Set the stabilization window that KServe writes into ScaledObjects; the default is five minutes."""
    before = json.loads(await node.kubectl("get", *_KSERVE, "-o", "json"))["data"]["autoscaler"]

    async def put(text: str) -> None:
        await node.kubectl("patch", *_KSERVE, "--type=merge", "-p", json.dumps({"data": {"autoscaler": text}}))

    await put(json.dumps({**json.loads(before), "scaleDownStabilizationWindowSeconds": str(seconds)}))
    try:
        yield
    finally:
        await put(before)


@asynccontextmanager
async def load(node: OnNode, route: str, requests: int, tokens: int = 100_000) -> AsyncIterator[None]:
    """Keep this number of streamed requests running while the context is open."""
    messages = [{"role": "user", "content": "a " * 500}]
    body = {"stream": True, "max_tokens": tokens, "messages": messages}

    async def again() -> None:
        while True:
            try:
                async with session.post(f"{route}/v1/chat/completions", json=body, raise_for_status=True) as answer:
                    async for _ in answer.content:
                        pass
            except aiohttp.ClientError:
                await asyncio.sleep(0.5)

    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(node.gateway, timeout=timeout) as session:
        running = [asyncio.create_task(again()) for _ in range(requests)]
        try:
            yield
        finally:
            for one in running:
                one.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def answering_pods(node: OnNode, route: str, requests: int = 6) -> set[str]:
    """Pods that answer short requests; the simulated engine names its pod."""
    answers = [await node.ask(route, max_tokens=8) for _ in range(requests)]
    return {one["choices"][0]["message"]["content"].split(" on pod ")[1].split(".")[0] for one in answers}


async def scaled_value(node: OnNode, namespace: str, deployment: str, metric: str = RUNNING) -> float:
    """Present value of the metric of a Deployment in the scaler."""
    query = f'sum({metric}{{namespace="{namespace}", deployment="{deployment}"}})'
    url = f"http://{await _address(node, 'keda-otel-scaler')}:9090/memstore/query"
    async with aiohttp.ClientSession() as session, session.post(url, json={"query": query}) as reply:
        found: JsonObject = await reply.json()
    assert found["ok"], found
    return float(found["value"])


class Page:
    """A page of metrics with one gauge."""

    def __init__(self, metric: str) -> None:
        self.metric = metric
        self.value = 0.0

    def text(self) -> str:
        """In Prometheus' format."""
        return f"# TYPE {self.metric} gauge\n{self.metric} {self.value}\n"


@asynccontextmanager
async def serving_page(page: Page) -> AsyncIterator[str]:
    """Serve a page at `/metrics`; yields host and port."""
    app = web.Application()

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(text=page.text(), content_type="text/plain")

    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        port = free_port()
        await web.TCPSite(runner, HOST, port).start()
        yield f"{HOST}:{port}"
    finally:
        await runner.cleanup()


def collector_config(engine: str, receiver: str, metric: str) -> JsonObject:
    """Configuration as KServe writes it into an OpenTelemetryCollector, and the operator's addition."""
    statements = [
        f'set(attributes["{name}"], resource.attributes["k8s.{name}.name"])'
        for name in ("namespace", "deployment", "pod")
    ]
    scraped = {"job_name": "otel-collector", "scrape_interval": "1s", "static_configs": [{"targets": [engine]}]}
    pipeline = {
        "receivers": ["prometheus"],
        "processors": ["resourcedetection/env", "transform", "filter/metrics"],
        "exporters": ["otlp"],
    }
    return {
        "receivers": {"prometheus": {"config": {"scrape_configs": [scraped]}}},
        "processors": {
            "resourcedetection/env": {"detectors": ["env"], "timeout": "2s", "override": False},
            "transform": {"metric_statements": [{"context": "datapoint", "statements": statements}]},
            "filter/metrics": {"metrics": {"include": {"match_type": "strict", "metric_names": [metric]}}},
        },
        "exporters": {"otlp": {"endpoint": receiver, "compression": "none", "tls": {"insecure": True}}},
        "service": {
            "telemetry": {"metrics": {"address": f"{HOST}:{free_port()}"}},
            "pipelines": {"metrics": pipeline},
        },
    }


@asynccontextmanager
async def collector(folder: Path, page: Page, receiver: str, *, namespace: str, deployment: str) -> AsyncIterator[None]:
    """Run a collector that sends the metric of a page with the labels of a Deployment."""
    attributes = {"namespace": namespace, "deployment": deployment, "pod": f"{deployment}-outside"}
    program = str(find_toolset().program(Program.OTEL_SIDECAR))
    async with serving_page(page) as engine:
        env = {
            "PATH": os.defpath,
            "OTEL_CONFIG": json.dumps(collector_config(engine, receiver, page.metric)),
            "OTEL_RESOURCE_ATTRIBUTES": ",".join(f"k8s.{name}.name={value}" for name, value in attributes.items()),
        }
        command = Command(Program.OTEL_SIDECAR, [program, "--config=env:OTEL_CONFIG"], env, _at_once)
        process = Supervised(command, folder / "collector.log", start_timeout=60, stop_patience=10)
        try:
            await process.start()
            yield
        finally:
            await process.stop()


@asynccontextmanager
async def outside_metric(
    node: OnNode, folder: Path, metric: str, *, namespace: str, deployment: str
) -> AsyncIterator[Page]:
    """A metric that exists without pods, such as that of a gateway."""
    page = Page(metric)
    receiver = f"{await _address(node, 'keda-otel-scaler')}:4317"
    async with collector(folder, page, receiver, namespace=namespace, deployment=deployment):
        yield page


async def aim(node: OnNode, *arguments: str) -> Ran:
    """Run the command line as an administrator of the node would."""
    environment = {
        **os.environ,
        "KUBECONFIG": str(node.platform.kubeconfig),
        "AIM_NATS_URL": await asyncio.to_thread(lambda: node.platform.nats_url),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "aim_cli", *arguments,
        env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    return Ran(process.returncode or 0, out.decode(), err.decode())


async def _address(node: OnNode, service: str) -> str:
    return await node.kubectl("-n", "keda", "get", "service", service, "-o", "jsonpath={.spec.clusterIP}")


async def _at_once() -> str:
    return ""
