"""AIMProfile and AIMClusterProfile: how a model runs, complete in itself (PR-003 to PR-006)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from aim_domain.api.aim_shapes import ModelSource, ResolvedReference
from aim_domain.api.enums import (
    NEWER_API_VERSION,
    AcceleratorType,
    AcceleratorVendor,
    AutoSelection,
    Metric,
    Precision,
    ProfileOrigin,
    ProfileType,
)
from aim_domain.api.model import STANDARD_STATUS
from aim_domain.api.own import AGE, STATUS, Column, OwnResource
from aim_domain.api.profile_shapes import ACCELERATOR_NAME, PROFILE_PRECISION, UNPARTITIONED, VARIANT
from aim_domain.component_names import ComponentName
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    FreeObject,
    Int32,
    Int64,
    Items,
    Schema,
    StatusValue,
    StrMap,
)
from controller_runtime.core import EnvList, NodeAffinity, PullSecrets, ResourceRequirements

_WHOLE: Final = CelRule(  # CEL-60
    "has(self.aimId) == (has(self.modelSources) && self.modelSources.size() > 0)",
    "aimId and modelSources are given together, or neither for a profile without weights",
    field_path=".modelSources",
)
_CPU_UNPARTITIONED: Final = CelRule(  # CEL-61
    "!has(self.acceleratorType) || self.acceleratorType != 'cpu'"
    f" || self.acceleratorPartitioningMode == '{UNPARTITIONED}'",
    "acceleratorPartitioningMode must be unpartitioned for CPUs",
    field_path=".acceleratorPartitioningMode",
)
_AIM_ID_KEPT: Final = CelRule(  # CEL-66
    "!has(oldSelf.aimId) || (has(self.aimId) && self.aimId == oldSelf.aimId)",
    "aimId is immutable once set",
    field_path=".aimId",
)


class ClusterProfileSpec(ApiModel):
    """How a model runs; the part that both profile kinds have."""

    schema_info: ClassVar[Schema] = Schema(rules=(_WHOLE, _CPU_UNPARTITIONED, _AIM_ID_KEPT))

    aim_id: Annotated[str | None, Schema(min_length=1)] = None
    """AIM id, such as qwen/qwen3-32b; immutable once set."""
    model_id: str | None = None
    """Model id of the weights."""
    profile_id: str | None = None
    """Id of the profile in its image."""
    engine: str | None = None
    """Inference engine, such as vllm."""
    variant: Annotated[str | None, VARIANT] = None
    """Variant of the profile."""
    metric: Metric | None = None
    """Metric that the profile is optimized for."""
    precision: Annotated[Precision | None, PROFILE_PRECISION] = None
    """Numeric precision."""
    type: ProfileType | None = None
    """Optimization level; counts as unoptimized when absent."""
    auto_selection_policy: AutoSelection | None = None
    """With any, it is also selected for services that ask for optimized profiles, when there are none."""
    primary: Annotated[bool, DEFAULTED] = False
    """Whether it is preferred to the other profiles."""
    manual_selection_only: Annotated[bool, DEFAULTED] = False
    """Deprecated and without effect; name the profile in spec.profile.name."""
    engine_args: FreeObject | None = None
    """Arguments of the inference engine."""
    engine_env: StrMap = Field(default_factory=dict)
    """Environment variables of the inference engine, in the file of the profile."""
    accelerator_vendor: AcceleratorVendor | None = None
    """Vendor of the accelerator; amd when absent."""
    accelerator_model: Annotated[str | None, ACCELERATOR_NAME] = None
    """Model of the accelerator, such as MI300X."""
    accelerator_type: AcceleratorType | None = None
    """Type of the accelerator: gpu or cpu."""
    accelerator_count: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Number of GPUs, or of CPU cores."""
    accelerator_partitioning_mode: Annotated[str, DEFAULTED, ACCELERATOR_NAME] = UNPARTITIONED
    """Partitioning of the GPUs: unpartitioned, partitioned, or a scheme like CPX-NPS4."""
    resources: ResourceRequirements | None = None
    """Resources of the serving container."""
    image: Annotated[str, REQUIRED, Schema(min_length=1)] = ""
    """Image of the runtime."""
    model_sources: Annotated[Items[ModelSource], Schema(max_items=16)] = ()
    """Model weights; none for a profile that others are derived from."""
    container_env: EnvList = ()
    """Environment variables of the serving container."""
    image_pull_secrets: PullSecrets = ()
    """Secrets with credentials for pulling images."""
    service_account_name: str | None = None
    """ServiceAccount of the pods."""
    features: Annotated[Items[str], Schema(max_items=16)] = ()
    """What the engine can do besides, such as adapters."""


class ProfileCaching(ApiModel):
    """Whether the weights are downloaded before a service asks for them."""

    enabled: Annotated[bool, DEFAULTED] = False
    """Whether to create a profile cache."""
    env: EnvList = ()
    """Environment variables of the download."""


class AIMProfileSpec(ClusterProfileSpec):
    """How a model runs in one namespace."""

    caching: ProfileCaching | None = None
    """Settings of caching the weights ahead of use."""


class ProfileStatus(ApiModel):
    """Observed state of the profile."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status, summarized from the conditions."""
    deployable: Annotated[bool, DEFAULTED] = False
    """Whether a service can use the profile: it has weights."""
    source_model: ResolvedReference | None = None
    """Model that the profile was discovered in, or derived for."""
    origin: ProfileOrigin | None = None
    """How the profile came to be: discovered, derived or user-authored."""
    version: str | None = None
    """Tag of the image."""
    base_image: str | None = None
    """Image that the image was built on."""
    matching_nodes: Int32 | None = None
    """Number of nodes that have the accelerator."""
    hardware_summary: str | None = None
    """Human-readable summary of the hardware."""
    resources: ResourceRequirements | None = None
    """Resources of the serving container for the accelerator."""
    resolved_node_affinity: NodeAffinity | None = None
    """Effective node affinity of services."""


_COLUMNS: Final = (
    Column("AimId", ".spec.aimId"),
    Column("Engine", ".spec.engine"),
    STATUS,
    Column("Origin", ".status.origin"),
    Column("Hardware", ".status.hardwareSummary"),
    Column("Metric", ".spec.metric"),
    Column("Precision", ".spec.precision"),
    Column("Type", ".spec.type"),
    Column("Partitioning", ".spec.acceleratorPartitioningMode", priority=1),
    Column("Primary", ".spec.primary"),
    Column("Version", ".status.version"),
    AGE,
)


class AIMProfile(OwnResource):
    """How a model runs, available in one namespace."""

    columns = _COLUMNS
    components = (ComponentName.NODES,)

    api_version: str = NEWER_API_VERSION
    kind: str = "AIMProfile"
    spec: Annotated[AIMProfileSpec, REQUIRED] = AIMProfileSpec()
    """How to run the model."""
    status: ProfileStatus = ProfileStatus()
    """Observed state of the profile."""


class AIMClusterProfile(OwnResource):
    """How a model runs, available in all namespaces."""

    columns = _COLUMNS
    components = (ComponentName.NODES,)

    api_version: str = NEWER_API_VERSION
    kind: str = "AIMClusterProfile"
    spec: Annotated[ClusterProfileSpec, REQUIRED] = ClusterProfileSpec()
    """How to run the model."""
    status: ProfileStatus = ProfileStatus()
    """Observed state of the profile."""
