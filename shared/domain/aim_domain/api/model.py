"""AIMModel, and the shapes that it shares with AIMClusterModel (CC-080 to CC-083)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.aim_shapes import CustomProfile, Hardware, ModelSource, ResolvedReference
from aim_domain.api.enums import Metric, ModelSourceType, Precision, ProfileType
from aim_domain.api.group import API_VERSION
from aim_domain.api.image_metadata import ImageMetadata
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    CelRule,
    Conditions,
    Int64,
    Items,
    Resource,
    Schema,
    StatusValue,
)
from controller_runtime.core import EnvList, PullSecrets, ResourceRequirements

STANDARD_STATUS: Final = Schema(
    defaulted=True,
    enum=(
        StatusValue.PENDING,
        StatusValue.PROGRESSING,
        StatusValue.READY,
        StatusValue.DEGRADED,
        StatusValue.FAILED,
        StatusValue.NOT_AVAILABLE,
    ),
)
"""Status values of models, templates, artifacts and template caches (FW-022)."""


class Discovery(ApiModel):
    """What discovery reads from the image."""

    extract_metadata: Annotated[bool, DEFAULTED] = True
    """Whether to read the labels of the image."""
    create_service_templates: Annotated[bool, DEFAULTED] = True
    """Whether to create templates for the recommended deployments."""


class CustomModelSettings(ApiModel):
    """Settings of a custom model."""

    hardware: Hardware | None = None
    """Default hardware of the custom templates."""
    type: ProfileType | None = None
    """Optimization level of the profile."""


class CustomTemplateProfile(ApiModel):
    """What a custom template is made for."""

    metric: Metric | None = None
    """Metric that the profile is optimized for."""
    precision: Precision | None = None
    """Numeric precision."""


class CustomTemplate(ApiModel):
    """A service template described by the author of the model."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(  # CEL-31
            CelRule(
                "!has(self.customProfile) || (has(self.aimId) && has(self.modelId) && has(self.hardware)"
                " && has(self.profile) && has(self.profile.metric) && has(self.profile.precision))",
                "customProfile requires aimId, modelId, hardware, profile.metric and profile.precision",
                field_path=".customProfile",
            ),
        )
    )

    name: Annotated[str | None, Schema(max_length=63)] = None
    """Name of the template; generated when absent."""
    type: Annotated[ProfileType, DEFAULTED] = ProfileType.UNOPTIMIZED
    """Optimization level of the profile."""
    env: Annotated[EnvList, Schema(max_items=64)] = ()
    """Environment variables of the serving container."""
    hardware: Hardware | None = None
    """Hardware requirements of this template."""
    profile: CustomTemplateProfile | None = None
    """Metric and precision that the template is optimized for."""
    aim_id: str | None = None
    """AIM id of the custom profile."""
    model_id: str | None = None
    """Model id of the custom profile."""
    custom_profile: CustomProfile | None = None
    """Runtime profile to use instead of a discovered one."""


_HARDWARE_KNOWN: Final = CelRule(  # CEL-30
    "!has(self.modelSources) || self.modelSources.size() == 0"
    " || (has(self.custom) && has(self.custom.hardware))"
    " || (has(self.customTemplates) && self.customTemplates.size() > 0"
    " && self.customTemplates.all(t, has(t.hardware)))",
    "a custom model requires custom.hardware, or hardware on every entry of customTemplates",
    field_path=".modelSources",
)


class AIMModelSpec(ApiModel):
    """A model image, or a custom model on a base image."""

    schema_info: ClassVar[Schema] = Schema(rules=(_HARDWARE_KNOWN,))

    image: Annotated[str, REQUIRED, Schema(min_length=1)] = ""
    """Image of the model."""
    discovery: Discovery = Discovery()
    """What discovery reads from the image."""
    default_service_template: str | None = None
    """Template of services that name none."""
    custom: CustomModelSettings | None = None
    """Settings of a custom model."""
    custom_templates: Annotated[Items[CustomTemplate], Schema(max_items=16)] = ()
    """Templates of a custom model."""
    model_sources: Annotated[Items[ModelSource], Schema(max_items=1)] = ()
    """Model weights of a custom model."""
    runtime_config_name: str | None = None
    """Name of the runtime config to use; empty means default."""
    image_pull_secrets: PullSecrets = ()
    """Secrets with credentials for pulling images."""
    env: EnvList = ()
    """Environment variables of discovery and serving."""
    service_account_name: str | None = None
    """ServiceAccount of the pods."""
    resources: ResourceRequirements | None = None
    """Resources of the serving container."""
    image_metadata: ImageMetadata | None = None
    """Metadata that replaces the labels of the image."""


class AIMModelStatus(ApiModel):
    """Observed state of the model."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status, summarized from the conditions."""
    resolved_runtime_config: ResolvedReference | None = None
    """Effective runtime config."""
    image_metadata: ImageMetadata | None = None
    """Effective metadata of the model."""
    source_type: ModelSourceType | None = None
    """Whether the model is an AIM image or a custom model."""


class AIMModel(Resource):
    """A model image, available in one namespace."""

    api_version: str = API_VERSION
    kind: str = "AIMModel"
    spec: Annotated[AIMModelSpec, REQUIRED] = AIMModelSpec()
    """The model image, and how to use it."""
    status: AIMModelStatus = AIMModelStatus()
    """Observed state of the model."""
