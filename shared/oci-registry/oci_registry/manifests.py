"""Manifests and image configurations: digests, the choice of platform, and what inspection reads (DI-083…DI-086)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controller_runtime import JsonObject, loads
from oci_registry.errors import RegistryError, RegistryErrorCode

ACCEPT: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json"
)

_PLATFORM: Final = ("linux", "amd64")


@dataclass(frozen=True, slots=True)
class ImageConfig:
    """What image inspection learns from a registry."""

    digest: str
    """Digest that the reference resolved to; of the index when there is one."""
    config_digest: str
    labels: Mapping[str, str]
    env: tuple[str, ...]
    """`NAME=value` entries."""
    created: str = ""


def digest_of(body: bytes) -> str:
    """`sha256:` digest of a body."""
    return "sha256:" + hashlib.sha256(body).hexdigest()


def verify_digest(body: bytes, digest: str, what: str) -> None:
    """Check a body against its digest (DI-086, FW-394).

    Raises:
        RegistryError: `InvalidResponse`, naming both digests.
    """
    actual = digest_of(body)
    if actual != digest:
        raise _invalid(f"{what} has digest {actual} instead of {digest}; the registry or a proxy altered it")


def platform_digest(manifest: JsonObject, what: str) -> str | None:
    """Digest of the linux/amd64 child of an index, or None if this is an image manifest itself (DI-084).

    Raises:
        RegistryError: `InvalidResponse`, when the index has no such child.
    """
    children = manifest.get("manifests")
    if children is None:
        return None
    for child in children if isinstance(children, list) else []:
        if isinstance(child, dict) and _platform(child) == _PLATFORM:
            return _digest_member(child, what)
    raise _invalid(f"{what} has no image for linux/amd64")


def config_digest(manifest: JsonObject, what: str) -> str:
    """Digest of the configuration blob of an image manifest.

    Raises:
        RegistryError: `InvalidResponse`, for schema 1 (DI-085) and for what is no image manifest.
    """
    if manifest.get("schemaVersion") == 1:
        raise _invalid(f"{what} is a schema 1 manifest, which is not supported; push the image again")
    config = manifest.get("config")
    if not isinstance(config, dict):
        raise _invalid(f"{what} is not an image manifest: it has no `config`")
    return _digest_member(config, what)


def parse_config(body: bytes, *, digest: str, config_digest: str, what: str) -> ImageConfig:
    """Read labels and environment from a configuration blob; absent ones are empty (DI-086).

    Raises:
        RegistryError: `InvalidResponse`, when members have the wrong shape.
    """
    document = parse_object(body, what)
    config = document.get("config") or {}
    labels = config.get("Labels") or {} if isinstance(config, dict) else None
    env = config.get("Env") or [] if isinstance(config, dict) else None
    if not isinstance(labels, dict) or not isinstance(env, list):
        raise _invalid(f"{what} has a configuration of the wrong shape")
    if not all(isinstance(value, str) for value in (*labels.values(), *env)):
        raise _invalid(f"{what} has labels or environment entries that are not strings")
    return ImageConfig(digest, config_digest, labels, tuple(env), str(document.get("created") or ""))


def parse_object(body: bytes, what: str) -> JsonObject:
    """Decode a JSON object.

    Raises:
        RegistryError: `InvalidResponse` (MS-157).
    """
    try:
        return loads(body)
    except ValueError as error:
        raise _invalid(f"{what} is not a JSON object: {error}") from error


def _platform(child: JsonObject) -> tuple[str, str]:
    platform = child.get("platform")
    if not isinstance(platform, dict):
        # A child without platform information counts as ours (DI-084).
        return _PLATFORM
    return str(platform.get("os", "")), str(platform.get("architecture", ""))


def _digest_member(descriptor: JsonObject, what: str) -> str:
    digest = descriptor.get("digest")
    if not isinstance(digest, str) or not digest.startswith("sha256:"):
        raise _invalid(f"{what} has a descriptor without sha256 digest")
    return digest


def _invalid(message: str) -> RegistryError:
    return RegistryError(RegistryErrorCode.INVALID_RESPONSE, message)
