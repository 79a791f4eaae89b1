"""KEDA: a HorizontalPodAutoscaler per ScaledObject, and the last replica of its target."""

import asyncio
from typing import Final, final

from aim_domain import labels
from aim_domain.naming import predictor_name
from aim_local.actors.hpa import asked_replicas
from aim_local.actors.objects import SCALED_OBJECT, annotations_of, condition, controlled_by, is_going, labels_of
from aim_local.actors.runtime import Informer, Workers, Writer
from aim_local.actors.settings import ActorSettings
from controller_runtime import JsonObject, Key
from controller_runtime.kind_names import DEPLOYMENT
from controller_runtime.kinds import HORIZONTAL_POD_AUTOSCALER

NAME_LABEL: Final = "scaledobject.keda.sh/name"
_VERSION: Final = "2.21.0"
_RESOURCES: Final = frozenset({"cpu", "memory"})
_THRESHOLDS: Final = ("threshold", "targetValue", "value")
_DEFAULT_MOST: Final = 100
_PAUSE: Final = "autoscaling.keda.sh/paused"
_READY: Final = ("ScaledObjectReady", "ScaledObject is defined correctly and is ready for scaling")
_IS_ACTIVE: Final = ("ScalerActive", "Scaling is performed because triggers are active")
_NOT_ACTIVE: Final = ("ScalerNotActive", "Scaling is not performed because triggers are not active")
_HPA_ACTIVE: Final = "HPAActive"
_TARGET_KIND: Final = f"{DEPLOYMENT.api_version}.{DEPLOYMENT.kind}"
_NO_TARGET: Final = "ScaledObject doesn't have correct scaleTargetRef specification"


def hpa_name(scaled: JsonObject) -> str:
    """Name of the HorizontalPodAutoscaler."""
    advanced = (scaled["spec"].get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}
    return str(advanced.get("name") or f"keda-hpa-{scaled['metadata']['name']}")


def hpa_for(scaled: JsonObject) -> JsonObject:
    """The HorizontalPodAutoscaler; resource triggers become resource metrics, all others external ones."""
    metadata, spec = scaled["metadata"], scaled["spec"]
    name = hpa_name(scaled)
    own = {
        "app.kubernetes.io/name": name[:63].rstrip("-_."),
        "app.kubernetes.io/version": _VERSION,
        "app.kubernetes.io/part-of": metadata["name"],
        "app.kubernetes.io/managed-by": "keda-operator",
    }
    wanted: JsonObject = {
        "scaleTargetRef": {
            "apiVersion": DEPLOYMENT.api_version,
            "kind": DEPLOYMENT.kind,
            "name": spec["scaleTargetRef"]["name"],
        },
        "minReplicas": spec.get("minReplicaCount") or 1,
        "maxReplicas": max(1, spec.get("maxReplicaCount", _DEFAULT_MOST)),
        "metrics": sorted(_metrics(scaled), key=lambda one: str(one["type"])),
    }
    behavior = ((spec.get("advanced") or {}).get("horizontalPodAutoscalerConfig") or {}).get("behavior")
    if behavior:
        wanted["behavior"] = behavior
    return {
        "apiVersion": HORIZONTAL_POD_AUTOSCALER.api_version,
        "kind": HORIZONTAL_POD_AUTOSCALER.kind,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {**own, **labels_of(scaled), NAME_LABEL: metadata["name"]},
            "annotations": annotations_of(scaled),
            "ownerReferences": [controlled_by(scaled)],
        },
        "spec": wanted,
    }


def replicas_for(scaled: JsonObject, present: int, *, active: bool) -> int:
    """Replicas that KEDA gives the target itself: the last one goes and comes here; the autoscaler does the rest."""
    if is_paused(scaled):
        return present
    least = int(scaled["spec"].get("minReplicaCount") or 0)
    if active:
        return present or max(1, least)
    return 0 if least == 0 else max(present, least)


def is_paused(scaled: JsonObject) -> bool:
    """Whether KEDA has to leave the target as it is."""
    return annotations_of(scaled).get(_PAUSE) == "true"


