"""AIMTemplateCache: all weights of one template (CC-130 to CC-132)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aim_domain.api.aim_shapes import ModelSource, ResolvedReference
from aim_domain.api.enums import API_VERSION, CacheMode, TemplateScope
from aim_domain.api.model import STANDARD_STATUS
from aim_domain.api.own import AGE, STATUS, Column, OwnResource
from aim_domain.component_names import ComponentName
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    Conditions,
    Int64,
    Items,
    MapOf,
    Schema,
    StatusValue,
)
from controller_runtime.core import EnvList, PullSecrets


class AIMTemplateCacheSpec(ApiModel):
    """Which template to cache, and how."""

    template_name: Annotated[str, REQUIRED, Schema(min_length=1)] = ""
    """Name of the service template."""
    template_scope: Annotated[TemplateScope, REQUIRED] = TemplateScope.UNKNOWN
    """Scope of the service template; set automatically on caches that the system creates."""
    mode: Annotated[CacheMode, DEFAULTED] = CacheMode.SHARED
    """Whether the artifacts are deleted with the cache or kept and shared."""
    env: EnvList = ()
    """Environment variables of the download, such as credentials."""
    image_pull_secrets: PullSecrets = ()
    """Secrets with credentials for pulling images."""
    storage_class_name: str | None = None
    """StorageClass of the volumes."""
    download_image: str | None = None
    """Image of the downloader; defaults to the one of this release."""
    model_sources: Items[ModelSource] = ()
    """Model weights; taken from the template when absent."""
    runtime_config_name: str | None = None
    """Name of the runtime config to use; empty means default."""


class CachedArtifact(ApiModel):
    """An artifact of the cache."""

    uid: Annotated[str, REQUIRED] = ""
    """UID of the artifact."""
    name: Annotated[str, REQUIRED] = ""
    """Name of the artifact."""
    model: Annotated[str, REQUIRED] = ""
    """Model id of the weights."""
    status: Annotated[StatusValue, REQUIRED, Schema(any_value=True)] = StatusValue.PENDING
    """Status of the artifact."""
    persistent_volume_claim: str | None = None
    """PersistentVolumeClaim that holds the weights."""
    mount_point: str | None = None
    """Path under which serving mounts the weights."""


class AIMTemplateCacheStatus(ApiModel):
    """Observed state of the template cache."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    resolved_runtime_config: ResolvedReference | None = None
    """Effective runtime config."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status, summarized from the conditions."""
    resolved_template_kind: str | None = None
    """Kind of the resolved template."""
    artifacts: MapOf[CachedArtifact] = Field(default_factory=dict)
    """Artifacts of the cache, by model name."""


class AIMTemplateCache(OwnResource):
    """Caches the model weights of a service template on volumes."""

    columns = (
        Column("Template", ".spec.templateName"),
        Column("Mode", ".spec.mode"),
        STATUS,
        Column("Kind", ".status.resolvedTemplateKind"),
        AGE,
    )
    components = (
        ComponentName.RUNTIME_CONFIG,
        ComponentName.SERVICE_TEMPLATE,
        ComponentName.ARTIFACTS,
    )

    api_version: str = API_VERSION
    kind: str = "AIMTemplateCache"
    spec: Annotated[AIMTemplateCacheSpec, REQUIRED] = AIMTemplateCacheSpec()
    """Which template to cache, and how."""
    status: AIMTemplateCacheStatus = AIMTemplateCacheStatus()
    """Observed state of the template cache."""
