"""Two nodes: what reaches what, where the platform's pods go, and what it reports when a node is drained or lost.

The second node is started for these tests and ends with them; see docs/development/node-lane.md.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import pytest
import pytest_asyncio
from support.node_failures import (
    PODS_READY,
    Outcomes,
    Served,
    cordoned,
    killed,
    no_remains,
    node_becomes,
    served,
    short,
)
from support.node_pods import HOSTNAME, PodForm, Target, matched, pods_of, waiting_pod
from support.on_node import OWN, OnNode

from aim_local.node import NodeSettings
from aim_local.node.network import set_link
from aim_local.node.platform import NAMESPACE, RELEASE
from controller_runtime import JsonObject

LOST: Final = 90
"""Seconds until a silent node counts as lost (50 by default), and some more."""
SOON: Final = {
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 20,
}
"""In place of Kubernetes' own of 300 seconds: the first toleration that matches a taint decides."""
SLOW: Final = [{"name": "AIM_ENGINE_START_SECONDS", "value": "5"}]
"""An engine that loads for so long that what is reported meanwhile is seen."""
DEDICATED: Final = "suite.aim/dedicated"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def outcomes(request: pytest.FixtureRequest) -> AsyncIterator[Outcomes]:
    """What each failure came to, printed after the last one."""
    found = Outcomes()
    yield found
    found.print(request.config)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def worker(node: OnNode) -> AsyncIterator[NodeSettings]:
    """The second node; its end fails where it leaves something."""
    own = node.platform.node
    found = await asyncio.to_thread(own.add_worker)
    try:
        yield found
    finally:
        await asyncio.to_thread(own.remove_worker)
        assert [one["metadata"]["name"] for one in await node.objects("nodes")] == [own.settings.name]


async def nodes_of_pods(node: OnNode, namespace: str) -> set[str]:
    """The nodes of all pods of a namespace, Jobs' too."""
    return {one["spec"].get("nodeName", "none") for one in await node.objects("pods", "-n", namespace)}


@asynccontextmanager
async def tainted(node: OnNode, name: str, taint: str) -> AsyncIterator[None]:
    """A node has a taint."""
    await node.kubectl("taint", "node", name, taint)
    try:
        yield
    finally:
        await node.kubectl("taint", "node", name, f"{taint}-")


@asynccontextmanager
async def on_worker(node: OnNode, outcomes: Outcomes, worker: NodeSettings) -> AsyncIterator[Served]:
    """A service that runs and answers on the second node, to which nothing binds it."""
    async with (
        no_remains(node),
        node.namespace("several") as namespace,
        served(node, outcomes, namespace, env=SLOW) as chat,
    ):
        async with cordoned(node):
            await node.running(chat.path)
            assert (await chat.pod())["spec"]["nodeName"] == worker.name
        await chat.answers()
        yield chat


async def test_pods_of_the_second_node_reach_what_those_of_the_first_do(node: OnNode, worker: NodeSettings) -> None:
    serving = {
        "app.kubernetes.io/name": "aim-engine",
        "app.kubernetes.io/instance": RELEASE,
        "app.kubernetes.io/component": "serving",
    }
    [broker] = await pods_of(node, "nats")
    targets = {
        "API server by its Service": Target(str(worker.kubernetes_service), 443),
        "DNS": Target(str(worker.dns), 53, "udp"),
        "registry": Target(str(worker.control), 5000),
        "Hub": Target(str(worker.control), 18088),
        "own kubelet": Target(str(worker.address), 10250),
        "broker": Target(broker["status"]["podIP"], 4222),
    }
    policed = frozenset({"API server by its Service", "DNS", "broker"})
    async with (
        node.namespace("foreign") as namespace,
        waiting_pod(node, namespace, PodForm("foreign", on=worker.name)) as foreign,
        waiting_pod(node, NAMESPACE, PodForm("as-serving", serving, worker.name)) as own,
    ):
        await matched(foreign, targets, frozenset(targets) - {"broker"})
        # The policy of its own node lets it out, and that of the broker's node knows it by its address.
        await matched(own, targets, policed)


async def test_a_taint_keeps_pods_off_that_do_not_tolerate_it(
    node: OnNode, worker: NodeSettings, outcomes: Outcomes
) -> None:
    taint = f"{DEDICATED}=others:NoSchedule"
    async with no_remains(node), tainted(node, worker.name, taint), node.namespace("tainted") as namespace:
        async with served(node, outcomes, namespace) as chat:
            await node.running(chat.path)
            assert await nodes_of_pods(node, namespace) == {node.platform.node.settings.name}
        bound: JsonObject = {"nodeSelector": {HOSTNAME: worker.name}}
        tolerant = {**bound, "tolerations": [{"key": DEDICATED, "operator": "Exists"}]}
        async with node.namespace("bound") as other:
            config = await configured(node, other, bound)
            async with served(node, outcomes, other) as chat:
                why = await chat.explains(lambda found: "untolerated taint" in found.way, 90)
                since = time.monotonic()
                reply = await node.api.merge(config, {"spec": {"jobs": tolerant, "predictors": tolerant}})
                assert reply.status == 200, reply.body
                await chat.recovered("node tainted", why.status, why, since, 180)
                assert await nodes_of_pods(node, other) == {worker.name}


async def configured(node: OnNode, namespace: str, pods: JsonObject) -> str:
    """Make a runtime config with settings of all pods of a namespace; its path."""
    path = f"{OWN}/namespaces/{namespace}/aimruntimeconfigs"
    body = {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMRuntimeConfig",
        "metadata": {"name": "default", "namespace": namespace},
        "spec": {"jobs": pods, "predictors": pods},
    }
    await node.api.created(path, body)
    return f"{path}/default"


