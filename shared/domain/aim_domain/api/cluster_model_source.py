"""AIMClusterModelSource: which images of a registry become AIMClusterModels (CC-110 to CC-113)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.enums import API_VERSION
from aim_domain.api.own import AGE, STATUS, Column, ColumnType, OwnResource
from aim_domain.component_names import ComponentName
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
    Schema,
    StatusValue,
    Time,
)
from controller_runtime.core import PullSecrets

ImageSelector = Annotated[str, Schema(min_length=1, max_length=512)]


class ModelSourceFilter(ApiModel):
    """A filter that selects images by pattern."""

    image: Annotated[ImageSelector, REQUIRED] = ""
    """Repository with an optional tag; * matches any characters."""
    exclude: Items[str] = ()
    """Repositories to exclude."""
    versions: Items[str] = ()
    """Version constraints of this filter; they replace those of spec.versions."""


_ONE_SELECTION: Final = CelRule(  # CEL-20
    "has(self.images) != has(self.filters)", "exactly one of images and filters is required"
)


class AIMClusterModelSourceSpec(ApiModel):
    """Which images to create models from."""

    schema_info: ClassVar[Schema] = Schema(rules=(_ONE_SELECTION,))

    registry: Annotated[str, DEFAULTED] = "docker.io"
    """Hostname of the registry."""
    images: Annotated[Items[ImageSelector], Schema(min_items=1, max_items=100)] = ()
    """Exact repositories, with or without a tag; mutually exclusive with filters."""
    filters: Annotated[Items[ModelSourceFilter], Schema(min_items=1, max_items=100)] = ()
    """Filters; an image that matches any of them is selected. Mutually exclusive with images."""
    versions: Items[str] = ()
    """Version constraints, such as >=1.0.0."""
    image_pull_secrets: PullSecrets = ()
    """Secrets with registry credentials, in the operator's namespace."""
    sync_interval: Annotated[str, DEFAULTED, Schema(pattern=UNSIGNED_PATTERN, max_length=LONGEST_TEXT)] = "1h"
    """Interval between syncs, such as 30m; at least 15m is recommended."""
    max_models: Annotated[int, DEFAULTED, Schema(minimum=1, maximum=10000)] = 100
    """Maximum number of models to create; existing models are never deleted."""


class AIMClusterModelSourceStatus(ApiModel):
    """Observed state of the model source."""

    status: StatusValue | None = None
    """Overall status, summarized from the conditions."""
    last_sync_time: Time | None = None
    """When the last successful sync completed."""
    discovered_models: int | None = None
    """Number of models created from this source."""
    available_models: int | None = None
    """Number of images in the registry that match the selection."""
    models_limit_reached: bool | None = None
    """Whether maxModels prevents further models from being created."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""


class AIMClusterModelSource(OwnResource):
    """Creates models from the images of a registry."""

    columns = (
        STATUS,
        Column("Models", ".status.discoveredModels", ColumnType.INTEGER),
        Column("LastSync", ".status.lastSyncTime", ColumnType.DATE),
        AGE,
    )
    components = (
        ComponentName.EXISTING_MODELS,
        ComponentName.FILTERS,
    )

    api_version: str = API_VERSION
    kind: str = "AIMClusterModelSource"
    spec: Annotated[AIMClusterModelSourceSpec, REQUIRED] = AIMClusterModelSourceSpec()
    """Which images to create models from."""
    status: AIMClusterModelSourceStatus = AIMClusterModelSourceStatus()
    """Observed state of the model source."""
