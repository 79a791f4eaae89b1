"""AIMClusterRuntimeConfig: defaults for all namespaces, and storage quotas (CC-100, CC-102)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from aim_domain.api.aim_shapes import Hostname, Routing
from aim_domain.api.enums import NamespaceOwnership
from aim_domain.api.group import API_VERSION
from aim_domain.api.runtime_config import RuntimeConfigSpec, RuntimeConfigStatus
from controller_runtime import REQUIRED, ApiModel, CelRule, Items, QuantityText, Resource, Schema

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
