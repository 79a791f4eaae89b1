"""The connection to the message broker, library-neutral, with the client library's holes closed."""

import asyncio
import logging
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import nats.errors
import structlog
from nats.aio.client import Client, Srv
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as ClientSubscription
from nats.aio.transport import TcpTransport

from controller_runtime.json import JsonObject, dumps, loads
from controller_runtime.log.broker.address import (
    BusApiError,
    BusClosedError,
    BusUnavailableError,
    read_credentials,
    split_urls,
    tls_context,
    without_credentials,
)

_FRAME: Final = len("NATS/1.0\r\n\r\n")
_LINE_FRAME: Final = len(": \r\n")
_BLANK: Final = " \t\n\r\v\f"


def parse_headers(raw: bytes) -> dict[str, str]:
    """Read lines of ``Name: Value``; of a repeated name the last, and nothing of a line that is none."""
    found: dict[str, str] = {}
    for line in raw.decode("utf-8", "replace").split("\r\n"):
        before, colon, after = line.partition(":")
        if colon and (name := _name(before)) is not None:
            found[name] = after.strip(_BLANK)
    return found


@lru_cache(maxsize=64)
def _name(text: str) -> str | None:
    """The name that a line begins with; ``None`` if it is none. All messages have the same few."""
    name = text.strip(_BLANK)
    return None if not name.isascii() or any(map(str.isspace, name)) else name


def encoded_size(headers: Mapping[str, str]) -> int:
    """Bytes that headers take in a message, as the broker counts them."""
    text = "".join((*headers, *headers.values()))
    size = len(text) if text.isascii() else len(text.encode())
    return _FRAME + size + _LINE_FRAME * len(headers)


_NO_TLS: Final = "the broker offers no TLS, which tls:// in --nats-url, or --nats-ca-file, asks for"
_END_OF_TLS: Final = "eof_received() has no effect when using ssl"
"""What asyncio says when a connection ends whose streams the client library has made for a plain one."""


def is_news(record: logging.LogRecord) -> bool:
    """Whether a line of asyncio's log is worth a line of ours; for a logger's filter (FW-713)."""
    return _END_OF_TLS not in record.getMessage()


class BrokerClient(Client):
    """The library's client, but for four things.

    Of headers it looks at each character of each name, every time. Where a broker offers no TLS it goes on in plain
    text, credentials first, whatever the URL says (FW-587). And to reconnect it waits for the lost broker to close
    the connection, and leaves those of failed attempts open (FW-864). And closing it may leave an attempt to reconnect.

    Args:
        needs_tls: a CA is named, so TLS is meant.
    """

    def __init__(self, *, needs_tls: bool) -> None:
        super().__init__()
        self._needs_tls = needs_tls

    async def _attempt_reconnect(self) -> None:
        self._abort_connection()
        await super()._attempt_reconnect()

    async def _connect_to_server(self, s: Srv) -> None:
        # The transport takes the new connection in place of the former one.
        self._abort_connection()
        await super()._connect_to_server(s)

    async def close(self) -> None:
        """Close the connection, and end an attempt to reconnect."""
        await super().close()
        # The library cancels the attempt once. That is forgotten when it comes as the connection is made, and the
        # attempt goes on for as long as the process.
        task = self._reconnection_task
        # The attempt itself closes the connection when it gives up.
        if task is asyncio.current_task():
            return
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CONNECT_TIMEOUT)
        if not self.is_closed:
            await super().close()
        self._abort_connection()

    def _abort_connection(self) -> None:
        # To close TLS takes an answer, for which asyncio waits 30 s: longer than it takes until another broker leads.
        if isinstance(self._transport, TcpTransport) and (writer := self._transport._io_writer) is not None:
            writer.transport.abort()

    def _connect_command(self) -> bytes:
        # The last moment before anything is sent; the greeting of the broker has been read.
        server = self._current_server
        scheme = "" if server is None else server.uri.scheme
        wanted = scheme == "tls" or (self._needs_tls and scheme != "wss")
        if wanted and not self._server_info.get("tls_required"):
            raise nats.errors.Error(_NO_TLS)
        return super()._connect_command()

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        return parse_headers(raw)


