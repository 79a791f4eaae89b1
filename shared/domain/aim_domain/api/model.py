"""AIMModel and AIMClusterModel, and what the labels of a model image say (CC-040, CC-080 to CC-083)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from aim_domain.api.aim_shapes import CustomProfile, DiscoveryState, Hardware, ModelSource, ResolvedReference
from aim_domain.api.enums import API_VERSION, Metric, ModelSourceType, Precision, ProfileType
from aim_domain.api.own import AGE, STATUS, Column, OwnResource
from aim_domain.api.profile_shapes import DiscoveredProfiles, ManagedProfiles, ModelProfiles
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
from controller_runtime.core import EnvList, PullSecrets, ResourceRequirements

MAX_DEPLOYMENTS: Final = 64
"""Recommended deployments of an image that become templates: each is an object and a discovery (CC-341)."""


class RecommendedDeployment(ApiModel):
    """A deployment recommended by the author of the image."""

    gpu_model: str | None = None
    """GPU model."""
    gpu_count: Int32 | None = None
    """Number of GPUs."""
    precision: str | None = None
    """Numeric precision."""
    metric: str | None = None
    """Metric that the deployment is optimized for."""
    profile_id: str | None = None
    """Id of the profile in the image."""
    description: str | None = None
    """Human-readable description."""


class ModelMetadata(ApiModel):
    """Metadata of the model in the image."""

    canonical_name: str | None = None
    """Canonical id of the model."""
    source: str | None = None
    """URL of the model's origin."""
    tags: Items[str] = ()
    """Tags of the model."""
    versions: Items[str] = ()
    """Versions of the model."""
    variants: Items[str] = ()
    """Variants of the model."""
    hf_token_required: bool | None = None
    """Whether the download needs a Hugging Face token."""
    title: str | None = None
    """Title of the model."""
    description_full: Annotated[str | None, Schema(max_length=65_536)] = None
    """Description of the model."""
    release_notes: Annotated[str | None, Schema(max_length=65_536)] = None
    """Release notes."""
    recommended_deployments: Annotated[Items[RecommendedDeployment], Schema(max_items=MAX_DEPLOYMENTS)] = ()
    """Deployments recommended by the author of the image."""


class OciMetadata(ApiModel):
    """The standard OCI labels."""

    title: str | None = None
    """Title of the image."""
    description: str | None = None
    """Description of the image."""
    licenses: str | None = None
    """Licenses of the content."""
    vendor: str | None = None
    """Vendor of the image."""
    authors: str | None = None
    """Authors of the image."""
    source: str | None = None
    """URL of the source of the image."""
    documentation: str | None = None
    """URL of the documentation."""
    created: str | None = None
    """Creation time of the image, as its label says."""
    revision: str | None = None
    """Source revision of the image."""
    version: str | None = None
    """Version of the content."""


class ImageMetadata(ApiModel):
    """What the labels of a model image say."""

    model: ModelMetadata | None = None
    """Metadata of the model in the image."""
    oci: OciMetadata | None = None
    """The standard OCI labels."""
    original_labels: StrMap = Field(default_factory=dict)
    """All labels of the image, unmodified."""


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


_IMAGE_GIVEN: Final = CelRule(  # CEL-32
    "has(self.image) || has(self.profiles) || has(self.profileCopy) || has(self.derivedFrom) || has(self.modelId)",
    "image is required",
    field_path=".image",
)


class AIMModelSpec(ApiModel):
    """A model image, or a custom model on a base image."""

    schema_info: ClassVar[Schema] = Schema(rules=(_HARDWARE_KNOWN, _IMAGE_GIVEN))

    image: Annotated[str, Schema(min_length=1)] = ""
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
    profiles: ModelProfiles | None = None
    """Profiles that are derived from others, in place of an image."""
    profile_copy: FreeObject | None = None
    """Kept for the Go operator; an older spelling of profiles."""
    derived_from: FreeObject | None = None
    """Kept for the Go operator; an older spelling of profiles."""
    aim_id: str | None = None
    """Kept for the Go operator; AIM id of the model."""
    model_id: str | None = None
    """Kept for the Go operator; a hub id that it generates profiles for."""
    source: FreeObject | None = None
    """Kept for the Go operator; the weights of modelId."""
    accelerator: FreeObject | None = None
    """Kept for the Go operator; the accelerator of modelId."""


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
    aim_id: str | None = None
    """AIM id of the image."""
    base_image: str | None = None
    """Image that the image was built on."""
    version: str | None = None
    """Tag of the image."""
    discovered_profiles: DiscoveredProfiles | None = None
    """Profiles of the image."""
    managed_profiles: ManagedProfiles | None = None
    """Profiles of the model."""
    discovery_cache_ref: ResolvedReference | None = None
    """ConfigMap with the profiles of the image as they were read."""
    profile_set_ref: ResolvedReference | None = None
    """Profile set of a model that is derived from others."""
    discovery: DiscoveryState | None = None
    """Attempts to read the profiles of the image."""


_COLUMNS: Final = (
    STATUS,
    Column("Source", ".status.sourceType"),
    Column("Image", ".spec.image"),
    Column("Model", ".status.imageMetadata.model.canonicalName"),
    AGE,
)


class AIMModel(OwnResource):
    """A model image, available in one namespace."""

    columns = _COLUMNS
    components = (
        ComponentName.RUNTIME_CONFIG,
        ComponentName.IMAGE_METADATA,
        ComponentName.SERVICE_TEMPLATES,
        ComponentName.MANAGED_PROFILES,
    )

    api_version: str = API_VERSION
    kind: str = "AIMModel"
    spec: Annotated[AIMModelSpec, REQUIRED] = AIMModelSpec()
    """The model image, and how to use it."""
    status: AIMModelStatus = AIMModelStatus()
    """Observed state of the model."""


class AIMClusterModel(OwnResource):
    """A model image, available in all namespaces."""

    columns = _COLUMNS
    components = (
        ComponentName.RUNTIME_CONFIG,
        ComponentName.IMAGE_METADATA,
        ComponentName.CLUSTER_SERVICE_TEMPLATES,
        ComponentName.MANAGED_PROFILES,
    )

    api_version: str = API_VERSION
    kind: str = "AIMClusterModel"
    spec: Annotated[AIMModelSpec, REQUIRED] = AIMModelSpec()
    """The model image, and how to use it."""
    status: AIMModelStatus = AIMModelStatus()
    """Observed state of the model."""
