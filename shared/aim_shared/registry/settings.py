"""Settings of the registry client: the `AIM_REGISTRY_*` variables and their relatives of FW-273."""

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from aim_shared.api.duration import parse_seconds


def _seconds(value: object) -> object:
    return parse_seconds(value) if isinstance(value, str) else value


def _split_commas(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [part.strip().lower() for part in value.split(",") if part.strip()]


def _empty_is_none(value: object) -> object:
    return None if value == "" else value


def _strip_slash(value: object) -> object:
    return value.rstrip("/") if isinstance(value, str) else value


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
OptionalPath = Annotated[Path | None, BeforeValidator(_empty_is_none)]
BaseUrl = Annotated[str, BeforeValidator(_strip_slash), Field(pattern=r"^https?://[^/?#@]+(/[^?#]*)?$")]


class RegistrySettings(BaseSettings):
    """What FW-273 lets an operator set about registry access; durations are seconds."""

    model_config = SettingsConfigDict(env_prefix="AIM_", frozen=True, extra="ignore")

    registry_config: OptionalPath = None
    """YAML file with mirrors and insecure registries (FW-381)."""
    registry_ca_file: OptionalPath = None
    """PEM bundle trusted for every registry, in addition to the system's (MS-155)."""
    registry_realm_allowlist: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_commas)] = ()
    """Further hosts that credentials may be sent to for a token (MS-127)."""
    registry_connect_timeout: Seconds = 10.0
    registry_request_timeout: Seconds = 30.0
    registry_max_connections: Annotated[int, Field(ge=1)] = 10
    """Concurrent requests per endpoint host (MS-253, FW-396)."""
    registry_max_body_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024 * 1024
    registry_max_pages: Annotated[int, Field(ge=1)] = 1000
    docker_registry_url: BaseUrl = "https://index.docker.io"
    docker_hub_api_url: BaseUrl = "https://hub.docker.com"
    github_api_url: BaseUrl = "https://api.github.com"
    inspection_timeout: Seconds = 30.0
    """One complete image inspection, per endpoint (DI-088)."""
