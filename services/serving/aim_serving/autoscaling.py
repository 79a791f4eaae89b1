"""Whether autoscaling works, and what a change of the autoscaler leaves behind.

The component ``HPA`` (SV-207, SV-208), what KEDA reports while its autoscaler is missing (SV-283), services that an
autoscaler leaves without replicas (SV-297), and objects of the former autoscaler that have to go (SV-272, SV-286).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from aim_domain import InferenceService, labels
from aim_domain.component_names import ComponentName
from aim_domain.kinds import HORIZONTAL_POD_AUTOSCALER
from aim_domain.naming import predictor_name
from aim_domain.parts import AUTOSCALERS
from aim_serving import SERVICE_NAME
from aim_serving.replicas import AutoscalerClass, Scaling, autoscaler_of, rests
from controller_runtime import (
    ApiError,
    ApiModel,
    ApiVerb,
    Category,
    ClassifiedError,
    Clients,
    Component,
    ConditionStatus,
    Effect,
    EffectError,
    EffectType,
    Items,
    JsonObject,
    Kind,
    KubeClient,
    KubeError,
    Lookup,
    Observability,
    Resource,
    State,
    View,
    access,
    find_condition,
)
from controller_runtime.core import HorizontalPodAutoscaler
from controller_runtime.kinds import DEPLOYMENT

METRICS_GRACE: Final = timedelta(seconds=60)
"""After a service became ready: metrics-server and KEDA's scaler read the first values of a pod within that time."""
WAITING_FOR_METRICS: Final = "WaitingForMetrics"
SCALED_TO_ZERO: Final = "ScaledToZero"
LEFT_AT_ZERO: Final = "LeftAtZero"


def autoscaler_component(
    name: str,
    found: Lookup[HorizontalPodAutoscaler],
    *,
    workload_ready: bool,
    metrics_due: bool = True,
    absent_because: str = "",
    at_zero: bool = False,
    left_at_zero: str = "",
) -> Component:
    """How autoscaling is doing; it is observed only, so nothing here blocks (SV-224).

    Args:
        metrics_due: whether the service has run for long enough that its metrics should be there.
        absent_because: what KEDA says, if it makes none (SV-283).
        at_zero: KEDA has taken the last replica, as the service allows (SV-285).
        left_at_zero: what is done about a Deployment without replicas that the autoscaler leaves so (SV-297).
    """
    if found.error is not None:
        return Component(
            ComponentName.HPA,
            State.FAILED,
            "HPAFetchError",
            errors=(found.error,),
        )
    if found.value is None:
        why = f"; {absent_because}" if absent_because else ""
        return _hpa(State.PROGRESSING, "HPANotFound", f"HorizontalPodAutoscaler {name} does not exist yet{why}")
    if at_zero:
        return _hpa(State.READY, SCALED_TO_ZERO, f"HorizontalPodAutoscaler {name} rests until a metric is active")
    if left_at_zero:
        # Reported once, as a transition: it passes within a minute, and a user who has scaled by hand should know why.
        reported = _hpa(State.PROGRESSING, LEFT_AT_ZERO, left_at_zero)
        return replace(reported, observe=Observability.WARNING)
    conditions = found.value.status.conditions
    active, able = find_condition(conditions, "ScalingActive"), find_condition(conditions, "AbleToScale")
    if active is None or active.status is not ConditionStatus.TRUE:
        why = active.message if active else f"HorizontalPodAutoscaler {name} has not reported ScalingActive"
        if workload_ready and metrics_due:
            # The pods serve: only the number of replicas stays as it is.
            return _hpa(State.DEGRADED, "MetricsFailed", why)
        return _hpa(State.PROGRESSING, WAITING_FOR_METRICS, why)
    if able is not None and able.status is not ConditionStatus.TRUE:
        return _hpa(State.PROGRESSING, "ScaleTargetNotReady", able.message)
    return _hpa(State.READY, "HPAOperational", f"HorizontalPodAutoscaler {name} is operational")


