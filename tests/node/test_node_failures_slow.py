"""What a control plane notices after a minute, and what empties the node: longer than a part of `.ci/run` may take."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio
from support.node_failures import (
    PODS_READY,
    Outcomes,
    Served,
    cordoned,
    no_remains,
    node_becomes,
    served,
    short,
    suspended,
)
from support.on_node import OnNode

GRACE = 90
"""Seconds until a silent node counts as lost (50 by default), and some more."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def outcomes(request: pytest.FixtureRequest) -> AsyncIterator[Outcomes]:
    """What each failure came to, printed after the last one."""
    found = Outcomes()
    yield found
    found.print(request.config)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def chat(node: OnNode, outcomes: Outcomes) -> AsyncIterator[Served]:
    """A service that runs, and has to run again after each failure."""
    async with no_remains(node), node.namespace("outages") as namespace, served(node, outcomes, namespace) as found:
        await node.running(found.path)
        await found.answers()
        yield found


async def test_a_node_that_is_silent_for_a_minute(chat: Served) -> None:
    """All nodes are silent then, so the node lifecycle controller suspects the control plane and evicts no pod."""
    node, pod = chat.node, await chat.pod()
    async with AsyncExitStack() as services:
        with suspended(node, "kubelet"):
            await node_becomes(node, "Unknown", GRACE)
            silent = await chat.reports(PODS_READY, "NodeNotReady")
            why = await chat.explains(lambda found: found.code == 1)
            late = await services.enter_async_context(served(node, chat.outcomes, chat.namespace, "late"))
            without = await late.reports(PODS_READY, "FailedScheduling")
            assert "untolerated taint" in without["message"]
            why_without = await late.explains(lambda found: "untolerated taint" in found.cause)
            since = time.monotonic()
        await node_becomes(node, "True", 60)
        await chat.recovered("kubelet stopped", short(silent), why, since)
        await late.recovered("pod without a node", short(without), why_without, since)
    assert (await chat.pod())["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_a_node_that_is_drained_of_everything(chat: Served) -> None:
    node = chat.node
    name = node.platform.node.settings.name
    async with cordoned(node):
        await node.kubectl("drain", name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=180s")
        why = await chat.explains(lambda found: found.code == 1 or bool(found.remarks))
        since = time.monotonic()
    for namespace in ("aim-system", "kserve", "traefik"):
        await node.kubectl("-n", namespace, "wait", "deploy", "--all", "--for=condition=Available", "--timeout=180s")
    await chat.recovered("everything drained", why.status, why, since, 180)
