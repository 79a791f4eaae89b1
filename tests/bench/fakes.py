"""The least that can stand for KServe and a gateway: things are ready after a moment, by as few writes as can be.

A predictor of the simulated cluster takes a Deployment, a ReplicaSet, a Pod, a Service and eight statuses. Beside these
fakes, whose predictor is a Pod, the API server does little else than what the platform asks of it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from bench.watcher import has_condition, route_accepted

from aim_domain import labels
from aim_domain.kinds import GATEWAY, HTTP_ROUTE, INFERENCE_SERVICE, NODE, POD
from aim_local.actors.gateways import CONTROLLER, gateway_status
from aim_local.actors.kubelet import running
from aim_local.actors.objects import condition, is_going, now_text
from aim_local.actors.runtime import Informer, Workers, Writer
from controller_runtime import JsonObject, Key, KubeClient
from controller_runtime.kind_names import KindName

PLAYED: Final = "nodes,kubelet,volumes"
"""What else is played beside a real API server with the controllers of Kubernetes."""
_MANAGER: Final = "bench-fakes"
_NODE: Final = "bench-fakes"
"""Where no kubelet is; pods without a node would be deleted."""


@asynccontextmanager
async def fakes(client: KubeClient, delay: float) -> AsyncIterator[None]:
    """Answer while the context is open, each time after so many seconds."""
    writer = Writer(client, _MANAGER)
    await writer.apply(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": _NODE}})
    parts = [_Fake(writer, kind, delay) for kind in (GATEWAY, INFERENCE_SERVICE, HTTP_ROUTE)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run()) for one in parts for run in (one.informer.run, one.workers.run)]
        for one in parts:
            await one.informer.synced.wait()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


class _Fake:
    """Gives each object of a kind the status of one that is ready, once."""

    def __init__(self, writer: Writer, kind: KindName, delay: float) -> None:
        self._writer = writer
        self._kind = kind
        self._delay = delay
        self.informer = Informer(writer.client, kind)
        self.workers = Workers(f"fake {kind.kind}", self._answer)
        self.informer.listen(lambda key, _: self.workers.add(key))

    async def _answer(self, key: Key) -> None:
        obj = self.informer.get(key)
        if obj is None or is_going(obj) or _is_ready(self._kind, obj):
            return
        await asyncio.sleep(self._delay)
        if self._kind == INFERENCE_SERVICE:
            await _run_predictor(self._writer, obj)
        self.informer.put_if(await self._writer.status(self._kind, obj, _status(self._kind, obj)))


async def _run_predictor(writer: Writer, isvc: JsonObject) -> None:
    """A pod that is ready, as far as the platform looks at it."""
    key = Key.of(isvc)
    owner = {
        "apiVersion": isvc["apiVersion"],
        "kind": isvc["kind"],
        "name": key.name,
        "uid": isvc["metadata"]["uid"],
    }
    metadata = {
        "name": f"{key.name}-predictor",
        "namespace": key.namespace,
        "labels": {labels.KSERVE_INFERENCE_SERVICE: key.name},
        "ownerReferences": [owner],
    }
    image = isvc["spec"]["predictor"]["containers"][0]["image"]
    spec = {"nodeName": _NODE, "containers": [{"name": "kserve-container", "image": image}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    made = await writer.create(POD, pod)
    if made is not None:
        await writer.status(POD, made, running(made, now_text(), ready=True))


def _is_ready(kind: KindName, obj: JsonObject) -> bool:
    if kind == HTTP_ROUTE:
        return route_accepted(obj)
    return has_condition("Programmed" if kind == GATEWAY else "Ready")(obj)


def _status(kind: KindName, obj: JsonObject) -> JsonObject:
    if kind == GATEWAY:
        return gateway_status(obj, now_text())
    made = partial(_dated, obj["metadata"].get("generation", 1), now_text())
    if kind == HTTP_ROUTE:
        said = [made("Accepted"), made("ResolvedRefs")]
        parents = obj["spec"].get("parentRefs") or ()
        return {"parents": [{"parentRef": one, "controllerName": CONTROLLER, "conditions": said} for one in parents]}
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    loaded = {"activeModelState": "Loaded", "targetModelState": "Loaded"}
    return {
        "observedGeneration": obj["metadata"].get("generation", 1),
        "conditions": [_plain(made(one)) for one in ("IngressReady", "PredictorReady", "Ready")],
        "url": f"http://{name}-{namespace}.example.com",
        "deploymentMode": "Standard",
        "modelStatus": {
            "copies": {"failedCopies": 0, "totalCopies": 1},
            "states": loaded,
            "transitionStatus": "UpToDate",
        },
    }


def _dated(generation: int, now: str, kind: str) -> JsonObject:
    return {**condition(kind, True, kind, "as asked"), "observedGeneration": generation, "lastTransitionTime": now}


def _plain(one: JsonObject) -> JsonObject:
    """Conditions of KServe name no generation."""
    return {name: value for name, value in one.items() if name != "observedGeneration"}