def metrics_due(workload: InferenceService, found: HorizontalPodAutoscaler | None) -> datetime | None:
    """From when on an autoscaler without metrics is a fault; ``None`` where neither of the two has a time (SV-207)."""
    ready = find_condition(workload.status.conditions, "Ready")
    began = [
        None if ready is None else ready.last_transition_time,
        None if found is None else found.metadata.creation_timestamp,
    ]
    known = [moment for moment in began if moment is not None]
    return max(known) + METRICS_GRACE if known else None


def _hpa(state: State, reason: str, message: str) -> Component:
    return Component(ComponentName.HPA, state, reason, message)


_FIRST: Final = timedelta(seconds=10)
"""After that long KEDA has usually made its autoscaler, and no request is needed."""
_AGAIN: Final = timedelta(seconds=30)


class ReportParams(ApiModel):
    """Which ScaledObject is read."""

    namespace: str = ""
    name: str = ""


class ScalerReport(ApiModel):
    """What KEDA says that is not as it should be; empty where nothing is."""

    message: str = ""


SCALED_OBJECT: Final = Kind("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", True, model=Resource)
COLLECTOR: Final = Kind(
    "opentelemetry.io", "v1beta1", "OpenTelemetryCollector", "opentelemetrycollectors", True, model=Resource
)

_OF_CLASS: Final[Mapping[AutoscalerClass, tuple[Kind[Any], ...]]] = MappingProxyType(
    {AutoscalerClass.KEDA: (SCALED_OBJECT, COLLECTOR), AutoscalerClass.HPA: (HORIZONTAL_POD_AUTOSCALER,)}
)
REMOVED: Final = tuple(kind for kinds in _OF_CLASS.values() for kind in kinds)
"""Every kind of which it removes objects."""


_LONGEST: Final = 1024
"""Characters of KEDA's text that are kept: it may quote whole answers of a metrics server."""


class ScalerReader:
    """Runner of `SCALER_REPORT`."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: ReportParams) -> ScalerReport:
        """The words of the conditions that are not as they should be.

        Raises:
            EffectError: the API server does not answer; it is read again.
        """
        try:
            scaled = await self._kube.get(SCALED_OBJECT, params.name, params.namespace)
        except ApiError as error:
            if error.is_not_found:
                return ScalerReport(message=f"ScaledObject {params.name} does not exist; KServe has not made it")
            raise _unreadable(params, error) from error
        except KubeError as error:
            raise _unreadable(params, error) from error
        said = "; ".join(complaints((scaled.get("status") or {}).get("conditions") or ()))
        return ScalerReport(message=f"ScaledObject {params.name}: {said}"[:_LONGEST] if said else "")


def complaints(conditions: Iterable[JsonObject]) -> list[str]:
    """Reason and message of ``Ready`` when it is not true, and of a pause."""
    return [
        f"{one.get('reason') or one['type']}: {one.get('message') or 'no message'}"
        for one in conditions
        if (one.get("type"), one.get("status")) in (("Ready", "False"), ("Ready", "Unknown"), ("Paused", "True"))
    ]


def _unreadable(params: ReportParams, error: KubeError) -> EffectError:
    what = f"ScaledObject {params.namespace}/{params.name} cannot be read: {error}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, "ScalerNotRead", what))


def _reader(clients: Clients) -> ScalerReader:
    return ScalerReader(clients.kube)


SCALER_REPORT: Final = EffectType(
    "scaler-report", ReportParams, ScalerReport, _reader, 8, (access(SCALED_OBJECT, ApiVerb.GET),)
)
"""The conditions of a ScaledObject."""


def keda_event(view: View, workload: InferenceService) -> str:
    """Why there is no autoscaler, in KEDA's words; empty as long as they are not known."""
    fact = SCALER_REPORT.look_up(view, SERVICE_NAME, workload.uid).value
    if fact is None:
        return ""
    report = SCALER_REPORT.result_of(fact)
    if report is not None:
        return report.message
    return fact.failure.message if fact.failure is not None else ""


def reading(view: View, workload: InferenceService, now: datetime) -> Effect:
    """Read the ScaledObject, again and again while its autoscaler is missing."""
    fact = SCALER_REPORT.look_up(view, SERVICE_NAME, workload.uid).value
    # A clock that is behind the API server's must not make the wait longer.
    since = min(workload.metadata.creation_timestamp or now, now)
    due = since + _FIRST if fact is None else fact.observed_at + _AGAIN
    params = ReportParams(namespace=workload.namespace, name=predictor_name(workload.name))
    return SCALER_REPORT.ask(workload.uid, params, due)


