"""batch/v1 Job: what is read of discovery and download jobs (FW-160 to FW-162)."""

from __future__ import annotations

from controller_runtime.api.base import ApiModel, Items
from controller_runtime.api.meta import Condition, Resource


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
