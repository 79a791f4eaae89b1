"""Pods of a node: connections tried from them, pods that do nothing else, and the processes of their containers."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import pytest
from support.on_node import OnNode
from support.restricted import CONTAINER_SECURITY, POD_SECURITY

from aim_local.node.platform import NAMESPACE
from aim_local.node.requirements import program
from controller_runtime import JsonObject

PYTHON: Final = "docker.io/amdenterpriseai/aim-engine-cli:0.1.0"
"""An image with Python, for pods that try connections."""
HOSTNAME: Final = "kubernetes.io/hostname"
"""Label of each node with its name."""
_SECONDS: Final = 60
"""Until the rights of a new pod, and of a new policy, are in force."""
_NEVER: Final = "suite.aim/never"
_ATTEMPTS: Final = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

QUESTION = bytes.fromhex("aa5501000001000000000000") + b"".join(
    bytes([len(part)]) + part for part in b"kubernetes.default.svc.cluster.local".split(b".")
) + bytes.fromhex("0000010001")

def tried(target):
    protocol, address, port = target
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM) as one:
        one.settimeout(3)
        try:
            one.connect((address, port))
            if protocol == "udp":
                one.send(QUESTION)
                one.recv(512)
        except OSError as error:
            return str(error)
    return ""

targets = json.loads(sys.argv[1])
with ThreadPoolExecutor(len(targets)) as pool:
    print(json.dumps(list(pool.map(tried, targets))))
"""
"""Prints for each target what went wrong, empty where it answered; a datagram is a question to a name server."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a connection goes.

    Attributes:
        protocol: ``tcp``, or ``udp`` for a name server.
    """

    address: str
    port: int
    protocol: str = "tcp"


_TIMES: Final = 2


Attempts = Callable[[Mapping[str, Target]], Awaitable[dict[str, str]]]
"""Tries all targets at once; the errors by name, empty for those that answered."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where connections come from: a pod, by its own Python or, where its image has none, from its network.

    Attributes:
        pod: its name.
        python: whether its image has Python.
    """

    node: OnNode
    namespace: str
    pod: str
    python: bool = True

    async def attempts(self, targets: Mapping[str, Target]) -> dict[str, str]:
        """Try all targets at once; the errors by name, empty for those that answered."""
        words = json.dumps([(one.protocol, one.address, one.port) for one in targets.values()])
        if self.python:
            said = await self.node.kubectl(
                "exec", "-n", self.namespace, self.pod, "--", "python", "-c", _ATTEMPTS, words
            )
        else:
            pid = await main_process(self.node, self.namespace, self.pod)
            said = await printed(
                program("nsenter"), f"--net=/proc/{pid}/ns/net", sys.executable, "-I", "-c", _ATTEMPTS, words
            )
        return dict(zip(targets, json.loads(said), strict=True))


async def matched(source: Source, targets: dict[str, Target], expected: frozenset[str]) -> None:
    """Wait until just the expected targets answer; twice, as the first answers may be older than a policy.

    What was refused once stays refused: only an answer that is expected may be late, on a machine that is busy.
    """
    errors: dict[str, str] = {}
    matches = 0
    try:
        async with asyncio.timeout(_SECONDS):
            while matches < _TIMES:
                errors = await source.attempts(targets)
                found = {name for name, error in errors.items() if not error}
                if matches and found - expected:
                    break
                matches += found == expected
    except TimeoutError:
        pass
    if matches < _TIMES:
        refused = {name: error for name, error in errors.items() if error and name in expected}
        passes = sorted(name for name, error in errors.items() if not error and name not in expected)
        pytest.fail(f"from {source.pod}, after {matches} matches, refused: {refused}; passes: {passes}")


async def attempts_of_the_node(targets: Mapping[str, Target]) -> dict[str, str]:
    """Try all targets from this machine, which is the node."""
    words = json.dumps([(one.protocol, one.address, one.port) for one in targets.values()])
    said = await printed(sys.executable, "-I", "-c", _ATTEMPTS, words)
    return dict(zip(targets, json.loads(said), strict=True))


@dataclass(frozen=True, slots=True)
class PodForm:
    """A pod that waits until it is deleted, and is never ready, so that no Service leads to it.

    Attributes:
        labels: such as those of a service, whose NetworkPolicy then holds for it.
        on: the node that it runs on; empty for any.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    on: str = ""

    @property
    def body(self) -> JsonObject:
        """The object."""
        container: JsonObject = {
            "name": "python",
            "image": PYTHON,
            "command": ["python", "-c", "import signal; signal.pause()"],
            "resources": {"requests": {"cpu": "1m", "memory": "16Mi"}},
            "securityContext": CONTAINER_SECURITY,
        }
        spec: JsonObject = {
            "containers": [container],
            "readinessGates": [{"conditionType": _NEVER}],
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": POD_SECURITY,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {HOSTNAME: self.on} if self.on else {},
        }
        metadata = {"name": self.name, "labels": dict(self.labels)}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def waiting_pod(node: OnNode, namespace: str, form: PodForm) -> AsyncIterator[Source]:
    """A pod to try connections from, once its container runs; deleted at the end."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    await node.api.until(f"/api/v1/namespaces/{namespace}/serviceaccounts/default", lambda reply: reply.status == 200)
    await node.api.created(path, form.body)
    try:
        await node.until(f"{path}/{form.name}", lambda pod: pod["status"].get("phase") == "Running")
        yield Source(node, namespace, form.name)
    finally:
        await node.api.delete(f"{path}/{form.name}")
        await node.api.until_gone(f"{path}/{form.name}")


async def pods_of(node: OnNode, component: str, namespace: str = NAMESPACE) -> list[JsonObject]:
    """The living pods of a part of the platform."""
    selector = f"app.kubernetes.io/name=aim-engine,app.kubernetes.io/component={component}"
    found = await node.objects("pods", "-n", namespace, "-l", selector)
    return [one for one in found if "deletionTimestamp" not in one["metadata"] and not has_ended(one)]


def has_ended(pod: JsonObject) -> bool:
    """Whether its containers will not start again."""
    return pod["status"].get("phase") in {"Succeeded", "Failed"}


def is_ready(pod: JsonObject) -> bool:
    """Whether Services lead to it."""
    conditions = pod["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


async def main_process(node: OnNode, namespace: str, pod: str) -> int:
    """Number of the first process of a pod's first container, on this machine."""
    found = await node.until(
        f"/api/v1/namespaces/{namespace}/pods/{pod}",
        lambda one: bool(one["status"].get("containerStatuses")) and "running" in _state(one),
    )
    container = found["status"]["containerStatuses"][0]["containerID"].removeprefix("containerd://")
    tasks = await printed(program("ctr"), "-a", str(node.platform.node.settings.socket), "-n", "k8s.io", "tasks", "ls")
    [pid] = [int(words[1]) for words in map(str.split, tasks.splitlines()) if words[0] == container]
    return pid


async def printed(*command: str) -> str:
    """What a program of this machine prints; the test fails where it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == 0, f"{command[0]} ended with {process.returncode}: {err.decode()}"
    return out.decode()


def _state(pod: JsonObject) -> JsonObject:
    found: JsonObject = pod["status"]["containerStatuses"][0]["state"]
    return found
