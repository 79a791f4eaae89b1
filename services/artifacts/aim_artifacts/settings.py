"""Settings of the artifacts service (FW-273)."""

from importlib.metadata import PackageNotFoundError, version

from pydantic import Field, field_validator

from aim_domain import AimSettings
from controller_runtime import JsonObject

STATUS_UPDATER = "aim-engine-artifact-status-updater"
"""Name of the RoleBinding of every namespace, and usual name of the ClusterRole (AR-270, AR-271)."""
DOWNLOADER = "aim-engine-downloader"
"""Usual name of the ServiceAccount of download pods."""


def _release() -> str:
    try:
        return version("aim-artifacts")
    except PackageNotFoundError:
        return "latest"


class ArtifactsSettings(AimSettings):
    """Settings of the artifacts service beside the common ones."""

    artifact_downloader_image: str = Field(
        default_factory=lambda: f"docker.io/amdenterpriseai/aim-artifact-downloader:{_release()}",
        description="image of download and check-size Jobs (AR-255)",
    )
    artifact_status_clusterrole: str = Field(STATUS_UPDATER, description="ClusterRole bound for download pods (AR-272)")
    artifact_service_account: str = Field(
        DOWNLOADER, description="ServiceAccount of download pods, made where it is missing; not `default` (FW-304)"
    )

    @classmethod
    def of_former(cls, values: JsonObject) -> JsonObject:
        """Former releases let downloads run as `default`, which is refused now."""
        former = values.get("artifact_service_account") == "default"
        return {**values, "artifact_service_account": DOWNLOADER} if former else values

    @field_validator("artifact_service_account")
    @classmethod
    def _is_of_downloads_alone(cls, name: str) -> str:
        if name in {"", "default"}:
            raise ValueError("ordinary pods run as `default`, and could write the status of artifacts")
        return name
