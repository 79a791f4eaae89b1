"""The chosen actors together, over one client."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol, final

import trustme
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from aim_domain import kinds, labels
from aim_domain.naming import predictor_name
from aim_local.actors.deployments import Deployments
from aim_local.actors.failures import WantedFailures
from aim_local.actors.gateways import Gateways
from aim_local.actors.hpa import HorizontalPodAutoscalers, by_target
from aim_local.actors.job_decision import next_step, pod_for
from aim_local.actors.keda import Keda
from aim_local.actors.kserve import SERVING_CONTAINER, KServe, model_name
from aim_local.actors.kubelet import Kubelet, NodeContext
from aim_local.actors.objects import (
    COLLECTOR,
    PERSISTENT_VOLUME,
    REPLICA_SET,
    SCALED_OBJECT,
    SERVICE,
    STORAGE_CLASS,
    annotations_of,
    by_controller,
    is_going,
    is_ready,
    labels_of,
    pod_groups,
    predictor_group,
    uid_of,
)
from aim_local.actors.programs import ContainerKey, ContainerLogs, WantedLines, claim_folder
from aim_local.actors.runtime import Grouping, Informer, Workers, Writer
from aim_local.actors.scheduler import Scheduler, register_nodes, renew_leases
from aim_local.actors.settings import Actor, ActorSettings
from aim_local.actors.volumes import (
    SELECTED_NODE,
    Volumes,
    bound_claim,
    by_claim,
    claim_uid,
    is_bound,
    modes,
    register_storage_classes,
    waits_for_consumer,
)
from aim_local.engine import Backends, EnginePod
from aim_local.engine.program import ADAPTERS, max_rank_of
from controller_runtime import ApiError, JsonObject, Key, KubeClient
from controller_runtime.kind_names import DEPLOYMENT, KindName
from controller_runtime.kinds import JOB, PERSISTENT_VOLUME_CLAIM, POD
from embedded_apiserver.serving import serving


@asynccontextmanager
async def kubelet_server(logs: ContainerLogs, port: int = 0) -> AsyncIterator[int]:
    """Serve the logs; yields the port, a free one unless given."""
    application = Starlette(routes=[Route("/containerLogs/{namespace}/{pod}/{container}", _Handler(logs).get)])
    async with serving(application, port, tls=await asyncio.to_thread(_tls)) as bound:
        yield bound


class _Handler:
    def __init__(self, logs: ContainerLogs) -> None:
        self._logs = logs

    async def get(self, request: Request) -> Response:
        """GET of a log."""
        names, query = request.path_params, request.query_params
        key = ContainerKey(names["namespace"], names["pod"], names["container"])
        previous = query.get("previous") == "true"
        log = self._logs.find(key, previous=previous)
        if log is None:
            return PlainTextResponse(_why_missing(key, previous=previous), 400)
        wanted = WantedLines(_number(query.get("tailLines")), _since(query), query.get("timestamps") == "true")
        if query.get("follow") == "true":
            return StreamingResponse(log.follow(wanted), media_type="text/plain")
        return PlainTextResponse(log.read(wanted, _number(query.get("limitBytes"))))


def _why_missing(key: ContainerKey, *, previous: bool) -> str:
    if previous:
        return f'previous terminated container "{key.container}" in pod "{key.pod}" not found'
    return f'container "{key.container}" in pod "{key.pod}" is waiting to start: ContainerCreating'


def _since(query: QueryParams) -> datetime | None:
    if (seconds := _number(query.get("sinceSeconds"))) is not None:
        return datetime.now(UTC) - timedelta(seconds=seconds)
    return datetime.fromisoformat(query["sinceTime"]) if query.get("sinceTime") else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1", "localhost").configure_cert(context)
    return context


@final
class Jobs:
    """Acts on each Job when it or one of its pods changes; ``pods`` are grouped by controller."""

    def __init__(self, writer: Writer, settings: ActorSettings, jobs: Informer, pods: Informer) -> None:
        self._writer = writer
        self._settings = settings
        self._jobs = jobs
        self._pods = pods
        self.workers = Workers("jobs", self._handle)
        jobs.listen(lambda key, _: self.workers.add(key))
        pods.listen(self._on_pod)

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        for owner in pod["metadata"].get("ownerReferences") or ():
            if owner.get("controller") and owner["kind"] == JOB.kind:
                self.workers.add(Key(key.namespace, owner["name"]))

    async def _handle(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None or is_going(job):
            return None
        pods = list(self._pods.group(uid_of(job)).values())
        step = next_step(job, pods, datetime.now(UTC), self._settings.retry_delay)
        if step.expired:
            await self._writer.delete(JOB, job)
            return None
        if step.create is not None:
            await self._create(job, step.create)
        for pod in step.stop_pods:
            await self._writer.delete(POD, pod)
        if step.status is not None:
            written = await self._writer.status(JOB, job, step.status)
            if written is not None:
                self._jobs.put(written)
        return step.again

    async def _create(self, job: JsonObject, attempt: int) -> None:
        pod = pod_for(job, attempt)
        if self._pods.get(Key.of(pod)) is not None:
            return
        created = await self._writer.create(POD, pod)
        if created is not None:
            self._pods.put(created)


_WAITING: Final = "waiting for first consumer to be created before binding"


@final
class Binder:
    """Acts on each claim when it or its volume changes."""

    def __init__(self, writer: Writer, *, claims: Informer, volumes: Informer, classes: Informer) -> None:
        """``volumes`` are grouped with `by_claim`."""
        self._writer = writer
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self.workers = Workers("binder", self._handle)
        claims.listen(lambda key, _: self.workers.add(key))
        volumes.listen(self._on_volume)

    def _on_volume(self, _: Key, volume: JsonObject) -> None:
        claim = volume["spec"].get("claimRef")
        if claim:
            self.workers.add(Key(claim["namespace"], claim["name"]))

    async def _handle(self, key: Key) -> None:
        claim = self._claims.get(key)
        if claim is None or is_going(claim) or is_bound(claim):
            return
        uid = uid_of(claim)
        volume = next((one for one in self._volumes.group(str(key)).values() if claim_uid(one) == uid), None)
        if volume is not None:
            await self._bind(claim, volume)
        elif waits_for_consumer(claim, self._classes) and SELECTED_NODE not in annotations_of(claim):
            await self._writer.event(PERSISTENT_VOLUME_CLAIM, claim, "WaitForFirstConsumer", _WAITING, warning=False)
        elif (name := claim["spec"].get("storageClassName")) and self._classes.get(Key("", name)) is None:
            message = f'storageclass.storage.k8s.io "{name}" not found'
            await self._writer.event(PERSISTENT_VOLUME_CLAIM, claim, "ProvisioningFailed", message, warning=True)

    async def _bind(self, claim: JsonObject, volume: JsonObject) -> None:
        await self._writer.status(PERSISTENT_VOLUME, volume, {"phase": "Bound"})
        claim = await self._writer.apply(PERSISTENT_VOLUME_CLAIM, bound_claim(claim, volume))
        status = {"phase": "Bound", "accessModes": modes(claim), "capacity": volume["spec"]["capacity"]}
        self._claims.put_if(await self._writer.status(PERSISTENT_VOLUME_CLAIM, claim, status))


def engine_pod(pod: JsonObject, name: str, settings: ActorSettings) -> EnginePod:
    """What the engine in a ready pod is, by its container's variables and mounts."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    restarts = sum(one.get("restartCount", 0) for one in status.get("containerStatuses") or () if one["name"] == name)
    container = next(one for one in pod["spec"]["containers"] if one["name"] == name)
    env = {one["name"]: one.get("value", "") for one in container.get("env") or ()}
    mounted = next((one["name"] for one in container.get("volumeMounts") or () if one["mountPath"] == ADAPTERS), "")
    claims = {one["name"]: one.get("persistentVolumeClaim") for one in pod["spec"].get("volumes") or ()}
    claim = claims.get(mounted)
    return EnginePod(
        metadata["name"],
        status.get("podIP", ""),
        f"{metadata['uid']}/{restarts}",
        claim_folder(settings, Key(metadata["namespace"], claim["claimName"])) if claim else None,
        max_rank_of(env),
    )


