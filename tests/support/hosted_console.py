"""The console for many viewers in this process, with clocks that a test moves, and browsers of its viewers."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import aiohttp
from support.nats import eventually
from support.scraping import anybody

from aim_console.hosting import Clocks, hosted, login_door
from aim_console.mirror import mirror
from aim_local.ports import free_port
from controller_runtime import KubeClient
from controller_runtime.kube.config import Connection
from controller_runtime.kube.transport import TransportSettings
from controller_runtime.manager.certificates import self_signed_tls
from controller_runtime.manager.http import HttpServer
from controller_runtime.manager.settings import Address

NAME: Final = "console.example"


class Time:
    """Seconds that a test lets pass, for both clocks."""

    passed = 0.0

    def running(self) -> float:
        """Seconds that only pass."""
        return self.passed

    def wall(self) -> float:
        """Seconds since 1970; tokens that say when they end are of no concern here."""
        return self.passed


@dataclass(frozen=True, slots=True)
class Answer:
    """What a browser got."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def reported(self) -> str:
        """The line that says why somebody was not let in."""
        found = re.search(r'role="alert">(.*?)</p>', self.text)
        return found[1] if found else ""


class Browser:
    """Keeps cookies, and says where forms are from."""

    def __init__(self, address: str, session: aiohttp.ClientSession) -> None:
        self.address = address
        self.session = session

    async def get(self, path: str, **headers: str) -> Answer:
        """A page."""
        return await self.send("GET", path, None, **headers)

    async def log_in(self, token: str, after: str = "/", **headers: str) -> Answer:
        """Send the form, without following where it leads."""
        origin = {"origin": self.address, **headers}
        return await self.send("POST", "/login", {"token": token, "next": after}, **origin)

    async def log_out(self, **headers: str) -> Answer:
        """Press the button."""
        return await self.send("POST", "/logout", {}, **{"origin": self.address, **headers})

    async def send(self, method: str, path: str, form: Mapping[str, str] | None = None, **headers: str) -> Answer:
        """Any request."""
        async with self.session.request(
            method, self.address + path, data=form, headers=headers, allow_redirects=False
        ) as response:
            return Answer(response.status, await response.text(), response.headers)

    @property
    def cookies(self) -> dict[str, str]:
        """What the console has given it."""
        return {one.key: one.value for one in self.session.cookie_jar}


@asynccontextmanager
async def hosted_console(nats_url: str, connection: Connection, clock: Time) -> AsyncIterator[str]:
    """A console that has read the broker; its address."""
    port = free_port()
    clocks = Clocks(clock.running, clock.wall)
    async with (
        KubeClient(connection, service="console", settings=TransportSettings(attempts=1)) as kube,
        mirror(nats_url, at_once=False) as present,
    ):
        server = HttpServer(
            hosted(present, login_door(kube, [NAME], clocks)), Address("127.0.0.1", port), self_signed_tls()
        )
        running = asyncio.ensure_future(server.run())
        try:
            await eventually(lambda: present.complete, "the console knows everything")
            yield f"https://127.0.0.1:{port}"
        finally:
            running.cancel()
            await asyncio.wait((running,))


@asynccontextmanager
async def browser(address: str) -> AsyncIterator[Browser]:
    """One with no cookies yet."""
    connector = aiohttp.TCPConnector(ssl=anybody())
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as session:
        yield Browser(address, session)


def port_of(address: str) -> int:
    """The port of an address."""
    return urlsplit(address).port or 443
