"""AIMServiceTemplate, and the shapes that it shares with AIMClusterServiceTemplate (CC-090 to CC-093)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.aim_shapes import CustomProfile, Hardware, ModelSource, Profile, ResolvedReference
from aim_domain.api.enums import Metric, Precision, ProfileType
from aim_domain.api.group import API_VERSION
from aim_domain.api.model import STANDARD_STATUS
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    Int32,
    Int64,
    Items,
    Resource,
    Schema,
    StatusValue,
    Time,
    immutable,
)
from controller_runtime.core import EnvList, NodeAffinity, PullSecrets, ResourceRequirements


def _kept(name: str) -> CelRule:
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
        rules=(_kept("metric"), _kept("precision"), _kept("hardware"), _CUSTOM_PROFILE_COMPLETE)
    )

    model_name: Annotated[str, REQUIRED, Schema(min_length=1), immutable("modelName")] = ""  # CEL-40
    """Model that the template is for; immutable."""
    metric: Annotated[Metric | None, immutable("metric")] = None
    """What the profile is optimised for; immutable."""
    precision: Annotated[Precision | None, immutable("precision")] = None
    """Numeric precision; immutable."""
    hardware: Annotated[Hardware | None, immutable("hardware")] = None
    """Hardware that the profile needs; immutable."""
    runtime_config_name: str | None = None
    """Runtime config to use; empty means default."""
    aim_id: str | None = None
    """AIM id for the custom profile."""
    model_id: str | None = None
    """Model id for the custom profile."""
    custom_profile: CustomProfile | None = None
    """A runtime profile to use instead of a discovered one."""
    image_pull_secrets: PullSecrets = ()
    """Secrets for pulling images."""
    service_account_name: str | None = None
    """Service account of the pods."""
    resources: ResourceRequirements | None = None
    """Resources of the serving container."""
    model_sources: Items[ModelSource] = ()
    """Weights; given inline they make discovery unnecessary."""
    profile_id: str | None = None
    """Profile inside the image."""
    type: ProfileType | None = None
    """How far the profile has been tuned."""
    env: EnvList = ()
    """Environment of discovery and serving."""


class TemplateCaching(ApiModel):
    """Whether the weights are downloaded before a service asks for them."""

    enabled: Annotated[bool, DEFAULTED] = False
    """Whether a template cache is made."""
    env: EnvList = ()
    """Variables for the download."""


class AIMServiceTemplateSpec(TemplateSpec):
    """How a model runs in one namespace."""

    caching: TemplateCaching | None = None
    """Whether the weights are downloaded ahead."""


class DiscoveryState(ApiModel):
    """Attempts of the discovery."""

    attempts: Int32 | None = None
    """Number of attempts."""
    last_attempt_time: Time | None = None
    """When the last attempt began."""
    last_failure_reason: str | None = None
    """Why the last attempt failed."""
    spec_hash: str | None = None
    """Hash of the inputs that the attempts belong to."""


class TemplateStatus(ApiModel):
    """What became of the template."""

    observed_generation: Int64 | None = None
    """Generation that this status is about."""
    conditions: Conditions = ()
    """Aspects of the state."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status."""
    resolved_runtime_config: ResolvedReference | None = None
    """Runtime config in use."""
    resolved_model: ResolvedReference | None = None
    """Model in use."""
    resolved_cache: ResolvedReference | None = None
    """Template cache that belongs to this template."""
    discovery_job: ResolvedReference | None = None
    """Latest discovery Job."""
    resolved_hardware: Hardware | None = None
    """Hardware that services use."""
    resolved_node_affinity: NodeAffinity | None = None
    """Nodes that services use."""
    hardware_summary: str | None = None
    """Hardware in a few words."""
    model_sources: Items[ModelSource] = ()
    """Weights to download."""
    profile: Profile | None = None
    """The discovered profile."""
    discovery: DiscoveryState | None = None
    """Attempts of the discovery."""


class AIMServiceTemplate(Resource):
    """A runtime profile of a model for one namespace."""

    api_version: str = API_VERSION
    kind: str = "AIMServiceTemplate"
    spec: Annotated[AIMServiceTemplateSpec, REQUIRED] = AIMServiceTemplateSpec()
    """How the model runs."""
    status: TemplateStatus = TemplateStatus()
    """What became of the template."""
