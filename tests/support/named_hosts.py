"""Public hosts played on the loopback: the client speaks TLS with `https://ghcr.io` and never leaves the machine.

A forward proxy, which every client honours, leads all names to one server whose certificate is valid for them.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest
import trustme
from aiohttp import web
from support.relays import lead_on

Site = Callable[[web.Request], Awaitable[web.Response]]
"""What answers for a host."""

_VARIABLES: Final = ("http_proxy", "https_proxy", "no_proxy")


class NamedHosts:
    """Sites by host name, for use as an async context manager.

    Attributes:
        requests: method and URL of everything that was asked, in order.
        authority: file of the authority that signed the certificate.
        peak: most requests that were open at the same time.
        delay: seconds before each answer.
    """

    def __init__(self, sites: Mapping[str, Site], folder: Path, *, delay: float = 0.0) -> None:
        self._sites = sites
        self._delay = delay
        self._open = 0
        self.peak = 0
        self.requests: list[str] = []
        self.authority = folder / "authority.pem"
        self._stack = AsyncExitStack()
        self._backend = 0
        self.proxy = ""

    def asked(self, part: str) -> int:
        """How many requests have this text in them."""
        return sum(part in one for one in self.requests)

    def lead_here(self, environment: pytest.MonkeyPatch) -> None:
        """Let this process reach the sites, and nothing else, by their names."""
        for name in _VARIABLES:
            environment.delenv(name, raising=False)
            environment.delenv(name.upper(), raising=False)
        environment.setenv("HTTPS_PROXY", self.proxy)

    async def __aenter__(self) -> Self:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.authority))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*self._sites).configure_cert(context)
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self._backend = runner.addresses[0][1]
        proxy = await self._stack.enter_async_context(await asyncio.start_server(self._tunnel, "127.0.0.1", 0))
        self.proxy = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def _answer(self, request: web.Request) -> web.Response:
        self.requests.append(f"{request.method} {request.url}")
        self._open += 1
        self.peak = max(self.peak, self._open)
        try:
            await asyncio.sleep(self._delay)
            return await self._sites[request.host](request)
        finally:
            self._open -= 1

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One CONNECT request and what follows it."""
        with suppress(OSError, asyncio.IncompleteReadError), closing(writer):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            host = head.split(" ", 2)[1].partition(":")[0]
            if not head.startswith("CONNECT ") or host not in self._sites:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await lead_on(reader, writer, self._backend)
