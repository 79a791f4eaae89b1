"""Where a registry's requests go: its endpoints in order, and what it means when none helps (FW-384…FW-390)."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from yarl import URL

from oci_registry.errors import RegistryError, RegistryErrorCode
from oci_registry.image_reference import DOCKER_HUB
from oci_registry.mirrors import Mirror, Registries, Upstream
from oci_registry.reach import carried_address, read_address

_API: Final = "v2"


class Scheme(StrEnum):
    """How an endpoint is spoken to."""

    HTTPS = "https"
    HTTP = "http"
    HTTPS_THEN_HTTP = "https-then-http"
    """A local address: plain HTTP only after TLS failed (MS-119)."""


@dataclass(frozen=True, slots=True)
class Trust:
    """What a TLS connection trusts beyond the system's authorities."""

    ca_file: Path | None = None
    insecure_skip_verify: bool = False


SYSTEM_TRUST: Final = Trust()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address that serves a registry's API."""

    registry: str
    """Canonical host of the registry that it stands for."""
    scheme: Scheme
    authority: str
    """Host with optional port."""
    root: str = f"/{_API}"
    """Path of the API's version segment, without trailing slash."""
    prefix: str = ""
    """What precedes the repository below the root (FW-384); empty or without outer slashes."""
    trust: Trust = SYSTEM_TRUST
    is_mirror: bool = False
    secret_name: str | None = None

    @property
    def host(self) -> str:
        """Host without port, lower case."""
        return host_of(self.authority)

    @property
    def is_insecure(self) -> bool:
        """Whether an operator switched protection off for this endpoint (FW-387)."""
        return self.trust.insecure_skip_verify or self.scheme is Scheme.HTTP

    @property
    def credential_host(self) -> str:
        """Host that pull-secret keys are matched against: the mirror's, or the registry's own (FW-392)."""
        return self.authority if self.is_mirror else self.registry

    def repository_name(self, repository: str) -> str:
        """The repository as this endpoint names it, for scopes and credentials."""
        return f"{self.prefix}/{repository}" if self.prefix else repository

    def repository_path(self, repository: str, rest: str) -> str:
        """URL path of something of a repository, e.g. `tags/list`."""
        return f"{self.root}/{self.repository_name(repository)}/{rest}"

    def __str__(self) -> str:
        """Authority and path, as error messages name it."""
        return f"{self.authority}/{self.prefix}" if self.prefix else self.authority


def endpoints_for(
    registry: str, registries: Registries, docker_registry_url: str = "https://index.docker.io"
) -> tuple[Endpoint, ...]:
    """Endpoints of a canonical registry: mirrors as listed, then itself unless disabled (FW-388, FW-390)."""
    rules = registries.rules_for(registry)
    mirrors = tuple(_mirror(registry, mirror) for mirror in rules.mirrors)
    if not rules.upstream.enabled:
        return mirrors
    return (*mirrors, _upstream(registry, rules.upstream, docker_registry_url))


def is_local_address(host: str) -> bool:
    """Whether plain HTTP may be tried without configuration: loopback names and RFC 1918 literals (MS-119)."""
    if host == "localhost" or host.endswith((".localhost", ".local")):
        return True
    address = _ip(host)
    if address is None:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        return address == ipaddress.IPv6Address("::1")
    return str(address) == "127.0.0.1" or any(address in network for network in _RFC_1918)


def is_internal_address(host: str) -> bool:
    """Whether a host is a loopback, link-local or private IP literal, or a name of the loopback (MS-127)."""
    address = _ip(host)
    return is_loopback(host) or (address is not None and (address.is_link_local or address.is_private))


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself."""
    address = _ip(host)
    return host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback)


def is_ip_literal(host: str) -> bool:
    """Whether a host is written as an IP address."""
    return _ip(host) is not None


def host_of(authority: str) -> str:
    """Host of `host[:port]`, without brackets, lower case."""
    return (URL(f"//{authority}").host or authority).lower()


def authority_of(url: URL) -> str:
    """Host with port of a URL, the port only where it is not the scheme's default."""
    return url.host_port_subcomponent or ""


_RFC_1918: Final = tuple(
    ipaddress.IPv4Network(network) for network in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    address = read_address(host)
    return None if address is None else carried_address(address)


def _mirror(registry: str, mirror: Mirror) -> Endpoint:
    url = URL(mirror.url.replace("{registry}", registry))
    root, prefix = _split_path(url.path)
    return Endpoint(
        registry,
        Scheme(url.scheme),
        authority_of(url),
        root,
        prefix,
        trust=Trust(mirror.ca_file, mirror.insecure_skip_verify),
        is_mirror=True,
        secret_name=mirror.secret_name,
    )


def _upstream(registry: str, upstream: Upstream, docker_registry_url: str) -> Endpoint:
    trust = Trust(upstream.ca_file, upstream.insecure_skip_verify)
    if registry == DOCKER_HUB:
        url = URL(docker_registry_url)
        root, prefix = _split_path(url.path)
        return Endpoint(registry, Scheme(url.scheme), authority_of(url), root, prefix, trust)
    return Endpoint(registry, _upstream_scheme(registry, upstream), registry, trust=trust)


def _upstream_scheme(registry: str, upstream: Upstream) -> Scheme:
    if upstream.plain_http:
        return Scheme.HTTP
    return Scheme.HTTPS_THEN_HTTP if is_local_address(host_of(registry)) else Scheme.HTTPS


def _split_path(path: str) -> tuple[str, str]:
    segments = [segment for segment in path.split("/") if segment]
    if _API not in segments:
        return f"/{_API}", "/".join(segments)
    index = segments.index(_API)
    return "/" + "/".join(segments[: index + 1]), "/".join(segments[index + 1 :])


Failure = tuple[Endpoint, RegistryError]


def combined_error(registry: str, failures: Sequence[Failure]) -> RegistryError:
    """One error for all endpoints: a transient outcome wins, then a refused authentication, then not found.

    A single endpoint's error stays as it is.
    """
    if not failures:
        return RegistryError(
            RegistryErrorCode.UNREACHABLE,
            f"access to {registry} is switched off: no mirror, and the upstream is disabled in --registry-config",
        )
    deciding = _deciding(failures)
    if len(failures) == 1:
        return deciding
    causes = "; ".join(f"{endpoint}: {error}" for endpoint, error in failures)
    return RegistryError(
        deciding.code,
        f"no endpoint of {registry} answered the request: {causes}",
        status=deciding.status,
        retry_after=deciding.retry_after,
        reached=any(error.reached for _, error in failures),
    )


def _deciding(failures: Sequence[Failure]) -> RegistryError:
    errors = [error for _, error in failures]
    ranked = (
        [error for error in errors if error.code.is_outage],
        [error for error in errors if error.code is RegistryErrorCode.AUTH_FAILED],
        [error for error in errors if error.code is RegistryErrorCode.NOT_FOUND],
        errors,
    )
    return next(candidates[-1] for candidates in ranked if candidates)
