"""AIMClusterModelSource: which images of a registry become AIMClusterModels (CC-110 to CC-113)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.group import API_VERSION
from controller_runtime import (
    DEFAULTED,
    LONGEST_TEXT,
    REQUIRED,
    UNSIGNED_PATTERN,
    ApiModel,
    CelRule,
    Conditions,
    Int64,
    Items,
    Resource,
    Schema,
    StatusValue,
    Time,
)
from controller_runtime.core import PullSecrets

ImageSelector = Annotated[str, Schema(min_length=1, max_length=512)]


class ModelSourceFilter(ApiModel):
    """Selects images by pattern."""

    image: Annotated[ImageSelector, REQUIRED] = ""
    """Repository with optional tag; * stands for any characters."""
    exclude: Items[str] = ()
    """Repositories to leave out."""
    versions: Items[str] = ()
    """Version constraints of this filter; they replace the global ones."""


_ONE_SELECTION: Final = CelRule(  # CEL-20
    "has(self.images) != has(self.filters)", "exactly one of images and filters is required"
)


class AIMClusterModelSourceSpec(ApiModel):
    """Which images become models."""

    schema_info: ClassVar[Schema] = Schema(rules=(_ONE_SELECTION,))

    registry: Annotated[str, DEFAULTED] = "docker.io"
    """Host of the registry."""
    images: Annotated[Items[ImageSelector], Schema(min_items=1, max_items=100)] = ()
    """Exact repositories, with or without a tag; exclusive with filters."""
    filters: Annotated[Items[ModelSourceFilter], Schema(min_items=1, max_items=100)] = ()
    """Filters of which any selects an image; exclusive with images."""
    versions: Items[str] = ()
    """Version constraints, such as >=1.0.0."""
    image_pull_secrets: PullSecrets = ()
    """Secrets of the operator's namespace for the registry."""
    sync_interval: Annotated[str, DEFAULTED, Schema(pattern=UNSIGNED_PATTERN, max_length=LONGEST_TEXT)] = "1h"
    """Time between two syncs, such as 30m; at least 15m is recommended."""
    max_models: Annotated[int, DEFAULTED, Schema(minimum=1, maximum=10000)] = 100
    """How many models are made at most; existing ones are never deleted."""


class AIMClusterModelSourceStatus(ApiModel):
    """Result of the last sync."""

    status: StatusValue | None = None
    """Overall status."""
    last_sync_time: Time | None = None
    """When the last successful sync ended."""
    discovered_models: int | None = None
    """Number of models made from this source."""
    available_models: int | None = None
    """Number of images that the registry offers for the selection."""
    models_limit_reached: bool | None = None
    """Whether maxModels keeps images from becoming models."""
    conditions: Conditions = ()
    """Aspects of the state."""
    observed_generation: Int64 | None = None
    """Generation that this status is about."""


class AIMClusterModelSource(Resource):
    """Makes models from the images of a registry."""

    api_version: str = API_VERSION
    kind: str = "AIMClusterModelSource"
    spec: Annotated[AIMClusterModelSourceSpec, REQUIRED] = AIMClusterModelSourceSpec()
    """Which images become models."""
    status: AIMClusterModelSourceStatus = AIMClusterModelSourceStatus()
    """Result of the last sync."""
