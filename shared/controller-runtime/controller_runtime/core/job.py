"""batch/v1 Job: what is read of discovery and download jobs (FW-160 to FW-162)."""

from __future__ import annotations

from controller_runtime.api.base import ApiModel, Items, Time
from controller_runtime.api.meta import Condition, ObjectMeta, Resource
from controller_runtime.core.pod import PodSpec


class PodTemplate(ApiModel):
    """Template of the job's pods."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class JobSpec(ApiModel):
    """What the job runs."""

    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    template: PodTemplate = PodTemplate()


class JobStatus(ApiModel):
    """Observed state of the Job."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: Items[Condition] = ()
    start_time: Time | None = None
    completion_time: Time | None = None


class Job(Resource):
    """batch/v1 Job."""

    api_version: str = "batch/v1"
    kind: str = "Job"
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
