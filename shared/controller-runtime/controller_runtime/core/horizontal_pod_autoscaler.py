"""autoscaling/v2 HorizontalPodAutoscaler: bounds, replicas and health of autoscaling (SV-207 to SV-211)."""

from __future__ import annotations

from controller_runtime.api.base import ApiModel, Items
from controller_runtime.api.meta import Condition, Resource


class ScaleTargetRef(ApiModel):
    """What is scaled."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class AutoscalerSpec(ApiModel):
    """Bounds of the scaling; `min_replicas` absent means 1."""

    scale_target_ref: ScaleTargetRef = ScaleTargetRef()
    min_replicas: int | None = None
    max_replicas: int = 0


class AutoscalerStatus(ApiModel):
    """What the autoscaler does."""

    current_replicas: int = 0
    desired_replicas: int = 0
    conditions: Items[Condition] = ()


class HorizontalPodAutoscaler(Resource):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    api_version: str = "autoscaling/v2"
    kind: str = "HorizontalPodAutoscaler"
    spec: AutoscalerSpec = AutoscalerSpec()
    status: AutoscalerStatus = AutoscalerStatus()
