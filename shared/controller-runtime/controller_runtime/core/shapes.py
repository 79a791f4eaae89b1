"""Shapes that the CRDs borrow from Kubernetes and the Gateway API (CC-020 to CC-027)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias

from pydantic import Field

from controller_runtime.api.base import ApiModel, Int32, Items, MapOf
from controller_runtime.api.enums import NodeOperator
from controller_runtime.api.schema import DEFAULTED, REQUIRED, ListType, Schema, list_map
from controller_runtime.quantity import QuantityText

ATOMIC_MAP: Final = Schema(atomic_map=True)
ATOMIC_LIST: Final = Schema(list_type=ListType.ATOMIC)


class KeySelector(ApiModel):
    """One key of a ConfigMap or a Secret."""

    schema_info: ClassVar[Schema] = ATOMIC_MAP

    name: Annotated[str, DEFAULTED] = ""
    """Name of the object."""
    key: Annotated[str, REQUIRED] = ""
    """Key in the object's data."""
    optional: bool | None = None
    """Whether the object or the key may be missing."""


class FieldSelector(ApiModel):
    """A field of the pod."""

    schema_info: ClassVar[Schema] = ATOMIC_MAP

    api_version: str | None = None
    """API version that the path refers to."""
    field_path: Annotated[str, REQUIRED] = ""
    """Path of the field to read."""


class ResourceFieldSelector(ApiModel):
    """A resource request or limit of a container."""

    schema_info: ClassVar[Schema] = ATOMIC_MAP

    container_name: str | None = None
    """Name of the container; required for volumes."""
    divisor: QuantityText | None = None
    """Unit of the value, such as 1Mi."""
    resource: Annotated[str, REQUIRED] = ""
    """Resource to read."""


class FileKeySelector(ApiModel):
    """One key of an environment file on a volume."""

    schema_info: ClassVar[Schema] = ATOMIC_MAP

    key: Annotated[str, REQUIRED] = ""
    """Key in the file."""
    optional: Annotated[bool, DEFAULTED] = False
    """Whether the file or the key may be missing."""
    path: Annotated[str, REQUIRED] = ""
    """Path of the file in the volume."""
    volume_name: Annotated[str, REQUIRED] = ""
    """Volume that holds the file."""


class EnvVarSource(ApiModel):
    """Where the value of a variable comes from; a pod accepts exactly one member."""

    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap."""
    secret_key_ref: KeySelector | None = None
    """A key of a Secret."""
    field_ref: FieldSelector | None = None
    """A field of the pod."""
    resource_field_ref: ResourceFieldSelector | None = None
    """A resource of a container."""
    file_key_ref: FileKeySelector | None = None
    """A key of an environment file."""


class EnvVar(ApiModel):
    """An environment variable."""

    name: Annotated[str, REQUIRED] = ""
    """Name of the variable."""
    value: Annotated[str | None, Schema(max_length=32_768)] = None
    """Literal value of the variable."""
    value_from: EnvVarSource | None = None
    """Source of the value of the variable."""


EnvList: TypeAlias = Annotated[Items[EnvVar], list_map("name")]
"""Shape S3: variables keyed by name."""


class LocalObjectReference(ApiModel):
    """Reference to a Secret in the same namespace."""

    schema_info: ClassVar[Schema] = ATOMIC_MAP

    name: Annotated[str, DEFAULTED] = ""
    """Name of the object."""


PullSecrets: TypeAlias = Items[LocalObjectReference]
"""Shape S4: secrets for pulling images."""


class ResourceClaim(ApiModel):
    """Reference to a resource claim of the pod."""

    name: Annotated[str, REQUIRED] = ""
    """Name of the claim in the pod spec."""
    request: str | None = None
    """Name of the request in the claim."""


class ResourceRequirements(ApiModel):
    """Compute resources of a container."""

    requests: MapOf[QuantityText] = Field(default_factory=dict)
    """Minimum amount of each resource."""
    limits: MapOf[QuantityText] = Field(default_factory=dict)
    """Maximum amount of each resource."""
    claims: Annotated[Items[ResourceClaim], list_map("name")] = ()
    """Resource claims that the container uses."""


class NodeSelectorRequirement(ApiModel):
    """A requirement on a node."""

    key: Annotated[str, REQUIRED] = ""
    """Label key or field path."""
    operator: Annotated[NodeOperator, REQUIRED, Schema(any_value=True)] = NodeOperator.IN
    """Operator that relates the key to the values."""
    values: Annotated[Items[str], ATOMIC_LIST] = ()
    """Values to compare with."""


class NodeSelectorTerm(ApiModel):
    """A term; a node must meet all of its requirements."""

    schema_info: ClassVar[Schema] = ATOMIC_MAP

    match_expressions: Annotated[Items[NodeSelectorRequirement], ATOMIC_LIST] = ()
    """Requirements on the labels of the node."""
    match_fields: Annotated[Items[NodeSelectorRequirement], ATOMIC_LIST] = ()
    """Requirements on the fields of the node."""


class NodeSelector(ApiModel):
    """Terms of which one must hold."""

    schema_info: ClassVar[Schema] = ATOMIC_MAP

    node_selector_terms: Annotated[Items[NodeSelectorTerm], REQUIRED, ATOMIC_LIST] = ()
    """Terms; a node must match at least one."""


class PreferredSchedulingTerm(ApiModel):
    """A preference with a weight."""

    weight: Annotated[Int32, REQUIRED] = 0
    """Weight of the preference, 1 to 100."""
    preference: Annotated[NodeSelectorTerm, REQUIRED] = NodeSelectorTerm()
    """The node selector term that is preferred."""


class NodeAffinity(ApiModel):
    """Which nodes a pod may or should run on (shape S7)."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Requirements that a node must meet."""
    preferred_during_scheduling_ignored_during_execution: Annotated[Items[PreferredSchedulingTerm], ATOMIC_LIST] = ()
    """Preferences, each with a weight."""
