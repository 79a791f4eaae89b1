"""Component ``HPA`` of an autoscaled service (SV-207, SV-208)."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from aim_domain import InferenceService
from aim_domain.component_names import ComponentName
from controller_runtime import Component, ConditionStatus, Lookup, Observability, State, find_condition
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
        # Told once, as a transition: it passes within a minute, and whoever has scaled by hand should know why.
        told = _hpa(State.PROGRESSING, LEFT_AT_ZERO, left_at_zero)
        return replace(told, observe=Observability.WARNING)
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
