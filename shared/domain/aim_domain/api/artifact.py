"""AIMArtifact: weights on a volume (CC-120, CC-121)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.aim_shapes import MODEL_ID, SOURCE_URI, DownloadFilter
from aim_domain.api.enums import CacheMode
from aim_domain.api.group import API_VERSION
from aim_domain.api.model import STANDARD_STATUS
from controller_runtime import (
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    Int32,
    Int64,
    QuantityText,
    Resource,
    Schema,
    StatusValue,
    Time,
    immutable,
)
from controller_runtime.core import EnvList, PullSecrets

_FILTER_KEPT: Final = CelRule(  # CEL-51
    "has(self.downloadFilter) == has(oldSelf.downloadFilter)"
    " && (!has(self.downloadFilter) || self.downloadFilter == oldSelf.downloadFilter)",
    "downloadFilter is immutable",
    field_path=".downloadFilter",
)


class AIMArtifactSpec(ApiModel):
    """Which weights are downloaded and how."""

    schema_info: ClassVar[Schema] = Schema(rules=(_FILTER_KEPT,))

    source_uri: Annotated[str, REQUIRED, Schema(min_length=1), SOURCE_URI, immutable("sourceUri")] = ""  # CEL-50
    """Where the weights are, hf:// or s3://; immutable."""
    model_id: Annotated[str | None, MODEL_ID] = None
    """Canonical id, org/name; derived from hf:// sources when absent."""
    storage_class_name: str | None = None
    """Storage class of the volume."""
    size: QuantityText | None = None
    """Size of the weights; found out when absent."""
    env: EnvList = ()
    """Variables for the download, such as credentials."""
    model_download_image: str | None = None
    """Image of the downloader; the release's own when absent."""
    download_filter: DownloadFilter | None = None
    """Which files are downloaded; immutable."""
    image_pull_secrets: PullSecrets = ()
    """Secrets for pulling images."""
    retention_priority: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Makes the artifact evictable when storage runs out; lower values go first."""
    runtime_config_name: str | None = None
    """Runtime config to use; empty means default."""


class DownloadProgress(ApiModel):
    """How much has been downloaded."""

    total_bytes: Int64 | None = None
    """Bytes to download."""
    downloaded_bytes: Int64 | None = None
    """Bytes downloaded."""
    percentage: Annotated[Int32 | None, Schema(minimum=0, maximum=100)] = None
    """Part downloaded in percent."""
    display_percentage: str | None = None
    """Part downloaded as text, such as 45 %."""


class DownloadState(ApiModel):
    """The running download attempt."""

    protocol: str | None = None
    """Protocol in use."""
    protocol_sequence: str | None = None
    """Protocols in the order they are tried."""
    message: str | None = None
    """What the downloader reports."""
    attempt: Int32 | None = None
    """Number of this attempt."""
    total_attempts: Int32 | None = None
    """Number of attempts allowed."""


class AIMArtifactStatus(ApiModel):
    """What became of the download."""

    observed_generation: Int64 | None = None
    """Generation that this status is about."""
    conditions: Conditions = ()
    """Aspects of the state."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status."""
    progress: DownloadProgress | None = None
    """How much has been downloaded."""
    download: DownloadState | None = None
    """The running download attempt."""
    display_size: str | None = None
    """Size for people, such as 42.5 GiB."""
    last_used: Time | None = None
    """When a model that uses the weights was last deployed."""
    persistent_volume_claim: str | None = None
    """PVC that holds the weights."""
    mode: CacheMode | None = None
    """Whether the artifact goes with its owners or stays for all."""
    discovered_size_bytes: Int64 | None = None
    """Size that the source reports."""
    allocated_size: QuantityText | None = None
    """Storage request of the PVC, headroom included."""
    headroom_percent: Int32 | None = None
    """Headroom that was applied."""


class AIMArtifact(Resource):
    """Weights of a model on a volume."""

    api_version: str = API_VERSION
    kind: str = "AIMArtifact"
    spec: Annotated[AIMArtifactSpec, REQUIRED] = AIMArtifactSpec()
    """Which weights are downloaded and how."""
    status: AIMArtifactStatus = AIMArtifactStatus()
    """What became of the download."""