@final
class ServingPods:
    """Keeps the backends right as pods come, get ready and go; ``pods`` are grouped with `pod_groups`."""

    def __init__(self, backends: Backends, pods: Informer, settings: ActorSettings) -> None:
        self._backends = backends
        self._settings = settings
        self._pods = pods
        pods.listen(self._on_pod)

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        name = labels_of(pod).get(labels.KSERVE_INFERENCE_SERVICE)
        if not name:
            return
        service = Key(key.namespace, name)
        pods = list(self._pods.group(predictor_group(service)).values())
        if not pods:
            self._backends.remove(service)
            return
        containers = pods[-1]["spec"]["containers"]
        own = next((one for one in containers if one["name"] == SERVING_CONTAINER), containers[0])
        ready = [engine_pod(one, own["name"], self._settings) for one in pods if is_ready(one)]
        self._backends.update(Key(key.namespace, predictor_name(name)), service, model_name(own, name), ready)


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
_GROUPINGS: Final[dict[KindName, Grouping]] = {
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
        self._informers: dict[KindName, Informer] = {}
        # Jobs and InferenceServices are read for failures of their pods, regardless of who plays their controllers.
        owners = {kind.kind: self._informer(kind) for kind in (kinds.JOB, kinds.INFERENCE_SERVICE)}
        pods = self._informer(kinds.POD)
        others = [pods]
        if Actor.VOLUMES in settings.actors:
            others.append(self._informer(kinds.PERSISTENT_VOLUME_CLAIM))
        if Actor.GATEWAY in settings.actors:
            others += [self._informer(kinds.GATEWAY), self._informer(kinds.HTTP_ROUTE)]
        self.failures = WantedFailures(self._informer(kinds.NAMESPACE), owners, others)
        ServingPods(backends or Backends(), pods, settings)
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

    async def _is_served(self, kind: KindName) -> bool:
        """A cluster without KServe, KEDA or a Gateway API has nothing of theirs to watch."""
        try:
            await self._client.list(kind, limit=1)
        except ApiError as error:
            if error.is_not_found:
                return False
            raise
        return True

    def _informer(self, kind: KindName) -> Informer:
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
