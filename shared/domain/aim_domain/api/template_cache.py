"""AIMTemplateCache: all weights of one template (CC-130 to CC-132)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aim_domain.api.aim_shapes import ModelSource, ResolvedReference
from aim_domain.api.enums import CacheMode, TemplateScope
from aim_domain.api.group import API_VERSION
from aim_domain.api.model import STANDARD_STATUS
from controller_runtime import (
    DEFAULTED,
    REQUIRED,
    ApiModel,
    Conditions,
    Int64,
    Items,
    MapOf,
    Resource,
    Schema,
    StatusValue,
)
from controller_runtime.core import EnvList, PullSecrets


class AIMTemplateCacheSpec(ApiModel):
    """Which template's weights are kept and how."""

    template_name: Annotated[str, REQUIRED, Schema(min_length=1)] = ""
    """Template whose weights are kept."""
    template_scope: Annotated[TemplateScope, REQUIRED] = TemplateScope.UNKNOWN
    """Whether that template belongs to the namespace or the cluster; set by the system on its own caches."""
    mode: Annotated[CacheMode, DEFAULTED] = CacheMode.SHARED
    """Whether the artifacts go with the cache or stay for all."""
    env: EnvList = ()
    """Variables for the download, such as credentials."""
    image_pull_secrets: PullSecrets = ()
    """Secrets for pulling images."""
    storage_class_name: str | None = None
    """Storage class of the volumes."""
    download_image: str | None = None
    """Image of the downloader; the release's own when absent."""
    model_sources: Items[ModelSource] = ()
    """Weights; taken from the template when absent."""
    runtime_config_name: str | None = None
    """Runtime config to use; empty means default."""


class CachedArtifact(ApiModel):
    """One artifact of the cache."""

    uid: Annotated[str, REQUIRED] = ""
    """UID of the artifact."""
    name: Annotated[str, REQUIRED] = ""
    """Name of the artifact."""
    model: Annotated[str, REQUIRED] = ""
    """Model id of the weights."""
    status: Annotated[StatusValue, REQUIRED, Schema(any_value=True)] = StatusValue.PENDING
    """Status of the artifact."""
    persistent_volume_claim: str | None = None
    """PVC that holds the weights."""
    mount_point: str | None = None
    """Where serving mounts the weights."""


class AIMTemplateCacheStatus(ApiModel):
    """What became of the artifacts."""

    observed_generation: Int64 | None = None
    """Generation that this status is about."""
    conditions: Conditions = ()
    """Aspects of the state."""
    resolved_runtime_config: ResolvedReference | None = None
    """Runtime config in use."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status."""
    resolved_template_kind: str | None = None
    """Kind of the template that was found."""
    artifacts: MapOf[CachedArtifact] = Field(default_factory=dict)
    """Artifacts by the name of their model."""


class AIMTemplateCache(Resource):
    """Keeps the weights of a template on volumes."""

    api_version: str = API_VERSION
    kind: str = "AIMTemplateCache"
    spec: Annotated[AIMTemplateCacheSpec, REQUIRED] = AIMTemplateCacheSpec()
    """Which template's weights are kept and how."""
    status: AIMTemplateCacheStatus = AIMTemplateCacheStatus()
    """What became of the artifacts."""
