"""The place of the matrix: a whole platform with a proxy before every service, and the story that it is told."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from matrix.api_proxy import ApiProxy, requests_of
from matrix.bus_proxy import BusProxy
from matrix.mirror import CHILDREN, Mirror, mirrored
from matrix.oracle import ObjectKey, differences, key_of, normalised, orphans, without
from support.controlplane import CRDS, RawApi
from support.real_cluster import raw_api

from aim_domain.labels import MODEL_SOURCE
from aim_domain.services import SERVICES
from aim_local.demo.run import apply_all, demo_files, read_manifests
from aim_local.ports import HOST, free_ports
from aim_local.stack import ClusterKind, Stack, StackSettings
from aim_local.supervision.probes import http_probe
from aim_local.supervision.process import Supervised
from controller_runtime import JsonObject, Key, KubeClient
from controller_runtime.kube.config import from_kubeconfig

OWN: Final = "/apis/aim.eai.amd.com/v1alpha1"
NAMESPACE: Final = "matrix"
SOURCE: Final = "matrix"
CATALOGUE_IMAGE: Final = "amdenterpriseai/aim-qwen-qwen3-32b:0.8.5"
OTHER_IMAGE: Final = "amdenterpriseai/aim-dummy:0.1.0"
"""In no source, so that model, templates and their discovery are made for the service."""
EVENT_SUBJECTS: Final = ("aim.state.", "aim.sync.")
"""What the platform's events come under; answers of the broker are not among them."""
STEADY_SECONDS: Final = 0.4
RELISTED: Final = 90.0
"""Seconds: parts are stale 30 s after their last checkpoint and read from the API server 30 s later; then it ends."""
_SHORT_SOAK: Final = 15.0
_MOST_REPLICAS: Final = 5
_KINDS: Final = frozenset(kind.kind for kind in CHILDREN)
_CATALOGUE: Final = ObjectKey("AIMClusterModelSource", "", "amd-catalogue")


