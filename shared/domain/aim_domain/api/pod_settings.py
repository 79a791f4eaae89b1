"""What an administrator says of the pods that the platform runs (CC-350…CC-354)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from aim_domain.api.enums import DeploymentStrategyType
from controller_runtime import ApiModel, FreeJson, Int64, Items, Schema, StrMap
from controller_runtime.core import PullSecrets, ResourceRequirements

IntOrPercent = Annotated[int | str, Schema(int_or_string=True, pattern="^[0-9]+%?$")]
"""A count, or a percentage such as 25%."""


class Toleration(ApiModel):
    """A taint of nodes that pods tolerate, as in a pod."""

    key: Annotated[str | None, Schema(max_length=317)] = None
    """Key of the taint; all keys when absent, with operator Exists."""
    operator: Annotated[str | None, Schema(max_length=16)] = None
    """Exists or Equal, which is the default."""
    value: Annotated[str | None, Schema(max_length=63)] = None
    """Value of the taint, for operator Equal."""
    effect: Annotated[str | None, Schema(max_length=32)] = None
    """NoSchedule, PreferNoSchedule or NoExecute; all effects when absent."""
    toleration_seconds: Int64 | None = None
    """How long a NoExecute taint is tolerated, in seconds; for ever when absent."""


class RollingUpdate(ApiModel):
    """How far a rolling update may deviate from the number of replicas."""

    max_surge: IntOrPercent | None = None
    """Pods that may exist beyond the replicas, as a number or a percentage."""
    max_unavailable: IntOrPercent | None = None
    """Pods that may be missing, as a number or a percentage."""


class DeploymentStrategy(ApiModel):
    """How the pods of a service are replaced when it changes."""

    type: DeploymentStrategyType | None = None
    """Recreate ends the old pods before new ones start; RollingUpdate, the default, needs a spare GPU or maxSurge 0."""
    rolling_update: RollingUpdate | None = None
    """Limits of a rolling update."""


class PodSettings(ApiModel):
    """Settings of pods; what an object says of its own pods takes precedence."""

    resources: ResourceRequirements | None = None
    """Requests and limits of the container, merged key by key."""
    tolerations: Annotated[Items[Toleration], Schema(max_items=32)] = ()
    """Taints that the pods tolerate, beside the taint of nodes.defaultGpuTaintKey of a KaiwoConfig."""
    node_selector: Annotated[StrMap, Schema(max_properties=32)] = Field(default_factory=dict)
    """Labels of the nodes on which the pods may run."""
    priority_class_name: Annotated[str | None, Schema(max_length=253)] = None
    """PriorityClass of the pods."""
    service_account_name: Annotated[str | None, Schema(max_length=253)] = None
    """ServiceAccount of the pods; download pods always have one of their own."""
    image_pull_secrets: Annotated[PullSecrets, Schema(max_items=32)] = ()
    """Secrets with credentials for pulling images, added to those of the object."""
    annotations: Annotated[StrMap, Schema(max_properties=64)] = Field(default_factory=dict)
    """Annotations of the pods."""
    security_context: FreeJson = None
    """Security context of the pod, merged over the built-in one; null takes a member away."""


class GpuPools(ApiModel):
    """GPUs that the cluster can get."""

    provisionable: Annotated[Items[Annotated[str, Schema(max_length=64)]], Schema(max_items=32)] = ()
    """GPU models, such as MI355X, for which an autoscaler adds nodes when pods wait for them."""


class PredictorSettings(PodSettings):
    """Settings of the pods of services."""

    deployment_strategy: DeploymentStrategy | None = None
    """How pods are replaced when a service changes."""
