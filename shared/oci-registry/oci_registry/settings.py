"""Settings of the registry client: `registry_*` and their relatives (FW-273)."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_settings import NoDecode

from controller_runtime import parse_seconds
from oci_registry.reach import Network, read_network


def _seconds(value: object) -> object:
    return parse_seconds(value) if isinstance(value, str) else value


def _split_commas(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [part.lower() for part in _texts(value)]


def _texts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]


def _networks(value: object) -> object:
    return tuple(read_network(part) for part in _texts(value)) if isinstance(value, str) else value


def _empty_is_none(value: object) -> object:
    return None if value == "" else value


def _strip_slash(value: object) -> object:
    return value.rstrip("/") if isinstance(value, str) else value


Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0)]
Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)]
OptionalPath = Annotated[Path | None, BeforeValidator(_empty_is_none)]
BaseUrl = Annotated[str, BeforeValidator(_strip_slash), Field(pattern=r"^https?://[^/?#@]+(/[^?#]*)?$")]


class RegistrySettings(BaseModel):
    """Settings of every service that asks registries (FW-273); durations are seconds.

    A part of the service's own settings, which inherit it, so that each variable is declared once.
    """

    registry_config: OptionalPath = Field(None, description="file with mirrors and insecure registries (FW-381)")
    registry_ca_file: OptionalPath = Field(None, description="CA bundle besides the system's (MS-155)")
    registry_realm_allowlist: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_commas)] = Field(
        (), description="further hosts that credentials may be sent to for a token, comma separated (MS-127)"
    )
    registry_allowed_networks: Networks = Field(
        (), description="networks that registries may be in although they are refused, comma separated (FW-590)"
    )
    registry_refused_networks: Networks = Field(
        (), description="further networks that no registry is asked for in, comma separated (FW-590)"
    )
    registry_connect_timeout: Seconds = Field(10.0, description="limit of one connection attempt (MS-149)")
    registry_request_timeout: Seconds = Field(30.0, description="limit of one request (MS-149)")
    registry_max_connections: int = Field(10, ge=1, description="concurrent requests per endpoint host (MS-253)")
    registry_max_body_bytes: int = Field(32 << 20, ge=1024, description="largest accepted answer (MS-153)")
    registry_max_pages: int = Field(1000, ge=1, description="most pages of one listing (MS-153)")
    docker_registry_url: BaseUrl = Field("https://index.docker.io", description="API of docker.io (MS-156)")
