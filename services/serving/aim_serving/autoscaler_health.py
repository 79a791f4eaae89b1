"""Component ``HPA`` of an autoscaled service (SV-207, SV-208)."""

from dataclasses import replace
from typing import Final

from aim_domain.component_names import ComponentName
from controller_runtime import Component, ConditionStatus, Lookup, Observability, State, find_condition
from controller_runtime.core import HorizontalPodAutoscaler

SCALED_TO_ZERO: Final = "ScaledToZero"
LEFT_AT_ZERO: Final = "LeftAtZero"


def autoscaler_component(
    name: str,
    found: Lookup[HorizontalPodAutoscaler],
    *,
    workload_ready: bool,
    absent_because: str = "",
    at_zero: bool = False,
    left_at_zero: str = "",
) -> Component:
    """How autoscaling is doing; it is observed only, so nothing here blocks (SV-224).

    Args:
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
        if workload_ready:
            return _hpa(State.FAILED, "MetricsFailed", why)
        return _hpa(State.PROGRESSING, "WaitingForMetrics", why)
    if able is not None and able.status is not ConditionStatus.TRUE:
        return _hpa(State.PROGRESSING, "ScaleTargetNotReady", able.message)
    return _hpa(State.READY, "HPAOperational", f"HorizontalPodAutoscaler {name} is operational")


def _hpa(state: State, reason: str, message: str) -> Component:
    return Component(ComponentName.HPA, state, reason, message)