@dataclass(frozen=True, slots=True)
class PubAck:
    """Stored, and synced to disk.

    Attributes:
        sequence: where it lies.
        duplicate: the broker had seen the message id before; ``sequence`` is where that message was stored, which
            may have been replaced or removed since.
    """

    sequence: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class WrongSequence:
    """Refused: the subject's last sequence is another one than expected (10071).

    Attributes:
        last: the subject's last sequence, where the broker stated it.
    """

    last: int | None


@dataclass(frozen=True, slots=True)
class MessageRefusal:
    """Refused for good: the same message will never be stored, because body or headers are too large."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer, or one that may change (no storage left): it may be stored already, may be later, or never."""

    reason: str


PublishOutcome = PubAck | WrongSequence | MessageRefusal | Unknown

_WRONG_SEQUENCE_CODES: Final = frozenset({10071, 10164})
TOO_LARGE: Final = 10054
_HEADERS_TOO_LARGE: Final = 10097
_REFUSED_FOR_GOOD: Final = frozenset({TOO_LARGE, _HEADERS_TOO_LARGE})
_LAST_SEQUENCE: Final = re.compile(r"wrong last sequence: (\d+)")


def read_ack(data: bytes) -> PublishOutcome:
    """The broker's answer to a publish."""
    try:
        answer = loads(data)
        error: dict[str, Any] | None = answer.get("error")
        if error is None:
            return PubAck(int(answer["seq"]), bool(answer.get("duplicate")))
    except (KeyError, ValueError) as problem:
        return Unknown(f"the broker's answer is unreadable: {problem}")
    return _read_error(error)


def _read_error(error: dict[str, Any]) -> PublishOutcome:
    text = str(error.get("description", "no description"))
    code = int(error.get("err_code", 0))
    if code in _WRONG_SEQUENCE_CODES:
        match = _LAST_SEQUENCE.search(text)
        return WrongSequence(int(match.group(1)) if match else None)
    return MessageRefusal(code, text) if code in _REFUSED_FOR_GOOD else Unknown(f"{text} ({code})")


_log = structlog.get_logger(__name__)

REQUEST_TIMEOUT: Final = 5.0
"""Seconds until an answer that only reads is given up, while the connection stands."""

PUBLISH_TIMEOUT: Final = 15.0
"""Seconds until a publish counts as unknown, while the connection is up. Less than a checkpoint's lifetime (FW-019)."""

_IN_FLIGHT: Final = 64
"""Publishes of versions on their way at a time. More would wait for the same disk, only in the broker."""

_CONNECT_TIMEOUT: Final = 2
_PING_INTERVAL: Final = 10
_RECONNECT_WAIT: Final = (0.2, 0.8)
_LOG_INTERVAL: Final = 30.0
_OPEN_DELIVERIES: Final = 4
_NO_JETSTREAM: Final = frozenset({10035, 10039, 10076})
"""JetStream is not enabled for this account, or on this server."""
_SILENT: Final = "no answer in time, or none of a NATS server"
_PERMISSIONS: Final = "permissions violation"


def inbox_prefix(name: str) -> str:
    """What the reply subjects of a client begin with: its own, so that permissions can keep others from listening."""
    return f"_INBOX.{name}"


