"""uvicorn as one of several tasks of a process."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from controller_runtime.manager.scrapers import PATH, Scrapers, Verdict
from controller_runtime.manager.settings import Address
from controller_runtime.manager.state import ServiceState
from controller_runtime.manager.troubles import StartError
from controller_runtime.telemetry.metrics import Metrics


class InProcessServer(uvicorn.Server):
    """Leaves signals to the process, and does not look ten times a second whether it is to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Stop accepting and let `serve` end once running requests have."""
        self.should_exit = True
        self._stop.set()

    async def main_loop(self) -> None:
        await self._stop.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


_EVERY_INTERFACE: Final = "0.0.0.0"  # noqa: S104  the kubelet probes the pod's address, not loopback
_WHY: Final = {
    Verdict.UNKNOWN: "the API server does not know this token: send one of a ServiceAccount as 'Authorization: Bearer'",
    Verdict.FORBIDDEN: "the API server does not allow this user to get /metrics: bind it to the metrics-reader role",
    Verdict.UNDECIDED: "the API server cannot be asked whether this client may read the metrics: see the log",
}
_OPTIONS: Final = "--health-probe-bind-address or --metrics-bind-address"
_BACKLOG: Final = 128
_STOP_SECONDS: Final = 1
"""How long a stopping server waits for open requests."""


def probes(state: ServiceState, metrics: Metrics | None) -> Starlette:
    """Probes and debug pages; with metrics when they share the address."""

    async def healthz(_: Request) -> Response:
        alive = state.alive
        return PlainTextResponse("ok" if alive else "the broker connection is closed for good", 200 if alive else 500)

    async def readyz(_: Request) -> Response:
        return JSONResponse(state.readiness(), 503 if state.not_ready() else 200)

    routes = [Route("/healthz", healthz), Route("/readyz", readyz), Mount("/debug", DebugPages(state))]
    return Starlette(routes=routes if metrics is None else [*routes, _metrics_route(metrics)])


class DebugPages:
    """What lies below `/debug`, made when a page is first asked for (FW-289)."""

    def __init__(self, state: ServiceState) -> None:
        self._state = state
        self._app: asyncio.Future[ASGIApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is None:
            self._app = asyncio.ensure_future(asyncio.to_thread(self._make))
        # Shielded: the first client may go away while a second one waits.
        app = await asyncio.shield(self._app)
        await app(scope, receive, send)

    def _make(self) -> ASGIApp:
        # Only here: FastAPI takes 5 MiB and 0.1 s, and most processes are never asked.
        from controller_runtime.manager.debug_pages import application  # noqa: PLC0415

        return application(self._state)


def metrics_only(metrics: Metrics, scrapers: Scrapers | None) -> Starlette:
    """The metrics page on an address of its own; with scrapers only for those."""
    if scrapers is None:
        return Starlette(routes=[_metrics_route(metrics)])

    async def page(request: Request) -> Response:
        verdict = await scrapers.verdict(request.headers.get("authorization", ""))
        if verdict is Verdict.ALLOWED:
            return _metrics_page(metrics, request)
        challenge = {"www-authenticate": "Bearer"} if verdict is Verdict.UNKNOWN else {}
        return PlainTextResponse(_WHY[verdict], verdict.value, challenge)

    return Starlette(routes=[Route(PATH, page)])


def _metrics_route(metrics: Metrics) -> Route:
    async def page(request: Request) -> Response:
        return _metrics_page(metrics, request)

    return Route(PATH, page)


def _metrics_page(metrics: Metrics, request: Request) -> Response:
    page, content_type = metrics.page_for(request.headers.get("accept", ""))
    # Given as it is: as a media type it would get a second charset.
    return Response(page, headers={"content-type": content_type})


class HttpServer:
    """One address that is served until the process stops."""

    def __init__(
        self, app: Starlette, address: Address, tls: ssl.SSLContext | None = None, *, option: str = _OPTIONS
    ) -> None:
        """Take the address.

        Args:
            tls: serve HTTPS with it.
            option: by which the address was given.

        Raises:
            StartError: it cannot be had.
        """
        self._listener = _listen(address, option)
        config = uvicorn.Config(
            app,
            http="httptools",
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            date_header=False,
            # Clients are whom the connection is with, whatever they say of themselves.
            proxy_headers=False,
            timeout_graceful_shutdown=_STOP_SECONDS,
            ssl_context_factory=None if tls is None else lambda _config, _default: tls,
        )
        self._server = InProcessServer(config)

    async def run(self) -> None:
        """Serve until cancelled; open requests get a moment to end."""
        serving = asyncio.ensure_future(self._server.serve(sockets=[self._listener]))
        try:
            await asyncio.shield(serving)
        finally:
            self._server.stop()
            await asyncio.wait((serving,))


def _listen(address: Address, option: str) -> socket.socket:
    host = address.host or _EVERY_INTERFACE
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Only with the protocol given asyncio sets TCP_NODELAY on accepted connections.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, address.port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise StartError(
            f"cannot listen on {host}:{address.port}: {error.strerror or error}; choose another {option}"
        ) from error
    return listener
