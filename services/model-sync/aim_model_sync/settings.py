"""Settings of the model-sync service (FW-273)."""

from pydantic import Field

from aim_domain import AimSettings
from controller_runtime import PositiveSeconds
from oci_registry import DOCKER_HUB_API, GITHUB_API, BaseUrl, RegistrySettings


class ModelSyncSettings(AimSettings, RegistrySettings):
    """Settings of model-sync beside the common ones and those of registry access."""

    docker_hub_api_url: BaseUrl = Field(DOCKER_HUB_API, description="Docker Hub listing (MS-156)")
    github_api_url: BaseUrl = Field(GITHUB_API, description="GitHub packages listing (MS-156)")
    sync_deadline: PositiveSeconds = Field(600.0, description="limit of one sync (MS-149)")
