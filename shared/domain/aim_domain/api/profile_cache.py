"""AIMProfileCache: all weights of one profile (PR-080)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aim_domain.api.aim_shapes import ModelSource, ResolvedReference
from aim_domain.api.enums import NEWER_API_VERSION, CacheMode, TemplateScope
from aim_domain.api.model import STANDARD_STATUS
from aim_domain.api.own import AGE, STATUS, Column, OwnResource
from aim_domain.api.template_cache import CachedArtifact
from aim_domain.component_names import ComponentName
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    Conditions,
    Int64,
    MapOf,
    Schema,
    StatusValue,
)
from controller_runtime.core import EnvList, LocalObjectReference


class AIMProfileCacheSpec(ApiModel):
    """Which profile to cache, and how."""

    profile_name: Annotated[str, REQUIRED, Schema(min_length=1)] = ""
    """Name of the profile."""
    profile_scope: Annotated[TemplateScope, REQUIRED, Schema(enum=(TemplateScope.NAMESPACE, TemplateScope.CLUSTER))] = (
        TemplateScope.NAMESPACE
    )
    """Scope of the profile: Namespace or Cluster."""
    mode: Annotated[CacheMode, DEFAULTED] = CacheMode.SHARED
    """Whether the artifacts are deleted with the cache or kept and shared."""
    env: EnvList = ()
    """Environment variables of the download, such as credentials."""
    storage_class_name: str | None = None
    """StorageClass of the volumes."""
    runtime_config_name: str | None = None
    """Name of the runtime config to use; empty means default."""

    @property
    def template_name(self) -> str:
        """What the weights are of, as a template cache says it."""
        return self.profile_name

    @property
    def template_scope(self) -> TemplateScope:
        """Where that is."""
        return self.profile_scope

    @property
    def model_sources(self) -> tuple[ModelSource, ...]:
        """None of its own: those of the profile count."""
        return ()

    @property
    def image_pull_secrets(self) -> tuple[LocalObjectReference, ...]:
        """None of its own."""
        return ()

    @property
    def download_image(self) -> str | None:
        """The one of this release."""
        return None


class AIMProfileCacheStatus(ApiModel):
    """Observed state of the profile cache."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    resolved_runtime_config: ResolvedReference | None = None
    """Effective runtime config."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status, summarized from the conditions."""
    artifacts: MapOf[CachedArtifact] = Field(default_factory=dict)
    """Artifacts of the cache, by model name."""


class AIMProfileCache(OwnResource):
    """Caches the model weights of a profile on volumes."""

    columns = (
        Column("Profile", ".spec.profileName"),
        Column("Scope", ".spec.profileScope"),
        Column("Mode", ".spec.mode"),
        STATUS,
        AGE,
    )
    components = (
        ComponentName.RUNTIME_CONFIG,
        ComponentName.PROFILE,
        ComponentName.ARTIFACTS,
    )

    api_version: str = NEWER_API_VERSION
    kind: str = "AIMProfileCache"
    spec: Annotated[AIMProfileCacheSpec, REQUIRED] = AIMProfileCacheSpec()
    """Which profile to cache, and how."""
    status: AIMProfileCacheStatus = AIMProfileCacheStatus()
    """Observed state of the profile cache."""
