"""Settings of every AIM service: the framework's, under the platform's names (FW-270, FW-273)."""

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from controller_runtime import MOST_SHARDS, Settings, own_namespace


class AimSettings(Settings):
    """Settings of an AIM service; those with more of their own derive from it."""

    model_config = SettingsConfigDict(env_prefix="AIM_")

    system_namespace: str = Field(
        default_factory=lambda: own_namespace("aim-system"), description="operator namespace (FW-270)"
    )
    nats_url: str = Field("nats://aim-nats:4222", description="message broker, comma-separated list")


class DivisibleSettings(AimSettings):
    """Settings of a service that can be divided by namespace."""

    shards: int = Field(
        1,
        ge=1,
        le=MOST_SHARDS,
        description="into how many shards the namespaces are divided; replicas share them (FW-890)",
    )
