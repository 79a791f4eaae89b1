"""Authentication challenges of registries: parsing `WWW-Authenticate`, and which realms may see credentials."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from yarl import URL

from oci_registry.endpoints import Endpoint, Scheme, is_internal_address, is_ip_literal, is_local_address


class AuthScheme(StrEnum):
    """The schemes that registries use (MS-121)."""

    BEARER = "bearer"
    BASIC = "basic"


@dataclass(frozen=True, slots=True)
class Challenge:
    """One supported challenge; parameter names are lower case."""

    scheme: AuthScheme
    parameters: Mapping[str, str] = field(default_factory=dict)


# A parameter is `name=token` or `name="quoted"`; a bare word that no `=` follows starts the next challenge.
# A registry chooses the header: each part is read once and never given back (FW-740).
_TOKEN: Final = re.compile(
    r"""(?<![\w!#$%&'*+.^`|~-])"""
    r"""(?:(?P<name>[\w!#$%&'*+.^`|~-]++)\s*+=\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<plain>[^\s,"]++))"""
    r"""|(?P<scheme>[A-Za-z][\w-]*+)(?=\s|,|$))"""
)


def parse_challenges(headers: Iterable[str]) -> tuple[Challenge, ...]:
    """The supported challenges of all `WWW-Authenticate` headers, in order."""
    return tuple(challenge for header in headers for challenge in _parse_header(header))


def _parse_header(header: str) -> list[Challenge]:
    found: list[tuple[str, dict[str, str]]] = []
    for match in _TOKEN.finditer(header):
        if match["scheme"]:
            found.append((match["scheme"].lower(), {}))
        elif match["name"] and found:
            value = match["plain"] if match["quoted"] is None else re.sub(r"\\(.)", r"\1", match["quoted"])
            found[-1][1][match["name"].lower()] = value
    supported = {scheme.value for scheme in AuthScheme}
    return [Challenge(AuthScheme(name), parameters) for name, parameters in found if name in supported]


def realm_problem(
    realm: str, endpoint: Endpoint, *, with_credentials: bool, allowlist: Iterable[str] = ()
) -> str | None:
    """Why no token may be asked for at this realm, or None if it may (MS-127).

    The address rules hold for anonymous requests too, because a registry must not be able to make this process call
    internal addresses; the name rule protects credentials only.
    """
    try:
        url = URL(realm)
        host = (url.host or "").lower()
    except ValueError:
        return "is not a URL"
    if url.scheme not in ("http", "https") or not host:
        return "is not an http(s) URL"
    if host in allowlist:
        return None
    if is_internal_address(host) and not is_internal_address(endpoint.host):
        return "is an internal address while the registry is not"
    if url.scheme == "http" and not _plain_http_allowed(host, endpoint):
        return "is not https"
    if with_credentials and not _same_site(host, endpoint.host):
        return (
            "belongs to another domain than the registry; add its host to --registry-realm-allowlist if it is trusted"
        )
    return None


def _plain_http_allowed(host: str, endpoint: Endpoint) -> bool:
    return is_local_address(host) or (endpoint.scheme is Scheme.HTTP and host == endpoint.host)


def _same_site(realm_host: str, registry_host: str) -> bool:
    labels, registry_labels = realm_host.split("."), registry_host.split(".")
    if is_ip_literal(realm_host) or is_ip_literal(registry_host) or min(len(labels), len(registry_labels)) < 2:
        return realm_host == registry_host
    return labels[-2:] == registry_labels[-2:]
