"""The HTTP server of every simulated part: Starlette over uvicorn, on the loopback.

A server can be stopped, can die with all its connections, and can start again on its port; a request can break its
connection, as a program that crashes does.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

import uvicorn
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from controller_runtime import dumps
from controller_runtime.manager import InProcessServer

HOST: Final = "127.0.0.1"
JSON: Final = "application/json"
ANY_METHOD: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_ABORT: Final = "aim.abort"
"""ASGI extension: breaks the connection of a request."""
_GRACE_SECONDS: Final = 2


class _Protocol(HttpToolsProtocol):
    """HTTP whose requests can break their connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {_ABORT: {"now": self.transport.abort}}


class Listener:
    """Serves an application on a port; `port` is known once it is bound."""

    def __init__(self, port: int, application: ASGIApp, *, tls: ssl.SSLContext | None = None, host: str = HOST) -> None:
        self.port = port
        self._host = host
        self._application = application
        self._tls = tls
        self._socket: socket.socket | None = None
        self._server: InProcessServer | None = None

    def bind(self) -> None:
        """Take connections; they wait until the server runs."""
        # Only with the protocol given asyncio sets TCP_NODELAY on accepted connections; else answers may wait 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self._host, self.port))
        listener.listen(512)
        self.port = listener.getsockname()[1]
        self._socket = listener
        tls = self._tls
        self._server = InProcessServer(
            uvicorn.Config(
                self._application,
                http=_Protocol,
                interface="asgi3",
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                date_header=False,
                server_header=False,
                timeout_keep_alive=120,
                timeout_graceful_shutdown=_GRACE_SECONDS,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            )
        )

    async def serve(self) -> None:
        """Answer until `stop` or `die`."""
        assert self._server is not None
        assert self._socket is not None
        await self._server.serve(sockets=[self._socket])
        self._socket.close()

    def stop(self) -> None:
        """Stop accepting and let running requests end."""
        assert self._server is not None
        self._server.stop()

    def die(self) -> None:
        """Break all connections and stop at once."""
        assert self._server is not None
        for connection in list(self._server.server_state.connections):
            transport = getattr(connection, "transport", None)
            if isinstance(transport, asyncio.Transport):
                transport.abort()
        self._server.stop()


@contextlib.asynccontextmanager
async def serving(
    application: ASGIApp, port: int = 0, *, tls: ssl.SSLContext | None = None, host: str = HOST
) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port, a free one unless given.

    Args:
        host: address to listen on; the loopback unless pods are to reach it.
    """
    listener = Listener(port, application, tls=tls, host=host)
    # A client that connects before the server runs waits in the backlog.
    listener.bind()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listener.serve())
        try:
            yield listener.port
        finally:
            listener.stop()


def break_off(request: Request) -> None:
    """Break the connection of a request."""
    request.scope["extensions"][_ABORT]["now"]()


async def wait_gone(request: Request) -> None:
    """Return once the client closed the connection (or the response is complete)."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def json_response(value: object, status: int = 200) -> Response:
    """A response with `value` as compact JSON."""
    return Response(dumps(value), status, media_type=JSON)
