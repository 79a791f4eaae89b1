"""KServe: predictor pods and Service of every InferenceService, its status, and its engine."""

import asyncio
from typing import final

from aim_local.actors.autoscaling import hpa_name
from aim_local.actors.informer import Informer
from aim_local.actors.kinds import SERVICE
from aim_local.actors.objects import is_going, key_of, labels_of, now_text, uid_of
from aim_local.actors.predictors import (
    is_ready,
    model_name,
    pod_for,
    replicas_wanted,
    service_for,
    status_for,
    surplus,
)
from aim_local.actors.settings import ActorSettings
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from aim_local.engine import Backends
from aim_local.keys import Key
from aim_shared.api import labels
from aim_shared.api.kinds import INFERENCE_SERVICE, POD
from aim_shared.json import JsonObject


@final
class KServe:
    """Acts on each InferenceService when it, one of its pods or its autoscaler changes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        backends: Backends,
        *,
        inference_services: Informer,
        pods: Informer,
        services: Informer,
        autoscalers: Informer,
    ) -> None:
        self._writer = writer
        self._settings = settings
        self._backends = backends
        self._inference_services = inference_services
        self._pods = pods
        self._services = services
        self._autoscalers = autoscalers
        self.workers = Workers("kserve", self._handle)
        inference_services.listen(lambda key, _: self.workers.add(key))
        for children in (pods, autoscalers):
            children.listen(self._on_child)

    def _on_child(self, key: Key, child: JsonObject) -> None:
        name = labels_of(child).get(labels.KSERVE_INFERENCE_SERVICE)
        if name:
            self.workers.add(Key(key.namespace, name))

    async def _handle(self, key: Key) -> None:
        isvc = self._inference_services.get(key)
        if isvc is None or is_going(isvc):
            self._backends.remove(key)
            return
        if not isvc.get("status"):
            await asyncio.sleep(self._settings.delay)
        await self._ensure_service(isvc)
        wanted = replicas_wanted(isvc, self._scaled_to(isvc))
        pods = await self._ensure_pods(isvc, wanted)
        ready = [pod["metadata"]["name"] for pod in pods if is_ready(pod)]
        self._backends.update(key_of(service_for(isvc)), key, model_name(isvc), ready)
        status = status_for(isvc, len(ready), wanted, now_text())
        if status != isvc.get("status"):
            written = await self._writer.status(INFERENCE_SERVICE, isvc, status)
            if written is not None:
                self._inference_services.put(written)

    async def _ensure_service(self, isvc: JsonObject) -> None:
        service = service_for(isvc)
        if self._services.get(key_of(service)) is None:
            created = await self._writer.create(SERVICE, service)
            if created is not None:
                self._services.put(created)

    async def _ensure_pods(self, isvc: JsonObject, count: int) -> list[JsonObject]:
        """Make what is missing, remove what is too much; the pods as they are then."""
        wanted = [pod_for(isvc, index) for index in range(count)]
        for pod in wanted:
            if self._pods.get(key_of(pod)) is None:
                created = await self._writer.create(POD, pod)
                if created is not None:
                    self._pods.put(created)
        present = list(self._pods.group(uid_of(isvc)).values())
        for pod in surplus(present, wanted):
            await self._writer.delete(POD, pod)
        return present

    def _scaled_to(self, isvc: JsonObject) -> int | None:
        name = hpa_name(isvc)
        found = self._autoscalers.get(Key(isvc["metadata"]["namespace"], name)) if name else None
        desired = (found or {}).get("status", {}).get("desiredReplicas")
        return None if desired is None else int(desired)
