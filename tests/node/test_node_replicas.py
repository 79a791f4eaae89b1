"""A service whose pod is evicted, drained or lost: with one replica another starts, with two the other one leads."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from support.controlplane import Reply
from support.node_pods import is_ready, main_process, pods_of
from support.node_release import LEASES, UNCHECKED, leader, released, rolled_out
from support.on_node import OnNode

from aim_local.node import NodeError
from aim_local.node.platform import NAMESPACE
from controller_runtime import JsonObject

_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_BUDGETS: Final = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
_LEASE_SECONDS: Final = 17
"""The time of a Lease and one try."""
_BUSY_SECONDS: Final = 8
"""What a machine of two cores adds while it starts and ends pods."""


async def evict(node: OnNode, pod: str) -> Reply:
    """Ask for the eviction of a pod, as a drain does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
    return await node.api.post(f"{_PODS}/{pod}/eviction", eviction)


async def ready_pods(node: OnNode, component: str, count: int) -> list[str]:
    """The names of a service's pods once there are so many, all of them ready."""
    async with asyncio.timeout(180):
        while True:
            pods = await pods_of(node, component)
            if len(pods) == count and all(map(is_ready, pods)):
                return [one["metadata"]["name"] for one in pods]
            await asyncio.sleep(0.2)


async def leads(node: OnNode, service: str, *pods: str) -> None:
    """Wait until one of these pods holds the Lease."""

    def is_held(lease: JsonObject) -> bool:
        return str(lease["spec"].get("holderIdentity") or "").partition("_")[0] in pods

    await node.until(f"{LEASES}/aim-{service}", is_held, 60)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def two_of_serving(node: OnNode) -> AsyncIterator[None]:
    """The release with a second pod of serving."""
    async with released(node, {**UNCHECKED, "services": {"serving": {"replicas": 2}}}):
        yield


@pytest.mark.spec("FW-661")
async def test_the_only_pod_of_a_service_may_be_evicted_and_another_one_leads(node: OnNode) -> None:
    assert (await node.api.get(f"{_BUDGETS}/aim-engine-routing")).status == 404
    [former] = await ready_pods(node, "routing", 1)
    assert (await evict(node, former)).status == 201
    await node.api.until_gone(f"{_PODS}/{former}")
    await rolled_out(node, "routing")
    [pod] = await ready_pods(node, "routing", 1)
    await leads(node, "routing", pod)


@pytest.mark.spec("FW-661")
@pytest.mark.usefixtures("two_of_serving")
async def test_of_two_pods_only_one_is_evicted_until_its_successor_is_ready(node: OnNode) -> None:
    pods = await ready_pods(node, "serving", 2)
    first = await leader(node, "serving")
    [second] = set(pods) - {first}
    await node.until(f"{_BUDGETS}/aim-engine-serving", lambda one: one["status"].get("disruptionsAllowed") == 1)
    assert (await evict(node, first)).status == 201
    reply = await evict(node, second)
    assert (reply.status, "disruption budget" in reply.message) == (429, True)
    await leads(node, "serving", second)
    await node.api.until_gone(f"{_PODS}/{first}")
    await ready_pods(node, "serving", 2)
    await node.api.repeated(lambda: evict(node, second), lambda found: found.status == 201)
    await node.api.until_gone(f"{_PODS}/{second}")
    await leads(node, "serving", *await ready_pods(node, "serving", 2))


@pytest.mark.spec("FW-661")
@pytest.mark.usefixtures("two_of_serving")
@pytest.mark.parametrize("end", ["stopped", "deleted at once", "killed"])
async def test_the_other_pod_leads_and_goes_on_when_the_leader_is(node: OnNode, end: str) -> None:
    pods = await ready_pods(node, "serving", 2)
    lost = await leader(node, "serving")
    assert lost in pods
    holder = (await lease_of_serving(node))["spec"]["holderIdentity"]
    async with node.namespace("led") as namespace:
        if end == "killed":
            os.kill(await main_process(node, NAMESPACE, lost), signal.SIGKILL)
        else:
            grace = {} if end == "stopped" else {"gracePeriodSeconds": "0"}
            await node.api.send("DELETE", f"{_PODS}/{lost}", **grace)
        path = await node.service(namespace, "chat")
        taken = await other_holder(node, holder)
        print(f"{end}: another process leads after {taken:.1f} s")
        assert taken < _LEASE_SECONDS + _BUSY_SECONDS
        if end != "killed":
            assert await leader(node, "serving") in set(pods) - {lost}, "its successor has not begun"
        await node.running(path)
    await ready_pods(node, "serving", 2)


async def lease_of_serving(node: OnNode) -> JsonObject:
    return (await node.api.get(f"{LEASES}/aim-serving")).body


async def other_holder(node: OnNode, former: str) -> float:
    """Wait until another process holds the Lease of serving; the seconds that took."""
    begun = time.monotonic()
    await node.until(f"{LEASES}/aim-serving", lambda one: one["spec"].get("holderIdentity") not in {"", None, former})
    return time.monotonic() - begun


@pytest.mark.spec("FW-661")
@pytest.mark.usefixtures("two_of_serving")
async def test_a_drain_takes_what_its_budget_allows_and_leaves_a_leader(node: OnNode) -> None:
    pods = await ready_pods(node, "serving", 2)
    name = node.platform.node.settings.name
    selector = "app.kubernetes.io/component in (serving, routing)"
    async with node.namespace("drained") as namespace:
        try:
            with pytest.raises(NodeError, match="disruption budget"):
                await node.kubectl(
                    "drain", name, f"--pod-selector={selector}", "--delete-emptydir-data", "--timeout=15s"
                )
            [left] = [one for one in await pods_of(node, "serving") if is_ready(one)]
            assert left["metadata"]["name"] in pods
            await leads(node, "serving", left["metadata"]["name"])
            [routing] = await pods_of(node, "routing")
            assert routing["status"]["phase"] == "Pending", "nothing is scheduled on a node that is drained"
            path = await node.service(namespace, "chat")
            await node.until(path, lambda one: bool((one.get("status") or {}).get("status")))
        finally:
            await node.kubectl("uncordon", name)
        await ready_pods(node, "serving", 2)
        await ready_pods(node, "routing", 1)
        await node.running(path)