@dataclass
class Site:
    """A running platform.

    Attributes:
        soak_seconds: how long faults are mixed.
        patience: by how much everything may take longer than on the embedded control plane.
        expected: what the story comes to when nothing goes wrong.
        clean_writes: by service, how many writes that takes.
        most_writes: how many all of them needed in the run without faults that needed most.
        clean_seconds: how long that takes.
    """

    stack: Stack
    api: RawApi
    client: KubeClient
    proxy: ApiProxy
    buses: Mapping[str, BusProxy]
    mirror: Mirror
    soak_seconds: float
    patience: float = 1.0
    expected: dict[ObjectKey, JsonObject] = field(default_factory=dict)
    clean_writes: dict[str, int] = field(default_factory=dict)
    most_writes: int = 0
    clean_seconds: float = 0.0

    @property
    def is_real(self) -> bool:
        """Whether the programs of the cluster are real ones."""
        return self.stack.settings.cluster is ClusterKind.REAL

    # The story

    async def tell(self, namespace: str = NAMESPACE) -> None:
        """Create what the platform is to make something of."""
        await self.api.created(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        collection = f"{OWN}/namespaces/{namespace}/aimservices"
        await self.api.created(f"{OWN}/aimclustermodelsources", _source())
        await self.api.created(collection, service("chat", namespace, model={"image": CATALOGUE_IMAGE}))
        own = {"model": {"image": OTHER_IMAGE}, "replicas": 2, "env": [{"name": "LOG", "value": "1"}]}
        await self.api.created(collection, service("own", namespace, caching={"mode": "Dedicated"}, **own))

    async def erase(self, seconds: float = 40) -> None:
        """Delete all of it and wait until nothing is left, neither in the cluster nor in any service's cache.

        Raises:
            TimeoutError: something stays.
        """
        names = {str(Key(key.namespace, key.name)) for key in map(key_of, self.story())} | {SOURCE, NAMESPACE}
        for path in (f"{OWN}/aimclustermodelsources/{SOURCE}", f"/api/v1/namespaces/{NAMESPACE}"):
            await self.api.delete(path)
        async with asyncio.timeout(seconds * self.patience):
            await self.api.until_gone(f"/api/v1/namespaces/{NAMESPACE}")
        if not await self.mirror.until(lambda: not self.story(), seconds * self.patience):
            raise TimeoutError(f"still there: {', '.join(str(key_of(obj)) for obj in self.story())}")
        await self.settled(names)

    async def settled(self, gone: Collection[str] = ()) -> None:
        """Wait until every service's cache is fresh and holds nothing of what is gone.

        What a service does because its cache is not would count for the next story.

        Args:
            gone: namespace and name of objects.

        Raises:
            TimeoutError: it does not come to that.
        """
        waiting = {name: {"silence"} for name in SERVICES}
        deadline = time.monotonic() + RELISTED * self.patience
        async with aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=10)) as session:
            while waiting:
                for name in waiting:
                    # A service that is just being started again does not answer.
                    with suppress(aiohttp.ClientError, TimeoutError):
                        waiting[name] = await self._unsettled(session, name, gone)
                waiting = {name: still for name, still in waiting.items() if still}
                if waiting and time.monotonic() > deadline:
                    raise TimeoutError(f"not at rest: {waiting}")
                await asyncio.sleep(0.1 if waiting else 0)

    async def _unsettled(self, session: aiohttp.ClientSession, service: str, gone: Collection[str]) -> set[str]:
        async with session.get(f"{self.stack[service].url}/debug/cache") as answer:
            cache: dict[str, JsonObject] = await answer.json()
        stale = {f"{part} is stale" for part, held in cache.items() if not held["fresh"]}
        return stale | {f"{part} {key}" for part, held in cache.items() for key in held["keys"] if key in gone}

    def story(self) -> list[JsonObject]:
        """All objects that belong to it."""
        return self.mirror.within(NAMESPACE, _is_of_story)

    def divergence(self, ignoring: str = "") -> list[str]:
        """In what it differs from a run without faults; objects whose names begin so, and what they own, left out."""

        def ignored(key: ObjectKey) -> bool:
            return bool(ignoring) and key.name.startswith(ignoring)

        story = self.story()
        return differences(self.expected, normalised(without(story, ignored))) + orphans(story, _KINDS)

    async def converged(self, seconds: float = 120, ignoring: str = "") -> list[str]:
        """Wait until the story ended as it ends without faults, and stays so; else what differs."""
        deadline = time.monotonic() + seconds * self.patience
        while (left := deadline - time.monotonic()) > 0:
            if await self.mirror.until(lambda: not self.divergence(ignoring), left):
                await self.mirror.quiet(STEADY_SECONDS, 5)
                if not self.divergence(ignoring):
                    return []
        return self.divergence(ignoring) or ["it does not come to rest"]

    async def learn(self) -> list[str]:
        """Tell the story twice without faults; in what the two differ."""
        await self.mirror.until(lambda: _catalogue_is_complete(self.mirror.objects.values()), 60 * self.patience)
        for _ in range(2):
            first = self.expected
            if wrong := await self.tell_without_faults():
                return wrong
        return differences(first, self.expected)

    async def tell_without_faults(self) -> list[str]:
        """Tell the story, note what it comes to and takes, and erase it; why it does not end."""
        self.proxy.written.clear()
        begun = time.monotonic()
        await self.tell()
        running = await self.mirror.until(self.ended, 60 * self.patience)
        self.clean_seconds = time.monotonic() - begun
        await self.mirror.quiet(2.0 * self.patience, 30)
        self.expected = normalised(self.story())
        if not running:
            return [f"the story does not end: {_states(self.story())}"]
        self.clean_writes = {name: len(requests_of(self.proxy.written, name)) for name in SERVICES}
        self.most_writes = max(self.most_writes, sum(self.clean_writes.values()))
        await self.erase()
        return []

    def ended(self) -> bool:
        """Whether both services run and the source is ready."""
        states = _states(self.story())
        return states.get("AIMService matrix/chat") == states.get("AIMService matrix/own") == "Running" and (
            states.get("AIMClusterModelSource matrix") == "Ready"
        )

    def service_path(self, name: str) -> str:
        """The path of one of the story's AIMServices."""
        return f"{OWN}/namespaces/{NAMESPACE}/aimservices/{name}"

    def asked_for(self, name: str, replicas: int) -> bool:
        """Whether KServe is asked for so many replicas of an AIMService."""
        found = (obj for obj in self.story() if obj["kind"] == "InferenceService")
        mine = next((obj for obj in found if obj["metadata"]["ownerReferences"][0]["name"] == name), None)
        return mine is not None and mine["spec"]["predictor"].get("minReplicas") == replicas

    # Processes

    def suspend(self, name: str) -> None:
        """SIGSTOP."""
        os.kill(self.stack[name].pid, signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """SIGCONT."""
        os.kill(self.stack[name].pid, signal.SIGCONT)

    @contextmanager
    def suspended(self, *names: str) -> Iterator[None]:
        """Some processes stand still meanwhile."""
        try:
            for name in names:
                self.suspend(name)
            yield
        finally:
            for name in names:
                self.resume(name)

    def heal(self) -> int:
        """End all faults of the proxies; how often they struck."""
        return self.proxy.heal() + sum(bus.heal() for bus in self.buses.values())

    def replica(self, name: str, number: int, **variables: str) -> Supervised:
        """Another process of a service, with ports, a name and a way to the API server of its own; not started."""
        first = self.stack[name].program
        [port] = free_ports(1)
        client = f"{name}-{number}"
        address, folder = f"{HOST}:{port}", self.stack.settings.folder
        env = {
            **first.env,
            "AIM_HEALTH_PROBE_BIND_ADDRESS": address,
            "AIM_METRICS_BIND_ADDRESS": address,
            "AIM_POD_NAME": f"aim-{name}-{number}",
            "AIM_POD_UID": f"{first.env['AIM_POD_UID']}-{number}",
            "KUBECONFIG": str(self.proxy.kubeconfig(client, folder)),
            **variables,
        }
        url = f"http://{address}"
        program = replace(first, name=client, env=env, url=url, probe=http_probe(f"{url}/readyz"))
        return Supervised(program, folder / "logs" / f"{client}.log", start_timeout=60, stop_patience=5)


def service(name: str, namespace: str, **spec: object) -> JsonObject:
    """An AIMService."""
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def _source() -> JsonObject:
    """A source of images that no other source has."""
    spec = {"registry": "docker.io", "filters": [{"image": "amdenterpriseai/aim-base"}], "syncInterval": "30m"}
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMClusterModelSource",
        "metadata": {"name": SOURCE},
        "spec": spec,
    }


