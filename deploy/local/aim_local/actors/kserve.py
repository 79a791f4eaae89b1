"""KServe: Deployment, Service and autoscaler of every InferenceService, and its status."""

import asyncio
from typing import Final, NamedTuple, final

from aim_domain import labels
from aim_domain.kinds import INFERENCE_SERVICE
from aim_domain.naming import predictor_name
from aim_local.actors.informer import Informer
from aim_local.actors.kinds import COLLECTOR, DEPLOYMENT, SCALED_OBJECT, SERVICE
from aim_local.actors.kserve_objects import autoscaler_for, collector_for, deployment_for, loses_hpa, service_for
from aim_local.actors.kserve_status import status_for
from aim_local.actors.objects import (
    annotations_of,
    controller_name,
    controller_uid,
    is_going,
    is_ready,
    labels_of,
    now_text,
    short_hash,
    uid_of,
)
from aim_local.actors.pod_groups import predictor_group
from aim_local.actors.settings import ActorSettings
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from controller_runtime import ApiError, JsonObject, Key
from controller_runtime.kinds import HORIZONTAL_POD_AUTOSCALER
from controller_runtime.kube.kinds import ResourceKind

FINALIZER: Final = "inferenceservice.finalizers"
_INVALID: Final = 422


class _Child(NamedTuple):
    kind: ResourceKind
    key: Key
    obj: JsonObject
    digest: str


def _children_of(isvc: JsonObject, replicas: int | None) -> tuple[_Child, ...]:
    wished: list[tuple[ResourceKind, JsonObject]] = [
        (DEPLOYMENT, deployment_for(isvc, replicas)),
        (SERVICE, service_for(isvc)),
    ]
    autoscaler = autoscaler_for(isvc)
    if autoscaler is not None:
        keda = autoscaler["kind"] == SCALED_OBJECT.kind
        wished.append((SCALED_OBJECT if keda else HORIZONTAL_POD_AUTOSCALER, autoscaler))
    collector = collector_for(isvc)
    if collector is not None:
        # Before the Deployment: the webhook looks it up when a pod is created.
        wished.insert(0, (COLLECTOR, collector))
    return tuple(_Child(kind, Key.of(obj), obj, short_hash(obj)) for kind, obj in wished)


