"""What goes wrong on a real node, how it is put right again, and what the platform reports meanwhile.

Whatever a context does to the node is undone at its end, however that comes.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import pytest
from support.on_node import OnNode
from support.terminal import Terminal, command_in

from aim_domain.naming import inference_service_name
from controller_runtime import JsonObject

PODS_READY: Final = "InferenceServicePodsReady"
_AIM: Final = Path(sys.executable).with_name("aim")
_PAUSE: Final = 0.5
_ENGINE_PORT: Final = 8000


@dataclass(frozen=True, slots=True)
class Why:
    """What `aim why` answers about an AIMService.

    Attributes:
        code: exit code; 0 means that nothing is in the way.
        ways: from the cause up to the service, as `-o json` has them.
        remarks: what it says on standard error.
    """

    code: int
    status: str
    ways: tuple[tuple[JsonObject, ...], ...]
    remarks: str

    @property
    def cause(self) -> str:
        """What it names first: kind, reason and message of the cause."""
        return _words(self.ways[0][0]) if self.ways else "nothing"

    @property
    def way(self) -> str:
        """The first way, from the cause up to the service."""
        return " <- ".join(map(_words, self.ways[0])) if self.ways else ""

    @property
    def kind(self) -> str:
        """Of the object that is the cause."""
        return str(self.ways[0][0]["object"]["kind"]) if self.ways else ""

    @property
    def reason(self) -> str:
        """Of the cause."""
        return str(self.ways[0][0].get("reason", "missing")) if self.ways else ""

    @property
    def remedy(self) -> str:
        """What it advises."""
        return str(self.ways[0][0]["remedy"]) if self.ways else ""

    def __str__(self) -> str:
        lines = [f"exit code {self.code}, status {self.status}; {self.remarks.strip()}"]
        lines += [" <- ".join(map(_words, way)) for way in self.ways]
        return "\n".join((*lines, f"do: {self.remedy}"))


def _words(link: JsonObject) -> str:
    about = link["object"]
    return f"{about['kind']} {about['name']} {link.get('reason', 'missing')}: {link.get('message', '')}"


@dataclass(slots=True)
class Outcomes:
    """A line for each failure, for the end of the run."""

    lines: list[str] = field(default_factory=list)

    def add(self, failure: str, status: str, why: str, seconds: float) -> None:
        """Note how one went."""
        self.lines.append(f"{failure}: reported {status}; why: {why}; well again after {seconds:.1f} s")

    def print(self, config: pytest.Config) -> None:
        """Print them below the tests."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        capture = config.pluginmanager.get_plugin("capturemanager")
        assert isinstance(reporter, pytest.TerminalReporter)
        assert capture is not None
        # What a fixture prints at its end is captured otherwise, and shown with failures alone.
        with capture.global_and_fixture_disabled():
            for line in self.lines:
                reporter.write_line(line)


