"""AIMProfileSet and AIMClusterProfileSet: profiles derived from others (PR-110)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from aim_domain.api.enums import NEWER_API_VERSION
from aim_domain.api.model import STANDARD_STATUS
from aim_domain.api.own import AGE, STATUS, Column, ColumnType, OwnResource
from aim_domain.api.profile_shapes import (
    Derivation,
    ManagedProfiles,
    ProfileSelector,
    ProfileSourceRef,
    narrowed,
    of_base,
    versioned,
)
from aim_domain.component_names import ComponentName
from controller_runtime import REQUIRED, ApiModel, Conditions, Int64, Schema, StatusValue
from controller_runtime.core import PullSecrets


class ProfileSetSpec(Derivation):
    """Which profiles are derived from which."""

    schema_info: ClassVar[Schema] = Schema(
        rules=(narrowed("self.selector", "self.sourceRef"), versioned(), of_base("self.selector"))
    )

    source_ref: ProfileSourceRef | None = None
    """ConfigMap with a catalogue of profiles, in place of those in the cluster."""
    selector: ProfileSelector | None = None
    """Which profiles."""
    image: str | None = None
    """Image of the derived profiles."""
    image_pull_secrets: PullSecrets = ()
    """Secrets with credentials for pulling images; those of the source when absent."""
    service_account_name: str | None = None
    """ServiceAccount of the pods; that of the source when absent."""


class ProfileSetStatus(ApiModel):
    """Observed state of the set."""

    observed_generation: Int64 | None = None
    """Generation of the spec that this status was computed from."""
    conditions: Conditions = ()
    """Latest observations of the state."""
    status: Annotated[StatusValue, STANDARD_STATUS] = StatusValue.PENDING
    """Overall status, summarized from the conditions."""
    managed_profiles: ManagedProfiles | None = None
    """How many profiles the set has."""


_COLUMNS: Final = (
    STATUS,
    Column("Profiles", ".status.managedProfiles.total", ColumnType.INTEGER),
    Column("Ready", ".status.managedProfiles.ready", ColumnType.INTEGER),
    AGE,
)


class AIMProfileSet(OwnResource):
    """Derives profiles from others, in one namespace."""

    columns = _COLUMNS
    components = (ComponentName.DERIVATION,)

    api_version: str = NEWER_API_VERSION
    kind: str = "AIMProfileSet"
    spec: Annotated[ProfileSetSpec, REQUIRED] = ProfileSetSpec()
    """Which profiles are derived from which."""
    status: ProfileSetStatus = ProfileSetStatus()
    """Observed state of the set."""


class AIMClusterProfileSet(OwnResource):
    """Derives profiles from others, for all namespaces."""

    columns = _COLUMNS
    components = (ComponentName.DERIVATION,)

    api_version: str = NEWER_API_VERSION
    kind: str = "AIMClusterProfileSet"
    spec: Annotated[ProfileSetSpec, REQUIRED] = ProfileSetSpec()
    """Which profiles are derived from which."""
    status: ProfileSetStatus = ProfileSetStatus()
    """Observed state of the set."""
