"""HTTP to the API server: authorization, time limits, retries, the concurrency bound and metrics."""

from __future__ import annotations

import asyncio
import errno
import math
import random
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self, TypeAlias, final

import aiohttp

from controller_runtime.backoff import LONGEST_IN_PLACE, Backoff
from controller_runtime.kube.config import Connection
from controller_runtime.kube.errors import ApiConnectionError, ApiError, ConnectionFailure, KubeError, api_error
from controller_runtime.kube.guard import WriteGuard, seconds_to_write
from controller_runtime.kube.proxies import environment_proxy
from controller_runtime.kube.refusals import AccessRequest, Refusals
from controller_runtime.telemetry import tracing


@final
@dataclass(frozen=True, slots=True)
class LimiterStatistics:
    """A moment of a limiter: its bound, calls in flight, calls that wait for a slot."""

    limit: int
    in_flight: int
    waiting: int


@final
class Limiter:
    """Admits a bounded number of calls at once, first come, first served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._slots = asyncio.Semaphore(limit)
        self._in_flight = 0
        self._waiting = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Hold one slot for the length of the block."""
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._slots.release()

    def statistics(self) -> LimiterStatistics:
        """Current numbers."""
        return LimiterStatistics(self._limit, self._in_flight, self._waiting)


Parameters: TypeAlias = Mapping[str, str]


class RequestObserver(Protocol):
    """Hook for metrics."""

    def on_request(self, verb: str, resource: str, code: int, seconds: float) -> None:
        """One attempt ended; ``code`` is 0 when no answer came. For a watch: its response headers arrived."""


@final
@dataclass(frozen=True, slots=True)
class TransportSettings:
    """Bounds of the calls.

    Attributes:
        concurrency: calls in flight at once, watches not counted.
        connect_timeout: seconds to get a connection.
        read_timeout: seconds without a byte before an answer is given up.
        total_timeout: seconds for one attempt, from slot to last byte.
        attempts: tries of an idempotent call, the first included.
        backoff: delays between them, when the server does not name one.
        longest_wait: seconds beyond which a ``Retry-After`` is not slept out but reported.
    """

    concurrency: int = 20
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    total_timeout: float = 60.0
    attempts: int = 4
    backoff: Backoff = field(default_factory=lambda: Backoff(base=0.2, cap=5.0))
    longest_wait: float = LONGEST_IN_PLACE


@final
@dataclass(frozen=True, slots=True)
class Request:
    """One call.

    Attributes:
        verb: Kubernetes verb for metrics, such as ``apply``.
        method: HTTP method.
        path: URL path below the server.
        resource: resource name for metrics.
        parameters: query parameters.
        body: encoded body.
        content_type: media type of the body.
        idempotent: whether repeating it after a failure of unknown outcome is harmless.
        guard: asked before every attempt.
        urgent: takes no slot of the concurrency bound.
        accept: media types of the answer, the preferred one first.
    """

    verb: str
    method: str
    path: str
    resource: str
    parameters: Parameters = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    idempotent: bool = True
    guard: WriteGuard | None = None
    urgent: bool = False
    accept: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@final
@dataclass(frozen=True, slots=True)
class TransportStatistics:
    """Counters since the start.

    Attributes:
        limiter: slots taken and waited for.
        attempts: requests sent, watches included.
        retries: attempts that repeated a failed one.
        failures: attempts that ended in an error.
        credential_refreshes: times a 401 made us read the credential again.
        open_watches: watches open now.
    """

    limiter: LimiterStatistics
    attempts: int
    retries: int
    failures: int
    credential_refreshes: int
    open_watches: int


