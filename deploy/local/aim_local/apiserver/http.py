"""The thin layer between ASGI and the API handlers: requests, responses, and the one middleware seam."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl

import orjson

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

JSON: Final = "application/json"
ABORT: Final = "aim.abort"
"""ASGI extension of this server: breaks the connection of a request."""


@dataclass(slots=True)
class Request:
    """One HTTP request; the body is read on demand, once. `abort` breaks its connection."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    receive: Receive
    abort: Callable[[], None]
    as_of: int | None = None
    """The revision that reads show instead of the present; set by fault injection only."""

    async def body(self) -> bytes:
        """The whole body."""
        chunks: list[bytes] = []
        while True:
            message = await self.receive()
            if message["type"] != "http.request":
                raise ConnectionAbortedError("the client went away before its request was complete")
            chunks.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def gone(self) -> None:
        """Return once the client closed the connection (or the response is complete)."""
        while (await self.receive())["type"] != "http.disconnect":
            pass

    def flag(self, name: str) -> bool:
        """True if the query has `name` with a true value, as the Go parser reads booleans."""
        return self.query.get(name, "").lower() in {"1", "true"}


@dataclass(slots=True)
class Response:
    """A complete response, or a streamed one when `stream` is given (then `body` is ignored)."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    stream: AsyncIterator[bytes] | None = None


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]
Middleware: TypeAlias = Callable[[Request, Handler], Awaitable[Response]]
"""Sees every request before the API does, may answer itself, delay, fail, or change the response (fault injection)."""


def json_response(value: object, status: int = 200) -> Response:
    """A response with `value` as compact JSON."""
    return Response(status, orjson.dumps(value))


def read_request(scope: Scope, receive: Receive) -> Request:
    """The request of an ASGI scope; header names are lower case, a repeated query key keeps its first value."""
    query: dict[str, str] = {}
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        query.setdefault(name, value)
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    return Request(scope["method"], scope["path"], query, headers, receive, scope["extensions"][ABORT]["now"])


async def write_response(response: Response, send: Send) -> None:
    """Send a response through ASGI, chunk by chunk if it is a stream."""
    headers = [(b"content-type", response.content_type.encode())]
    headers += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items()]
    headers += [(b"warning", text.encode()) for text in response.warnings]
    if response.stream is None:
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.stream is None:
        await send({"type": "http.response.body", "body": response.body})
        return
    async for chunk in response.stream:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
