"""AIMRuntimeConfig, and the shapes that it shares with AIMClusterRuntimeConfig (CC-100 to CC-102)."""

from __future__ import annotations

from typing import Annotated

from aim_domain.api.aim_shapes import Routing, Storage
from aim_domain.api.group import API_VERSION
from aim_domain.api.pod_settings import GpuPools, PodSettings, PredictorSettings
from controller_runtime import ApiModel, Conditions, Int32, Int64, Items, Resource, Schema
from controller_runtime.core import EnvList


class ModelConfig(ApiModel):
    """Default settings of models."""

    auto_discovery: bool | None = None
    """Whether images are inspected when the model does not say; when absent, the less specific level decides."""


class ArtifactConfig(ApiModel):
    """Default settings of artifacts."""

    default_retention_priority: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Retention priority of artifacts that set none; when absent, those are never evicted."""


class LabelPropagation(ApiModel):
    """Which labels are propagated from an owner to its children."""

    enabled: bool | None = None
    """Whether labels are propagated; defaults to false."""
    match: Annotated[Items[Annotated[str, Schema(max_length=317)]], Schema(max_items=64)] = ()
    """Label keys to propagate; * matches any characters."""


class RuntimeConfigSpec(ApiModel):
    """Defaults of services, models and templates; the part that both config kinds have."""

    storage: Storage | None = None
    """Storage settings."""
    routing: Routing | None = None
    """Routing settings."""
    env: EnvList = ()
    """Environment variables of downloads, discovery and serving."""
    model: ModelConfig | None = None
    """Default settings of models."""
    artifact: ArtifactConfig | None = None
    """Default settings of artifacts."""
    label_propagation: LabelPropagation | None = None
    """Which labels are propagated from an owner to its children."""
    jobs: PodSettings | None = None
    """Settings of the pods of discovery, size-check and download Jobs."""
    predictors: PredictorSettings | None = None
    """Settings of the pods of services."""
    gpus: GpuPools | None = None
    """GPUs that the cluster can get."""
    default_storage_class_name: str | None = None
    """Deprecated; use storage.defaultStorageClassName."""
    pvc_headroom_percent: Int32 | None = None
    """Deprecated; use storage.pvcHeadroomPercent."""


class RuntimeConfigStatus(ApiModel):
    """Observed state of the runtime config."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""


class AIMRuntimeConfig(Resource):
    """Default settings for one namespace; they take precedence over the cluster runtime config of the same name."""

    api_version: str = API_VERSION
    kind: str = "AIMRuntimeConfig"
    spec: RuntimeConfigSpec = RuntimeConfigSpec()
    """The default settings."""
    status: RuntimeConfigStatus = RuntimeConfigStatus()
    """Observed state of the runtime config."""