_RETRY: Final = timedelta(seconds=30)
_AFTER_KSERVE: Final = timedelta(seconds=2)
"""KServe has to have seen the new class, lest it makes them again."""


class RemovalParams(ApiModel):
    """Whose left-over objects are removed."""

    namespace: str = ""
    name: str = ""
    workload_uid: str = ""
    former: AutoscalerClass = AutoscalerClass.KEDA


class Removal(ApiModel):
    """Kinds of which an object was removed."""

    removed: Items[str] = ()


class ScalerRemover:
    """Runner of `SCALER_REMOVAL`."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: RemovalParams) -> Removal:
        """Remove what the former autoscaler needed, as far as it is there and the InferenceService controls it.

        Raises:
            EffectError: the API server refuses; the removal is asked for again.
        """
        removed = [kind.kind for kind in _OF_CLASS[params.former] if await self._remove(kind, params)]
        return Removal(removed=tuple(removed))

    async def _remove(self, kind: Kind[Any], params: RemovalParams) -> bool:
        try:
            there = await self._kube.get(kind, params.name, params.namespace)
            if not is_controlled(there, params.workload_uid):
                return False
            await self._kube.delete(kind, params.name, params.namespace, uid=there["metadata"]["uid"])
        except ApiError as error:
            # Gone already, or a cluster without that kind.
            if error.is_not_found:
                return False
            raise _failure(kind, params, error) from error
        except KubeError as error:
            raise _failure(kind, params, error) from error
        return True


def is_controlled(obj: JsonObject, workload_uid: str) -> bool:
    """Whether the object is the InferenceService's own."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return any(owner.get("controller") and owner["uid"] == workload_uid for owner in owners)


def _failure(kind: Kind[Any], params: RemovalParams, error: KubeError) -> EffectError:
    what = f"{kind.kind} {params.namespace}/{params.name} cannot be removed: {error}"
    return EffectError(ClassifiedError(Category.INFRASTRUCTURE, "ScalerNotRemoved", what))


def _remover(clients: Clients) -> ScalerRemover:
    return ScalerRemover(clients.kube)


SCALER_REMOVAL: Final = EffectType(
    "scaler-removal",
    RemovalParams,
    Removal,
    _remover,
    8,
    tuple(access(kind, ApiVerb.GET, ApiVerb.DELETE) for kind in REMOVED),
)
"""The end of what a former autoscaler needed."""


def scaler_removal(
    view: View, workload: InferenceService | None, scaling: Scaling | None, now: datetime
) -> tuple[Effect, ...]:
    """The removal, asked for while the InferenceService is changed over and until the former autoscaler is gone."""
    if workload is None or scaling is None:
        return ()
    former = AutoscalerClass.HPA if scaling.scaler is AutoscalerClass.KEDA else AutoscalerClass.KEDA
    # KServe takes back an autoscaler of its own only where nothing scales at all, and KEDA's objects never.
    changing = former is AutoscalerClass.KEDA and _class_of(workload) == AutoscalerClass.KEDA
    left_over = view.get(AUTOSCALERS, workload.namespace, autoscaler_of(former, workload.name)).value
    if not changing and left_over is None:
        return ()
    key = f"{workload.uid}/{workload.metadata.generation}"
    fact = SCALER_REMOVAL.look_up(view, SERVICE_NAME, key).value
    if fact is not None and fact.failure is None and former is AutoscalerClass.KEDA:
        return ()
    name = predictor_name(workload.name)
    params = RemovalParams(namespace=workload.namespace, name=name, workload_uid=workload.uid, former=former)
    due = now + _AFTER_KSERVE if fact is None else fact.observed_at + _RETRY
    return (SCALER_REMOVAL.ask(key, params, due),)


def _class_of(workload: InferenceService) -> str | None:
    return workload.metadata.annotations.get(labels.ANNOTATION_AUTOSCALER_CLASS)


