"""KEDA: a HorizontalPodAutoscaler per ScaledObject, and the last replica of its target."""

import asyncio
from typing import Final, final

from aim_domain import labels
from aim_domain.naming import predictor_name
from aim_local.actors.asked_replicas import asked_replicas
from aim_local.actors.informer import Informer
from aim_local.actors.keda_objects import NAME_LABEL, hpa_for, hpa_name, replicas_for, scaling_event, status_for
from aim_local.actors.kinds import DEPLOYMENT, SCALED_OBJECT
from aim_local.actors.objects import is_going, labels_of
from aim_local.actors.settings import ActorSettings
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from controller_runtime import JsonObject, Key
from controller_runtime.kinds import HORIZONTAL_POD_AUTOSCALER

FINALIZER: Final = "finalizer.keda.sh"


@final
class Keda:
    """Acts on each ScaledObject when it, its target, its autoscaler or its InferenceService changes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        *,
        scaled_objects: Informer,
        deployments: Informer,
        autoscalers: Informer,
        inference_services: Informer,
    ) -> None:
        self._writer = writer
        self._settings = settings
        self._scaled_objects = scaled_objects
        self._deployments = deployments
        self._autoscalers = autoscalers
        self._inference_services = inference_services
        self.workers = Workers("keda", self._handle)
        scaled_objects.listen(lambda key, _: self.workers.add(key))
        # KServe gives the ScaledObject the name of its target.
        deployments.listen(lambda key, _: self._on_target(key))
        autoscalers.listen(self._on_autoscaler)
        inference_services.listen(lambda key, _: self._on_target(Key(key.namespace, predictor_name(key.name))))

    def _on_target(self, key: Key) -> None:
        if self._scaled_objects.get(key) is not None:
            self.workers.add(key)

    def _on_autoscaler(self, key: Key, autoscaler: JsonObject) -> None:
        name = labels_of(autoscaler).get(NAME_LABEL)
        if name:
            self.workers.add(Key(key.namespace, name))

    async def _handle(self, key: Key) -> None:
        scaled = self._scaled_objects.get(key)
        if scaled is None:
            return
        if is_going(scaled):
            await self._identify(scaled, [])
            return
        scaled = await self._identify(scaled, [FINALIZER])
        target = self._deployments.get(Key(key.namespace, scaled["spec"]["scaleTargetRef"]["name"]))
        held = self._autoscalers.get(Key(key.namespace, hpa_name(scaled)))
        isvc = self._inference_services.get(
            Key(key.namespace, labels_of(scaled).get(labels.KSERVE_INFERENCE_SERVICE, ""))
        )
        active = asked_replicas(held, isvc) > 0
        if target is not None:
            held = await self._ensure(scaled, held)
            await self._scale(scaled, target, active=active)
        status = status_for(scaled, target, held, active=active)
        if status != scaled.get("status"):
            self._scaled_objects.put_if(await self._writer.status(SCALED_OBJECT, scaled, status))

    async def _ensure(self, scaled: JsonObject, held: JsonObject | None) -> JsonObject:
        wanted = hpa_for(scaled)
        if held is None:
            await asyncio.sleep(self._settings.delay)
        elif _covers(wanted, held):
            return held
        applied = await self._writer.apply(HORIZONTAL_POD_AUTOSCALER, wanted)
        self._autoscalers.put(applied)
        return applied

    async def _scale(self, scaled: JsonObject, target: JsonObject, *, active: bool) -> None:
        """Take the last replica or bring the first; at once, for here is no cooldown."""
        present = target["spec"].get("replicas", 1)
        wanted = replicas_for(scaled, present, active=active)
        if wanted != present:
            change = {"spec": {"replicas": wanted}}
            self._deployments.put_if(await self._writer.patch(DEPLOYMENT, target, change))
            reason, message = scaling_event(scaled, present, wanted)
            await self._writer.event(SCALED_OBJECT, scaled, reason, message, warning=False)

    async def _identify(self, scaled: JsonObject, own: list[str]) -> JsonObject:
        """Give the ScaledObject KEDA's finalizer and label, or take the finalizer when it goes."""
        metadata = scaled["metadata"]
        present = metadata.get("finalizers") or []
        wanted = [*(one for one in present if one != FINALIZER), *own]
        if wanted == present and labels_of(scaled).get(NAME_LABEL) == metadata["name"]:
            return scaled
        change = {"metadata": {"finalizers": wanted, "labels": {NAME_LABEL: metadata["name"]}}}
        changed = await self._writer.patch(SCALED_OBJECT, scaled, change)
        self._scaled_objects.put_if(changed)
        return changed or scaled


def _covers(wanted: JsonObject, held: JsonObject) -> bool:
    """Whether an apply would change nothing; the API server sets defaults inside `behavior`."""
    return _is_within(wanted["spec"], held["spec"]) and wanted["metadata"]["labels"].items() <= labels_of(held).items()


def _is_within(wanted: object, held: object) -> bool:
    if not isinstance(wanted, dict) or not isinstance(held, dict):
        return wanted == held
    return all(name in held and _is_within(value, held[name]) for name, value in wanted.items())
