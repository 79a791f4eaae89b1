"""HTTP to registries: bounded in time, size and concurrency, retried and revalidated where that helps."""

import asyncio
import math
import os
import random
import re
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from enum import StrEnum
from types import TracebackType
from typing import Final, Self
from weakref import WeakValueDictionary

import aiohttp
from aiohttp.abc import AbstractResolver
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from controller_runtime import LONGEST_IN_PLACE, bounded, environment_proxy
from oci_registry.endpoints import SYSTEM_TRUST, Trust, authority_of
from oci_registry.errors import RegistryError, RegistryErrorCode, code_of_status
from oci_registry.reach import Gate, JudgingResolver, Reach
from oci_registry.settings import RegistrySettings
from oci_registry.traffic import Traffic, TransportStatistics

_LINK: Final = re.compile(r"<([^<>]*)>([^<]*)")
_REL_NEXT: Final = re.compile(r""";\s*rel\s*=\s*"?next"?(?:\s|;|,|$)""", re.IGNORECASE)


def announced_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that the server wants to be left alone, from the first usable source of MS-152; None if it says nothing.

    At most `LONGEST_ANNOUNCED`, whatever it says.

    Args:
        headers: response headers, looked up case-insensitively by the mapping.
        now: Unix time in seconds.
    """
    retry_after = headers.get("Retry-After", "").strip()
    if retry_after.isascii() and retry_after.isdigit():
        return bounded(float(retry_after))
    moments = (_http_date(retry_after), *(_unix_time(headers.get(name, "")) for name in _RESET_HEADERS))
    return next((bounded(moment - now) for moment in moments if moment is not None), None)


def next_page(links: list[str], current: URL) -> URL | None:
    """Absolute URL of `rel="next"` of the `Link` headers, or None on the last page (MS-116)."""
    for header in links:
        for target, parameters in _LINK.findall(header):
            if _REL_NEXT.search(parameters):
                return current.join(URL(target, encoded=True))
    return None


_RESET_HEADERS: Final = ("X-Retry-After", "X-RateLimit-Reset")


def _http_date(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _unix_time(text: str) -> float | None:
    try:
        moment = float(text)
    except ValueError:
        return None
    return moment if math.isfinite(moment) else None


CAPACITY: Final = 8 << 20
"""Bytes of bodies kept per process; the answers used longest ago give way."""
_OVERHEAD: Final = 512
"""What an entry costs besides its body, roughly."""

Key = tuple[URL, str]
"""Address and `Accept`, which together choose a representation."""


@dataclass(frozen=True, slots=True)
class CachedAnswer:
    """An answer with the validator that the registry gave it."""

    etag: str
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def size(self) -> int:
        """Bytes that it counts for."""
        return len(self.body) + _OVERHEAD


class AnswerMemory:
    """The answers that came with an `ETag`, least recently used out first."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._kept: OrderedDict[Key, CachedAnswer] = OrderedDict()
        self.size = 0
        """Bytes kept at present; never more than the capacity."""

    def find(self, key: Key) -> CachedAnswer | None:
        """The answer to a request, if it is kept."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Key, headers: CIMultiDictProxy[str], body: bytes) -> None:
        """Keep a new answer if the registry can confirm it later; forget the former one in any case."""
        former = self._kept.pop(key, None)
        self.size -= former.size if former is not None else 0
        etag = headers.get("ETag", "")
        if not etag:
            return
        kept = CachedAnswer(etag, headers, body)
        if kept.size > self._capacity // 4:
            # One enormous listing must not drive out those of everybody else.
            return
        self._kept[key] = kept
        self.size += kept.size
        while self.size > self._capacity:
            _, oldest = self._kept.popitem(last=False)
            self.size -= oldest.size


RETRIED_STATUSES: Final = frozenset({408, 499, 500, 502, 503, 504, 522})
RETRY_DELAYS: Final = (1.0, 3.0)
ERROR_BODY_LIMIT: Final = 64 * 1024
USER_AGENT: Final = "aim-engine/0.1 (+https://aim.eai.amd.com)"

_BROKEN: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, ConnectionError)


@dataclass(frozen=True, slots=True)
class Response:
    """A whole answer; any status that was not turned into an error."""

    status: int
    url: URL
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def authority(self) -> str:
        """Host with port, by which limits and waits are kept (FW-396)."""
        return authority_of(self.url)


class Method(StrEnum):
    """The methods that reading a registry takes."""

    GET = "GET"
    HEAD = "HEAD"
    POST = "POST"


@dataclass(frozen=True, slots=True)
class Request:
    """One request; headers may hold credentials and therefore never show."""

    url: URL
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    trust: Trust = SYSTEM_TRUST
    method: Method = Method.GET
    breaks_at_once: bool = False
    """Do not repeat after a broken connection: the caller probes whether the peer speaks TLS."""
    is_revalidated: bool = False
    """Keep an answer that has an `ETag`, and ask only whether it still holds the next time (MS-373)."""

    @property
    def authority(self) -> str:
        """Host with port, by which limits and waits are kept (FW-396)."""
        return authority_of(self.url)

    def with_headers(self, headers: Mapping[str, str]) -> "Request":
        """The request with further headers, which take the place of its own."""
        return replace(self, headers=CIMultiDict({**self.headers, **headers}))


class Transport:
    """Sends requests with the limits that all sources and models share per endpoint host."""

    def __init__(self, settings: RegistrySettings, api_server: str | None = None) -> None:
        """``api_server`` is its URL: nothing is ever sent there (FW-591)."""
        self._settings = settings
        self._reach = Reach(
            settings.registry_allowed_networks,
            settings.registry_refused_networks,
            URL(api_server) if api_server else None,
        )
        self._session: aiohttp.ClientSession | None = None
        self._through_proxy: aiohttp.ClientSession | None = None
        # As long as a request of theirs is under way.
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._blocked_until: dict[str, float] = {}
        self._contexts: dict[Trust, ssl.SSLContext] = {}
        self._traffic = Traffic()
        self._answers = AnswerMemory()

    async def __aenter__(self) -> Self:
        """Open the connection pools."""
        resolver = aiohttp.DefaultResolver()
        self._session = self._open_session(JudgingResolver(resolver, self._reach))
        # The proxy is the administrator's and may be anywhere, a sidecar included; it resolves the names itself.
        self._through_proxy = self._open_session(resolver)
        return self

    def _open_session(self, resolver: AbstractResolver) -> aiohttp.ClientSession:
        timeout = aiohttp.ClientTimeout(
            total=self._settings.registry_request_timeout,
            sock_connect=self._settings.registry_connect_timeout,
        )
        # The slots per host are the limit, not the pool: a wait in the pool would count as request time.
        # Environment look-up is off because it would also read ~/.netrc, which must not be used (MS-169).
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, resolver=resolver),
            timeout=timeout,
            headers={"User-Agent": USER_AGENT},
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            middlewares=(Gate(self._reach),),
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        for session in filter(None, (self._session, self._through_proxy)):
            await session.close()
        self._session = self._through_proxy = None

    def statistics(self) -> TransportStatistics:
        """A snapshot of the counters."""
        now = time.monotonic()
        waiting = {host: until - now for host, until in self._blocked_until.items() if until > now}
        return self._traffic.statistics(waiting)

    async def send(self, request: Request) -> Response:
        """Send, repeating what MS-150 and MS-151 say; an answer that still holds is not transferred again (MS-373).

        Raises:
            RegistryError: `Unreachable`, `Timeout`, `ServerError` or `RateLimited`; other statuses are returned.
        """
        key = (request.url, request.headers.get("Accept", ""))
        kept = self._answers.find(key) if request.is_revalidated else None
        if kept is not None:
            request = request.with_headers({"If-None-Match": kept.etag})
        response = await self._repeated(request)
        if kept is not None and response.status == 304:
            return Response(200, response.url, kept.headers, kept.body)
        if request.is_revalidated and response.status == 200:
            self._answers.keep(key, response.headers, response.body)
        return response

    async def _repeated(self, request: Request) -> Response:
        for delay in (*RETRY_DELAYS, None):
            try:
                response = await self._in_turn(request)
                # Raised here: who keeps the error, keeps the frames that raised it, and in them the slots of the host.
                self._check(response)
            except RegistryError as error:
                if delay is None or not _is_worth_repeating(error, request):
                    raise
                self._traffic.repeated(request.authority)
                # An announced wait is sat out at the top of the next attempt.
                if error.code is not RegistryErrorCode.RATE_LIMITED:
                    await asyncio.sleep(delay * random.uniform(0.9, 1.1))
            else:
                return response
        raise AssertionError("the last attempt returns or raises")

    def _check(self, response: Response) -> None:
        code = code_of_status(response.status) if response.status >= 400 else None
        if code is RegistryErrorCode.RATE_LIMITED or _is_limit_in_disguise(response):
            raise self._rate_limited(response)
        if code is RegistryErrorCode.SERVER_ERROR and response.status != 501:
            raise RegistryError(
                RegistryErrorCode.SERVER_ERROR,
                f"{response.authority} answered HTTP {response.status}",
                status=response.status,
            )

    def _rate_limited(self, response: Response) -> RegistryError:
        wait = announced_wait(response.headers, time.time())
        host = response.authority
        self._traffic.limited(host)
        if wait is not None:
            now = time.monotonic()
            self._blocked_until = {other: until for other, until in self._blocked_until.items() if until > now}
            self._blocked_until[host] = max(self._blocked_until.get(host, 0.0), now + wait)
        return _rate_limit_error(host, wait, response.status)

    def _wait_left(self, authority: str) -> float:
        return self._blocked_until.get(authority, 0.0) - time.monotonic()

    async def _sit_out(self, authority: str) -> None:
        left = self._wait_left(authority)
        if left > LONGEST_IN_PLACE:
            raise _rate_limit_error(authority, left, None)
        if left > 0:
            await asyncio.sleep(left)

    async def _in_turn(self, request: Request) -> Response:
        """One attempt, when the host has a slot free and no wait announced."""
        authority = request.authority
        slots = self._slots.setdefault(authority, asyncio.Semaphore(self._settings.registry_max_connections))
        while True:
            await self._sit_out(authority)
            async with slots:
                # A request that stood in line while the wait was announced keeps it, too (MS-257).
                if self._wait_left(authority) > 0:
                    continue
                with self._count(authority) as answered:
                    response = await self._exchange(request)
                    answered(response.status)
                    return response

    @contextmanager
    def _count(self, authority: str) -> Iterator[Callable[[int], None]]:
        """Count an exchange, and give what goes wrong in it a code."""
        status: list[int] = []
        self._traffic.count_request(authority)
        try:
            yield status.append
        except TimeoutError as error:
            raise self._timeout_error(authority, error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise RegistryError(
                RegistryErrorCode.UNREACHABLE, f"{authority} cannot be reached: {_cause(error)}"
            ) from error
        finally:
            self._traffic.answered(authority, next(iter(status), None))

    def _timeout_error(self, authority: str, error: TimeoutError) -> RegistryError:
        did_not, seconds, variable = (
            ("accept a connection", self._settings.registry_connect_timeout, "--registry-connect-timeout")
            if isinstance(error, aiohttp.ConnectionTimeoutError)
            else ("answer", self._settings.registry_request_timeout, "--registry-request-timeout")
        )
        return RegistryError(
            RegistryErrorCode.TIMEOUT,
            f"{authority} did not {did_not} within {seconds:g} s; check the network path, or raise {variable}",
        )

    async def _exchange(self, request: Request) -> Response:
        proxy = _proxy_for(request.url)
        session = self._through_proxy if proxy else self._session
        assert session is not None, "use the transport as a context manager"
        async with session.request(
            request.method,
            request.url,
            headers=request.headers,
            data=request.form,
            ssl=await self._context(request.trust),
            proxy=proxy,
            max_redirects=5,
            # A form holds a long-lived token, and a redirect could take it to any host (FW-593).
            allow_redirects=request.form is None,
        ) as answer:
            limit = self._settings.registry_max_body_bytes if answer.status < 400 else ERROR_BODY_LIMIT
            body = await _read(answer, limit)
            if request.url.scheme == "https" and answer.url.scheme != "https":
                raise RegistryError(
                    RegistryErrorCode.INVALID_RESPONSE,
                    f"{request.authority} redirects from https to plain http on {answer.url.host}; refused",
                )
            if len(body) > limit and answer.status < 400:
                raise RegistryError(
                    RegistryErrorCode.TRUNCATED_RESULT,
                    f"{request.authority} answered more than {limit} bytes; see --registry-max-body-bytes",
                )
            # The origin of paging links is the address that was asked, not where a redirect led.
            return Response(answer.status, request.url, answer.headers, body[:limit])

    async def _context(self, trust: Trust) -> ssl.SSLContext:
        if trust not in self._contexts:
            ca_files = [self._settings.registry_ca_file, trust.ca_file]
            try:
                self._contexts[trust] = await asyncio.to_thread(
                    _make_context, [str(path) for path in ca_files if path], trust.insecure_skip_verify
                )
            except OSError as error:
                raise RegistryError(
                    RegistryErrorCode.UNREACHABLE,
                    f"a CA bundle of {', '.join(str(path) for path in ca_files if path)} cannot be loaded: {error}",
                ) from error
        return self._contexts[trust]


def _is_limit_in_disguise(response: Response) -> bool:
    """GitHub limits with 403: the primary limit counts down to zero, the secondary one announces a wait (MS-151)."""
    if response.status != 403:
        return False
    return response.headers.get("x-ratelimit-remaining") == "0" or "Retry-After" in response.headers


def _is_worth_repeating(error: RegistryError, request: Request) -> bool:
    match error.code:
        case RegistryErrorCode.RATE_LIMITED:
            return error.retry_after is not None and error.retry_after <= LONGEST_IN_PLACE
        case RegistryErrorCode.SERVER_ERROR:
            return error.status in RETRIED_STATUSES
        case RegistryErrorCode.UNREACHABLE:
            return not request.breaks_at_once and _is_broken_connection(error.__cause__)
        case _:
            return False


def _is_broken_connection(cause: BaseException | None) -> bool:
    if isinstance(cause, aiohttp.ClientConnectorError):
        return False
    return isinstance(cause, (aiohttp.ClientOSError, *_BROKEN))


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_chunked(64 * 1024):
        body += chunk
        if len(body) > limit:
            break
    return bytes(body)


def _make_context(ca_files: list[str], insecure: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    for path in ca_files:
        context.load_verify_locations(cafile=path)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy_for(url: URL) -> str | None:
    return environment_proxy(str(url))


def _rate_limit_error(authority: str, wait: float | None, status: int | None) -> RegistryError:
    # The seconds left are in `retry_after` only: in the text they would change a status with every attempt.
    return RegistryError(
        RegistryErrorCode.RATE_LIMITED,
        f"{authority} limits the request rate; authenticate with a pull secret or use a mirror",
        status=status,
        retry_after=wait,
    )


_CAUSES: Final = (
    (aiohttp.ClientConnectorDNSError, "its name does not resolve; check the spelling and the cluster's DNS"),
    (
        aiohttp.ClientConnectorCertificateError,
        "its certificate is not trusted; set its certificate authority with --registry-ca-file or `caFile`",
    ),
    (aiohttp.ClientSSLError, "the TLS handshake failed; if it speaks plain HTTP, set `upstream.plainHttp`"),
    (aiohttp.ClientProxyConnectionError, "the proxy cannot be reached; check HTTP_PROXY and HTTPS_PROXY"),
    (aiohttp.ServerDisconnectedError, "it closed the connection without an answer"),
    (aiohttp.ClientPayloadError, "it broke its answer off"),
    (aiohttp.TooManyRedirects, "it redirects more than 5 times"),
)


def _cause(error: BaseException) -> str:
    # The library's own texts hold object addresses, with which a status would change at every attempt.
    for kind, text in _CAUSES:
        if isinstance(error, kind):
            return text
    if isinstance(error, OSError) and error.errno:
        return f"{os.strerror(error.errno).lower()}; check address and network policies"
    return type(error).__name__
