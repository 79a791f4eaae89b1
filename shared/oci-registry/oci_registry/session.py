"""Talking to one endpoint about one thing: authenticated GETs whose failures are typed errors."""

import asyncio
from dataclasses import dataclass
from weakref import WeakValueDictionary

from yarl import URL

from controller_runtime import loads
from oci_registry.authorization import Authorizer
from oci_registry.credentials import Credential
from oci_registry.endpoints import Endpoint, Scheme
from oci_registry.errors import MESSAGE_LIMIT, RegistryError, RegistryErrorCode, code_of_status
from oci_registry.traffic import Recent
from oci_registry.transport import Method, Request, Response, Transport


class SchemeMemory:
    """Which local addresses speak TLS; found once by trying (MS-119)."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._known: Recent[str, Scheme] = Recent()
        # As long as a task holds the lock or waits for it.
        self._probing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def base(self, endpoint: Endpoint) -> URL:
        """Scheme and authority to send an endpoint's requests to."""
        scheme = endpoint.scheme
        if scheme is Scheme.HTTPS_THEN_HTTP:
            # One probe serves all operations that start at once.
            probing = self._probing.setdefault(endpoint.authority, asyncio.Lock())
            async with probing:
                scheme = self._known.find(endpoint.authority) or await self._probe(endpoint)
                self._known.keep(endpoint.authority, scheme)
        return URL(f"{scheme}://{endpoint.authority}", encoded=True)

    def forget(self, endpoint: Endpoint) -> None:
        """Try again next time: the address stopped answering."""
        self._known.forget(endpoint.authority)

    async def _probe(self, endpoint: Endpoint) -> Scheme:
        url = URL(f"https://{endpoint.authority}{endpoint.root}/", encoded=True)
        try:
            await self._transport.send(Request(url, trust=endpoint.trust, breaks_at_once=True))
        except RegistryError as error:
            if error.code in (RegistryErrorCode.UNREACHABLE, RegistryErrorCode.TIMEOUT):
                return Scheme.HTTP
        return Scheme.HTTPS


@dataclass(frozen=True, slots=True)
class Session:
    """One endpoint with the scope and the credential that hold for an operation."""

    endpoint: Endpoint
    scope: str
    credential: Credential | None
    transport: Transport
    authorizer: Authorizer
    schemes: SchemeMemory

    async def url(self, path: str, **query: int) -> URL:
        """Absolute URL of a path of this endpoint; what a catalog put into the path is quoted."""
        base = await self.schemes.base(self.endpoint)
        return base.with_path(path).with_query(query)

    async def get(self, url: URL, accept: str = "application/json") -> Response:
        """GET with authentication; a 401 is answered once per scheme that the registry asks for.

        Raises:
            RegistryError: any status from 400 on, and whatever the transport raises.
        """
        request = Request(url, {"Accept": accept}, trust=self.endpoint.trust, is_revalidated=True)
        response, sent = await self._ask(request)
        if response.status >= 400:
            raise _status_error(response, self.credential, sent)
        return response

    async def head(self, url: URL, accept: str) -> Response:
        """HEAD with authentication; any status that is no outage is returned, for there is no body to explain it.

        Raises:
            RegistryError: whatever the transport raises.
        """
        request = Request(url, {"Accept": accept}, trust=self.endpoint.trust, method=Method.HEAD)
        return (await self._ask(request))[0]

    async def _ask(self, request: Request) -> tuple[Response, str]:
        """The answer, and the `Authorization` that was sent for it."""
        about = (self.endpoint, self.scope, self.credential)
        tried: set[str] = set()
        try:
            headers = await self.authorizer.headers(*about)
            response, sent = await self.transport.send(request.with_headers(headers)), headers.get("Authorization", "")
            while response.status == 401:
                headers = await self.authorizer.headers_after_refusal(*about, response)
                scheme = headers.get("Authorization", "").partition(" ")[0]
                if not scheme or scheme in tried:
                    break
                # Harbor refuses a token for the catalog, and then asks for username and password.
                tried.add(scheme)
                sent = headers["Authorization"]
                response = await self.transport.send(request.with_headers(headers))
        except RegistryError as error:
            if error.code is RegistryErrorCode.UNREACHABLE:
                self.schemes.forget(self.endpoint)
            raise
        if response.status == 401:
            self.authorizer.forget(*about)
        return response, sent


def _oci_error(body: bytes) -> tuple[str, str]:
    """Code and message of the first entry of an OCI error body; empty when it is none."""
    try:
        entries = loads(body).get("errors")
    except ValueError:
        return "", ""
    first = entries[0] if isinstance(entries, list) and entries else None
    if not isinstance(first, dict):
        return "", ""
    return str(first.get("code") or ""), str(first.get("message") or "")


def _status_error(response: Response, credential: Credential | None, sent: str) -> RegistryError:
    # A server that was sent a credential may answer with it.
    code, message = ((credential or Credential()).hidden(text, sent) for text in _oci_error(response.body))
    detail = " ".join(part for part in (code, message) if part)[:MESSAGE_LIMIT]
    if code_of_status(response.status) is RegistryErrorCode.AUTH_FAILED:
        hint = "no pull secret matches it" if credential is None else "check the credentials of its pull secret"
        detail = f"{detail} ({hint})".lstrip()
    answer = f"{response.authority} answered HTTP {response.status} to {response.url.path}"
    return RegistryError(
        code_of_status(response.status),
        f"{answer}: {detail}" if detail else answer,
        status=response.status,
        registry_code=code,
    )