def status_for(
    scaled: JsonObject, target: JsonObject | None, autoscaler: JsonObject | None, *, active: bool
) -> JsonObject:
    """The ScaledObject's status; without a target nothing is scaled."""
    present = scaled.get("status") or {}
    if target is None:
        name = scaled["spec"]["scaleTargetRef"]["name"]
        why = f'{_NO_TARGET}: deployments.apps "{name}" not found'
        conditions = [
            condition("Ready", False, "ScaledObjectCheckFailed", why),
            condition("Active", None, "UnknownState", "ScaledObject check failed"),
            *_others(scaled),
        ]
        return {**present, "conditions": conditions}
    metrics = _metrics(scaled)
    names = {
        "externalMetricNames": [one["external"]["metric"]["name"] for one in metrics if "external" in one],
        "resourceMetricNames": [one["resource"]["name"] for one in metrics if "resource" in one],
    }
    acts = condition("Active", active, *(_IS_ACTIVE if active else _NOT_ACTIVE))
    activity = {name: {"isActive": active} for name in names["externalMetricNames"]}
    return {
        "scaleTargetKind": _TARGET_KIND,
        "scaleTargetGVKR": {
            "group": DEPLOYMENT.group,
            "version": DEPLOYMENT.version,
            "kind": DEPLOYMENT.kind,
            "resource": DEPLOYMENT.plural,
        },
        "originalReplicaCount": present.get("originalReplicaCount", target["spec"].get("replicas", 1)),
        **{name: value for name, value in names.items() if value},
        **({"triggersActivity": activity} if activity else {}),
        **({"hpaName": autoscaler["metadata"]["name"]} if autoscaler else {}),
        "triggersTypes": ",".join(dict.fromkeys(one["type"] for one in scaled["spec"].get("triggers") or ())),
        "authenticationsTypes": "",
        "conditions": [condition("Ready", True, *_READY), acts, *_others(scaled), *_hpa_active(autoscaler)],
    }


def _others(scaled: JsonObject) -> list[JsonObject]:
    fallback = condition("Fallback", False, "NoFallbackFound", "No fallbacks are active on this scaled object")
    if is_paused(scaled):
        return [fallback, condition("Paused", True, "ScaledObjectPaused", "ScaledObject is paused")]
    return [fallback, condition("Paused", False)]


def _hpa_active(autoscaler: JsonObject | None) -> list[JsonObject]:
    """The condition that mirrors `ScalingActive` of the autoscaler; scaled to zero is healthy."""
    conditions = ((autoscaler or {}).get("status") or {}).get("conditions") or ()
    active = next((one for one in conditions if one["type"] == "ScalingActive"), None)
    if active is None:
        return []
    if active["status"] == "True":
        return [condition(_HPA_ACTIVE, True, _HPA_ACTIVE, "HPA is actively scaling")]
    if active["reason"] == "ScalingDisabled":
        return [condition(_HPA_ACTIVE, True, active["reason"], active["message"])]
    return [condition(_HPA_ACTIVE, False, active["reason"], f"HPA is not actively scaling: {active['message']}")]


def scaling_event(scaled: JsonObject, before: int, after: int) -> tuple[str, str]:
    """Reason and message of the Event when KEDA itself scales from or to zero."""
    metadata, target = scaled["metadata"], scaled["spec"]["scaleTargetRef"]["name"]
    what = f"{_TARGET_KIND} {metadata['namespace']}/{target} from {before} to {after}"
    if after < before:
        return "KEDAScaleTargetDeactivated", f"Deactivated {what}"
    names = [one["external"]["metric"]["name"] for one in _metrics(scaled) if "external" in one]
    return "KEDAScaleTargetActivated", f"Scaled {what}, triggered by {';'.join(names)}"


def _metrics(scaled: JsonObject) -> list[JsonObject]:
    return [
        _resource(trigger) if trigger["type"] in _RESOURCES else _external(scaled, index, trigger)
        for index, trigger in enumerate(scaled["spec"].get("triggers") or ())
    ]


def _resource(trigger: JsonObject) -> JsonObject:
    value, kind = (trigger.get("metadata") or {}).get("value", "0"), trigger.get("metricType") or "Utilization"
    share = {"averageUtilization": int(value)} if kind == "Utilization" else {"averageValue": str(value)}
    return {"type": "Resource", "resource": {"name": trigger["type"], "target": {"type": kind, **share}}}


def _external(scaled: JsonObject, index: int, trigger: JsonObject) -> JsonObject:
    reported = trigger.get("metadata") or {}
    threshold = next((str(reported[name]) for name in _THRESHOLDS if name in reported), "0")
    kind = trigger.get("metricType") or "AverageValue"
    share = {"averageValue" if kind == "AverageValue" else "value": threshold}
    metric = {
        "name": f"s{index}-{_metric_name(scaled, trigger)}",
        "selector": {"matchLabels": {NAME_LABEL: scaled["metadata"]["name"]}},
    }
    return {"type": "External", "external": {"metric": metric, "target": {"type": kind, **share}}}


def _metric_name(scaled: JsonObject, trigger: JsonObject) -> str:
    """Name that the scaler returns; the OTel scaler returns that of the ScaledObject."""
    metadata = scaled["metadata"]
    return f"{metadata['namespace']}-{metadata['name']}" if trigger["type"] == "external" else str(trigger["type"])


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
