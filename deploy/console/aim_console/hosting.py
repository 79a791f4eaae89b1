"""Running the console for many viewers, as a pod does (FW-677)."""

import asyncio
import signal
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from aim_cli.cluster.client import cluster
from aim_cli.cluster.refs import JsonObject
from aim_cli.cluster.targets import Where
from aim_cli.errors import TargetError, UnreachableError
from aim_cli.running import leaves
from aim_console.app import Console
from aim_console.login import Door, LoginDoor
from aim_console.mirror import Mirror, mirror, wait_ended
from aim_console.sessions import Sessions, Viewers
from aim_console.tokens import Tokens
from controller_runtime import KubeClient, StartError
from controller_runtime.log import BusError
from controller_runtime.manager import (
    SUBJECT_ACCESS_REVIEW,
    TOKEN_REVIEW,
    Address,
    CertificateFiles,
    HttpServer,
    listen_address,
    self_signed_tls,
    tls_from_files,
)
from controller_runtime.telemetry import configure_logs

_SERVICE: Final = "console"
_MANAGER: Final = "aim-console"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Clocks:
    """Seconds that only pass, and seconds since 1970."""

    running: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


_REAL: Final = Clocks()


@dataclass(frozen=True, slots=True)
class Site:
    """Where the pages are.

    Attributes:
        listen: ``host:port`` or ``:port``.
        certificates: folder of ``tls.crt`` and ``tls.key``; ``None`` = self-signed.
        names: of the host, besides the loopback.
        trace_url: see `Console`.
    """

    listen: str
    certificates: Path | None = None
    names: Sequence[str] = ()
    trace_url: str = ""

    @property
    def address(self) -> Address:
        """Where to listen.

        Raises:
            TargetError: `listen` is no address, or a name stands for many.
        """
        if any("*" in one for one in self.names):
            raise TargetError("--host: one name each, without a star")
        try:
            found = listen_address(self.listen)
        except ValueError:
            found = None
        if found is None:
            raise TargetError(f"--listen {self.listen}: expected host:port or :port")
        return found

    def tls(self) -> ssl.SSLContext:
        """With the certificate of the folder, whatever it is when a connection begins.

        Raises:
            StartError: there is none that could be used.
        """
        folder = self.certificates
        if folder is None:
            return self_signed_tls()
        return tls_from_files(CertificateFiles(folder / "tls.crt", folder / "tls.key", "--cert-path"))


async def host_pages(where: Where, nats_url: str, site: Site) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        TargetError: there is no such address.
        UnreachableError: it cannot be had, the certificate or the broker's credentials cannot be used, or there is no
            way to the cluster.
    """
    configure_logs("info", "json", _SERVICE)
    address, stop = site.address, asyncio.Event()
    # Process 1 of a container is not ended by a signal that it does not ask for.
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    try:
        async with cluster(where.kubeconfig, where.context) as kube, mirror(nats_url, at_once=False) as present:
            app = hosted(present, login_door(kube, site.names), site.trace_url)
            server = HttpServer(app, address, site.tls(), option="--listen")
            _log.info("serving the console", address=site.listen, hosts=list(site.names))
            await serve_until(stop, server, present)
    except* (BusError, StartError) as group:
        raise UnreachableError(str(leaves(group)[0])) from None


async def serve_until(stop: asyncio.Event, server: HttpServer, present: Mirror) -> None:
    """Serve pages that are kept current.

    Raises:
        UnreachableError: what was to last until then ended before; what made it end is raised where that is known.
    """
    stopped, serving = asyncio.ensure_future(stop.wait()), asyncio.ensure_future(server.run())
    ending = asyncio.ensure_future(wait_ended(serving, present))
    try:
        await asyncio.wait({stopped, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            ending.result()
    finally:
        present.end()
        for one in (stopped, serving, ending):
            one.cancel()
        await asyncio.wait((stopped, serving, ending))


def login_door(kube: KubeClient, names: Sequence[str], clocks: Clocks = _REAL) -> LoginDoor:
    """Asks the API server about viewers, as the user of a client."""

    async def review_token(question: JsonObject) -> JsonObject:
        return await kube.create(TOKEN_REVIEW, question, _MANAGER)

    async def review_access(question: JsonObject) -> JsonObject:
        return await kube.create(SUBJECT_ACCESS_REVIEW, question, _MANAGER)

    tokens = Tokens(review_token, clocks.running)
    sessions = Sessions(tokens.reviewed, clocks.wall)
    return LoginDoor(tokens, sessions, Viewers(review_access, clocks.running), names, kube)


def hosted(present: Mirror, door: Door, trace_url: str = "") -> Starlette:
    """The pages, and probes for the kubelet, which asks for the pod's address."""

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_: Request) -> Response:
        ready = present.was_reached
        return PlainTextResponse("ok" if ready else "the message broker has not answered yet", 200 if ready else 503)

    pages = Console(present, door, trace_url).application()
    return Starlette(routes=[Route("/healthz", healthz), Route("/readyz", readyz), Mount("/", pages)])
