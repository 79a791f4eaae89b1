"""AIMClusterRuntimeConfig: defaults for all namespaces, and storage quotas (CC-100, CC-102)."""

from __future__ import annotations

from aim_domain.api.aim_shapes import Routing
from aim_domain.api.enums import NamespaceOwnership
from aim_domain.api.group import API_VERSION
from aim_domain.api.runtime_config import RuntimeConfigSpec, RuntimeConfigStatus
from controller_runtime import ApiModel, QuantityText, Resource


class ArtifactStorageQuota(ApiModel):
    """Limits on the storage that artifacts allocate."""

    cluster_limit: QuantityText | None = None
    """Limit for the whole cluster."""
    default_namespace_limit: QuantityText | None = None
    """Default limit per namespace; the annotation aim.eai.amd.com/artifact-storage-quota of a Namespace wins."""


class ClusterRouting(Routing):
    """Settings of the HTTP route, and what only the whole cluster can decide about routes."""

    namespace_ownership: NamespaceOwnership | None = None
    """Whether services of several namespaces may have overlapping paths on one gateway; Strict, the default: no."""


class AIMClusterRuntimeConfigSpec(RuntimeConfigSpec):
    """Default settings for all namespaces."""

    routing: ClusterRouting | None = None
    """Routing settings."""
    artifact_storage_quota: ArtifactStorageQuota | None = None
    """Limits on the storage that artifacts allocate."""


class AIMClusterRuntimeConfig(Resource):
    """Default settings for all namespaces."""

    api_version: str = API_VERSION
    kind: str = "AIMClusterRuntimeConfig"
    spec: AIMClusterRuntimeConfigSpec = AIMClusterRuntimeConfigSpec()
    """The default settings."""
    status: RuntimeConfigStatus = RuntimeConfigStatus()
    """Observed state of the runtime config."""
