"""The model-sync service as it runs, with an API server and a broker, and what tests of it look at."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from support.controlplane import RawApi, Reply
from support.nats import settings_for

from aim_domain.parts import CLUSTER_MODELS, CLUSTER_RUNTIME_CONFIGS
from aim_local.nats import NatsServer
from aim_local.ports import LOOPBACK
from aim_model_sync.service import definition
from aim_model_sync.settings import ModelSyncSettings
from controller_runtime import FACTS, JsonObject, KubeClient, ServiceDefinition, load_connection
from controller_runtime.log.broker.connection import connect
from controller_runtime.manager.context import ProcessContext
from controller_runtime.manager.run import ServiceProcess
from controller_runtime.telemetry.metrics import Metrics
from embedded_apiserver import ControlPlane

OTHERS = ServiceDefinition(
    "others", publishes=(CLUSTER_MODELS, CLUSTER_RUNTIME_CONFIGS), consumes=(FACTS,), governs_streams=True
)
"""What other services publish for model-sync."""
GROUP = "/apis/aim.eai.amd.com/v1alpha1"
SOURCES, MODELS = f"{GROUP}/aimclustermodelsources", f"{GROUP}/aimclustermodels"
EVENTS = "/api/v1/namespaces/default/events"


@asynccontextmanager
async def running_service(controlplane: ControlPlane, folder: Path, **values: object) -> AsyncIterator[Metrics]:
    """Model-sync, and somebody who publishes what it consumes; yields the metrics of model-sync."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(controlplane.kubeconfig())
    given = {
        "health_probe_bind_address": "0",
        "direct_watch": False,
        "registry_request_timeout": 20.0,
        "registry_allowed_networks": LOOPBACK,
        **values,
    }
    settings = ModelSyncSettings.model_validate(given)
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(NatsServer())
        processes = []
        for declared in (definition(settings), OTHERS):
            connection = await load_connection(str(kubeconfig))
            kube = await stack.enter_async_context(KubeClient(connection, service=declared.name))
            bus = await stack.enter_async_context(connect(settings_for(broker.url, declared.name)))
            own = declared is not OTHERS
            clients = await stack.enter_async_context(declared.clients(kube))
            counted = metrics if own else Metrics()
            context = ProcessContext.of(declared, settings, clients, bus, metrics=counted)
            processes.append(ServiceProcess(context))
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(process.run()) for process in processes]
            yield metrics
            for task in tasks:
                task.cancel()


def source(name: str = "catalog", **spec: Any) -> JsonObject:
    return {
        "apiVersion": "aim.eai.amd.com/v1alpha1",
        "kind": "AIMClusterModelSource",
        "metadata": {"name": name, "labels": {"aim.eai.amd.com/tier": "gold"}},
        "spec": spec,
    }


def is_settled(value: str, generation: int = 1) -> Callable[[Reply], bool]:
    def accept(reply: Reply) -> bool:
        status = reply.body.get("status") or {}
        return (status.get("status"), status.get("observedGeneration")) == (value, generation)

    return accept


async def until(api: RawApi, value: str, name: str = "catalog", generation: int = 1) -> JsonObject:
    reply = await api.until(f"{SOURCES}/{name}", is_settled(value, generation))
    status: JsonObject = reply.body["status"]
    return status


def condition(status: JsonObject, type_: str) -> JsonObject:
    found: JsonObject = next(one for one in status["conditions"] if one["type"] == type_)
    return found


def models_created(reply: Reply) -> bool:
    """The event is the last one of a sync."""
    return any(one["reason"] == "ModelsCreated" for one in reply.body["items"])


async def models(api: RawApi) -> dict[str, JsonObject]:
    return {one["spec"]["image"]: one for one in (await api.get(MODELS)).body["items"]}