_AWAKENING_RETRY: Final = timedelta(seconds=30)
"""An HPA looks at its target every 15 s, so by then it has seen the first try."""


class AwakeningParams(ApiModel):
    """Which Deployment gets how many replicas."""

    namespace: str = ""
    name: str = ""
    workload_uid: str = ""
    replicas: int = 1


class Awakened(ApiModel):
    """Whether the Deployment was scaled; it is not where it is gone or another writer was first."""

    scaled: bool = False


_FIELD_MANAGER: Final = f"aim-{SERVICE_NAME}"


class Awakener:
    """Runner of `AWAKENING`."""

    def __init__(self, kube: KubeClient) -> None:
        self._kube = kube

    async def __call__(self, params: AwakeningParams) -> Awakened:
        """Scale the Deployment if the InferenceService controls it and it is still at zero.

        Raises:
            EffectError: the API server refuses; it is asked for again.
        """
        try:
            return Awakened(scaled=await self._scale(params))
        except KubeError as error:
            if isinstance(error, ApiError) and (error.is_not_found or error.is_conflict):
                # Gone, or another writer won the conflict: the next pass reads the outcome.
                return Awakened(scaled=False)
            what = f"Deployment {params.namespace}/{params.name} cannot be scaled to {params.replicas}: {error}"
            raise EffectError(ClassifiedError(Category.INFRASTRUCTURE, "NotAwakened", what)) from error

    async def _scale(self, params: AwakeningParams) -> bool:
        there = await self._kube.get(DEPLOYMENT, params.name, params.namespace)
        if there["spec"].get("replicas", 1) != 0 or not is_controlled(there, params.workload_uid):
            return False
        await self._kube.merge_patch(
            DEPLOYMENT,
            params.name,
            params.namespace,
            {"spec": {"replicas": params.replicas}},
            resource_version=there["metadata"]["resourceVersion"],
            field_manager=_FIELD_MANAGER,
            subresource="scale",
        )
        return True


def _awakener(clients: Clients) -> Awakener:
    return Awakener(clients.kube)


AWAKENING: Final = EffectType(
    "awakening",
    AwakeningParams,
    Awakened,
    _awakener,
    8,
    (access(DEPLOYMENT, ApiVerb.GET), access(DEPLOYMENT, ApiVerb.PATCH, subresource="scale")),
)
"""The first replica of a Deployment that an autoscaler leaves without."""


def left_at_zero(scaling: Scaling, workload: str, hpa: HorizontalPodAutoscaler | None) -> str:
    """What is reported of a service that has no replica although it shall have some; empty when it is not so."""
    if scaling.scaler is not AutoscalerClass.HPA or not rests(hpa):
        return ""
    return (
        f"Deployment {predictor_name(workload)} has no replica, and its HorizontalPodAutoscaler leaves it so: it gets "
        f"the minimum of {scaling.minimum} back. A service rests without pods only with spec.minReplicas 0 and a "
        "metric in spec.autoScaling.metrics that can wake it; scaling the Deployment by hand does not last"
    )


def awakening(
    view: View, workload: InferenceService | None, scaling: Scaling | None, now: datetime
) -> tuple[Effect, ...]:
    """Asked for while the HPA says that it rests; KEDA (class `keda`) and KServe (`none`) need no help."""
    if workload is None or scaling is None or scaling.scaler is not AutoscalerClass.HPA:
        return ()
    where = workload.namespace
    hpa = view.get(AUTOSCALERS, where, autoscaler_of(AutoscalerClass.HPA, workload.name)).value
    former = view.get(AUTOSCALERS, where, autoscaler_of(AutoscalerClass.KEDA, workload.name))
    # While KEDA is there it would take the replica again.
    if not rests(hpa) or former.value is not None or former.error is not None:
        return ()
    params = AwakeningParams(
        namespace=where,
        name=predictor_name(workload.name),
        workload_uid=workload.uid,
        replicas=scaling.minimum,
    )
    fact = AWAKENING.look_up(view, SERVICE_NAME, workload.uid).value
    due = now if fact is None else fact.observed_at + _AWAKENING_RETRY
    return (AWAKENING.ask(workload.uid, params, due),)
