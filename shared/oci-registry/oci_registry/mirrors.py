"""The registry configuration file: mirrors, disabled upstreams and insecure registries (FW-381…FW-383)."""

from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator
from yarl import URL

from oci_registry.image_reference import canonical_registry

ANY_REGISTRY = "*"


class InvalidRegistriesFileError(ValueError):
    """The file cannot be read or used; the message names file and faulty path (FW-395)."""


def _mirror_url(text: str) -> str:
    url = URL(text)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("must be http:// or https:// and a host")
    if url.user is not None or url.query_string or url.fragment:
        raise ValueError("must have no user info, query or fragment")
    return text.rstrip("/")


class _Rules(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Mirror(_Rules):
    """One endpoint to ask instead of the registry."""

    url: Annotated[str, AfterValidator(_mirror_url)]
    ca_file: Annotated[Path | None, Field(alias="caFile")] = None
    insecure_skip_verify: Annotated[bool, Field(alias="insecureSkipVerify")] = False
    secret_name: Annotated[str | None, Field(alias="secretName")] = None


class Upstream(_Rules):
    """How, and whether, the registry itself is asked."""

    enabled: bool = True
    plain_http: Annotated[bool, Field(alias="plainHttp")] = False
    ca_file: Annotated[Path | None, Field(alias="caFile")] = None
    insecure_skip_verify: Annotated[bool, Field(alias="insecureSkipVerify")] = False


class RegistryRules(_Rules):
    """Rules for one registry host."""

    mirrors: tuple[Mirror, ...] = ()
    upstream: Upstream = Upstream()


class Registries(_Rules):
    """The whole file; empty means that every registry is contacted at its own address."""

    registries: dict[str, RegistryRules] = Field(default_factory=dict)

    @field_validator("registries")
    @classmethod
    def _canonical_keys(cls, rules: dict[str, RegistryRules]) -> dict[str, RegistryRules]:
        canonical = {key if key == ANY_REGISTRY else canonical_registry(key): one for key, one in rules.items()}
        if len(canonical) != len(rules):
            raise ValueError("two keys name the same registry; merge them")
        return canonical

    def rules_for(self, registry: str) -> RegistryRules:
        """The registry's own entry, else `*`, else none; nothing is merged (FW-383)."""
        own = self.registries.get(canonical_registry(registry))
        return own or self.registries.get(ANY_REGISTRY) or RegistryRules()


def parse_registries(text: str, *, source: str = "registry configuration") -> Registries:
    """Parse the file's YAML text; an empty text is an empty configuration.

    Raises:
        InvalidRegistriesFileError: naming source and faulty path.
    """
    try:
        return Registries.model_validate(yaml.safe_load(text) or {})
    except yaml.YAMLError as error:
        raise InvalidRegistriesFileError(f"{source} is not YAML: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        raise InvalidRegistriesFileError(f"{source}: {path}: {first['msg']}") from error


def load_registries(path: Path | None) -> Registries:
    """Read the file (blocking; small). No path is an empty configuration.

    Raises:
        InvalidRegistriesFileError: unreadable or invalid.
    """
    if path is None:
        return Registries()
    try:
        return parse_registries(path.read_text(), source=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRegistriesFileError(f"{path} cannot be read: {error}; check --registry-config") from error
