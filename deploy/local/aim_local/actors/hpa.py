"""The horizontal pod autoscaler: scales Deployments to what metrics ask for, which an annotation says."""

import asyncio
from dataclasses import dataclass
from typing import Final, final

from aim_domain import labels
from aim_local.actors.failures import Failure, WantedFailures
from aim_local.actors.objects import LOCAL_PREFIX, annotations_of, condition, is_going, labels_of, now_text, timed
from aim_local.actors.runtime import Informer, Workers, Writer
from aim_local.actors.settings import ActorSettings
from controller_runtime import JsonObject, Key, quantity
from controller_runtime.kind_names import DEPLOYMENT
from controller_runtime.kinds import HORIZONTAL_POD_AUTOSCALER

REPLICAS_ANNOTATION: Final = LOCAL_PREFIX + "replicas"
"""On an InferenceService, or on the autoscaler, which counts first."""


def asked_replicas(*places: JsonObject | None) -> int:
    """The number in the first of these objects that tells one; 0 if the metrics ask for nothing."""
    reported = (annotations_of(one).get(REPLICAS_ANNOTATION, "") for one in places if one)
    return next((int(text) for text in reported if text.isdecimal()), 0)


_ABLE, _ACTIVE, _LIMITED = "AbleToScale", "ScalingActive", "ScalingLimited"
_CALCULATED: Final = "the HPA was able to successfully calculate a replica count from "
_UNABLE: Final = "the HPA was unable to compute the replica count: "
_WITHIN: Final = ("DesiredWithinRange", "the desired count is within the acceptable range")
_FEW: Final = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_MANY: Final = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_RESTS: Final = ("ScalingDisabled", "scaling is disabled since the replica count of the target is zero")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one look.

    Attributes:
        current: replicas of the target; None without a target.
        desired: replicas that it gets.
        asked: replicas that the metrics ask for; 0 if they ask for nothing.
        rescaled: whether the target was changed.
        failed: whether the metrics can't be had.
    """

    current: int | None
    desired: int
    asked: int
    rescaled: bool
    failed: bool

    @property
    def rests(self) -> bool:
        """Whether another client has taken the last replica: an autoscaler never brings one back."""
        return self.current == 0


def recommendation(autoscaler: JsonObject, asked: int) -> int:
    """Replicas that the metrics ask for; one at least by CPU or memory, of which every pod uses some."""
    by_resource = any("resource" in one for one in autoscaler["spec"].get("metrics") or ())
    return max(1, asked) if by_resource else asked


def desired_replicas(autoscaler: JsonObject, asked: int, current: int | None, *, failed: bool) -> int:
    """Within the bounds, what is asked for; without metrics, what there is; none, where there is none."""
    if current == 0:
        return 0
    spec = autoscaler["spec"]
    wished = current or 0 if failed else asked
    return int(max(spec.get("minReplicas", 1), min(spec["maxReplicas"], wished)))


def status_for(autoscaler: JsonObject, outcome: Outcome, now: str) -> JsonObject:
    """The status; equal to the present one when nothing is new."""
    present = autoscaler.get("status") or {}
    before = present.get("conditions") or ()
    if outcome.current is None:
        name = autoscaler["spec"]["scaleTargetRef"]["name"]
        why = f'the HPA controller was unable to get the target\'s current scale: deployments.apps "{name}" not found'
        wanted = [condition(_ABLE, False, "FailedGetScale", why)]
        kept = {"currentReplicas": 0, "desiredReplicas": 0}
        return {**kept, "conditions": timed(wanted, before, now)}
    wanted = [_able(outcome), _active(autoscaler, outcome)]
    computed = not outcome.failed and not outcome.rests
    if computed:
        wanted.append(_limited(autoscaler, outcome))
    status: JsonObject = {
        "currentReplicas": outcome.current,
        "desiredReplicas": outcome.desired,
        "conditions": timed(wanted, before, now),
    }
    if computed:
        status["currentMetrics"] = [_measured(one, outcome) for one in autoscaler["spec"].get("metrics") or ()]
    scaled = now if outcome.rescaled else present.get("lastScaleTime")
    return {**status, "lastScaleTime": scaled} if scaled else status


def _able(outcome: Outcome) -> JsonObject:
    if outcome.rescaled:
        why = f"the HPA controller was able to update the target scale to {outcome.desired}"
        return condition(_ABLE, True, "SucceededRescale", why)
    return condition(_ABLE, True, "ReadyForNewScale", "recommended size matches current size")


def _active(autoscaler: JsonObject, outcome: Outcome) -> JsonObject:
    if outcome.rests:
        return condition(_ACTIVE, False, *_RESTS)
    metric: JsonObject = next(iter(autoscaler["spec"].get("metrics") or ()), {})
    if not outcome.failed:
        return condition(_ACTIVE, True, "ValidMetricFound", _CALCULATED + _describe(metric))
    namespace = autoscaler["metadata"]["namespace"]
    if "external" in metric:
        name = metric["external"]["metric"]["name"]
        why = f"unable to get external metric {namespace}/{name}: unable to fetch metrics from external metrics API"
        return condition(_ACTIVE, False, "FailedGetExternalMetric", _UNABLE + why)
    name = (metric.get("resource") or {}).get("name", "cpu")
    why = f"failed to get {name} utilization: unable to get metrics for resource {name}: no metrics returned"
    return condition(_ACTIVE, False, "FailedGetResourceMetric", f"{_UNABLE}{why} from resource metrics API")


def _describe(metric: JsonObject) -> str:
    if "external" in metric:
        selector = metric["external"]["metric"].get("selector") or {}
        pairs = "".join(f"{name}: {value}," for name, value in (selector.get("matchLabels") or {}).items())
        requirements = "MatchExpressions:[]LabelSelectorRequirement{},"
        shown = f"&LabelSelector{{MatchLabels:map[string]string{{{pairs}}},{requirements}}}"
        return f"external metric {metric['external']['metric']['name']}({shown})"
    resource = metric.get("resource") or {}
    return f"{resource.get('name', 'cpu')} resource utilization (percentage of request)"


def _limited(autoscaler: JsonObject, outcome: Outcome) -> JsonObject:
    spec = autoscaler["spec"]
    if outcome.asked > spec["maxReplicas"]:
        return condition(_LIMITED, True, *_MANY)
    if outcome.asked < spec.get("minReplicas", 1):
        return condition(_LIMITED, True, *_FEW)
    return condition(_LIMITED, False, *_WITHIN)


def _measured(metric: JsonObject, outcome: Outcome) -> JsonObject:
    """What makes the autoscaler ask for what it asks for: so often the target for each replica that there is."""
    if "external" in metric:
        external = metric["external"]
        share = "value" if "value" in external["target"] else "averageValue"
        target = quantity.parse_or_none(external["target"].get(share)) or quantity.parse(0)
        amount = quantity.parse(f"{target.milli * outcome.asked // (outcome.current or 1)}m")
        return {"type": "External", "external": {"metric": external["metric"], "current": {share: str(amount)}}}
    resource = metric.get("resource") or {}
    used = int((resource.get("target") or {}).get("averageUtilization", 0)) * outcome.asked // (outcome.current or 1)
    current = {"averageUtilization": used, "averageValue": "0"}
    return {"type": "Resource", "resource": {"name": resource.get("name", "cpu"), "current": current}}


@final
class HorizontalPodAutoscalers:
    """Acts on each autoscaler when it, its Deployment or its InferenceService changes."""

    def __init__(
        self,
        writer: Writer,
        settings: ActorSettings,
        failures: WantedFailures,
        *,
        autoscalers: Informer,
        deployments: Informer,
        inference_services: Informer,
    ) -> None:
        """``autoscalers`` are grouped with `by_target`."""
        self._writer = writer
        self._settings = settings
        self._failures = failures
        self._autoscalers = autoscalers
        self._deployments = deployments
        self._inference_services = inference_services
        self.workers = Workers("hpa", self._handle)
        autoscalers.listen(lambda key, _: self.workers.add(key))
        deployments.listen(lambda key, _: self._wake(target_group(key)))
        inference_services.listen(lambda key, _: self._wake(owner_group(key)))
        failures.listen(self._look_again)

    def _look_again(self) -> None:
        for key in self._autoscalers.objects:
            self.workers.add(key)

    def _wake(self, group: str) -> None:
        for key in self._autoscalers.group(group):
            self.workers.add(key)

    async def _handle(self, key: Key) -> None:
        autoscaler = self._autoscalers.get(key)
        if autoscaler is None or is_going(autoscaler):
            return
        target = self._deployments.get(Key(key.namespace, autoscaler["spec"]["scaleTargetRef"]["name"]))
        isvc = self._inference_services.get(Key(key.namespace, _service_name(autoscaler)))
        asked = recommendation(autoscaler, asked_replicas(autoscaler, isvc))
        failed = self._failures.of(Failure.METRICS, autoscaler, isvc) is not None
        replicas = target["spec"].get("replicas", 1) if target else None
        desired = desired_replicas(autoscaler, asked, replicas, failed=failed)
        rescaled = target is not None and desired != replicas
        if target is not None and rescaled:
            await asyncio.sleep(self._settings.delay)
            self._deployments.put_if(await self._writer.patch(DEPLOYMENT, target, {"spec": {"replicas": desired}}))
        outcome = Outcome(replicas, desired, asked, rescaled=rescaled, failed=failed)
        status = status_for(autoscaler, outcome, now_text())
        if status != autoscaler.get("status"):
            self._autoscalers.put_if(await self._writer.status(HORIZONTAL_POD_AUTOSCALER, autoscaler, status))


def by_target(autoscaler: JsonObject) -> tuple[str, ...]:
    """Groups autoscalers by Deployment and by InferenceService."""
    namespace = autoscaler["metadata"]["namespace"]
    target = target_group(Key(namespace, autoscaler["spec"]["scaleTargetRef"]["name"]))
    service = _service_name(autoscaler)
    return (target, owner_group(Key(namespace, service))) if service else (target,)


def target_group(deployment: Key) -> str:
    """The group of a Deployment's autoscalers."""
    return f"target {deployment}"


def owner_group(inference_service: Key) -> str:
    """The group of an InferenceService's autoscalers."""
    return f"owner {inference_service}"


def _service_name(autoscaler: JsonObject) -> str:
    return labels_of(autoscaler).get(labels.KSERVE_INFERENCE_SERVICE, "")
