"""A whole platform for end-to-end tests: each part a process (`support.forks`), and a simulated cluster.

Use it in the `conftest.py` of a package with `from support.stack import platform`; one platform serves all tests of it
that a test process runs, because its start takes longer than most of them, so each test makes objects of its own.
"""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import aiohttp
import pytest
import pytest_asyncio
from support.controlplane import CRDS, Ran, RawApi, Reply
from support.forks import fork
from support.image_programs import IMAGES, contained
from support.installed_chart import Installation, installation
from support.real_cluster import raw_api
from support.restricted import RESTRICTED
from support.used_permissions import FOLDER, note

from aim_domain.services import SERVICES
from aim_local.demo.run import apply_all, demo_files, read_manifests
from aim_local.demo.summary import complaints
from aim_local.realcluster.users import user_name
from aim_local.stack import ClusterKind, Stack, StackError, StackSettings
from aim_local.supervision.process import Spawn
from controller_runtime import JsonObject, KubeClient, loads
from controller_runtime.kube.config import from_kubeconfig

CLUSTER = ClusterKind(os.environ.get("CLUSTER", ClusterKind.EMBEDDED))
"""What the end-to-end tests run against; ``CLUSTER=real`` is that of `make kube-assets`."""
PATIENCE = 2.0 if CLUSTER is ClusterKind.EMBEDDED else 3.0
"""By how much everything may take longer there than in memory."""
NODES: Mapping[ClusterKind, int] = MappingProxyType({ClusterKind.EMBEDDED: 1, ClusterKind.REAL: 12})
"""Enough accelerators for all services that tests leave behind, where a scheduler counts them."""
EMPTY: Mapping[str, Mapping[str, str]] = MappingProxyType({})
_ACCOUNTS = frozenset(user_name(service) for service in SERVICES)
_DEMO = "demo"
"""The namespace of `make demo`, and of its files."""
OWN = "/apis/aim.eai.amd.com/v1alpha1"
_READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class Platform:
    """A running stack, and what tests do with it.

    Attributes:
        chart: what was installed, where the services run as pods.
    """

    stack: Stack
    api: RawApi
    chart: Installation | None = None

    async def apply(self, files: Sequence[Path]) -> str:
        """Apply YAML files as the demo does, in one trace; returns its id."""
        async with KubeClient(await from_kubeconfig(str(self.stack.kubeconfig)), service="suite") as client:
            return await apply_all(client, read_manifests(files))

    async def namespace(self, name: str, **annotations: str) -> None:
        """Make a namespace; where the chart is installed, one that takes restricted pods alone."""
        labels = {} if self.chart is None else RESTRICTED
        metadata = {"name": name, "annotations": annotations, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        await self.api.created("/api/v1/namespaces", body)

    async def service(self, namespace: str, name: str, **spec: object) -> str:
        """Make an AIMService; returns its path."""
        body = {
            "apiVersion": "aim.eai.amd.com/v1alpha1",
            "kind": "AIMService",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
        collection = f"{OWN}/namespaces/{namespace}/aimservices"
        await self.api.created(collection, body)
        return f"{collection}/{name}"

    async def until(self, path: str, accept: Callable[[JsonObject], bool], seconds: float = 60) -> JsonObject:
        """The object once it is as wished; else the test fails with the conditions that do not hold."""
        last: JsonObject = {}

        def holds(obj: JsonObject) -> bool:
            nonlocal last
            last = obj
            return accept(obj)

        try:
            found = await self.api.until(
                path, lambda reply: reply.status == 200 and holds(reply.body), seconds * PATIENCE
            )
        except TimeoutError:
            state = last.get("status") or {}
            pytest.fail(
                f"{path} after {seconds * PATIENCE:g} s: {state.get('status', 'no status')}\n{complaints(last)}"
            )
        return found.body

    async def running(self, path: str, seconds: float = 60) -> JsonObject:
        """The AIMService once it runs."""
        return await self.until(path, lambda obj: status_of(obj) == "Running", seconds)

    async def chat(self, path: str, text: str) -> JsonObject:
        """The answer of the model behind a gateway path; the gateway learns of routes a moment after everybody else."""
        body = {"messages": [{"role": "user", "content": text}]}
        async with aiohttp.ClientSession(self.stack.gateway_url) as session:

            async def ask() -> Reply:
                async with session.post(f"{path}/v1/chat/completions", json=body) as answer:
                    return Reply(answer.status, loads(await answer.read()), answer.headers)

            return (await self.api.repeated(ask, lambda reply: reply.status == 200)).body

    async def broker_killed_and_started(self) -> None:
        """End the broker at once, or one of three, and start it again."""
        broker = self.stack["nats"] if self.chart is None else self.chart.broker.cluster.servers[0]
        await broker.kill()
        await broker.start()

    async def kubectl(self, *arguments: str) -> Ran:
        """Run the real kubectl."""
        binary = shutil.which("kubectl")
        if binary is None:
            pytest.skip("no kubectl on this machine")
        cache = self.stack.settings.folder / "kubectl-cache"
        process = await asyncio.create_subprocess_exec(
            binary, "--kubeconfig", str(self.stack.kubeconfig), "--cache-dir", str(cache), *arguments,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(60):
            out, err = await process.communicate()
        ran = Ran(process.returncode or 0, out.decode(), err.decode())
        assert ran.code == 0, ran
        return ran


def status_of(obj: JsonObject) -> str:
    """The overall status."""
    return str((obj.get("status") or {}).get("status") or "")


async def written(platform: Platform) -> Counter[str]:
    """Writes of the five services so far, by resource, without Leases."""
    report = await platform.stack.cluster.requests()
    found: Counter[str] = Counter()
    for one in report["requests"]:
        resource = str(one["resource"]).partition(".")[0]
        ours = str(one["userAgent"]).removeprefix("aim-") in SERVICES
        if ours and one["verb"] not in _READS and resource != "leases":
            found[resource] += int(one["count"])
    return found


async def at_rest(platform: Platform) -> Counter[str]:
    """The writes, once no service has written for a second."""
    before = await written(platform)
    while True:
        await asyncio.sleep(1)
        now = await written(platform)
        if now == before:
            return now
        before = now


def denied_requests(folder: Path) -> list[tuple[str, str, str, str]]:
    """What the API server forbade a service, by its audit logs below a folder: who, verb, what, name."""
    found = []
    for log in folder.rglob("audit.log"):
        # The last line may be half written, as the API server goes on.
        for line in log.read_bytes().split(b"\n")[:-1]:
            event = loads(line)
            user = event["user"].get("username", "")
            if user in _ACCOUNTS and event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid":
                what = event.get("objectRef") or {}
                resource = "/".join(filter(None, (what.get("resource"), what.get("subresource"))))
                found.append((user, event["verb"], resource, what.get("name", "")))
    return found


def _stack(settings: StackSettings) -> Stack:
    """The stack; the run ends with one line where this machine has no programs for its cluster."""
    try:
        return Stack(settings)
    except StackError as error:
        pytest.exit(str(error), returncode=1)


@asynccontextmanager
async def started_platform(
    folder: Path,
    services: tuple[str, ...] = SERVICES,
    service_env: Mapping[str, Mapping[str, str]] = EMPTY,
    *,
    cluster: ClusterKind = CLUSTER,
    keda: bool = False,
    broker: str = "",
    broker_url: str = "",
    spawn: Spawn = contained if IMAGES else fork,
) -> AsyncIterator[Platform]:
    """A platform with the demo's gateway, runtime config and model source, but no AIMService.

    Args:
        service_env: variables for single services, by name.
        cluster: what it runs against.
        keda: whether a real cluster has KEDA's operator.
        broker: what is appended to the configuration of the broker.
        broker_url: where another broker listens, which is used instead.
        spawn: how processes are started.
    """
    settings = StackSettings(
        folder,
        CRDS,
        services,
        cluster,
        nodes=NODES[cluster],
        keda=keda,
        broker=broker,
        broker_url=broker_url,
        start_timeout=60 * PATIENCE,
        actor_delay=0.005,
        actor_retry_delay=0.1,
        service_env=service_env,
        spawn=spawn,
    )
    async with AsyncExitStack() as exits:
        chart = None
        if IMAGES and cluster is ClusterKind.REAL:
            chart = await exits.enter_async_context(installation(folder, Path(IMAGES)))
            settings = chart.adapted(settings)
        stack = await exits.enter_async_context(_stack(settings))
        api = await exits.enter_async_context(raw_api(stack.kubeconfig))
        platform = Platform(stack, api, chart)
        if chart is not None:
            await platform.namespace(_DEMO)
        await platform.apply(demo_files()[:-1])
        yield platform
        if cluster is ClusterKind.REAL and FOLDER:
            await asyncio.to_thread(note, folder, Path(FOLDER), contained=chart is not None)
        assert not await asyncio.to_thread(denied_requests, folder), "the chart's roles lack something"
        assert chart is None or not chart.broker.cluster.denials(), "the broker's users may do too little"


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def platform(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Platform]:
    """One platform for the tests of a package in a process; they need `pytest.mark.asyncio(loop_scope="session")`.

    It would wear on whatever is tested after them.
    """
    async with started_platform(tmp_path_factory.mktemp("platform")) as found:
        yield found
