"""An HTTP server that answers each request with exactly the bytes a test wants.

For what a faithful API server does only when it is ill: half-open watches, 429, 401 in the middle, garbage.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from controller_runtime.kube.config import Connection, NoCredentials

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class SeenRequest:
    """What the server received."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class FakeApiServer:
    """Answers the n-th request with the n-th handler, and all further ones with the last."""

    url: str = ""
    handlers: list[Handler] = field(default_factory=list)
    seen: list[SeenRequest] = field(default_factory=list)
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def answers(self, *handlers: Handler) -> None:
        self.handlers.extend(handlers)

    @property
    def connection(self) -> Connection:
        return Connection(self.url, NoCredentials())

    async def wait_for_requests(self, count: int) -> None:
        async with asyncio.timeout(60), self.changed:
            await self.changed.wait_for(lambda: len(self.seen) >= count)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        handler = self.handlers[min(len(self.seen), len(self.handlers) - 1)]
        async with self.changed:
            self.seen.append(
                SeenRequest(request.method, request.path, dict(request.query), dict(request.headers), body)
            )
            self.changed.notify_all()
        return await handler(request)


def json_answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Handler:
    """Answer with JSON."""

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return handler


def text_answer(body: str, status: int = 200) -> Handler:
    """Answer with anything else."""

    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body.encode(), status=status)

    return handler


def status_answer(code: int, reason: str, message: str = "", **details: Any) -> Handler:
    """Answer with a ``metav1.Status``; ``headers`` are taken out of the details."""
    headers = details.pop("headers", None)
    return json_answer(status(code, reason, message, **details), code, headers)


def status(code: int, reason: str, message: str = "", **details: Any) -> dict[str, Any]:
    """A failed ``metav1.Status``."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def list_answer(version: str, *items: dict[str, Any], continue_token: str = "") -> Handler:
    """Answer with a list."""
    metadata = {"resourceVersion": version, "continue": continue_token}
    return json_answer({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def watch_answer(*events: dict[str, Any], then_hang: bool = False, cut: bool = False) -> Handler:
    """Stream events; then close properly, fall silent, or break the connection."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for event in events:
            await response.write(json.dumps(event).encode() + b"\n")
        if then_hang:
            await asyncio.sleep(3600)
        if cut:
            await response.write(b'{"type": "MODI')
            assert request.transport is not None
            request.transport.abort()
        return response

    return handler


class OneObjectStore:
    """A collection of one object with optimistic locking: what Leases need, as one handler."""

    def __init__(self) -> None:
        self.object: dict[str, Any] | None = None
        self.version = 0
        self.writes = 0
        self.fails_with: Handler | None = None

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.fails_with is not None:
            return await self.fails_with(request)
        if request.method == "GET":
            if self.object is None:
                return await status_answer(404, "NotFound")(request)
            return web.json_response(self.object)
        return await self._write(request.method, json.loads(await request.read()))(request)

    def overwrite_spec(self, **fields: Any) -> None:
        """Change the object as somebody else would."""
        assert self.object is not None
        self.version += 1
        self.object["spec"] |= fields
        self.object["metadata"]["resourceVersion"] = str(self.version)

    def _write(self, method: str, body: dict[str, Any]) -> Handler:
        if method == "POST" and self.object is not None:
            return status_answer(409, "AlreadyExists")
        if method == "PUT":
            if self.object is None:
                return status_answer(404, "NotFound")
            if body["metadata"].get("resourceVersion") != str(self.version):
                return status_answer(409, "Conflict")
        self.version += 1
        self.writes += 1
        body["metadata"] |= {"resourceVersion": str(self.version), "uid": "the-only-one"}
        self.object = body
        return json_answer(body)


def dropped_connection() -> Handler:
    """Close the connection without an answer."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return handler


@asynccontextmanager
async def fake_apiserver(*handlers: Handler) -> AsyncIterator[FakeApiServer]:
    """Run a server on a free port."""
    server = FakeApiServer()
    server.answers(*handlers)
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


def config_map(name: str, version: int | str = 1, *, uid: str = "", **data: str) -> dict[str, Any]:
    """A ConfigMap as a server would return it."""
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
