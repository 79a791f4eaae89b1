"""What KServe leaves behind when autoscaling by KEDA ends, and when it has to go (SV-272)."""

from datetime import datetime, timedelta
from typing import Final

from aim_domain import InferenceService, labels
from aim_domain.naming import autoscaler_name, predictor_name
from aim_domain.parts import AUTOSCALERS
from aim_serving import SERVICE_NAME
from aim_serving.replicas import AutoscalerClass, Scaling
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


def scaler_removal(
    view: View, workload: InferenceService | None, scaling: Scaling | None, now: datetime
) -> tuple[Effect, ...]:
    """The removal, asked for while the InferenceService is changed over and until KEDA's autoscaler is gone."""
    if workload is None or scaling is None or scaling.scaler is AutoscalerClass.KEDA:
        return ()
    changing = workload.metadata.annotations.get(labels.ANNOTATION_AUTOSCALER_CLASS) == AutoscalerClass.KEDA
    left_over = view.get(AUTOSCALERS, workload.namespace, autoscaler_name(workload.name)).value
    if not changing and left_over is None:
        return ()
    key = f"{workload.uid}/{workload.metadata.generation}"
    fact = get_fact(view, FACTS, SERVICE_NAME, SCALER_REMOVAL, key).value
    if fact is not None and fact.failure is None:
        return ()
    params = RemovalParams(namespace=workload.namespace, name=predictor_name(workload.name), workload_uid=workload.uid)
    due = now + _AFTER_KSERVE if fact is None else fact.observed_at + _RETRY
    return (Effect(SCALER_REMOVAL, key, to_json(params), not_before=due),)
