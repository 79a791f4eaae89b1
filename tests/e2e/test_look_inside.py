"""The commands that look at a living platform answer, in their forms and with their codes."""

import asyncio
import json
from dataclasses import dataclass

import pytest
from support.stack import Platform
from typer.testing import CliRunner

from aim_cli.__main__ import app
from controller_runtime import JsonObject, loads

pytestmark = pytest.mark.asyncio(loop_scope="session")

IMAGE = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"


@dataclass(frozen=True)
class Said:
    """What a command printed, and how it ended."""

    code: int
    out: str

    @property
    def data(self) -> JsonObject:
        return loads(self.out)


async def aim(*words: str) -> Said:
    """Run a command; in a thread, as each brings a loop of its own."""
    ended = await asyncio.to_thread(CliRunner().invoke, app, list(words))
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return Said(ended.exit_code, ended.stdout)


@pytest.mark.spec("FW-607", "FW-608", "FW-609")
async def test_of_objects(platform: Platform) -> None:
    cluster = ("--kubeconfig", str(platform.stack.kubeconfig))
    await platform.namespace("looked-at")
    await platform.running(await platform.service("looked-at", "chat", model={"image": IMAGE}))

    tree = await aim("tree", "aimsvc/chat", "-n", "looked-at", "-o", "json", *cluster)
    assert tree.code == 0
    below = {one["object"]["kind"]: one for one in tree.data["below"]}
    assert {"AIMTemplateCache", "InferenceService", "HTTPRoute"} <= below.keys()
    assert below.keys() & {"AIMModel", "AIMClusterModel"}, "whichever has this image in this cluster"
    assert [one["object"]["kind"] for one in below["InferenceService"]["below"]] == ["Pod"]
    assert below["HTTPRoute"]["below"][0]["state"] == "Accepted"
    graph = await aim("tree", "aimsvc", "looked-at/chat", "-o", "dot", *cluster)
    assert graph.out.startswith("digraph aim {")

    status = await aim("status", "-n", "looked-at", "-o", "json", *cluster)
    attention = [one["object"] for one in status.data["attention"]]
    assert not [one for one in attention if one.get("namespace") == "looked-at"], "what others left may need some"
    assert status.data["counts"]["AIMService"] == {"Running": 1}

    cache = await aim("cache", "-n", "looked-at", "-o", "json", *cluster)
    (artifact,) = cache.data["artifacts"]
    assert artifact["volume"]["bytes"] > 0
    assert artifact["volume"]["users"]


@pytest.mark.spec("FW-610", "FW-611", "FW-612")
async def test_of_the_installation(platform: Platform) -> None:
    cluster, nats = ("--kubeconfig", str(platform.stack.kubeconfig)), ("--nats-url", platform.stack.nats_url)

    told = await aim("doctor", "--wait", "30", "-o", "json", *cluster, *nats)
    bad = [one for one in json.loads(told.out) if one["mark"] == "bad"]
    assert (told.code, bad) == (0, [])
    assert {"Kubernetes", "definitions", "permissions", "streams", "freshness", "clocks"} <= {
        one["about"] for one in json.loads(told.out)
    }
    assert (await aim("doctor", "--pre", *cluster)).code == 0

    bus = await aim("bus", "--holes", "-o", "json", *nats)
    assert bus.code == 0
    assert {one["part"] for one in bus.data["parts"] if one["publisher"]} >= {"aimservices", "httproutes"}
    assert all(one["exists"] for one in bus.data["streams"])
    assert bus.data["holes"] == []

    address = platform.stack["serving"].url
    queue = await aim("queue", "--url", f"serving={address}")
    assert queue.code == 0
    assert any(line.split()[:3] == ["serving", "service", "yes"] for line in queue.out.splitlines())
    assert (await aim("queue", *cluster)).code == 4