class Transport:
    """An HTTP session with one API server."""

    def __init__(
        self,
        connection: Connection,
        user_agent: str,
        settings: TransportSettings | None = None,
        observer: RequestObserver | None = None,
        randomness: random.Random | None = None,
    ) -> None:
        self._connection = connection
        self._tls = connection.tls
        self._user_agent = user_agent
        self.refusals = Refusals()
        self._settings = settings or TransportSettings()
        self._observer = observer
        self._random = randomness or random.Random()
        self._limiter = Limiter(self._settings.concurrency)
        self._session: aiohttp.ClientSession | None = None
        self._proxy = connection.proxy or environment_proxy(connection.server)
        self._attempts = self._retries = self._failures = self._refreshes = self._watches = 0

    @property
    def server(self) -> str:
        """Base URL of the API server."""
        return self._connection.server

    def as_bearer(self, token: str) -> Transport:
        """Another one, not open yet, that sends a token instead of these credentials.

        Raises:
            ConfigError: see `Connection.as_bearer`.
        """
        return Transport(self._connection.as_bearer(token), self._user_agent, self._settings, self._observer)

    async def __aenter__(self) -> Self:
        # The limiter bounds calls; a bound on connections would let watches starve them.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": self._user_agent},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(self, request: Request) -> bytes:
        """Send the request and return the whole body of its answer.

        Raises:
            ApiError: the server refused; transient refusals of idempotent calls were repeated first.
            ApiConnectionError: no answer, likewise.
        """
        attempt = 1
        while True:
            try:
                return await self._call_once(request)
            except (ApiError, ApiConnectionError) as error:
                delay = self._retry_delay(request, error, attempt)
                if delay is None:
                    raise
            self._retries += 1
            attempt += 1
            await asyncio.sleep(delay)

    @asynccontextmanager
    async def stream(self, request: Request, idle_timeout: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a response that the server writes for as long as it likes, and read its chunks.

        The only time limit is ``idle_timeout``, seconds without a byte. Nothing is repeated and no slot is
        taken. Raises as `call` does, on opening and while reading.
        """
        limits = aiohttp.ClientTimeout(
            connect=self._settings.connect_timeout,
            sock_connect=self._settings.connect_timeout,
            sock_read=idle_timeout,
        )
        async with self._exchange(request, limits) as response:
            self._watches += 1
            try:
                async with aclosing(self._chunks(request, response)) as chunks:
                    yield chunks
            finally:
                self._watches -= 1
                # What is left in the connection is of no use to anybody; releasing would try to read it.
                response.close()

    def statistics(self) -> TransportStatistics:
        """Current numbers."""
        return TransportStatistics(
            self._limiter.statistics(),
            self._attempts,
            self._retries,
            self._failures,
            self._refreshes,
            self._watches,
        )

    async def _call_once(self, request: Request) -> bytes:
        limits = aiohttp.ClientTimeout(
            total=self._settings.total_timeout,
            connect=self._settings.connect_timeout,
            sock_connect=self._settings.connect_timeout,
            sock_read=self._settings.read_timeout,
        )
        slot = nullcontext() if request.urgent else self._limiter.slot()
        async with slot, self._exchange(request, limits) as response:
            try:
                return await response.read()
            except (aiohttp.ClientError, OSError) as error:
                raise self._broken(request, error, "exchange") from error

    @asynccontextmanager
    async def _exchange(self, request: Request, limits: aiohttp.ClientTimeout) -> AsyncIterator[aiohttp.ClientResponse]:
        response = await self._send_trusting(request, limits)
        if response.status == 401:
            response.release()
            await self._connection.credentials.refresh()
            self._refreshes += 1
            response = await self._send(request, limits)
        try:
            if response.status >= 400:
                refusal = await self._refusal(request, response)
                self.refusals.note_refusal(AccessRequest.of(request.verb, request.resource, request.path), refusal)
                raise refusal
            self.refusals.answered(request.verb, request.resource, request.path)
            yield response
        finally:
            response.release()

    async def _send_trusting(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """Send it, and once more with the trusted certificates read again if the server's was not believed (FW-660)."""
        try:
            return await self._send(request, limits)
        except ApiConnectionError as error:
            unknown = isinstance(error.__cause__, aiohttp.ClientConnectorCertificateError)
            if not unknown or self._connection.read_tls is None:
                raise
        self._tls = await self._connection.read_tls()
        return await self._send(request, limits)

    async def _send(self, request: Request, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        if self._session is None:
            raise KubeError("the Kubernetes client is not open; enter it with 'async with' first")
        headers = {"Accept": request.accept}
        if authorization := await self._connection.credentials.authorization():
            headers["Authorization"] = authorization
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        # Asked last, right before the bytes leave: what was true when the call was queued may no longer be.
        if request.guard is not None:
            limits = _shortened(limits, seconds_to_write(request.guard))
        started = time.monotonic()
        code = 0
        self._attempts += 1
        try:
            response = await self._session.request(
                request.method,
                self._connection.server + request.path,
                params=request.parameters,
                data=request.body,
                headers=headers,
                timeout=limits,
                ssl=self._tls or True,
                proxy=self._proxy,
                server_hostname=self._connection.tls_server_name,
                allow_redirects=False,
            )
            code = response.status
        except (aiohttp.ClientError, OSError) as error:
            self._failures += 1
            raise self._broken(request, error, "exchange") from error
        finally:
            seconds = time.monotonic() - started
            if self._observer is not None:
                self._observer.on_request(request.verb, request.resource, code, seconds)
            tracing.request_ended(f"{request.verb} {request.resource}", request.method, request.path, code, seconds)
        return response

    async def _refusal(self, request: Request, response: aiohttp.ClientResponse) -> ApiError:
        self._failures += 1
        try:
            body = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise self._broken(request, error, "exchange") from error
        return api_error(str(request), response.status, body, response.headers.get("Retry-After"))

    async def _chunks(self, request: Request, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            self._failures += 1
            raise self._broken(request, error, "exchange") from error

    def _retry_delay(self, request: Request, error: ApiError | ApiConnectionError, attempt: int) -> float | None:
        if not request.idempotent or attempt >= self._settings.attempts:
            return None
        if isinstance(error, ApiConnectionError):
            return self._settings.backoff.delay(attempt, self._random)
        if not error.is_transient:
            return None
        if error.retry_after is None:
            return self._settings.backoff.delay(attempt, self._random)
        if error.retry_after > self._settings.longest_wait:
            return None
        # Never earlier than the server asked, and spread beyond it: all clients got the same second.
        return error.retry_after * self._random.uniform(1.0, 1.2)

    def _broken(self, request: Request, error: Exception, operation: str) -> ApiConnectionError:
        if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
            operation = "dial"
        return ApiConnectionError(
            str(request),
            connection_failure(error),
            self._connection.server,
            operation,
            str(error) or type(error).__name__,
        )


def _shortened(limits: aiohttp.ClientTimeout, seconds: float) -> aiohttp.ClientTimeout:
    """The same limits, and all of it within some seconds, to the point: the library would round longer times up."""
    return aiohttp.ClientTimeout(
        total=min(limits.total or math.inf, seconds),
        connect=limits.connect,
        sock_connect=limits.sock_connect,
        sock_read=limits.sock_read,
        ceil_threshold=math.inf,
    )


def connection_failure(error: BaseException) -> ConnectionFailure:
    """Tell how a connection failed from the library's or the system's exception (FW-045)."""
    if isinstance(error, aiohttp.ClientConnectorDNSError | socket.gaierror):
        return ConnectionFailure.DNS
    if isinstance(error, TimeoutError):
        return ConnectionFailure.TIMEOUT
    # ``ClientConnectorError`` is an OSError that carries the number of the one below it.
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, ConnectionRefusedError) or number == errno.ECONNREFUSED:
        return ConnectionFailure.REFUSED
    if isinstance(error, ConnectionResetError | BrokenPipeError) or number in {errno.ECONNRESET, errno.EPIPE}:
        return ConnectionFailure.RESET
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return ConnectionFailure.RESET
    return ConnectionFailure.OTHER
