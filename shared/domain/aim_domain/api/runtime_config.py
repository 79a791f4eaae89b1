"""AIMRuntimeConfig and AIMClusterRuntimeConfig: defaults of a namespace and of all, quotas (CC-100 to CC-102)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from aim_domain.api.aim_shapes import Hostname, Routing, Storage
from aim_domain.api.enums import API_VERSION, NamespaceOwnership
from aim_domain.api.own import OwnResource
from aim_domain.api.pod_settings import GpuPools, PodSettings, PredictorSettings
from controller_runtime import (
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    Int32,
    Int64,
    Items,
    QuantityText,
    Schema,
)
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


class AIMRuntimeConfig(OwnResource):
    """Default settings for one namespace; they take precedence over the cluster runtime config of the same name."""

    api_version: str = API_VERSION
    kind: str = "AIMRuntimeConfig"
    spec: RuntimeConfigSpec = RuntimeConfigSpec()
    """The default settings."""
    status: RuntimeConfigStatus = RuntimeConfigStatus()
    """Observed state of the runtime config."""


_NAMESPACE = Annotated[str, Schema(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
_PREFIX = Annotated[str, Schema(max_length=200, pattern=r"^/([a-z0-9-]+(/[a-z0-9-]+)*)?$")]


class ArtifactStorageQuota(ApiModel):
    """Limits on the storage that artifacts allocate."""

    cluster_limit: QuantityText | None = None
    """Limit for the whole cluster."""
    default_namespace_limit: QuantityText | None = None
    """Default limit per namespace; the annotation aim.eai.amd.com/artifact-storage-quota of a Namespace wins."""


class AddressReservation(ApiModel):
    """Addresses that only services of some namespaces get."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(CelRule("has(self.pathPrefixes) || has(self.hostnames)", "set pathPrefixes, hostnames or both"),)
    )

    namespaces: Annotated[Items[_NAMESPACE], REQUIRED, Schema(min_items=1, max_items=64)] = ()
    """Namespaces whose services get them."""
    path_prefixes: Annotated[Items[_PREFIX] | None, Schema(min_items=1, max_items=32)] = None
    """Paths with all that lies below them, such as /team-a; every path of the hosts when absent."""
    hostnames: Annotated[Items[Hostname] | None, Schema(min_items=1, max_items=16)] = None
    """Hosts, such as chat.example.com or *.team-a.example.com; every host when absent."""


class ClusterRouting(Routing):
    """Settings of the HTTP route, and what only the whole cluster can decide about routes."""

    namespace_ownership: NamespaceOwnership | None = None
    """Whether services of several namespaces may have overlapping paths on one gateway; Strict, the default: no."""
    reservations: Annotated[Items[AddressReservation] | None, Schema(max_items=64)] = None
    """Addresses that only services of some namespaces get; those of all AIMClusterRuntimeConfigs apply everywhere."""


class RolloutCheck(ApiModel):
    """A number that a new version must not exceed while it answers a share of the requests."""

    name: Annotated[str, REQUIRED, Schema(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)] = ""
    """Name of the check, for messages."""
    query: Annotated[str, REQUIRED, Schema(min_length=1, max_length=4096)] = ""
    """Query of PromQL; $namespace and $inferenceservice stand for those of the new version."""
    max: Annotated[str, REQUIRED, Schema(pattern=r"^[0-9]{1,15}(\.[0-9]{1,9})?$", max_length=32)] = "0"
    """Largest number that is accepted; above it the rollout is aborted."""


class RolloutChecks(ApiModel):
    """What decides about rollouts besides readiness and time."""

    prometheus_url: Annotated[str, REQUIRED, Schema(pattern=r"^https?://[^ \t\r\n]+$", max_length=1024)] = ""
    """Address of Prometheus."""
    checks: Annotated[Items[RolloutCheck], REQUIRED, Schema(min_items=1, max_items=8)] = ()
    """Checks of all rollouts, every 30 seconds."""


class AIMClusterRuntimeConfigSpec(RuntimeConfigSpec):
    """Default settings for all namespaces."""

    routing: ClusterRouting | None = None
    """Routing settings."""
    artifact_storage_quota: ArtifactStorageQuota | None = None
    """Limits on the storage that artifacts allocate."""
    rollouts: RolloutChecks | None = None
    """Checks of rollouts; read from the config named default."""


class AIMClusterRuntimeConfig(OwnResource):
    """Default settings for all namespaces."""

    api_version: str = API_VERSION
    kind: str = "AIMClusterRuntimeConfig"
    spec: AIMClusterRuntimeConfigSpec = AIMClusterRuntimeConfigSpec()
    """The default settings."""
    status: RuntimeConfigStatus = RuntimeConfigStatus()
    """Observed state of the runtime config."""
