"""The HTTP server around the application: it can be stopped, can die with all its connections, and can start again."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, TypeAlias

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from aim_local.apiserver.http import ABORT, Receive, Scope, Send

HOST: Final = "127.0.0.1"

_Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class _Protocol(HttpToolsProtocol):
    """HTTP whose requests can break their connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"now": self.transport.abort}}


class _Server(uvicorn.Server):
    """A server that leaves the process's signals alone, as it may live inside a test or a demo, and stops at once."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Stop accepting and let running requests end."""
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        await self._stop.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listener:
    """Serves an application on a port of 127.0.0.1; `port` is known once it is bound."""

    def __init__(self, port: int, application: _Application) -> None:
        self.port = port
        self._application = application
        self._socket: socket.socket | None = None
        self._server: _Server | None = None

    def bind(self) -> None:
        """Take connections; they wait until somebody serves."""
        # Only with the protocol given asyncio sets TCP_NODELAY on accepted connections; else answers may wait 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, self.port))
        listener.listen(512)
        self.port = listener.getsockname()[1]
        self._socket = listener
        self._server = _Server(
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
                timeout_keep_alive=120,
                timeout_graceful_shutdown=2,
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
