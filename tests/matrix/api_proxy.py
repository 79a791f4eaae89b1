"""A reverse proxy between a service and the API server, where requests are counted and made to go wrong.

One port per client, so that clients are told apart whatever they call themselves, and the same rules work against any
API server: those of `embedded_apiserver.faults` that need nothing of its insides.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from aim_local.ports import HOST, free_ports
from controller_runtime import JsonObject, dumps, loads
from controller_runtime.kube.config import Connection, from_kubeconfig
from controller_runtime.shard import Shard, noted_count, shard_of
from embedded_apiserver.faults import Fault, FaultRule, Faults, Latency, Phase, Refusal, Reset, Silence, Subject
from embedded_apiserver.requestinfo import Target, parse_target

_WRITES: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NOT_PASSED_ON: Final = frozenset({"host", "accept-encoding", "connection", "content-length", "transfer-encoding"})
_LONGEST_LINE: Final = 4 << 20
_LEASES: Final = "leases.coordination.k8s.io"


@dataclass(frozen=True, slots=True)
class Written:
    """A write that was asked for.

    Attributes:
        at: monotonic seconds when it came.
        status: of the answer; 0 if none was given.
        holder: of a Lease as stored after the write; empty otherwise.
        shards: into how many its holder divides the service.
    """

    at: float
    client: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    status: int
    holder: str = ""
    shards: int = 1

    @property
    def is_lease(self) -> bool:
        """Whether it is about leadership, not about work."""
        return self.resource == _LEASES

    def __str__(self) -> str:
        what = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.client} {self.verb} {what} {self.namespace}/{self.name} {self.status}"


@dataclass(slots=True)
class _CrashPoint:
    """After the k-th write nothing more leaves the client, and it hears nothing of the k-th."""

    left: int
    reached: asyncio.Event


@dataclass(slots=True)
class Expiring:
    """How many more pages of lists are refused because their list is too old."""

    left: int = 0


class ApiProxy:
    """The proxy as an async context; `upstream` names the kubeconfig of each client, read at its first request."""

    def __init__(self, clients: tuple[str, ...], upstream: Callable[[str], Path], seed: int = 0) -> None:
        self.faults: Final = Faults(seed)
        self.written: list[Written] = []
        self._upstream = upstream
        self._ports = dict(zip(clients, free_ports(len(clients)), strict=True))
        self._crashes: dict[str, _CrashPoint] = {}
        self._expiring = Expiring()
        self._watches: set[asyncio.Transport] = set()
        self._connections: dict[str, Connection] = {}
        self._runners: list[web.AppRunner] = []
        self._session: aiohttp.ClientSession | None = None

    def kubeconfig(self, client: str, folder: Path) -> Path:
        """Write the kubeconfig with which the client comes through here."""
        path = folder / f"{client}.kubeconfig"
        cluster = {"name": client, "cluster": {"server": f"http://{HOST}:{self._ports[client]}"}}
        context = {"name": client, "context": {"cluster": client, "user": client}}
        config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
        users = {"users": [{"name": client, "user": {}}], "current-context": client}
        path.write_text(yaml.safe_dump({**config, **users}), encoding="utf-8")
        return path

    def add(self, rule: FaultRule) -> None:
        """Put a rule to work; its ``user_agent`` is the name of a client."""
        self.faults.add(rule)

    def crash_after(self, client: str, writes: int) -> asyncio.Event:
        """Cut the client off right after so many more writes took effect; the event tells when that happened."""
        self._crashes[client] = _CrashPoint(writes, asyncio.Event())
        return self._crashes[client].reached

    def admit(self, client: str) -> None:
        """Let a client through again that was cut off."""
        self._crashes.pop(client, None)

    def expire_pages(self, times: int) -> Expiring:
        """Refuse so many pages that continue a list."""
        self._expiring = Expiring(times)
        return self._expiring

    def cut_watches(self) -> int:
        """Break all watches that are open; how many those are."""
        for transport in self._watches:
            transport.abort()
        return len(self._watches)

    def heal(self) -> int:
        """Remove all rules and crash points; how often rules struck."""
        struck = sum(one.struck for one in self.faults.armed)
        self.faults.remove()
        self._crashes.clear()
        self._expiring = Expiring()
        return struck

    async def __aenter__(self) -> Self:
        """Listen on all ports."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, read_bufsize=_LONGEST_LINE, auto_decompress=False
        )
        for client, port in self._ports.items():
            app = web.Application(client_max_size=16 << 20)
            app.router.add_route("*", "/{path:.*}", self._handler(client))
            runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.TCPSite(runner, HOST, port).start()
            self._runners.append(runner)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Break all connections."""
        for runner in self._runners:
            await runner.cleanup()
        if self._session is not None:
            await self._session.close()

    def _handler(self, client: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._handle(client, request)

        return handle

    async def _handle(self, client: str, request: web.Request) -> web.StreamResponse:
        target = parse_target(request.path)
        if target is None:
            return await self._pass_on(client, request, [])
        subject = _subject(client, request, target)
        if self._expiring.left and request.query.get("continue"):
            self._expiring.left -= 1
            return _refusal(Refusal(code=410))
        due = self.faults.due(subject) if self.faults.armed else []
        if "write" not in subject.verbs or subject.resource == _LEASES:
            return await self._with_faults(client, request, due, subject)
        return await self._write(client, request, due, subject)

    async def _write(self, client: str, request: web.Request, due: list[Fault], subject: Subject) -> web.StreamResponse:
        crash = self._crashes.get(client)
        if crash is None:
            return await self._with_faults(client, request, due, subject)
        crash.left -= 1
        # Others come while this one is on its way, so which one it is is kept.
        left = crash.left
        if left < 0:
            await _never()
        response = await self._with_faults(client, request, due, subject)
        if left == 0:
            crash.reached.set()
            await _never()
        return response

    async def _with_faults(
        self, client: str, request: web.Request, due: list[Fault], subject: Subject
    ) -> web.StreamResponse:
        at = time.monotonic()
        response: web.StreamResponse | None = None
        try:
            for fault in due:
                if (early := await self._before(fault, request)) is not None:
                    return early
            response = await self._pass_on(client, request, due)
        finally:
            if "write" in subject.verbs:
                self.written.append(_written(at, client, request, subject, response))
        for fault in due:
            match fault:
                case Refusal(phase=Phase.AFTER):
                    return _refusal(fault)
                case Reset(phase=Phase.AFTER) if "watch" not in subject.verbs:
                    return _hung_up(request)
        return response

    async def _before(self, fault: Fault, request: web.Request) -> web.StreamResponse | None:
        match fault:
            case Latency():
                await asyncio.sleep(self.faults.delay(fault))
            case Refusal(phase=Phase.BEFORE):
                return _refusal(fault)
            case Reset(phase=Phase.BEFORE, chunks=0):
                return _hung_up(request)
        return None

    async def _pass_on(self, client: str, request: web.Request, due: list[Fault]) -> web.StreamResponse:
        assert self._session is not None
        connection = await self._connection(client)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _NOT_PASSED_ON}
        if authorization := await connection.credentials.authorization():
            headers["authorization"] = authorization
        body = await request.read()
        url = f"{connection.server}{request.raw_path}"
        try:
            async with self._session.request(
                request.method, URL(url, encoded=True), headers=headers, data=body or None,
                ssl=connection.tls or True, allow_redirects=False,
            ) as answer:  # fmt: skip
                if "watch" in request.query and answer.status == 200:
                    with self._open_watch(request.transport):
                        return await _stream(request, answer, due)
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _NOT_PASSED_ON}
                return web.Response(status=answer.status, headers=kept, body=await answer.read())
        except aiohttp.ClientError:
            # What the API server does to its clients, the client sees: its connection breaks, too.
            return _hung_up(request)

    @contextlib.contextmanager
    def _open_watch(self, transport: asyncio.Transport | None) -> Iterator[None]:
        opened = {transport} if transport is not None else set()
        self._watches |= opened
        try:
            yield
        finally:
            self._watches -= opened

    async def _connection(self, client: str) -> Connection:
        if client not in self._connections:
            self._connections[client] = await from_kubeconfig(str(self._upstream(client)))
        return self._connections[client]


def _subject(client: str, request: web.Request, target: Target) -> Subject:
    verb = _WRITES.get(request.method, "get" if target.name else "watch" if "watch" in request.query else "list")
    names = {verb}
    if verb in _WRITES.values():
        names |= {"write"}
    if "apply-patch" in request.headers.get("content-type", ""):
        names |= {"apply"}
    resource = f"{target.plural}.{target.group}" if target.group else target.plural
    return Subject(frozenset(names), resource, target.subresource, target.namespace, target.name, client)


def _written(
    at: float, client: str, request: web.Request, subject: Subject, response: web.StreamResponse | None
) -> Written:
    verb = _WRITES[request.method]
    status = 0 if response is None else response.status
    body = response.body if isinstance(response, web.Response) and isinstance(response.body, bytes) else b""
    holder, shards = "", 1
    if subject.resource == _LEASES and 200 <= status < 300:
        lease = loads(body)
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        shards = noted_count(lease["metadata"].get("annotations") or {})
    name = subject.name or _name_in(body)
    return Written(
        at, client, verb, subject.resource, subject.subresource, subject.namespace, name, status, holder, shards
    )


def _name_in(body: bytes) -> str:
    try:
        return str((loads(body).get("metadata") or {}).get("name") or "")
    except ValueError:
        return ""


def _refusal(fault: Refusal) -> web.Response:
    reasons = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 504: "Timeout"}
    body: JsonObject = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": fault.message,
        "reason": reasons.get(fault.code, "Unknown"),
        "code": fault.code,
    }
    headers = {}
    if fault.retry_after_seconds:
        body["details"] = {"retryAfterSeconds": fault.retry_after_seconds}
        headers["Retry-After"] = str(fault.retry_after_seconds)
    return web.Response(status=fault.code, body=dumps(body), headers=headers, content_type="application/json")


def _hung_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)


async def _never() -> None:
    """Until the client's end cancels the request."""
    await asyncio.Event().wait()


