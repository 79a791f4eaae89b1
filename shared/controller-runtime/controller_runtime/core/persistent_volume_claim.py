"""core/v1 PersistentVolumeClaim: volumes of artifacts (FW-165)."""

from __future__ import annotations

from pydantic import Field

from controller_runtime.api.base import ApiModel, Items, MapOf
from controller_runtime.api.enums import ClaimPhase
from controller_runtime.api.meta import Condition, Resource
from controller_runtime.core.shapes import ResourceRequirements
from controller_runtime.quantity import QuantityText


class ClaimSpec(ApiModel):
    """What is asked of the storage."""

    access_modes: Items[str] = ()
    resources: ResourceRequirements = ResourceRequirements()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None


class ClaimStatus(ApiModel):
    """Observed state of the claim."""

    phase: ClaimPhase = ClaimPhase.PENDING
    access_modes: Items[str] = ()
    capacity: MapOf[QuantityText] = Field(default_factory=dict)
    conditions: Items[Condition] = ()


class PersistentVolumeClaim(Resource):
    """core/v1 PersistentVolumeClaim."""

    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()
