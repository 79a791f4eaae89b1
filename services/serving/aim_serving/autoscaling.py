"""Whether autoscaling works, and what a change of the autoscaler leaves behind.

The component ``HPA`` (SV-207, SV-208), what KEDA reports while its autoscaler is missing (SV-283), services that an
autoscaler leaves without replicas (SV-297), and objects of the former autoscaler that have to go (SV-272, SV-286).
The effects are in `aim_serving.effects.autoscaling`.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from aim_domain import InferenceService, labels
from aim_domain.component_names import ComponentName
from aim_domain.naming import predictor_name
from aim_domain.parts import AUTOSCALERS
from aim_serving import SERVICE_NAME
from aim_serving.replicas import AutoscalerClass, Scaling, autoscaler_of, rests
from controller_runtime import (
    FACTS,
    ApiModel,
    Component,
    ConditionStatus,
    Effect,
    Lookup,
    Observability,
    State,
    View,
    find_condition,
    get_fact,
    to_json,
)
from controller_runtime.core import HorizontalPodAutoscaler

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


SCALER_REPORT: Final = "scaler-report"
_FIRST: Final = timedelta(seconds=10)
"""After that long KEDA has usually made its autoscaler, and no request is needed."""
_AGAIN: Final = timedelta(seconds=30)


class ReportParams(ApiModel):
    """Which ScaledObject is read."""

    namespace: str = ""
    name: str = ""


def keda_event(view: View, workload: InferenceService) -> str:
    """Why there is no autoscaler, in KEDA's words; empty as long as they are not known."""
    fact = get_fact(view, FACTS, SERVICE_NAME, SCALER_REPORT, workload.uid).value
    if fact is None:
        return ""
    if fact.outcome is not None:
        return str(fact.outcome["message"])
    return fact.failure.message if fact.failure is not None else ""


def reading(view: View, workload: InferenceService, now: datetime) -> Effect:
    """Read the ScaledObject, again and again while its autoscaler is missing."""
    fact = get_fact(view, FACTS, SERVICE_NAME, SCALER_REPORT, workload.uid).value
    # A clock that is behind the API server's must not make the wait longer.
    since = min(workload.metadata.creation_timestamp or now, now)
    due = since + _FIRST if fact is None else fact.observed_at + _AGAIN
    params = ReportParams(namespace=workload.namespace, name=predictor_name(workload.name))
    return Effect(SCALER_REPORT, workload.uid, to_json(params), not_before=due)


SCALER_REMOVAL: Final = "scaler-removal"
_RETRY: Final = timedelta(seconds=30)
_AFTER_KSERVE: Final = timedelta(seconds=2)
"""KServe has to have seen the new class, lest it makes them again."""


class RemovalParams(ApiModel):
    """Whose left-over objects are removed."""

    namespace: str = ""
    name: str = ""
    workload_uid: str = ""
    former: AutoscalerClass = AutoscalerClass.KEDA


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
    fact = get_fact(view, FACTS, SERVICE_NAME, SCALER_REMOVAL, key).value
    if fact is not None and fact.failure is None and former is AutoscalerClass.KEDA:
        return ()
    name = predictor_name(workload.name)
    params = RemovalParams(namespace=workload.namespace, name=name, workload_uid=workload.uid, former=former)
    due = now + _AFTER_KSERVE if fact is None else fact.observed_at + _RETRY
    return (Effect(SCALER_REMOVAL, key, to_json(params), not_before=due),)


def _class_of(workload: InferenceService) -> str | None:
    return workload.metadata.annotations.get(labels.ANNOTATION_AUTOSCALER_CLASS)


AWAKENING: Final = "awakening"
_AWAKENING_RETRY: Final = timedelta(seconds=30)
"""An HPA looks at its target every 15 s, so by then it has seen the first try."""


class AwakeningParams(ApiModel):
    """Which Deployment gets how many replicas."""

    namespace: str = ""
    name: str = ""
    workload_uid: str = ""
    replicas: int = 1


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
    fact = get_fact(view, FACTS, SERVICE_NAME, AWAKENING, workload.uid).value
    due = now if fact is None else fact.observed_at + _AWAKENING_RETRY
    return (Effect(AWAKENING, workload.uid, to_json(params), not_before=due),)