@final
class KServe:
    """Acts on each InferenceService when it or one of its children changes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        *,
        inference_services: Informer,
        deployments: Informer,
        services: Informer,
        autoscalers: Informer,
        scaled_objects: Informer,
        collectors: Informer,
        pods: Informer,
    ) -> None:
        """``pods`` are grouped with `pod_groups`."""
        self._writer = writer
        self._settings = settings
        self._inference_services = inference_services
        self._held: dict[ResourceKind, Informer] = {
            DEPLOYMENT: deployments,
            SERVICE: services,
            HORIZONTAL_POD_AUTOSCALER: autoscalers,
            SCALED_OBJECT: scaled_objects,
            COLLECTOR: collectors,
        }
        self._pods = pods
        self._applied: dict[tuple[str, Key], tuple[str, object]] = {}
        self._wishes: dict[Key, tuple[tuple[object, ...], tuple[_Child, ...]]] = {}
        self.workers = Workers("kserve", self._handle)
        inference_services.listen(lambda key, _: self.workers.add(key))
        for children in self._held.values():
            children.listen(self._on_child)
        pods.listen(self._on_pod)

    def _on_child(self, key: Key, child: JsonObject) -> None:
        name = labels_of(child).get(labels.KSERVE_INFERENCE_SERVICE) or controller_name(child, INFERENCE_SERVICE.kind)
        if name:
            self.workers.add(Key(key.namespace, name))

    def _on_pod(self, key: Key, pod: JsonObject) -> None:
        # Of pods that serve the Deployment tells in a moment, and one write does for both.
        if not is_ready(pod):
            self._on_child(key, pod)

    async def _handle(self, key: Key) -> None:
        isvc = self._inference_services.get(key)
        if isvc is None:
            self._forget(key)
            return
        if is_going(isvc):
            await self._finalize(isvc, [])
            return
        if FINALIZER not in (isvc["metadata"].get("finalizers") or ()):
            await asyncio.sleep(self._settings.delay)
            await self._finalize(isvc, [FINALIZER])
        try:
            if not await self._ensure_children(isvc):
                return
        except ApiError as error:
            if error.code != _INVALID:
                raise
            why = f"fails to reconcile predictor: {error.message}"
            await self._writer.event(INFERENCE_SERVICE, isvc, "InternalError", why, warning=True)
            return
        await self._report(self._inference_services.get(key) or isvc)

    async def _report(self, isvc: JsonObject) -> None:
        key = Key.of(isvc)
        deployment = self._held[DEPLOYMENT].get(Key(key.namespace, predictor_name(key.name)))
        pods = list(self._pods.group(predictor_group(key)).values())
        if not isvc.get("status") and not (deployment or {}).get("status"):
            # The Deployment's first word comes in a moment, and one write does for both.
            return
        status = status_for(isvc, deployment, pods, now_text())
        if status != isvc.get("status"):
            self._inference_services.put_if(await self._writer.status(INFERENCE_SERVICE, isvc, status))

    async def _ensure_children(self, isvc: JsonObject) -> bool:
        """Bring the children in order; False while one of the same name belongs to a predecessor."""
        name = Key(isvc["metadata"]["namespace"], predictor_name(isvc["metadata"]["name"]))
        deployment = self._held[DEPLOYMENT].get(name)
        wanted = self._children(isvc, deployment["spec"].get("replicas") if deployment else None)
        hpa = self._held[HORIZONTAL_POD_AUTOSCALER].get(name)
        if hpa is not None and loses_hpa(isvc) and controller_uid(hpa) == uid_of(isvc):
            await self._writer.delete(HORIZONTAL_POD_AUTOSCALER, hpa)
        return all([await self._ensure(isvc, child) for child in wanted])

    def _children(self, isvc: JsonObject, replicas: int | None) -> tuple[_Child, ...]:
        """The wished children, made anew when what they are made of changes: most looks come for a status."""
        metadata, key = isvc["metadata"], Key.of(isvc)
        source = (metadata["uid"], metadata.get("generation"), labels_of(isvc), annotations_of(isvc), replicas)
        known = self._wishes.get(key)
        if known is None or known[0] != source:
            known = self._wishes[key] = (source, _children_of(isvc, replicas))
        return known[1]

    async def _ensure(self, isvc: JsonObject, child: _Child) -> bool:
        """Apply what changed: our wish since the last time, or somebody else the object."""
        held = self._held[child.kind].get(child.key)
        if held is not None and controller_uid(held) != uid_of(isvc):
            return False
        wish = (child.digest, held["metadata"].get("generation") if held else None)
        if held is not None and self._applied.get((child.kind.kind, child.key)) == wish:
            return True
        applied = await self._writer.apply(child.kind, child.obj)
        self._held[child.kind].put(applied)
        self._applied[child.kind.kind, child.key] = (child.digest, applied["metadata"].get("generation"))
        return True

    async def _finalize(self, isvc: JsonObject, finalizers: list[str]) -> None:
        others = [one for one in isvc["metadata"].get("finalizers") or () if one != FINALIZER]
        if [*others, *finalizers] != (isvc["metadata"].get("finalizers") or []):
            change = {"metadata": {"finalizers": [*others, *finalizers]}}
            self._inference_services.put_if(await self._writer.patch(INFERENCE_SERVICE, isvc, change))

    def _forget(self, key: Key) -> None:
        self._wishes.pop(key, None)
        child = Key(key.namespace, predictor_name(key.name))
        for kind in self._held:
            self._applied.pop((kind.kind, child), None)
