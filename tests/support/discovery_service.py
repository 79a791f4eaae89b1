"""The discovery service as it runs, with an API server, a broker and actors, and what tests of it look at."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.cluster import NAMESPACE, path
from support.controlplane import RawApi, Reply
from support.nats import settings_for

from aim_discovery.service import definition
from aim_discovery.settings import DiscoverySettings
from aim_domain import is_job_finished
from aim_domain.parts import (
    CLUSTER_RUNTIME_CONFIGS,
    KAIWO_CONFIGS,
    NAMESPACE_CONFIGS,
    NAMESPACES,
    PROFILE_CACHES,
    RUNTIME_CONFIGS,
    TEMPLATE_CACHES,
)
from aim_local.nats import NatsServer
from aim_local.ports import LOOPBACK
from controller_runtime import FACTS, JsonObject, KubeClient, ServiceDefinition, load_connection
from controller_runtime.kinds import JOB
from controller_runtime.log.broker.connection import connect
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.run import ServiceProcess
from controller_runtime.telemetry.metrics import Metrics
from embedded_apiserver import ControlPlane

OTHERS = ServiceDefinition(
    "others",
    publishes=(
        RUNTIME_CONFIGS,
        CLUSTER_RUNTIME_CONFIGS,
        NAMESPACE_CONFIGS,
        KAIWO_CONFIGS,
        NAMESPACES,
        TEMPLATE_CACHES,
        PROFILE_CACHES,
    ),
    consumes=(FACTS,),
    governs_streams=True,
)
"""What other services publish for discovery."""
GROUP = "aim.eai.amd.com/v1alpha1"
MODELS, TEMPLATES = f"{GROUP}/aimmodels", f"{GROUP}/aimservicetemplates"
CLUSTER_MODELS, CLUSTER_TEMPLATES = f"/apis/{GROUP}/aimclustermodels", f"/apis/{GROUP}/aimclusterservicetemplates"


@dataclass
class Running:
    """The replicas of discovery, in the order of their start, and their metrics."""

    processes: list[ServiceProcess] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)

    async def stop(self, number: int) -> None:
        """End one replica, as SIGTERM does."""
        self.tasks[number].cancel()
        await asyncio.wait((self.tasks[number],))


@asynccontextmanager
async def running_discovery(
    controlplane: ControlPlane, folder: Path, *, replicas: int = 1, **values: object
) -> AsyncIterator[Running]:
    """Discovery, and somebody who publishes what it consumes; its operator namespace is that of the test."""
    kubeconfig = folder / "kubeconfig-discovery"
    kubeconfig.write_text(controlplane.kubeconfig())
    given = {
        "system_namespace": NAMESPACE,
        "health_probe_bind_address": "0",
        "direct_watch": False,
        "registry_allowed_networks": LOOPBACK,
        **values,
    }
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(NatsServer())
        group = await stack.enter_async_context(asyncio.TaskGroup())

        async def process(declared: ServiceDefinition, settings: DiscoverySettings, metrics: Metrics) -> ServiceProcess:
            connection = await load_connection(str(kubeconfig))
            kube = await stack.enter_async_context(KubeClient(connection, service=declared.name))
            bus = await stack.enter_async_context(connect(settings_for(broker.url, settings.pod_name)))
            clients = await stack.enter_async_context(declared.clients(kube))
            return ServiceProcess(ProcessContext.of(declared, settings, clients, bus, metrics=metrics))

        other_settings = DiscoverySettings.model_validate({**given, "pod_name": "others"})
        others = group.create_task((await process(OTHERS, other_settings, Metrics())).run())
        found = Running()
        for number in range(replicas):
            settings = DiscoverySettings.model_validate(
                {**given, "pod_name": f"discovery-{number}", "leader_elect": replicas > 1}
            )
            found.metrics.append(Metrics())
            found.processes.append(await process(definition(settings), settings, found.metrics[-1]))
            found.tasks.append(group.create_task(found.processes[-1].run()))
        try:
            yield found
        finally:
            # Before their connections are closed: a leader gives its Lease back.
            for task in (others, *found.tasks):
                task.cancel()
            await asyncio.wait((others, *found.tasks))


_PUBLISHED = [
    "aimmodels",
    "aimclustermodels",
    "aimservicetemplates",
    "aimclusterservicetemplates",
    "aimprofiles",
    "aimclusterprofiles",
    "aimprofilesets",
    "aimclusterprofilesets",
    "jobs",
    "pods",
    "nodes",
    "configmaps",
]
_PERMITTED: dict[str, set[str]] = {
    **{name: {"get", "list", "watch"} for name in _PUBLISHED},
    **{f"{name}/status": {"get", "patch", "apply"} for name in _PUBLISHED[:8]},
    "events": {"create", "patch", "list"},
    "leases": {"get", "create", "update"},
    "secrets": {"get"},
    "serviceaccounts": {"get"},
    "pods/log": {"get"},
    "namespaces": {"get"},
}
_WRITTEN = {
    "aimservicetemplates": {"create", "patch", "apply"},
    "aimclusterservicetemplates": {"create", "patch", "apply"},
    "jobs": {"create", "delete"},
    "configmaps": {"create", "patch", "apply", "delete"},
    "aimtemplatecaches": {"get", "create"},
    "aimprofiles": {"create", "patch", "apply", "delete"},
    "aimclusterprofiles": {"create", "patch", "apply", "delete"},
    "aimprofilesets": {"create", "patch", "apply"},
    "aimclusterprofilesets": {"create", "patch", "apply"},
    "aimprofilecaches": {"get", "create"},
}
"""The row of discovery in FW-301; a namespace is read once, to know the cluster."""


def forbidden_requests(controlplane: ControlPlane) -> set[str]:
    """What discovery asked of the API server beyond its permissions (FW-301, DI-368)."""
    found = set()
    for entry in controlplane.requests.report()["requests"]:
        resource = "/".join(filter(None, (entry["resource"], entry["subresource"])))
        permitted = _PERMITTED.get(resource, set()) | _WRITTEN.get(resource, set())
        if entry["userAgent"] == "aim-discovery" and entry["verb"] not in permitted:
            found.add(f"{entry['verb']} {resource}")
    return found


@dataclass
class JobCount:
    """How many discovery Jobs ran at the same time, by every version that the API server had."""

    active: set[str] = field(default_factory=set)
    most: int = 0
    created: int = 0

    async def follow(self, kube: KubeClient) -> None:
        """Count until cancelled."""
        page = await kube.list(JOB, NAMESPACE)
        async with kube.watch(JOB, NAMESPACE, resource_version=page.resource_version) as events:
            async for event in events:
                self._note(event.type.value, event.object)

    def _note(self, kind: str, job: JsonObject) -> None:
        uid = job["metadata"].get("uid")
        if uid is None:
            return
        self.created += kind == "ADDED"
        if kind == "DELETED" or is_job_finished(JOB.decode(job)):
            self.active.discard(uid)
        else:
            self.active.add(uid)
        self.most = max(self.most, len(self.active))


@asynccontextmanager
async def counted_jobs(controlplane: ControlPlane, folder: Path) -> AsyncIterator[JobCount]:
    """Count the Jobs of the test's namespace while the block runs."""
    kubeconfig = folder / "kubeconfig-count"
    kubeconfig.write_text(controlplane.kubeconfig())
    count = JobCount()
    async with KubeClient(await load_connection(str(kubeconfig)), service="count") as kube:
        following = asyncio.ensure_future(count.follow(kube))
        try:
            yield count
        finally:
            following.cancel()
            await asyncio.wait((following,))


def body(kind: str, name: str, spec: JsonObject) -> JsonObject:
    """An object of the platform; one of a namespaced kind is in the test's namespace."""
    where = {} if kind.startswith("AIMCluster") else {"namespace": NAMESPACE}
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name, **where}, "spec": spec}


def model(image: str, name: str = "qwen", **spec: Any) -> JsonObject:
    return body("AIMModel", name, {"image": image, **spec})


def template(name: str, model_name: str = "qwen", **spec: Any) -> JsonObject:
    return body("AIMServiceTemplate", name, {"modelName": model_name, **spec})


def has_status(value: str) -> Callable[[Reply], bool]:
    return lambda reply: (reply.body.get("status") or {}).get("status") == value


def condition(obj: JsonObject, type_: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    (found,) = [one for one in obj["status"]["conditions"] if one["type"] == type_]
    return found["status"], found["reason"]


async def all_ready(api: RawApi, names: list[str], seconds: float = 60) -> None:
    """Wait until these templates are Ready."""
    for name in names:
        await api.until(path(TEMPLATES, name), has_status("Ready"), seconds)
