"""A service without replicas whose minimum is above zero: an HPA leaves it so (SV-297)."""

from datetime import datetime, timedelta
from typing import Final

from aim_domain import InferenceService
from aim_domain.naming import predictor_name
from aim_domain.parts import AUTOSCALERS
from aim_serving import SERVICE_NAME
from aim_serving.replicas import AutoscalerClass, Scaling, autoscaler_of, rests
from controller_runtime import FACTS, ApiModel, Effect, View, get_fact, to_json
from controller_runtime.core import HorizontalPodAutoscaler

AWAKENING: Final = "awakening"
_AGAIN: Final = timedelta(seconds=30)
"""An HPA looks at its target every 15 s, so by then it has seen the first try."""


class AwakeningParams(ApiModel):
    """Which Deployment gets how many replicas."""

    namespace: str = ""
    name: str = ""
    workload_uid: str = ""
    replicas: int = 1


def left_at_zero(scaling: Scaling, workload: str, hpa: HorizontalPodAutoscaler | None) -> str:
    """What is told of a service that has no replica although it shall have some; empty when it is not so."""
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
    due = now if fact is None else fact.observed_at + _AGAIN
    return (Effect(AWAKENING, workload.uid, to_json(params), not_before=due),)