def _catalogue_is_complete(objects: Iterable[JsonObject]) -> bool:
    """Whether nothing of the demo's catalogue is still being looked at."""
    own = [obj for obj in objects if obj["kind"].startswith("AIMCluster")]
    states = {key_of(obj): (obj.get("status") or {}).get("status") for obj in own}
    waiting = [key for key, state in states.items() if state not in ("Ready", "NotAvailable", "Failed", "Degraded")]
    return states.get(_CATALOGUE) == "Ready" and not waiting and any("Template" in key.kind for key in states)


def _states(objects: Iterable[JsonObject]) -> dict[str, str]:
    own = (obj for obj in objects if obj["apiVersion"].startswith("aim."))
    return {str(key_of(obj)): str((obj.get("status") or {}).get("status") or "") for obj in own}


def _is_of_story(key: ObjectKey, obj: JsonObject) -> bool:
    """The source, and what it made for the whole cluster."""
    made_by = (obj["metadata"].get("labels") or {}).get(MODEL_SOURCE)
    return made_by == SOURCE or key == ObjectKey("AIMClusterModelSource", "", SOURCE)


@asynccontextmanager
async def started_site(
    folder: Path, cluster: ClusterKind, seconds: float, seed: int, **variables: str
) -> AsyncIterator[Site]:
    """A platform with the demo's gateway, runtime config and catalogue; every process is new, every store is empty.

    ``variables``: of the environment of all services.
    """
    clients = {f"{name}-{number}": name for name in SERVICES for number in range(1, _MOST_REPLICAS)}
    clients |= {name: name for name in SERVICES}
    stack: Stack | None = None

    def upstream(client: str) -> Path:
        assert stack is not None
        return stack.cluster.kubeconfig_for(clients[client])

    async with AsyncExitStack() as exits:
        proxy = await exits.enter_async_context(ApiProxy(tuple(clients), upstream, seed))
        bus_ports = dict(zip(SERVICES, free_ports(len(SERVICES)), strict=True))
        patience = {ClusterKind.EMBEDDED: 1.0, ClusterKind.REAL: 3.0}[cluster]
        ways = {
            name: {
                "KUBECONFIG": str(proxy.kubeconfig(name, folder)),
                "AIM_NATS_URL": f"nats://{HOST}:{bus_ports[name]}",
            }
            for name in SERVICES
        }
        settings = StackSettings(
            folder / "stack",
            CRDS,
            cluster=cluster,
            nodes=2,
            leader_elect=True,
            start_timeout=60 * patience,
            actor_delay=0.005,
            actor_retry_delay=0.1,
            env=variables,
            service_env=ways,
        )
        stack = Stack(settings)
        broker = urlsplit(stack.nats_url).port or 0
        buses = {
            name: await exits.enter_async_context(BusProxy(port, broker, EVENT_SUBJECTS))
            for name, port in bus_ports.items()
        }
        await exits.enter_async_context(stack)
        connection = await from_kubeconfig(str(stack.kubeconfig))
        client = await exits.enter_async_context(KubeClient(connection, service="matrix"))
        api = await exits.enter_async_context(raw_api(stack.kubeconfig))
        await apply_all(client, read_manifests(demo_files()[:-1]))
        mirror = await exits.enter_async_context(mirrored(client))
        yield Site(stack, api, client, proxy, buses, mirror, max(_SHORT_SOAK, seconds / 10), patience)
