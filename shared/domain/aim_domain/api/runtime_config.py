"""AIMRuntimeConfig, and the shapes that it shares with AIMClusterRuntimeConfig (CC-100 to CC-102)."""

from __future__ import annotations

from typing import Annotated

from aim_domain.api.aim_shapes import Routing, Storage
from aim_domain.api.group import API_VERSION
from controller_runtime import ApiModel, Conditions, Int32, Int64, Items, Resource, Schema
from controller_runtime.core import EnvList


class ModelConfig(ApiModel):
    """Defaults of models."""

    auto_discovery: bool | None = None
    """Whether images are inspected when the model does not say; absent leaves it to the less specific level."""


class ArtifactConfig(ApiModel):
    """Defaults of artifacts."""

    default_retention_priority: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Retention priority of artifacts without their own; without it they are never evicted."""


class LabelPropagation(ApiModel):
    """Which labels children get from their owner."""

    enabled: bool | None = None
    """Whether labels are propagated; false when no level sets it."""
    match: Items[str] = ()
    """Keys or patterns of the labels."""


class RuntimeConfigSpec(ApiModel):
    """Defaults of services, models and templates; the part that both config kinds have."""

    storage: Storage | None = None
    """Storage settings."""
    routing: Routing | None = None
    """Routing settings."""
    env: EnvList = ()
    """Environment of downloads, discovery and serving."""
    model: ModelConfig | None = None
    """Defaults of models."""
    artifact: ArtifactConfig | None = None
    """Defaults of artifacts."""
    label_propagation: LabelPropagation | None = None
    """Which labels children get from their owner."""
    default_storage_class_name: str | None = None
    """Deprecated; use storage.defaultStorageClassName."""
    pvc_headroom_percent: Int32 | None = None
    """Deprecated; use storage.pvcHeadroomPercent."""


class RuntimeConfigStatus(ApiModel):
    """Whether the config is valid."""

    observed_generation: Int64 | None = None
    """Generation that this status is about."""
    conditions: Conditions = ()
    """Aspects of the state."""


class AIMRuntimeConfig(Resource):
    """Defaults for one namespace; they win over the cluster config of the same name."""

    api_version: str = API_VERSION
    kind: str = "AIMRuntimeConfig"
    spec: RuntimeConfigSpec = RuntimeConfigSpec()
    """The defaults."""
    status: RuntimeConfigStatus = RuntimeConfigStatus()
    """Whether the config is valid."""
