"""Settings of the discovery service (FW-273, DI-370)."""

from pydantic import Field

from aim_domain import AimSettings
from controller_runtime import PositiveSeconds, Seconds
from oci_registry import INSPECTION_SECONDS, RegistrySettings


class DiscoverySettings(AimSettings, RegistrySettings):
    """Settings of discovery beside the common ones and those of registry access."""

    inspection_timeout: PositiveSeconds = Field(
        INSPECTION_SECONDS, description="one complete image inspection, per endpoint (DI-088)"
    )

    extraction_retry_initial: Seconds = Field(10.0, gt=0, description="first retry of a failed inspection (DI-096)")
    extraction_retry_max: Seconds = Field(600.0, gt=0, description="longest retry of a failed inspection (DI-096)")
    discovery_job_deadline: Seconds = Field(3600.0, ge=1, description="deadline of discovery Jobs (DI-229)")
    profiles_enabled: bool = Field(False, description="whether the profiles of AIM images are read (PR-090)")
    max_discovery_jobs: int = Field(10, ge=1, description="active discovery Jobs in the cluster (DI-309)")
