"""AIMArtifact: weights on a volume (CC-120, CC-121)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.aim_shapes import MODEL_ID, SOURCE_URI, DownloadFilter
from aim_domain.api.enums import API_VERSION, ArtifactType, CacheMode
from aim_domain.api.model import STANDARD_STATUS
from aim_domain.api.own import AGE, STATUS, Column, OwnResource
from aim_domain.component_names import ComponentName
from controller_runtime import (
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    Int32,
    Int64,
    QuantityText,
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
_IS_DISK: Final = "has(self.type) && self.type == 'adapterDisk'"
_IS_ADAPTER: Final = "has(self.type) && self.type == 'adapter'"
_FIELDS_OF_TYPE: Final = (  # CEL-52 to CEL-55
    CelRule(f"{_IS_DISK} || has(self.sourceUri)", "sourceUri is required", field_path=".sourceUri"),
    CelRule(f"!({_IS_DISK}) || has(self.size)", "size is required for an adapterDisk", field_path=".size"),
    CelRule(
        f"({_IS_ADAPTER}) == has(self.disk)",
        "disk is required for an adapter, and for nothing else",
        field_path=".disk",
    ),
    CelRule(
        "has(self.type) == has(oldSelf.type) && (!has(self.type) || self.type == oldSelf.type)",
        "type is immutable",
        field_path=".type",
    ),
)


class AIMArtifactSpec(ApiModel):
    """Which weights to download, and how."""

    schema_info: ClassVar[Schema] = Schema(rules=(_FILTER_KEPT, *_FIELDS_OF_TYPE))

    source_uri: Annotated[str, Schema(min_length=1), SOURCE_URI, immutable("sourceUri")] = ""  # CEL-50
    """URI of the weights, hf:// or s3://; required unless type is adapterDisk; immutable."""
    type: ArtifactType | None = None
    """What it is: weights of a model (the default), a LoRA adapter, or a disk for adapters; immutable."""
    disk: Annotated[str | None, Schema(min_length=1, max_length=253), immutable("disk")] = None  # CEL-56
    """AIMArtifact of type adapterDisk that an adapter is downloaded to; immutable."""
    model_id: Annotated[str | None, MODEL_ID] = None
    """Canonical id, org/name; derived from hf:// sources when absent."""
    storage_class_name: str | None = None
    """StorageClass of the volume."""
    size: QuantityText | None = None
    """Size of the weights; determined from the source when absent."""
    env: EnvList = ()
    """Environment variables of the download, such as credentials."""
    model_download_image: str | None = None
    """Image of the downloader; defaults to the one of this release."""
    download_filter: DownloadFilter | None = None
    """Filter of the files to download; immutable."""
    image_pull_secrets: PullSecrets = ()
    """Secrets with credentials for pulling images."""
    retention_priority: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Makes the artifact evictable when storage runs out; lower values are evicted first."""
    runtime_config_name: str | None = None
    """Name of the runtime config to use; empty means default."""


class DownloadProgress(ApiModel):
    """Progress of the download."""

    total_bytes: Int64 | None = None
    """Total number of bytes to download."""
    downloaded_bytes: Int64 | None = None
    """Number of bytes downloaded."""
    percentage: Annotated[Int32 | None, Schema(minimum=0, maximum=100)] = None
    """Progress in percent."""
    display_percentage: str | None = None
    """Human-readable progress, such as 45 %."""


class DownloadState(ApiModel):
    """The running download attempt."""

    protocol: str | None = None
    """Protocol of this attempt."""
    protocol_sequence: str | None = None
    """Protocols in the order in which they are tried."""
    message: Annotated[str | None, Schema(max_length=32_768)] = None
    """Latest message of the downloader."""
    attempt: Int32 | None = None
    """Number of this attempt."""
    total_attempts: Int32 | None = None
    """Maximum number of attempts."""
    commit: Annotated[str | None, Schema(max_length=64)] = None
    """Commit of the repository that everything is downloaded from."""


class AIMArtifactStatus(ApiModel):
    """Observed state of the artifact."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status, summarized from the conditions."""
    progress: DownloadProgress | None = None
    """Progress of the download."""
    download: DownloadState | None = None
    """The running download attempt."""
    display_size: str | None = None
    """Human-readable size, such as 42.5 GiB."""
    last_used: Time | None = None
    """When a model that uses the weights was last deployed."""
    persistent_volume_claim: str | None = None
    """PersistentVolumeClaim that holds the weights."""
    mode: CacheMode | None = None
    """Whether the artifact is deleted with its owners or kept and shared."""
    discovered_size_bytes: Int64 | None = None
    """Size reported by the source, in bytes."""
    allocated_size: QuantityText | None = None
    """Storage requested by the PersistentVolumeClaim, including headroom."""
    revision: Annotated[str | None, Schema(max_length=256)] = None
    """Branch, tag or commit that sourceUri pins; absent for the default branch."""
    headroom_percent: Int32 | None = None
    """Headroom applied to the size, in percent."""


class AIMArtifact(OwnResource):
    """Model weights, downloaded once to a volume."""

    columns = (
        STATUS,
        Column("Mode", ".status.mode"),
        Column("Model Size", ".status.displaySize"),
        Column("Progress", ".status.progress.displayPercentage"),
        Column("Protocol", ".status.download.protocol", priority=1),
        Column("Attempt", ".status.download.attempt", priority=1),
        AGE,
    )
    components = (
        ComponentName.RUNTIME_CONFIG,
        ComponentName.CHECK_SIZE_JOB_PODS,
        ComponentName.CHECK_SIZE_JOB,
        ComponentName.CHECK_SIZE_OUTPUT,
        ComponentName.STORAGE_QUOTA,
        ComponentName.CACHE_PVC,
        ComponentName.DOWNLOAD_JOB_PODS,
        ComponentName.DOWNLOAD_JOB,
    )

    api_version: str = API_VERSION
    kind: str = "AIMArtifact"
    spec: Annotated[AIMArtifactSpec, REQUIRED] = AIMArtifactSpec()
    """Which weights to download, and how."""
    status: AIMArtifactStatus = AIMArtifactStatus()
    """Observed state of the artifact."""
