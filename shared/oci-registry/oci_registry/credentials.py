"""Registry credentials from pull secrets: which entry of which Secret is for which repository.

Pure: Secrets come in as their decoded API objects' `type` and `data`. Nothing but the given Secrets is ever consulted
(MS-169), and no representation of a credential shows its values (MS-170).
"""

import base64
import binascii
import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from controller_runtime import JsonObject, loads
from oci_registry.image_reference import canonical_registry

DOCKER_CONFIG_JSON: Final = "kubernetes.io/dockerconfigjson"
DOCKER_CFG: Final = "kubernetes.io/dockercfg"

_TOKEN_USER: Final = "<token>"  # noqa: S105 - a placeholder, not a secret
"""User name with which credential helpers mark that the secret is an identity token (MS-159)."""
_API_VERSION_PREFIX: Final = re.compile(r"/v[12](?=/|$)")


class InvalidPullSecretError(ValueError):
    """A pull secret is of another type or cannot be decoded (MS-166); the message holds no secret value."""


class SecretReason(StrEnum):
    """Why a pull secret cannot be used (DI-073, DI-074, MS-165…MS-167)."""

    NOT_FOUND = "SecretNotFound"
    INVALID = "SecretInvalid"
    ACCESS_FAILED = "SecretAccessFailed"


@dataclass(frozen=True, slots=True)
class SecretProblem:
    """Why a pull secret cannot be used, in words that hold no secret value."""

    name: str
    reason: SecretReason
    message: str


@dataclass(frozen=True, slots=True)
class Credential:
    """How to authenticate at one registry (MS-159)."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    @property
    def has_basic(self) -> bool:
        """Whether there is a username or a password to send."""
        return bool(self.username or self.password)

    def hidden(self, text: str, sent: str = "") -> str:
        """The text without what is secret of this, and without the `Authorization` that was sent (FW-596)."""
        pair, token = self.basic_header().partition(" ")[2], sent.partition(" ")[2]
        for secret in (pair, token, self.password, self.identity_token, self.registry_token):
            text = text.replace(secret, "***") if secret else text
        return text

    def basic_header(self) -> str:
        """Value of an `Authorization` header of scheme Basic."""
        pair = f"{self.username}:{self.password}".encode()
        return "Basic " + base64.b64encode(pair).decode()


@dataclass(frozen=True, slots=True)
class CredentialEntry:
    """One normalised key of a pull secret and its credential (MS-160)."""

    host: str
    path: str
    credential: Credential

    def matches(self, host: str, path: str) -> bool:
        """Kubelet semantics: label by label, equal ports, plain path prefix (MS-161)."""
        return _host_matches(self.host, host) and path.startswith(self.path)


@dataclass(frozen=True, slots=True)
class CredentialSet:
    """The entries of an object's pull secrets in their order; empty means anonymous (MS-164)."""

    entries: tuple[CredentialEntry, ...] = ()

    def find(self, host: str, repository: str = "") -> Credential | None:
        """The entry for a repository of a host: the longest path wins, then the order (MS-161)."""
        canonical = canonical_registry(host)
        matching = [entry for entry in self.entries if entry.matches(canonical, f"/{repository}")]
        # `max` keeps the first of equals, which is the order of imagePullSecrets.
        return max(matching, key=lambda entry: len(entry.path)).credential if matching else None

    def find_host(self, host: str) -> Credential | None:
        """The first entry of a host whatever its path, as the GitHub API needs it (MS-163)."""
        canonical = canonical_registry(host)
        return next((entry.credential for entry in self.entries if _host_matches(entry.host, canonical)), None)

    @classmethod
    def merge(cls, sets: "Iterable[CredentialSet]") -> "CredentialSet":
        """All entries in the order of the sets."""
        return cls(tuple(entry for one in sets for entry in one.entries))


ANONYMOUS: Final = CredentialSet()


def parse_pull_secret(secret_type: str, data: Mapping[str, str]) -> CredentialSet:
    """Read a Secret's `type` and (base64) `data` (MS-158, DI-078).

    Raises:
        InvalidPullSecretError: another type, a missing key, or undecodable content.
    """
    if secret_type == DOCKER_CONFIG_JSON:
        auths = _decode(data, ".dockerconfigjson").get("auths", {})
    elif secret_type == DOCKER_CFG:
        auths = _decode(data, ".dockercfg")
    else:
        raise InvalidPullSecretError(f"type {secret_type!r} holds no registry credentials; use {DOCKER_CONFIG_JSON}")
    if not isinstance(auths, dict):
        raise InvalidPullSecretError(
            "`auths` is not an object; make the secret with `kubectl create secret docker-registry`"
        )
    return CredentialSet(tuple(_entry(key, value) for key, value in auths.items()))


def normalised_key(key: str) -> tuple[str, str]:
    """Host and path of an `auths` key (MS-160): `https://index.docker.io/v1/` is (`docker.io`, ``)."""
    without_scheme = key.partition("://")[2] if "://" in key else key
    host, slash, path = without_scheme.partition("/")
    reduced = _API_VERSION_PREFIX.sub("", slash + path, count=1).rstrip("/")
    return canonical_registry(host), reduced


def _decode(data: Mapping[str, str], key: str) -> JsonObject:
    if key not in data:
        raise InvalidPullSecretError(
            f"key {key!r} is missing; make the secret with `kubectl create secret docker-registry`"
        )
    try:
        return loads(base64.b64decode(data[key], validate=True))
    except ValueError:
        # The decoder's own message quotes the content, which is secret.
        raise InvalidPullSecretError(f"key {key!r} is not base64 of a JSON object; create the secret again") from None


def _entry(key: str, value: object) -> CredentialEntry:
    host, path = normalised_key(key)
    if not isinstance(value, dict):
        raise InvalidPullSecretError(f"the entry of {host!r} is not an object; create the secret again")
    username, password = str(value.get("username") or ""), str(value.get("password") or "")
    if not username and not password and value.get("auth"):
        username, password = _split_auth(host, str(value["auth"]))
    identity_token = str(value.get("identitytoken") or "")
    if username == _TOKEN_USER:
        username, password, identity_token = "", "", identity_token or password
    credential = Credential(username, password, identity_token, str(value.get("registrytoken") or ""))
    return CredentialEntry(host, path, credential)


def _split_auth(host: str, encoded: str) -> tuple[str, str]:
    try:
        username, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidPullSecretError(
            f"`auth` of {host!r} is not base64 of username:password; create the secret again"
        ) from None
    return username, password


def _host_matches(pattern: str, host: str) -> bool:
    pattern_name, _, pattern_port = pattern.partition(":")
    name, _, port = host.partition(":")
    pattern_labels, labels = pattern_name.split("."), name.split(".")
    return (
        pattern_port == port
        and len(pattern_labels) == len(labels)
        and all(fnmatch.fnmatchcase(label, part) for label, part in zip(labels, pattern_labels, strict=True))
    )
