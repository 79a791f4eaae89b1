"""All actors together, over one client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, final

from aim_local.actors.autoscaling import Autoscaling
from aim_local.actors.container_logs import ContainerLogs
from aim_local.actors.gateways import Gateways
from aim_local.actors.informer import Informer
from aim_local.actors.jobs import Jobs
from aim_local.actors.kinds import GATEWAY, SERVICE
from aim_local.actors.kserve import KServe
from aim_local.actors.kubelet import Kubelet
from aim_local.actors.kubelet_server import kubelet_server
from aim_local.actors.nodes import register_node
from aim_local.actors.objects import controller_uid
from aim_local.actors.pod_run import NodeContext
from aim_local.actors.settings import ActorSettings
from aim_local.actors.volumes import Volumes, register_storage_class
from aim_local.actors.writer import Writer
from aim_local.engine import Backends
from aim_shared.api import kinds
from aim_shared.kube.client import KubeClient

_MANAGERS: Final = ("kubelet", "job-controller", "volume-binder", "kserve", "autoscaler", "gateway-controller")


@final
class SimulatedCluster:
    """Everything of a cluster but its API server.

    Use `running` as a context: on entry the node is registered and all watches stand, on exit all that the actors
    started (downloads included) has ended.
    """

    def __init__(self, client: KubeClient, settings: ActorSettings, backends: Backends | None = None) -> None:
        """``backends`` learns which predictors are ready to answer."""
        self._settings = settings
        self._logs = ContainerLogs()
        kubelet, job, volume, kserve, autoscaler, gateway = (Writer(client, name) for name in _MANAGERS)
        self._writer = kubelet
        pods = Informer(client, kinds.POD, group_by=controller_uid)
        namespaces = Informer(client, kinds.NAMESPACE)
        jobs = Informer(client, kinds.JOB)
        claims = Informer(client, kinds.PERSISTENT_VOLUME_CLAIM)
        inference_services = Informer(client, kinds.INFERENCE_SERVICE)
        services = Informer(client, SERVICE)
        autoscalers = Informer(client, kinds.HORIZONTAL_POD_AUTOSCALER)
        gateways = Informer(client, GATEWAY)
        routes = Informer(client, kinds.HTTP_ROUTE)
        self._informers = (
            pods, namespaces, jobs, claims, inference_services, services, autoscalers, gateways, routes,
        )  # fmt: skip
        self._kubelet = Kubelet(NodeContext(kubelet, settings, pods, namespaces, self._logs))
        controllers = Gateways(gateway, settings, gateways=gateways, routes=routes, services=services)
        self._workers = (
            Jobs(job, settings, jobs, pods).workers,
            Volumes(volume, settings, claims).workers,
            KServe(
                kserve,
                settings,
                backends or Backends(),
                inference_services=inference_services,
                pods=pods,
                services=services,
                autoscalers=autoscalers,
            ).workers,
            Autoscaling(autoscaler, settings, inference_services, autoscalers).workers,
            controllers.gateway_workers,
            controllers.route_workers,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Play the cluster while the context is open.

        Raises:
            KubeError: the API server can't be reached at the start.
        """
        async with kubelet_server(self._logs) as port:
            await register_node(self._writer, self._settings, port)
            await register_storage_class(self._writer)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one.run()) for one in self._informers]
                for informer in self._informers:
                    await informer.synced.wait()
                # Only now: an actor that has not seen the pods yet would take them for missing.
                tasks += [group.create_task(one.run()) for one in (self._kubelet, *self._workers)]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
