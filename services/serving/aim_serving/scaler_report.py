"""What KEDA says while its autoscaler does not appear (SV-283)."""

from datetime import datetime, timedelta
from typing import Final

from aim_domain import InferenceService
from aim_domain.naming import predictor_name
from aim_serving import SERVICE_NAME
from controller_runtime import FACTS, ApiModel, Effect, View, get_fact, to_json

SCALER_REPORT: Final = "scaler-report"
_FIRST: Final = timedelta(seconds=10)
"""After that long KEDA has usually made its autoscaler, and nobody has to be asked."""
_AGAIN: Final = timedelta(seconds=30)


class ReportParams(ApiModel):
    """Which ScaledObject is read."""

    namespace: str = ""
    name: str = ""


def reported(view: View, workload: InferenceService) -> str:
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
