"""The chosen actors together, over one client."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Final, Protocol, final

from aim_domain import kinds
from aim_local.actors.actor_set import Actor
from aim_local.actors.binder import Binder
from aim_local.actors.container_logs import ContainerLogs
from aim_local.actors.deployments import Deployments
from aim_local.actors.gateways import Gateways
from aim_local.actors.hpa import HorizontalPodAutoscalers, by_target
from aim_local.actors.informer import Grouping, Informer
from aim_local.actors.jobs import Jobs
from aim_local.actors.keda import Keda
from aim_local.actors.kinds import (
    COLLECTOR,
    DEPLOYMENT,
    PERSISTENT_VOLUME,
    REPLICA_SET,
    SCALED_OBJECT,
    SERVICE,
    STORAGE_CLASS,
)
from aim_local.actors.kserve import KServe
from aim_local.actors.kubelet import Kubelet
from aim_local.actors.kubelet_server import kubelet_server
from aim_local.actors.nodes import register_nodes, renew_leases
from aim_local.actors.objects import by_controller
from aim_local.actors.pod_groups import pod_groups
from aim_local.actors.pod_run import NodeContext
from aim_local.actors.scheduler import Scheduler
from aim_local.actors.serving_pods import ServingPods
from aim_local.actors.settings import ActorSettings
from aim_local.actors.storage import by_claim
from aim_local.actors.volumes import Volumes, register_storage_classes
from aim_local.actors.wanted_failures import WantedFailures
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from aim_local.engine import Backends
from controller_runtime import ApiError, KubeClient
from controller_runtime.kube.kinds import ResourceKind

_MANAGERS: Final = {
    Actor.NODES: "kubelet",
    Actor.KUBELET: "kubelet",
    Actor.SCHEDULER: "default-scheduler",
    Actor.VOLUMES: "local.aim/folder",
    Actor.BINDER: "persistentvolume-controller",
    Actor.JOBS: "job-controller",
    Actor.DEPLOYMENTS: "deployment-controller",
    Actor.KSERVE: "kserve-controller",
    Actor.KEDA: "keda-operator",
    Actor.HPA: "horizontal-pod-autoscaler",
    Actor.GATEWAY: "gateway-controller",
}
"""Field managers and Event sources, as the real components call themselves."""
_GROUPINGS: Final[dict[ResourceKind, Grouping]] = {
    kinds.POD: pod_groups,
    REPLICA_SET: by_controller,
    PERSISTENT_VOLUME: by_claim,
    kinds.HORIZONTAL_POD_AUTOSCALER: by_target,
}


class _Runs(Protocol):
    def run(self) -> Awaitable[None]: ...


@final
class SimulatedCluster:
    """The parts of a cluster that `ActorSettings.actors` names.

    Use `running` as a context: on entry nodes and storage classes are registered and all watches stand, on exit
    all that the actors started (downloads included) has ended.
    """

    def __init__(self, client: KubeClient, settings: ActorSettings, backends: Backends | None = None) -> None:
        """``backends`` learns which predictors are ready to answer."""
        self._client = client
        self._settings = settings
        self._logs = ContainerLogs()
        self._informers: dict[ResourceKind, Informer] = {}
        # Jobs and InferenceServices are looked at for failures of their pods, whoever plays their controllers.
        owners = {kind.kind: self._informer(kind) for kind in (kinds.JOB, kinds.INFERENCE_SERVICE)}
        pods = self._informer(kinds.POD)
        others = [pods]
        if Actor.VOLUMES in settings.actors:
            others.append(self._informer(kinds.PERSISTENT_VOLUME_CLAIM))
        if Actor.GATEWAY in settings.actors:
            others += [self._informer(kinds.GATEWAY), self._informer(kinds.HTTP_ROUTE)]
        self.failures = WantedFailures(self._informer(kinds.NAMESPACE), owners, others)
        ServingPods(backends or Backends(), pods)
        self._actors = [actor for part in Actor if part in settings.actors for actor in self._make(part)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Play the cluster while the context is open.

        Raises:
            KubeError: the API server can't be reached at the start.
        """
        async with kubelet_server(self._logs, self._settings.kubelet_port) as port:
            if Actor.NODES in self._settings.actors:
                await register_nodes(self._writer(Actor.NODES), self._settings, port)
            if Actor.VOLUMES in self._settings.actors:
                await register_storage_classes(self._writer(Actor.VOLUMES))
            served = [one for kind, one in self._informers.items() if await self._is_served(kind)]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_run(one)) for one in served]
                for informer in served:
                    await informer.synced.wait()
                # Only now: an actor that has not seen the pods yet would take them for missing.
                tasks += [group.create_task(_run(one)) for one in self._actors]
                if Actor.NODES in self._settings.actors:
                    leases = renew_leases(self._writer(Actor.NODES), self._settings)
                    tasks.append(group.create_task(leases))
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()

    async def _is_served(self, kind: ResourceKind) -> bool:
        """A cluster without KServe, KEDA or a Gateway API has nothing of theirs to watch."""
        try:
            await self._client.list(kind, limit=1)
        except ApiError as error:
            if error.is_not_found:
                return False
            raise
        return True

    def _informer(self, kind: ResourceKind) -> Informer:
        found = self._informers.get(kind)
        if found is None:
            found = self._informers[kind] = Informer(self._client, kind, group_by=_GROUPINGS.get(kind))
        return found

    def _writer(self, part: Actor) -> Writer:
        return Writer(self._client, _MANAGERS[part])

    def _make(self, part: Actor) -> tuple[_Runs, ...]:
        writer, settings, failures, informer = self._writer(part), self._settings, self.failures, self._informer
        match part:
            case Actor.NODES:
                return ()
            case Actor.KUBELET:
                return (Kubelet(NodeContext(writer, settings, informer(kinds.POD), failures, self._logs)),)
            case Actor.SCHEDULER:
                scheduler = Scheduler(
                    writer, settings, failures,
                    pods=informer(kinds.POD),
                    claims=informer(kinds.PERSISTENT_VOLUME_CLAIM),
                    storage_classes=informer(STORAGE_CLASS),
                )  # fmt: skip
                return (scheduler.workers,)
            case Actor.VOLUMES:
                volumes = Volumes(
                    writer, settings, failures,
                    claims=informer(kinds.PERSISTENT_VOLUME_CLAIM),
                    volumes=informer(PERSISTENT_VOLUME),
                    classes=informer(STORAGE_CLASS),
                )  # fmt: skip
                return (volumes.workers,)
            case Actor.BINDER:
                binder = Binder(
                    writer,
                    claims=informer(kinds.PERSISTENT_VOLUME_CLAIM),
                    volumes=informer(PERSISTENT_VOLUME),
                    classes=informer(STORAGE_CLASS),
                )
                return (binder.workers,)
            case _:
                return self._make_controller(part)

    def _make_controller(self, part: Actor) -> tuple[Workers, ...]:
        writer, settings, failures, informer = self._writer(part), self._settings, self.failures, self._informer
        if part is Actor.JOBS:
            return (Jobs(writer, settings, informer(kinds.JOB), informer(kinds.POD)).workers,)
        if part is Actor.DEPLOYMENTS:
            deployments = Deployments(
                writer,
                deployments=informer(DEPLOYMENT),
                replica_sets=informer(REPLICA_SET),
                pods=informer(kinds.POD),
            )
            return (deployments.deployment_workers, deployments.replica_set_workers)
        if part is Actor.KSERVE:
            kserve = KServe(
                writer,
                settings,
                inference_services=informer(kinds.INFERENCE_SERVICE),
                deployments=informer(DEPLOYMENT),
                services=informer(SERVICE),
                autoscalers=informer(kinds.HORIZONTAL_POD_AUTOSCALER),
                scaled_objects=informer(SCALED_OBJECT),
                collectors=informer(COLLECTOR),
                pods=informer(kinds.POD),
            )
            return (kserve.workers,)
        if part is Actor.KEDA:
            keda = Keda(
                writer,
                settings,
                scaled_objects=informer(SCALED_OBJECT),
                deployments=informer(DEPLOYMENT),
                autoscalers=informer(kinds.HORIZONTAL_POD_AUTOSCALER),
                inference_services=informer(kinds.INFERENCE_SERVICE),
            )
            return (keda.workers,)
        if part is Actor.HPA:
            autoscalers = HorizontalPodAutoscalers(
                writer, settings, failures,
                autoscalers=informer(kinds.HORIZONTAL_POD_AUTOSCALER),
                deployments=informer(DEPLOYMENT),
                inference_services=informer(kinds.INFERENCE_SERVICE),
            )  # fmt: skip
            return (autoscalers.workers,)
        gateways = Gateways(
            writer, settings, failures,
            gateways=informer(kinds.GATEWAY),
            routes=informer(kinds.HTTP_ROUTE),
            services=informer(SERVICE),
        )  # fmt: skip
        return (gateways.gateway_workers, gateways.route_workers)


async def _run(one: _Runs) -> None:
    await one.run()
