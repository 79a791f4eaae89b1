"""core/v1 Pod and batch/v1 Job: what is read of workloads (FW-140 to FW-162, FW-170)."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller_runtime.api.base import ApiModel, Items, Time
from controller_runtime.api.enums import PodPhase
from controller_runtime.api.meta import Condition, Resource
from controller_runtime.core.shapes import EnvVar, ResourceRequirements


class ClaimVolumeSource(ApiModel):
    """A volume that is a PersistentVolumeClaim."""

    claim_name: str = ""
    read_only: bool | None = None


class Volume(ApiModel):
    """A volume of a pod; kinds of volumes other than claims are kept unread."""

    name: str = ""
    persistent_volume_claim: ClaimVolumeSource | None = None


class Container(ApiModel):
    """A container of a pod spec."""

    name: str = ""
    image: str = ""
    env: Items[EnvVar] = ()
    resources: ResourceRequirements = ResourceRequirements()


class PodSpec(ApiModel):
    """What runs in the pod."""

    node_name: str = ""
    volumes: Items[Volume] = ()


class WaitingState(ApiModel):
    """The container waits."""

    reason: str = ""
    message: str = ""


class RunningState(ApiModel):
    """The container runs."""

    started_at: Time | None = None


class TerminatedState(ApiModel):
    """The container ended; the message holds its termination message."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: Time | None = None
    finished_at: Time | None = None


class ContainerState(ApiModel):
    """State of a container; at most one member is set."""

    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(ApiModel):
    """Observed state of a container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(ApiModel):
    """Observed state of the pod."""

    phase: PodPhase = PodPhase.UNKNOWN
    reason: str = ""
    message: str = ""
    pod_ip: Annotated[str, Field(alias="podIP")] = ""
    conditions: Items[Condition] = ()
    init_container_statuses: Items[ContainerStatus] = ()
    container_statuses: Items[ContainerStatus] = ()


class Pod(Resource):
    """core/v1 Pod."""

    api_version: str = "v1"
    kind: str = "Pod"
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class JobStatus(ApiModel):
    """Observed state of the Job."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: Items[Condition] = ()


class Job(Resource):
    """batch/v1 Job."""

    api_version: str = "batch/v1"
    kind: str = "Job"
    status: JobStatus = JobStatus()
