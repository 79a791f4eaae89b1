"""Authentication at registries: challenges, token exchange, token cache (MS-121…MS-129)."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from yarl import URL

from controller_runtime import JsonObject
from oci_registry.credentials import Credential
from oci_registry.endpoints import Endpoint, Scheme, authority_of, is_internal_address, is_ip_literal, is_local_address
from oci_registry.errors import RegistryError, RegistryErrorCode
from oci_registry.manifests import parse_object
from oci_registry.traffic import Recent
from oci_registry.transport import Method, Request, Response, Transport


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


CATALOG_SCOPE: Final = "registry:catalog:*"
DEFAULT_LIFETIME: Final = 60.0
"""Seconds that a token lives when the answer does not say (MS-129)."""
USABLE_SHARE: Final = 0.8
TOKENS: Final = 8192
"""Tokens that are remembered, one for each repository and credential."""
LONGEST_TOKEN: Final = 64 << 10
"""Characters; more fits no header."""
_CLIENT_ID: Final = "aim-engine"


def pull_scope(repository: str) -> str:
    """Scope that allows reading one repository (MS-122)."""
    return f"repository:{repository}:pull"


@dataclass(frozen=True, slots=True)
class _Key:
    endpoint: Endpoint
    scope: str
    credential: Credential | None


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token, and until when it is used, on the monotonic clock."""

    value: str
    expires_at: float


class Authorizer:
    """Finds the `Authorization` header for a request.

    A registry's challenge is remembered per endpoint, so that only the first request of all is sent in vain.
    """

    def __init__(self, transport: Transport, realm_allowlist: tuple[str, ...]) -> None:
        self._transport = transport
        self._realm_allowlist = realm_allowlist
        self._challenges: Recent[Endpoint, Challenge] = Recent()
        self._tokens: Recent[_Key, Token] = Recent(TOKENS)

    async def headers(self, endpoint: Endpoint, scope: str, credential: Credential | None) -> Mapping[str, str]:
        """Headers for a request, from what is known of the endpoint; empty when it has never challenged."""
        if credential is not None and credential.registry_token:
            return {"Authorization": f"Bearer {credential.registry_token}"}
        challenge = self._challenges.find(endpoint)
        if challenge is None:
            return {}
        return await self._answer(challenge, _Key(endpoint, scope, credential))

    async def headers_after_refusal(
        self, endpoint: Endpoint, scope: str, credential: Credential | None, refusal: Response
    ) -> Mapping[str, str]:
        """Headers for another attempt after a 401; empty when there is nothing better to send."""
        key = _Key(endpoint, scope, credential)
        self._tokens.forget(key)
        challenges = parse_challenges(refusal.headers.getall("WWW-Authenticate", []))
        if not challenges or (credential is not None and credential.registry_token):
            return {}
        self._challenges.keep(endpoint, challenges[0])
        return await self._answer(challenges[0], key)

    def forget(self, endpoint: Endpoint, scope: str, credential: Credential | None) -> None:
        """Drop the token of a request that was refused (MS-129)."""
        self._tokens.forget(_Key(endpoint, scope, credential))

    async def _answer(self, challenge: Challenge, key: _Key) -> Mapping[str, str]:
        if challenge.scheme is AuthScheme.BASIC:
            has_basic = key.credential is not None and key.credential.has_basic
            return {"Authorization": key.credential.basic_header()} if key.credential and has_basic else {}
        return {"Authorization": f"Bearer {await self._token(challenge, key)}"}

    async def _token(self, challenge: Challenge, key: _Key) -> str:
        now = time.monotonic()
        cached = self._tokens.find(key)
        if cached is not None and cached.expires_at > now:
            return cached.value
        token = await self._exchange(challenge, key)
        self._tokens.keep(key, token)
        return token.value

    async def _exchange(self, challenge: Challenge, key: _Key) -> Token:
        realm = challenge.parameters.get("realm", "")
        self._check_realm(realm, key)
        service = challenge.parameters.get("service", "")
        response = None
        if key.credential is not None and key.credential.identity_token:
            response = await self._refresh(realm, service, key, key.credential)
        if response is None or response.status == 404:
            response = await self._get(realm, service, key)
        return token_of(response, authority_of(URL(realm)))

    def _check_realm(self, realm: str, key: _Key) -> None:
        with_credentials = key.credential is not None
        problem = realm_problem(realm, key.endpoint, with_credentials=with_credentials, allowlist=self._realm_allowlist)
        if problem is not None:
            raise RegistryError(
                RegistryErrorCode.INVALID_RESPONSE,
                f"{key.endpoint} names the token realm {realm.partition('?')[0][:128]!r}, which {problem}",
            )

    async def _get(self, realm: str, service: str, key: _Key) -> Response:
        url = URL(realm).update_query({"service": service} if service else {}).update_query(scope=key.scope)
        headers: dict[str, str] = {}
        if key.credential is not None and key.credential.has_basic:
            headers["Authorization"] = key.credential.basic_header()
        return await self._transport.send(Request(url, headers, trust=key.endpoint.trust))

    async def _refresh(self, realm: str, service: str, key: _Key, credential: Credential) -> Response:
        form = {
            "grant_type": "refresh_token",
            "refresh_token": credential.identity_token,
            "service": service,
            "scope": key.scope,
            "client_id": _CLIENT_ID,
        }
        request = Request(URL(realm), form=form, trust=key.endpoint.trust, method=Method.POST)
        return await self._transport.send(request)


def token_of(response: Response, authority: str) -> Token:
    """The token in the answer of a token service (MS-129).

    Raises:
        RegistryError: it was refused, or there is none that can be used.
    """
    if 300 <= response.status < 400:
        raise RegistryError(
            RegistryErrorCode.INVALID_RESPONSE,
            f"token service {authority} redirects a request that holds a long-lived token; refused",
            status=response.status,
        )
    if response.status >= 400:
        code = (
            RegistryErrorCode.AUTH_FAILED if response.status in (400, 401, 403) else RegistryErrorCode.INVALID_RESPONSE
        )
        raise RegistryError(
            code,
            f"token service {authority} answered HTTP {response.status}; check the pull secret of this registry",
            status=response.status,
        )
    document = parse_object(response.body, f"the answer of token service {authority}")
    value = document.get("token") or document.get("access_token")
    if not isinstance(value, str) or not value:
        raise RegistryError(RegistryErrorCode.INVALID_RESPONSE, f"token service {authority} answered without token")
    if len(value) > LONGEST_TOKEN:
        why = f"token service {authority} answered with a token of {len(value)} characters, which fits no header"
        raise RegistryError(RegistryErrorCode.INVALID_RESPONSE, why)
    return Token(value, time.monotonic() + USABLE_SHARE * _lifetime(document))


def _lifetime(document: JsonObject) -> float:
    seconds = document.get("expires_in")
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else DEFAULT_LIFETIME