async def _stream(request: web.Request, answer: aiohttp.ClientResponse, due: list[Fault]) -> web.StreamResponse:
    """Pass on a watch line by line, as far as the faults let it come."""
    response = web.StreamResponse(headers={"content-type": answer.headers.get("content-type", "application/json")})
    await response.prepare(request)
    cut = next((fault for fault in due if isinstance(fault, Reset | Silence)), None)
    left = cut.chunks if cut is not None else -1
    with contextlib.suppress(ConnectionError):
        async for line in _lines(answer):
            if left == 0:
                break
            await response.write(line)
            left -= 1
    if isinstance(cut, Silence) and left == 0:
        await _never()
    if isinstance(cut, Reset) and left == 0:
        return _hung_up(request)
    return response


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async for line in answer.content:
        yield line


def requests_of(written: list[Written], client: str) -> list[Written]:
    """The writes of one client, without those about leadership."""
    return [one for one in written if one.client == client and not one.is_lease]


def acting_without_lease(written: list[Written], identities: Mapping[str, str]) -> list[str]:
    """Writes that took effect although another process held the Lease of the shard, in words. Pure.

    Args:
        written: in the order of their arrival.
        identities: by client, how the holder's name in the Lease begins; all of one service.
    """
    leases: dict[str, Written] = {}
    found = []
    for one in sorted(written, key=lambda write: write.at):
        if one.client not in identities:
            continue
        if one.is_lease:
            if one.holder:
                leases[one.name] = one
        elif 200 <= one.status < 300 and leases and not _leads(leases, identities[one.client], one.namespace):
            found.append(f"{one} while {', '.join(sorted(lease.holder for lease in leases.values()))} led")
    return found


def _leads(leases: Mapping[str, Written], identity: str, namespace: str) -> bool:
    """Whether a process holds the Lease of a namespace, as it divides the service."""
    base = min(leases, key=len)
    own = {name: lease.shards for name, lease in leases.items() if lease.holder.startswith(identity)}
    return any(Shard(shard_of(namespace, count), count).lease(base) in own for count in own.values())
