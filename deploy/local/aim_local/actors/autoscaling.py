"""KEDA and the horizontal pod autoscaler, as far as the platform looks at them (SV-185)."""

import asyncio
from typing import Final, final

from aim_local.actors.informer import Informer
from aim_local.actors.objects import (
    LOCAL_PREFIX,
    annotations_of,
    condition,
    controlled_by,
    is_going,
    labels_of,
    now_text,
    timed,
)
from aim_local.actors.settings import ActorSettings
from aim_local.actors.workers import Workers
from aim_local.actors.writer import Writer
from aim_local.keys import Key
from aim_shared.api import labels
from aim_shared.api.kinds import HORIZONTAL_POD_AUTOSCALER, INFERENCE_SERVICE
from aim_shared.json import JsonObject
from aim_shared.naming import predictor_name

REPLICAS_ANNOTATION: Final = LOCAL_PREFIX + "replicas"
"""On an InferenceService: how many replicas its metrics ask for."""
_KEDA: Final = "keda"
_HPA: Final = "hpa"


def hpa_name(isvc: JsonObject) -> str:
    """Name of the autoscaler that the InferenceService's class brings; empty for none."""
    name = predictor_name(isvc["metadata"]["name"])
    names = {_KEDA: f"keda-hpa-{name}", _HPA: name}
    return names.get(annotations_of(isvc).get(labels.ANNOTATION_AUTOSCALER_CLASS, ""), "")


def autoscaler_for(isvc: JsonObject) -> JsonObject:
    """The HorizontalPodAutoscaler; with class `keda` the metrics are KEDA's own."""
    metadata, predictor = isvc["metadata"], isvc["spec"]["predictor"]
    least = max(1, predictor.get("minReplicas", 1))
    resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}
    return {
        "apiVersion": HORIZONTAL_POD_AUTOSCALER.api_version,
        "kind": HORIZONTAL_POD_AUTOSCALER.kind,
        "metadata": {
            "name": hpa_name(isvc),
            "namespace": metadata["namespace"],
            "labels": {**labels_of(isvc), labels.KSERVE_INFERENCE_SERVICE: metadata["name"]},
            "ownerReferences": [controlled_by(isvc)],
        },
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "name": predictor_name(metadata["name"]),
            },
            "minReplicas": least,
            "maxReplicas": max(least, predictor.get("maxReplicas") or least),
            "metrics": [{"type": "Resource", "resource": resource}],
        },
    }


def autoscaler_status(isvc: JsonObject, autoscaler: JsonObject, now: str) -> JsonObject:
    """Its status: metrics ask for what the annotation says, within the bounds."""
    spec = autoscaler["spec"]
    asked = annotations_of(isvc).get(REPLICAS_ANNOTATION, "")
    desired = max(spec["minReplicas"], min(spec["maxReplicas"], int(asked) if asked.isdecimal() else 0))
    wanted = [
        condition("AbleToScale", True, "ReadyForNewScale", "recommended size matches current size"),
        condition("ScalingActive", True, "ValidMetricFound", "the metrics could be computed"),
        condition("ScalingLimited", False, "DesiredWithinRange", "the desired count is within the acceptable range"),
    ]
    present = (autoscaler.get("status") or {}).get("conditions") or ()
    return {"currentReplicas": desired, "desiredReplicas": desired, "conditions": timed(wanted, present, now)}


@final
class Autoscaling:
    """Keeps an autoscaler per InferenceService that wants one."""

    def __init__(
        self, writer: Writer, settings: ActorSettings, inference_services: Informer, autoscalers: Informer
    ) -> None:
        self._writer = writer
        self._settings = settings
        self._inference_services = inference_services
        self._autoscalers = autoscalers
        self.workers = Workers("autoscaling", self._handle)
        inference_services.listen(lambda key, _: self.workers.add(key))
        autoscalers.listen(self._on_autoscaler)

    def _on_autoscaler(self, key: Key, autoscaler: JsonObject) -> None:
        name = labels_of(autoscaler).get(labels.KSERVE_INFERENCE_SERVICE)
        if name:
            self.workers.add(Key(key.namespace, name))

    async def _handle(self, key: Key) -> None:
        isvc = self._inference_services.get(key)
        if isvc is None or is_going(isvc):
            return
        wanted = hpa_name(isvc)
        name = predictor_name(key.name)
        for other in {f"keda-hpa-{name}", name} - {wanted}:
            await self._remove(isvc, Key(key.namespace, other))
        if wanted:
            await self._ensure(isvc)

    async def _ensure(self, isvc: JsonObject) -> None:
        desired = autoscaler_for(isvc)
        held = self._autoscalers.get(Key(isvc["metadata"]["namespace"], desired["metadata"]["name"]))
        if held is None:
            await asyncio.sleep(self._settings.delay)
        if held is None or any(held["spec"].get(name) != value for name, value in desired["spec"].items()):
            held = await self._writer.apply(HORIZONTAL_POD_AUTOSCALER, desired)
            self._autoscalers.put(held)
        status = autoscaler_status(isvc, held, now_text())
        if status != held.get("status"):
            written = await self._writer.status(HORIZONTAL_POD_AUTOSCALER, held, status)
            if written is not None:
                self._autoscalers.put(written)

    async def _remove(self, isvc: JsonObject, key: Key) -> None:
        held = self._autoscalers.get(key)
        owners = held["metadata"].get("ownerReferences") or () if held else ()
        mine = any(o["kind"] == INFERENCE_SERVICE.kind and o["uid"] == isvc["metadata"]["uid"] for o in owners)
        if held is not None and mine:
            await self._writer.delete(HORIZONTAL_POD_AUTOSCALER, held)