async def test_the_gpu_of_a_model_leads_to_the_node_that_has_it(node: OnNode, worker: NodeSettings) -> None:
    async with gpu_model(node, worker.name, "74a5", "74a1"), node.namespace("gpu") as namespace:
        custom = {
            "baseImage": "amdenterpriseai/aim-base:0.9.0",
            "modelSources": [{"modelId": "our-team/tuned", "sourceUri": "hf://our-team/tuned"}],
            "hardware": {"gpu": {"requests": 1, "model": "MI325X"}},
        }
        spec = {"model": {"custom": custom}, "template": {"allowUnoptimized": True}}
        service = await node.running(await node.service(namespace, "tuned", **spec))
        [pod] = await node.objects("pods", "-n", namespace, "-l", "serving.kserve.io/inferenceservice")
        assert pod["spec"]["nodeName"] == worker.name
        terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert "74a5" in str(terms)
        await node.ask(service["status"]["routing"]["path"])


@asynccontextmanager
async def gpu_model(node: OnNode, name: str, device: str, former: str) -> AsyncIterator[None]:
    """A node has GPUs of another model, as AMD's labels say."""

    async def label(has: str, had: str) -> None:
        words = (f"amd.com/gpu.device-id={has}", f"amd.com/gpu.device-id.{has}=8", f"amd.com/gpu.device-id.{had}-")
        await node.kubectl("label", "node", name, "--overwrite", *words)

    await label(device, former)
    try:
        yield
    finally:
        await label(former, device)


async def test_a_drain_moves_a_predictor_to_the_other_node(
    node: OnNode, worker: NodeSettings, outcomes: Outcomes
) -> None:
    async with on_worker(node, outcomes, worker) as chat:
        before = await chat.pod()
        try:
            drain = ("drain", worker.name, "--delete-emptydir-data", "--timeout=60s")
            await node.kubectl(*drain, f"--pod-selector=serving.kserve.io/inferenceservice={chat.workload}")
            reported = await chat.reports(PODS_READY, "PodsStarting", "PodsPending", "Pulling", "NoPods", seconds=15)
            why = await chat.why()
            assert why.status != "Running", "its only engine loads"
            since = time.monotonic()
            await chat.recovered("second node drained", short(reported), why, since)
        finally:
            await node.kubectl("uncordon", worker.name)
        after = await chat.pod()
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"]["nodeName"] == node.platform.node.settings.name


async def test_pods_of_a_node_that_is_lost_are_reported_and_move(
    node: OnNode, worker: NodeSettings, outcomes: Outcomes
) -> None:
    async with on_worker(node, outcomes, worker) as chat:
        before = await evicted_soon(chat)
        with cut_off(worker):
            await node_becomes(node, "Unknown", LOST, worker.name)
            reported = await chat.reports(PODS_READY, "NodeNotReady", seconds=15)
            assert worker.name in reported["message"]
            why = await chat.explains(lambda found: "NodeNotReady" in found.way, 20)
            await moved(chat, before)
        since = await returned(chat, worker, before)
        await chat.recovered("second node cut off", short(reported), why, since)


async def test_a_node_whose_kubelet_and_runtime_are_dead_is_lost_too(
    node: OnNode, worker: NodeSettings, outcomes: Outcomes
) -> None:
    async with on_worker(node, outcomes, worker) as chat:
        before = await evicted_soon(chat)
        async with killed(node, worker.program("kubelet")), killed(node, worker.program("containerd")):
            await chat.answers(5)
            await node_becomes(node, "Unknown", LOST, worker.name)
            reported = await chat.reports(PODS_READY, "NodeNotReady", seconds=15)
            why = await chat.explains(lambda found: worker.name in found.way, 20)
            await moved(chat, before)
        since = await returned(chat, worker, before)
        await chat.recovered("second node dead", short(reported), why, since)


async def evicted_soon(chat: Served) -> JsonObject:
    """The pod, which from now on tolerates only for seconds that its node is lost."""
    pod = await chat.pod()
    others = [one for one in pod["spec"]["tolerations"] if one.get("key") != SOON["key"]]
    tolerated = {"spec": {"tolerations": [SOON, *others]}}
    reply = await chat.node.api.merge(f"/api/v1/namespaces/{chat.namespace}/pods/{pod['metadata']['name']}", tolerated)
    assert reply.status == 200, reply.body
    return pod


@contextmanager
def cut_off(worker: NodeSettings) -> Iterator[None]:
    """The link to the second node is down."""
    set_link(worker, "down")
    try:
        yield
    finally:
        set_link(worker, "up")


async def moved(chat: Served, before: JsonObject) -> None:
    """Wait until the service runs and answers on the first node, though the former pod cannot end."""
    first = chat.node.platform.node.settings.name
    await chat.until_pod(lambda one: one["spec"].get("nodeName") == first, 60)
    await chat.explains(lambda found: found.code == 0 and found.status == "Running", 90)
    await chat.answers()
    reply = await chat.node.api.get(f"/api/v1/namespaces/{chat.namespace}/pods/{before['metadata']['name']}")
    assert "deletionTimestamp" in reply.body["metadata"], "no kubelet has ended it"


async def returned(chat: Served, worker: NodeSettings, before: JsonObject) -> float:
    """Wait until the node is back and has ended the pod that was replaced; when it began to come back."""
    since = time.monotonic()
    await node_becomes(chat.node, "True", 60, worker.name)
    await chat.node.api.until_gone(f"/api/v1/namespaces/{chat.namespace}/pods/{before['metadata']['name']}")
    return since