class ConnectionState(StrEnum):
    """Where the connection stands."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class BusSettings:
    """How to reach the broker.

    Attributes:
        servers: URLs; any of them will do.
        name: shown in the broker's monitoring.
        credentials_file: user JWT and seed, as the broker's tools write them, or the seed of an NKey alone.
        ca_file: CA bundle for ``tls://`` servers.
        inbox_prefix: first token of reply subjects, where permissions restrict them.
        domain: JetStream domain of the streams, where they lie in another one than the server's own.
    """

    servers: tuple[str, ...]
    name: str
    credentials_file: Path | None = None
    ca_file: Path | None = None
    inbox_prefix: str = "_INBOX"
    request_timeout: float = REQUEST_TIMEOUT
    domain: str = ""
    publish_timeout: float = PUBLISH_TIMEOUT

    @classmethod
    def of_urls(
        cls,
        urls: str,
        name: str,
        credentials_file: Path | None = None,
        ca_file: Path | None = None,
        domain: str = "",
    ) -> "BusSettings":
        """Settings from a comma-separated list of URLs."""
        return cls(split_urls(urls), name, credentials_file, ca_file, inbox_prefix(name), domain=domain)

    @property
    def api(self) -> str:
        """Where the JetStream API listens."""
        return f"$JS.{self.domain}.API" if self.domain else "$JS.API"


@dataclass(frozen=True, slots=True)
class ConnectionStatistics:
    """Counters and state for metrics and readiness.

    Attributes:
        session: number of the current or last connection; 0 before the first.
        denied: the last permission that the broker refused since the connection stands; ``None`` if none.
        last_error: the last other error.
        unknown_publishes: publishes without an answer.
        servers: the URLs, without what is secret in them.
        no_jetstream: why the JetStream API cannot be used; ``None`` as far as is known it can.
    """

    state: ConnectionState
    session: int
    denied: str | None
    last_error: str | None
    published: int
    unknown_publishes: int
    servers: tuple[str, ...] = ()
    no_jetstream: str | None = None


class Message(NamedTuple):
    """A message as it came in; headers may repeat in theory, never in ours."""

    subject: str
    reply: str
    headers: Mapping[str, str]
    data: bytes

    @property
    def status(self) -> str:
        """Status of a control message of the broker (``100`` idle heartbeat, ``404`` not found), else empty."""
        return self.headers.get("Status", "")

    @property
    def size(self) -> int:
        """Bytes, as the broker counts them: of subject, reply, headers and body."""
        return len(self.subject.encode()) + len(self.reply) + encoded_size(self.headers) + len(self.data)

    @property
    def description(self) -> str:
        """What a control message says in words, else empty."""
        return self.headers.get("Description", "")


class Subscription:
    """An open subscription; messages go to its handler in order, until closed."""

    def __init__(self, subscription: ClientSubscription) -> None:
        self._subscription = subscription

    async def close(self) -> None:
        """End it; harmless when the connection is gone."""
        with suppress(nats.errors.Error):
            await self._subscription.unsubscribe()


class BusConnection:
    """One connection, shared by everything in a process. Made by `connect`.

    Attributes:
        writes: held while a version is published, so that a burst waits here and not in the broker, where it would age.
        deliveries: held while a consumer delivers. The broker cuts the whole connection when more than 64 MB wait for
            it, so that what all consumers together may have under way has to be bounded.
    """

    def __init__(self, settings: BusSettings) -> None:
        self._settings = settings
        self._client = BrokerClient(needs_tls=settings.ca_file is not None)
        self._state = ConnectionState.CONNECTING
        self._session = 0
        self._changed = asyncio.Event()
        self._denied: str | None = None
        self._last_error: str | None = None
        self._no_jetstream: str | None = None
        self._shown = tuple(without_credentials(url) for url in settings.servers)
        self._logged_at = float("-inf")
        self._published = 0
        self._unknown = 0
        self._opened = False
        self._in_flight: set[asyncio.Timeout] = set()
        self.writes = asyncio.Semaphore(_IN_FLIGHT)
        self.deliveries = asyncio.Semaphore(_OPEN_DELIVERIES)

    # State

    @property
    def connected(self) -> bool:
        """Whether the connection stands, as far as is known."""
        return self._state is ConnectionState.CONNECTED

    @property
    def session(self) -> int:
        """Number of the current or last connection; what was learnt in an earlier one may be outdated."""
        return self._session

    @property
    def max_payload(self) -> int:
        """Bytes of the largest message that the broker takes; a guess before the first connection."""
        return self._client.max_payload

    @property
    def statistics(self) -> ConnectionStatistics:
        """A snapshot for metrics and readiness."""
        return ConnectionStatistics(
            self._state,
            self._session,
            self._denied,
            self._last_error,
            self._published,
            self._unknown,
            self._shown,
            self._no_jetstream,
        )

    async def wait_connected(self) -> int:
        """Wait until the connection stands; returns the session's number."""
        while not self.connected:
            await self._changed.wait()
        return self._session

    async def wait_lost(self, session: int) -> None:
        """Wait until the given session has ended."""
        while self.connected and self._session == session:
            await self._changed.wait()

    def _enter(self, state: ConnectionState) -> None:
        self._state = state
        if not self.connected:
            self._give_up_waiting()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _give_up_waiting(self) -> None:
        """No answer comes over a connection that is lost."""
        now = asyncio.get_running_loop().time()
        for limit in self._in_flight:
            if not limit.expired():
                limit.reschedule(now)

    # Requests

    async def publish(
        self, subject: str, payload: bytes, headers: Mapping[str, str], *, expected: int | None = None
    ) -> PublishOutcome:
        """Store a message; never raises for what the broker or the network does.

        Args:
            expected: the subject's last sequence (0 = none) or the message is refused; ``None`` = store anyhow.
        """
        fenced = dict(headers)
        if expected is not None:
            fenced["Nats-Expected-Last-Subject-Sequence"] = str(expected)
        size = len(payload) + encoded_size(fenced)
        if self.connected and size > self.max_payload:
            # The library counts the body alone, and the broker closes a connection for one byte too many.
            return MessageRefusal(TOO_LARGE, f"{size} bytes are more than the broker's max_payload")
        try:
            answer = await self._exchange(subject, payload, fenced, self._settings.publish_timeout)
        except BusUnavailableError as error:
            self._unknown += 1
            return Unknown(str(error))
        self._published += 1
        return read_ack(answer.data)

    async def request(self, subject: str, payload: bytes = b"") -> Message:
        """Ask for one answer.

        Raises:
            BusUnavailableError: there was none in time.
        """
        return _message(await self._exchange(subject, payload, None, self._settings.request_timeout))

    async def send(self, subject: str, payload: bytes, *, reply: str) -> None:
        """Send a message whose answers go to a subscription.

        Raises:
            BusUnavailableError: it was not sent.
        """
        self._require(subject)
        try:
            await self._client.publish(subject, payload, reply=reply)
        except (nats.errors.Error, OSError) as error:
            raise BusUnavailableError(f"{subject}: {error}") from error

    def api_subject(self, name: str) -> str:
        """Subject of a call of the JetStream API."""
        return f"{self._settings.api}.{name}"

    async def api(self, name: str, request: JsonObject | None = None) -> JsonObject:
        """Call the JetStream API, for example ``STREAM.INFO.<name>``.

        Raises:
            BusUnavailableError: no answer in time.
            BusApiError: the broker said no.
        """
        subject = self.api_subject(name)
        try:
            message = await self.request(subject, dumps(request) if request is not None else b"")
        except BusUnavailableError as error:
            if isinstance(error.__cause__, nats.errors.NoRespondersError):
                self._no_jetstream = f"no answer at {self._settings.api}"
            raise
        try:
            answer = loads(message.data)
        except ValueError as error:
            raise BusUnavailableError(f"{subject}: unreadable answer: {error}") from error
        if problem := answer.get("error"):
            code, text = int(problem.get("err_code", 0)), str(problem.get("description", ""))
            # Without the subject: whatever is asked gets this answer.
            self._no_jetstream = f"{text} ({code})" if code in _NO_JETSTREAM else None
            raise BusApiError(subject, code, text)
        self._no_jetstream = None
        return answer

    async def _exchange(self, subject: str, payload: bytes, headers: dict[str, str] | None, patience: float) -> Msg:
        self._require(subject)
        try:
            async with asyncio.timeout(patience) as limit:
                self._in_flight.add(limit)
                try:
                    answer = await self._client.request(subject, payload, timeout=2 * patience, headers=headers)
                finally:
                    self._in_flight.discard(limit)
        except nats.errors.NoRespondersError as error:
            raise_if_cancelled()
            raise BusUnavailableError(f"{subject}: no response; check that the stream exists") from error
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise_if_cancelled()
            denied = f"; the broker denied: {self._denied}" if self._denied else ""
            lost = "" if self.connected else "the connection was lost"
            raise BusUnavailableError(f"{subject}: {str(error) or lost or 'no answer in time'}{denied}") from error
        # The library waits with wait_for, which on Python 3.11 forgets a cancellation that meets the answer; a task
        # that loops over requests would then never end.
        raise_if_cancelled()
        return answer

    def _require(self, subject: str) -> None:
        # Without this check the library would keep the message and send it at some later time.
        if not self.connected or not self._client.is_connected:
            raise BusUnavailableError(f"{subject}: not connected to the message broker")

    # Subscriptions

    def inbox(self) -> str:
        """A subject of this connection alone, for deliveries."""
        return self._client.new_inbox()

    async def subscribe(self, subject: str, handler: Callable[[Message], Awaitable[None]]) -> Subscription:
        """Deliver a subject's messages to a handler, one at a time, also after reconnects.

        Raises:
            BusUnavailableError: not connected.
        """

        async def deliver(message: Msg) -> None:
            await handler(_message(message))

        try:
            return Subscription(await self._client.subscribe(subject, cb=deliver))
        except (nats.errors.Error, OSError) as error:
            raise BusUnavailableError(f"subscribe {subject}: {error}") from error

    # Lifecycle

    async def _open(self) -> None:
        """Connect, however long it takes."""
        settings = self._settings
        tls = await asyncio.to_thread(tls_context, settings.ca_file)
        credentials = await asyncio.to_thread(read_credentials, settings.credentials_file)
        logging.getLogger("asyncio").addFilter(is_news)
        self._opened = True
        await self._client.connect(
            list(settings.servers),
            name=settings.name,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_connected,
            closed_cb=self._on_closed,
            connect_timeout=_CONNECT_TIMEOUT,
            reconnect_time_wait=random.uniform(*_RECONNECT_WAIT),  # type: ignore[arg-type]  # any number will do
            max_reconnect_attempts=-1,
            ping_interval=_PING_INTERVAL,
            inbox_prefix=settings.inbox_prefix,
            tls=tls,
            **credentials,
        )
        await self._on_connected()

    async def _run(self) -> None:
        await self._open()
        # Connecting forgets a cancellation as requests do, see `_exchange`; leaving `connect` would wait for ever.
        raise_if_cancelled()
        while self._state is not ConnectionState.CLOSED:
            await self._changed.wait()
        raise BusClosedError(
            f"the broker closed the connection of {self._settings.name} for good ({self._last_error}); "
            "check its credentials and permissions"
        )

    async def _close(self) -> None:
        # The library cannot close what it never began to open.
        if not self._opened or self._client.is_closed:
            return
        with suppress(nats.errors.Error, OSError, TimeoutError):
            await self._client.close()

    async def _on_connected(self) -> None:
        self._session += 1
        # Whatever was wrong, it was in the way of another connection.
        self._denied = self._last_error = self._no_jetstream = None
        self._enter(ConnectionState.CONNECTED)
        _log.info("connected to the message broker", session=self._session)

    async def _on_disconnected(self) -> None:
        if self._state is not ConnectionState.CLOSED:
            self._enter(ConnectionState.DISCONNECTED)

    async def _on_closed(self) -> None:
        self._enter(ConnectionState.CLOSED)

    async def _on_error(self, error: Exception) -> None:
        text = without_credentials(str(error) or (_SILENT if isinstance(error, TimeoutError) else type(error).__name__))
        if _PERMISSIONS in text.lower():
            self._denied = text
        elif self._last_error is None or not _says_nothing(error):
            self._last_error = text
        now = time.monotonic()
        if now - self._logged_at >= _LOG_INTERVAL:
            self._logged_at = now
            _log.warning("message broker connection failed; retrying", error=text, servers=self._shown)


@asynccontextmanager
async def connect(settings: BusSettings) -> AsyncIterator[BusConnection]:
    """A connection that is opened in the background; an absent broker is no error.

    Raises:
        ExceptionGroup: of `BusClosedError`, in the middle of the body, when the broker ended the connection for good.
    """
    connection = BusConnection(settings)
    async with asyncio.TaskGroup() as group:
        runner = group.create_task(connection._run())
        try:
            yield connection
        finally:
            # The library may forget a cancellation while it connects, and then tries for ever: cancel it again.
            while not runner.done():
                runner.cancel()
                await asyncio.wait({runner}, timeout=_CONNECT_TIMEOUT)
            await connection._close()


def _says_nothing(error: Exception) -> bool:
    """A broker that refuses a client says why and hangs up; its words are sometimes lost in that."""
    return isinstance(error, ConnectionResetError | BrokenPipeError | nats.errors.UnexpectedEOF)


def raise_if_cancelled() -> None:
    """Take up a cancellation of this task that a library swallowed.

    Raises:
        asyncio.CancelledError: it was requested and is still due.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _message(message: Msg) -> Message:
    return Message(message.subject, message.reply, message.headers or {}, message.data)