@dataclass(frozen=True, slots=True)
class Served:
    """An AIMService on the node.

    Attributes:
        path: of the object, for the API server.
        nats_url: the broker, for `aim`.
    """

    node: OnNode
    namespace: str
    name: str
    path: str
    nats_url: str
    outcomes: Outcomes

    @property
    def workload(self) -> str:
        """Name of its InferenceService."""
        return inference_service_name(self.name, self.namespace)

    async def get(self) -> JsonObject:
        """The object now."""
        return (await self.node.api.get(self.path)).body

    async def change(self, spec: JsonObject) -> None:
        """Merge something into its spec."""
        reply = await self.node.api.merge(self.path, {"spec": spec})
        assert reply.status == 200, reply.body

    async def pods(self) -> list[JsonObject]:
        """Its pods that are not being deleted."""
        return [one for one in await self._all_pods() if "deletionTimestamp" not in one["metadata"]]

    async def _all_pods(self) -> list[JsonObject]:
        selector = f"serving.kserve.io/inferenceservice={self.workload}"
        reply = await self.node.api.get(f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=selector)
        found: list[JsonObject] = reply.body["items"]
        return found

    async def pod(self) -> JsonObject:
        """The one that has not ended."""
        [found] = [one for one in await self.pods() if not has_ended(one)]
        return found

    async def until_pod(self, accept: Callable[[JsonObject], bool], seconds: float = 60) -> JsonObject:
        """One of its pods once it is as wished."""
        found: list[JsonObject] = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = await self.pods()
            for one in found:
                if accept(one):
                    return one
            await asyncio.sleep(_PAUSE)
        pytest.fail(f"pods of {self.namespace}/{self.name} after {seconds:g} s: {[one['status'] for one in found]}")

    async def reports(self, condition: str, *reasons: str, seconds: float = 60) -> JsonObject:
        """The condition once it has one of the reasons."""

        def has(obj: JsonObject) -> bool:
            found = condition_of(obj, condition)
            return found is not None and found["reason"] in reasons

        return condition_of(await self.node.until(self.path, has, seconds), condition) or {}

    async def why(self) -> Why:
        """What `aim why` answers now."""
        env = {**os.environ, "KUBECONFIG": str(self.node.platform.kubeconfig), "AIM_NATS_URL": self.nats_url}
        about = f"{self.namespace}/{self.name}"
        child = await asyncio.create_subprocess_exec(
            _AIM, "why", "aimservice", about, "-o", "json", env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        output, errors = await child.communicate()
        assert output, errors.decode()
        answer = json.loads(output)
        return Why(
            child.returncode or 0, answer["status"], tuple(tuple(way) for way in answer["ways"]), errors.decode()
        )

    async def type(
        self, why: Why, beginning: str, *, edit: JsonObject | None = None, values: dict[str, str] | None = None
    ) -> None:
        """Run the command of the remedy that begins so, as a person would.

        Args:
            edit: what is changed in the editor that it opens.
            values: what is written for its placeholders.
        """
        command = command_in(why.remedy, beginning)
        for placeholder, value in (values or {}).items():
            command = command.replace(placeholder, value)
        with tempfile.TemporaryDirectory() as folder:
            await Terminal(self.node.platform.kubeconfig, Path(folder)).type(command, edit=edit)

    async def explains(self, accept: Callable[[Why], bool], seconds: float = 60) -> Why:
        """What `aim why` answers once it is as wished; else the test fails with its last answer."""
        found = await self.why()
        deadline = time.monotonic() + seconds
        while not accept(found):
            if time.monotonic() > deadline:
                pytest.fail(f"aim why after {seconds:g} s:\n{found}")
            await asyncio.sleep(_PAUSE)
            found = await self.why()
        return found

    async def answers(self, seconds: float = 60) -> None:
        """Wait until the model answers through the gateway, which may be away itself."""
        # The runtime config of the examples says so.
        url = f"{self.node.gateway}/{self.namespace}/{self.name}/v1/chat/completions"
        body = {"messages": [{"role": "user", "content": "Hello"}]}
        last = "no answer"
        deadline = time.monotonic() + seconds
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
            while time.monotonic() < deadline:
                try:
                    async with session.post(url, json=body) as reply:
                        if reply.status == 200:
                            return
                        last = f"status {reply.status}"
                except (aiohttp.ClientError, TimeoutError) as error:
                    last = repr(error)
                await asyncio.sleep(0.2)
        pytest.fail(f"{self.namespace}/{self.name} does not answer after {seconds:g} s: {last}")

    async def recovered(self, failure: str, reported: str, why: Why, since: float, seconds: float = 90) -> None:
        """Wait until it runs, answers, and no problem found; note how long that took.

        Args:
            reported: what the status said meanwhile.
            since: when the cause was removed, by the monotonic clock.
        """
        await self.explains(lambda found: found.code == 0 and found.status == "Running", seconds)
        await self.answers()
        took = time.monotonic() - since
        self.outcomes.add(failure, reported, f"{why.cause}; do: {why.remedy}", took)
        await self.settled()

    async def settled(self, seconds: float = 60) -> None:
        """Wait until it has one pod, which is ready, and nothing of former ones.

        Kubernetes keeps evicted ones for hours; they are deleted here.
        """
        async with asyncio.timeout(seconds):
            while True:
                for one in await self.pods():
                    if has_ended(one):
                        await self.node.kubectl(
                            "-n", self.namespace, "delete", "pod", one["metadata"]["name"], "--ignore-not-found"
                        )
                found = await self._all_pods()
                if len(found) == 1 and is_ready(found[0]):
                    return
                await asyncio.sleep(_PAUSE)


def condition_of(obj: JsonObject, name: str) -> JsonObject | None:
    """A condition of an object."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == name), None)


def engine_of(pod: JsonObject) -> JsonObject:
    """Status of the first container of a pod; empty before the kubelet has written one."""
    found: list[JsonObject] = pod["status"].get("containerStatuses") or [{}]
    return found[0]


def has_ended(pod: JsonObject) -> bool:
    """Whether a pod is over, though its object is there."""
    return pod["status"]["phase"] in {"Failed", "Succeeded"}


def waits_for(pod: JsonObject) -> str:
    """Why the first container of a pod waits; empty where it does not."""
    return str(((engine_of(pod).get("state") or {}).get("waiting") or {}).get("reason", ""))


def is_ready(obj: JsonObject) -> bool:
    """Whether a pod or a node is Ready."""
    found = condition_of(obj, "Ready")
    return found is not None and found["status"] == "True"


@asynccontextmanager
async def served(
    node: OnNode, outcomes: Outcomes, namespace: str, name: str = "chat", **spec: object
) -> AsyncIterator[Served]:
    """An AIMService that need not run yet; it is deleted at the end."""
    nats_url = await asyncio.to_thread(lambda: node.platform.nats_url)
    found = Served(node, namespace, name, await node.service(namespace, name, **spec), nats_url, outcomes)
    try:
        yield found
    finally:
        await node.api.delete(found.path)
        await node.api.until(found.path, lambda reply: reply.status == 404, 60)


@asynccontextmanager
async def no_remains(node: OnNode) -> AsyncIterator[None]:
    """Fail unless the node has at the end what it had before: volumes, folders of pods, taints, its mark Ready."""
    before = await _remains(node)
    yield
    last: dict[str, set[str]] = {}
    for _ in range(120):
        last = {name: more for name, found in (await _remains(node)).items() if (more := found - before[name])}
        if not last:
            return
        await asyncio.sleep(_PAUSE)
    pytest.fail(f"left on the node: {last}")


async def _remains(node: OnNode) -> dict[str, set[str]]:
    settings = node.platform.node.settings
    folders = settings.run / "kubelet" / "pods"
    pods, volumes, classes = [
        (await node.api.get(path)).body["items"]
        for path in ("/api/v1/pods", "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/storageclasses")
    ]
    about = (await node.api.get(f"/api/v1/nodes/{settings.name}")).body
    return {
        "folders of deleted pods": {one.name for one in folders.iterdir()} - {one["metadata"]["uid"] for one in pods},
        "volumes": {one["metadata"]["name"] for one in volumes},
        "storage classes": {one["metadata"]["name"] for one in classes},
        "taints": {one["key"] for one in about["spec"].get("taints") or ()},
        "not ready": set() if is_ready(about) else {settings.name},
    }


# Programs of the node


@asynccontextmanager
async def killed(node: OnNode, name: str) -> AsyncIterator[None]:
    """A program of the node is killed and stays away until the end."""
    node.platform.node.daemons.signal(name, signal.SIGKILL)
    try:
        await asyncio.to_thread(_until_ended, node, name)
        yield
    finally:
        await asyncio.to_thread(node.platform.node.restart, name)


def _until_ended(node: OnNode, name: str) -> None:
    deadline = time.monotonic() + 10
    while node.platform.node.daemons.pid(name) is not None:
        assert time.monotonic() < deadline, f"{name} survived SIGKILL"
        time.sleep(0.01)


@contextmanager
def suspended(node: OnNode, name: str) -> Iterator[None]:
    """A program of the node does nothing meanwhile."""
    daemons = node.platform.node.daemons
    daemons.signal(name, signal.SIGSTOP)
    try:
        yield
    finally:
        daemons.signal(name, signal.SIGCONT)


def short(condition: JsonObject) -> str:
    """A condition in a few words."""
    return f"{condition['type']}={condition['status']} {condition['reason']}"


async def node_becomes(node: OnNode, ready: str, seconds: float, name: str = "") -> None:
    """Wait until a node's condition Ready is `True`, `False` or `Unknown`; the first node's unless named."""
    path = f"/api/v1/nodes/{name or node.platform.node.settings.name}"
    await node.until(path, lambda obj: (condition_of(obj, "Ready") or {}).get("status") == ready, seconds)


@asynccontextmanager
async def cordoned(node: OnNode, name: str = "") -> AsyncIterator[None]:
    """A node takes no pods; the first one unless named."""
    name = name or node.platform.node.settings.name
    await node.kubectl("cordon", name)
    try:
        yield
    finally:
        await node.kubectl("uncordon", name)


@asynccontextmanager
async def scaled_to_zero(node: OnNode, namespace: str, deployment: str) -> AsyncIterator[None]:
    """A Deployment has no pods."""
    await node.kubectl("-n", namespace, "scale", f"deploy/{deployment}", "--replicas=0")
    try:
        await node.kubectl("-n", namespace, "wait", "--for=delete", "pods", "-l", "k8s-app=kube-dns", "--timeout=60s")
        yield
    finally:
        await node.kubectl("-n", namespace, "scale", f"deploy/{deployment}", "--replicas=1")
        await node.kubectl("-n", namespace, "rollout", "status", f"deploy/{deployment}", "--timeout=60s")


# Memory and volumes


async def overfeed(pod: JsonObject, size: int = 1 << 30, seconds: float = 60) -> None:
    """Send an engine a request larger than its memory, which ends it; one that is being started is waited for."""
    url = f"http://{pod['status']['podIP']}:{_ENGINE_PORT}/v1/completions"
    block = bytes(1 << 20)

    async def body() -> AsyncIterator[bytes]:
        for _ in range(size // len(block)):
            yield block

    headers = {"content-length": str(size)}
    async with asyncio.timeout(seconds), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.post(url, data=body(), headers=headers) as reply:
                    pytest.fail(f"the engine took {size} bytes: status {reply.status}")
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(_PAUSE)
            except aiohttp.ClientError:
                return


@contextmanager
def small_disk(node: OnNode, size: str) -> Iterator[Path]:
    """A file system in memory of so many bytes, which any user may write to."""
    folder = node.platform.node.settings.run / "volumes" / f"small-{uuid.uuid4().hex[:6]}"
    folder.mkdir(parents=True)
    subprocess.run(("mount", "-t", "tmpfs", "-o", f"size={size},mode=0777", "tmpfs", folder), check=True)
    try:
        yield folder
    finally:
        subprocess.run(("umount", "-l", folder), check=True)
        folder.rmdir()


def folders(above: Path, number: int) -> list[Path]:
    """Folders that any user may write to."""
    found = [above / str(place) for place in range(number)]
    for one in found:
        one.mkdir()
        one.chmod(0o777)
    return found


def grow_disk(folder: Path, size: str) -> None:
    """Give a file system of `small_disk` another size."""
    subprocess.run(("mount", "-o", f"remount,size={size}", folder), check=True)


@asynccontextmanager
async def cluster_objects(node: OnNode, *objects: JsonObject) -> AsyncIterator[None]:
    """Objects of the cluster's scope, deleted at the end."""
    await asyncio.to_thread(node.platform.node.apply_objects, list(objects))
    try:
        yield
    finally:
        for one in objects:
            await node.kubectl(
                "delete", one["kind"].lower(), one["metadata"]["name"], "--ignore-not-found", "--timeout=60s"
            )


def static_volume(name: str, storage_class: str, folder: Path, mode: str = "ReadWriteMany") -> JsonObject:
    """A PersistentVolume in a folder of the node, which claims to be large enough for the weights of the examples."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "100Gi"},
            "accessModes": [mode],
            "storageClassName": storage_class,
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }


def storage_class(name: str, provisioner: str) -> JsonObject:
    """A StorageClass."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }
