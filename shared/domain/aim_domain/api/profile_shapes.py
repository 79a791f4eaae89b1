"""Shapes of the profile kinds that services, models and sets use as well (PR-003, PR-060)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from aim_domain.api.aim_shapes import ModelSource
from aim_domain.api.enums import (
    AcceleratorType,
    AcceleratorVendor,
    Metric,
    MinimumType,
    ModelScopeChoice,
    Precision,
    ProfileOrigin,
    ProfileRole,
    ProfileType,
    VersionPolicy,
)
from controller_runtime import DEFAULTED, REQUIRED, ApiModel, CelRule, FreeObject, Int32, Items, Schema, StrMap
from controller_runtime.core import EnvList

ACCELERATOR_NAME: Final = Schema(max_length=63, pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")
PROFILE_PRECISION: Final = Schema(enum=tuple(one for one in Precision if one is not Precision.AUTO))
"""A profile has one precision; `auto` is of templates."""
UNPARTITIONED: Final = "unpartitioned"
VARIANT: Final = Schema(max_length=63, pattern=r"^[a-z][a-z0-9-]*$")


class ProfileModelRef(ApiModel):
    """The model whose profiles are meant."""

    name: Annotated[str, REQUIRED, Schema(min_length=1)] = ""
    """Name of an AIMModel or AIMClusterModel."""
    scope: Annotated[ModelScopeChoice, DEFAULTED] = ModelScopeChoice.AUTO
    """Auto, Namespace or Cluster; Auto takes the namespace's profiles, else the cluster's."""


class ProfileSelector(ApiModel):
    """Which profiles are meant; every field that is set must be equal."""

    aim_id: str | None = None
    """AIM id, such as qwen/qwen3-32b."""
    model_id: str | None = None
    """Model id of the weights."""
    profile_id: str | None = None
    """Id of the profile in its image."""
    engine: str | None = None
    """Inference engine."""
    metric: Metric | None = None
    """Metric that the profile is optimized for."""
    precision: Annotated[Precision | None, PROFILE_PRECISION] = None
    """Numeric precision."""
    type: ProfileType | None = None
    """Optimization level, exactly."""
    minimum_type: MinimumType | None = None
    """Least optimization level; of services optimized when absent, of sets any."""
    accelerator_model: Annotated[str | None, ACCELERATOR_NAME] = None
    """Model of the accelerator, such as MI300X."""
    accelerator_vendor: AcceleratorVendor | None = None
    """Vendor of the accelerator."""
    accelerator_type: AcceleratorType | None = None
    """Type of the accelerator: gpu or cpu."""
    accelerator_count: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Number of GPUs, or of CPU cores."""
    accelerator_partitioning_mode: Annotated[str | None, ACCELERATOR_NAME] = None
    """Partitioning of the GPUs: unpartitioned, partitioned, a compute mode such as CPX, or a scheme like CPX-NPS4."""
    engine_args: FreeObject | None = None
    """Engine arguments; each that is given must be equal."""
    model_ref: ProfileModelRef | None = None
    """Model that the profiles belong to."""
    role: ProfileRole | None = None
    """Profiles with weights (deployable, the default) or without (base)."""
    origin: ProfileOrigin | None = None
    """How the profile came to be."""


_COUNT_WITH_PARTITION: Final = CelRule(  # CEL-62
    "!has(self.acceleratorPartitioningMode) || has(self.acceleratorCount)",
    "acceleratorPartitioningMode requires acceleratorCount",
    field_path=".acceleratorCount",
)


class ServiceProfileOverrides(ApiModel):
    """What a service wants differently from its profile."""

    schema_info: ClassVar[Schema] = Schema(rules=(_COUNT_WITH_PARTITION,))

    model_sources: Annotated[Items[ModelSource], Schema(max_items=16)] = ()
    """Model weights that replace those of the profile."""
    features: Annotated[Items[str], Schema(max_items=16)] = ()
    """Features that the engine has besides."""
    accelerator_model: Annotated[str | None, ACCELERATOR_NAME] = None
    """Model of the accelerator."""
    accelerator_vendor: AcceleratorVendor | None = None
    """Vendor of the accelerator."""
    accelerator_count: Annotated[Int32 | None, Schema(minimum=0)] = None
    """Number of GPUs, or of CPU cores."""
    accelerator_partitioning_mode: Annotated[str | None, ACCELERATOR_NAME] = None
    """Partitioning of the GPUs; requires acceleratorCount."""
    container_env: EnvList = ()
    """Environment variables of the serving container, merged by name."""
    engine_env: StrMap = Field(default_factory=dict)
    """Environment variables of the engine in the profile, merged by name."""
    engine_args: FreeObject | None = None
    """Engine arguments, merged by name."""


class ProfileOverrides(ServiceProfileOverrides):
    """What derived profiles have differently from their sources."""

    aim_id: str | None = None
    """AIM id."""
    model_id: str | None = None
    """Model id of the weights."""
    profile_id: str | None = None
    """Id of the profile."""
    image: str | None = None
    """Image; takes precedence over the image of the set."""


class ProfileSourceRef(ApiModel):
    """A ConfigMap with the profiles of an image."""

    name: Annotated[str, REQUIRED, Schema(min_length=1)] = ""
    """Name of the ConfigMap."""


_NARROWING: Final = (
    *("aimId", "modelId", "profileId", "engine", "metric", "precision", "type"),
    *("acceleratorModel", "acceleratorVendor", "acceleratorType", "acceleratorCount", "engineArgs", "modelRef"),
    "origin",
)


def narrowed(selector: str, source: str) -> CelRule:
    """The selector names something, or there is a source of its own (CEL-63)."""
    fields = " || ".join(f"has({selector}.{name})" for name in _NARROWING)
    return CelRule(
        f"has({source}) || (has({selector}) && ({fields}))",
        "selector must narrow the selection, for example by aimId or modelRef, unless sourceRef is set",
        field_path=".selector",
    )


def versioned() -> CelRule:
    """The version goes with the policy (CEL-64)."""
    return CelRule(
        "(self.versionPolicy == 'pinned') == has(self.version)",
        "version is required for versionPolicy pinned, and only there",
        field_path=".version",
    )


def of_base(selector: str) -> CelRule:
    """Profiles without weights are given an identity (CEL-65)."""
    return CelRule(
        f"!has({selector}) || !has({selector}.role) || {selector}.role != 'base'"
        f" || (!has({selector}.aimId) && !has({selector}.modelId) && !has({selector}.profileId)"
        " && has(self.overrides) && has(self.overrides.aimId) && has(self.overrides.modelId))",
        "role base requires overrides.aimId and overrides.modelId, and no aimId, modelId or profileId in selector",
        field_path=".overrides",
    )


class Derivation(ApiModel):
    """How profiles are derived from others; the part that sets and models have."""

    version_policy: Annotated[VersionPolicy, DEFAULTED] = VersionPolicy.PINNED
    """Which versions are taken: pinned, latest or all."""
    version: str | None = None
    """Version for the policy pinned: the tag of the image."""
    overrides: ProfileOverrides | None = None
    """What the derived profiles have differently."""


class DerivedFrom(ApiModel):
    """The profiles that others are derived from."""

    schema_info: ClassVar[Schema] = Schema(rules=(narrowed("self.selector", "self.sourceRef"),))

    selector: ProfileSelector | None = None
    """Which profiles."""
    source_ref: ProfileSourceRef | None = None
    """ConfigMap with a catalogue of profiles, in place of those in the cluster."""


class ModelProfiles(Derivation):
    """The profiles of a model that is derived from others."""

    schema_info: ClassVar[Schema] = Schema(rules=(versioned(), of_base("self.derivedFrom.selector")))

    derived_from: Annotated[DerivedFrom, REQUIRED] = DerivedFrom()
    """The profiles that they are derived from."""


class ManagedProfiles(ApiModel):
    """How many profiles there are."""

    total: Int32 = 0
    """All of them."""
    ready: Int32 = 0
    """Those that a service can use."""
    not_available: Int32 = 0
    """Those whose accelerator no node has."""
    deployable: Int32 = 0
    """Those with weights."""
    base: Int32 = 0
    """Those without weights."""


class DiscoveredProfile(ApiModel):
    """A profile of the image, in short."""

    metric: str | None = None
    """Metric that the profile is optimized for."""
    precision: str | None = None
    """Numeric precision."""


class HardwareProfiles(ApiModel):
    """The profiles of the image for one accelerator."""

    accelerator_type: str | None = None
    """Type of the accelerator."""
    accelerator_model: str | None = None
    """Model of the accelerator."""
    accelerator_count: Int32 | None = None
    """Number of GPUs, or of CPU cores."""
    supported: bool = False
    """Whether a node has the accelerator."""
    profiles: Items[DiscoveredProfile] = ()
    """The profiles."""


class DiscoveredProfiles(ApiModel):
    """The profiles of the image."""

    total: Int32 = 0
    """All of them."""
    supported: Int32 = 0
    """Those whose accelerator a node has."""
    unsupported: Int32 = 0
    """The others."""
    by_hardware: Items[HardwareProfiles] = ()
    """The profiles by accelerator."""
