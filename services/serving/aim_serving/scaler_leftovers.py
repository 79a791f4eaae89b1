"""What KServe leaves behind when another autoscaler takes over, and when it has to go (SV-272, SV-286)."""

from datetime import datetime, timedelta
from typing import Final

from aim_domain import InferenceService, labels
from aim_domain.naming import predictor_name
from aim_domain.parts import AUTOSCALERS
from aim_serving import SERVICE_NAME
from aim_serving.replicas import AutoscalerClass, Scaling, autoscaler_of
from controller_runtime import FACTS, ApiModel, Effect, View, get_fact, to_json

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
    # KServe takes back an autoscaler of its own only where nobody scales at all, and KEDA's objects never.
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
