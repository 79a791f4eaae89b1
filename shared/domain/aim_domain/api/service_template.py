"""AIMServiceTemplate and AIMClusterServiceTemplate, the latter without caching (CC-090 to CC-092)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.aim_shapes import CustomProfile, DiscoveryState, Hardware, ModelSource, Profile, ResolvedReference
from aim_domain.api.enums import API_VERSION, Metric, Precision, ProfileType
from aim_domain.api.model import STANDARD_STATUS
from aim_domain.api.own import AGE, STATUS, Column, OwnResource
from aim_domain.component_names import ComponentName
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    Int64,
    Items,
    Schema,
    StatusValue,
    immutable,
)
from controller_runtime.core import EnvList, NodeAffinity, PullSecrets, ResourceRequirements


def _kept_rule(name: str) -> CelRule:
    """The field is neither added nor removed after creation (CEL-41)."""
    return CelRule(
        f"has(self.{name}) == has(oldSelf.{name})",
        f"{name} is immutable: it cannot be added or removed",
        field_path=f".{name}",
    )


_CUSTOM_PROFILE_COMPLETE: Final = CelRule(  # CEL-42
    "!has(self.customProfile) || (has(self.aimId) && has(self.modelId) && has(self.hardware)"
    " && has(self.metric) && has(self.precision))",
    "customProfile requires aimId, modelId, hardware, metric and precision",
    field_path=".customProfile",
)


class TemplateSpec(ApiModel):
    """How a model runs; the part that both template kinds have."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(_kept_rule("metric"), _kept_rule("precision"), _kept_rule("hardware"), _CUSTOM_PROFILE_COMPLETE)
    )

    model_name: Annotated[str, REQUIRED, Schema(min_length=1), immutable("modelName")] = ""  # CEL-40
    """Name of the model; immutable."""
    metric: Annotated[Metric | None, immutable("metric")] = None
    """Metric that the profile is optimized for; immutable."""
    precision: Annotated[Precision | None, immutable("precision")] = None
    """Numeric precision; immutable."""
    hardware: Annotated[Hardware | None, immutable("hardware")] = None
    """Hardware requirements of the profile; immutable."""
    runtime_config_name: str | None = None
    """Name of the runtime config to use; empty means default."""
    aim_id: str | None = None
    """AIM id of the custom profile."""
    model_id: str | None = None
    """Model id of the custom profile."""
    custom_profile: CustomProfile | None = None
    """Runtime profile to use instead of a discovered one."""
    image_pull_secrets: PullSecrets = ()
    """Secrets with credentials for pulling images."""
    service_account_name: str | None = None
    """ServiceAccount of the pods."""
    resources: ResourceRequirements | None = None
    """Resources of the serving container."""
    model_sources: Items[ModelSource] = ()
    """Model weights; when set, no discovery is needed."""
    profile_id: str | None = None
    """Id of the profile in the image."""
    type: ProfileType | None = None
    """Optimization level of the profile."""
    env: EnvList = ()
    """Environment variables of discovery and serving."""


class TemplateCaching(ApiModel):
    """Whether the weights are downloaded before a service asks for them."""

    enabled: Annotated[bool, DEFAULTED] = False
    """Whether to create a template cache."""
    env: EnvList = ()
    """Environment variables of the download."""


class AIMServiceTemplateSpec(TemplateSpec):
    """How a model runs in one namespace."""

    caching: TemplateCaching | None = None
    """Settings of caching the weights ahead of use."""


class TemplateStatus(ApiModel):
    """Observed state of the template."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status, summarized from the conditions."""
    resolved_runtime_config: ResolvedReference | None = None
    """Effective runtime config."""
    resolved_model: ResolvedReference | None = None
    """Effective model."""
    resolved_cache: ResolvedReference | None = None
    """Template cache of this template."""
    discovery_job: ResolvedReference | None = None
    """Latest discovery Job."""
    resolved_hardware: Hardware | None = None
    """Effective hardware requirements of services."""
    resolved_node_affinity: NodeAffinity | None = None
    """Effective node affinity of services."""
    hardware_summary: str | None = None
    """Human-readable summary of the hardware."""
    model_sources: Items[ModelSource] = ()
    """Model weights to download."""
    profile: Profile | None = None
    """Discovered profile."""
    discovery: DiscoveryState | None = None
    """Attempts to discover the profile."""


_COLUMNS: Final = (
    Column("Model", ".spec.modelName"),
    STATUS,
    Column("Hardware", ".status.hardwareSummary"),
    Column("Metric", ".status.profile.metadata.metric"),
    Column("Precision", ".status.profile.metadata.precision"),
    AGE,
)


class AIMServiceTemplate(OwnResource):
    """A runtime profile of a model, available in one namespace."""

    columns = _COLUMNS
    components = (
        ComponentName.RUNTIME_CONFIG,
        ComponentName.MODEL,
        ComponentName.CUSTOM_PROFILE,
        ComponentName.GPU,
        ComponentName.DISCOVERY_PODS,
        ComponentName.DISCOVERY_JOB,
    )

    api_version: str = API_VERSION
    kind: str = "AIMServiceTemplate"
    spec: Annotated[AIMServiceTemplateSpec, REQUIRED] = AIMServiceTemplateSpec()
    """How to run the model."""
    status: TemplateStatus = TemplateStatus()
    """Observed state of the template."""


class AIMClusterServiceTemplate(OwnResource):
    """A runtime profile of a model, available in all namespaces."""

    columns = _COLUMNS
    components = (
        ComponentName.RUNTIME_CONFIG,
        ComponentName.CLUSTER_MODEL,
        ComponentName.CUSTOM_PROFILE,
        ComponentName.GPU,
        ComponentName.DISCOVERY_PODS,
        ComponentName.DISCOVERY_JOB,
    )

    api_version: str = API_VERSION
    kind: str = "AIMClusterServiceTemplate"
    spec: Annotated[TemplateSpec, REQUIRED] = TemplateSpec()
    """How to run the model."""
    status: TemplateStatus = TemplateStatus()
    """Observed state of the template."""
