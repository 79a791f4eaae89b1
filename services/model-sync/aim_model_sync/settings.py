"""Settings of the model-sync service (FW-273)."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from aim_shared.registry.settings import RegistrySettings
from aim_shared.runtime.settings import PREFIX, Seconds, Settings


class ModelSyncSettings(Settings, RegistrySettings):
    """Common settings, those of registry access, and the limit of one sync.

    One class, so that every variable has one place and the others are reported as unknown.
    """

    # Of several bases the last one's configuration would win, which ignores unknown flags.
    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", env_ignore_empty=True)

    sync_deadline: Seconds = Field(600.0, gt=0, description="limit of one sync (MS-149)")
