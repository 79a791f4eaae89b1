"""core/v1 PersistentVolumeClaim: volumes of artifacts (FW-165)."""

from __future__ import annotations

from pydantic import Field

from aim_shared.api.base import ApiModel, Items, MapOf
from aim_shared.api.core_shapes import ResourceRequirements
from aim_shared.api.enums import ClaimPhase
from aim_shared.api.meta import Condition, Resource
from aim_shared.api.quantity import QuantityText


class ClaimSpec(ApiModel):
    """What is asked of the storage."""

    access_modes: Items[str] = ()
    resources: ResourceRequirements = ResourceRequirements()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None


class ClaimStatus(ApiModel):
    """What became of the claim."""

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
