"""Fixtures for tests that need a Kubernetes API: the embedded control plane with the project's definitions installed.

Use them in a `conftest.py` with `from support.controlplane import controlplane`.
"""

import asyncio
import functools
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import aiohttp
import orjson
import pytest
import pytest_asyncio

from controller_runtime import JsonObject
from embedded_apiserver import EXTERNAL_CRDS, ControlPlane
from embedded_apiserver.controlplane import load_crds

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
"""The generated definitions of the platform's own kinds."""


@functools.cache
def definitions() -> tuple[JsonObject, ...]:
    """Of the platform's kinds and its neighbours'; read once per test run, as that takes longer than all the rest."""
    return (*load_crds(EXTERNAL_CRDS), *own_definitions())


@functools.cache
def own_definitions() -> tuple[JsonObject, ...]:
    """Of the platform's kinds alone."""
    return tuple(load_crds(CRDS))


@pytest_asyncio.fixture
async def controlplane() -> AsyncIterator[ControlPlane]:
    """A control plane on a free port, with the platform's own kinds and its neighbours'."""
    async with ControlPlane() as plane:
        plane.install_crds(definitions())
        yield plane


@pytest_asyncio.fixture
async def api(controlplane: ControlPlane) -> AsyncIterator["RawApi"]:
    """Plain HTTP access to `controlplane`."""
    async with raw_api(controlplane.url) as client:
        yield client


@dataclass(frozen=True, slots=True)
class Reply:
    """A decoded answer."""

    status: int
    body: JsonObject
    headers: Mapping[str, str]

    @property
    def reason(self) -> str:
        """The reason of a Status."""
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        """The message of a Status."""
        return str(self.body.get("message", ""))


class RawApi:
    """A Kubernetes API by plain HTTP; paths are given in full."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session

    def path(self, path: str) -> str:
        """The path that a request goes to."""
        return path

    def encode(self, body: object) -> bytes:
        """A request's body."""
        return orjson.dumps(body)

    def decode(self, raw: bytes) -> JsonObject:
        """An answer's body, or a line of a watch."""
        decoded: JsonObject = orjson.loads(raw)
        return decoded

    async def send(
        self, method: str, path: str, body: object = None, content_type: str = "", accept: str = "", **query: str
    ) -> Reply:
        """Send a request and decode the answer."""
        headers = {"content-type": content_type or "application/json", "user-agent": "suite/1.0"}
        if accept:
            headers["accept"] = accept
        data = None if body is None else self.encode(body)
        async with self.session.request(
            method, self.path(path), params={k: self.path(v) for k, v in query.items()}, data=data, headers=headers
        ) as response:
            raw = await response.read()
            # Of a path that it does not serve an API server says so in plain text.
            plain = response.status == 404 and response.content_type == "text/plain"
            return Reply(response.status, {"message": raw.decode()} if plain else self.decode(raw), response.headers)

    async def get(self, path: str, **query: str) -> Reply:
        """GET."""
        return await self.send("GET", path, **query)

    async def post(self, path: str, body: object, **query: str) -> Reply:
        """POST."""
        return await self.send("POST", path, body, **query)

    async def put(self, path: str, body: object, **query: str) -> Reply:
        """PUT."""
        return await self.send("PUT", path, body, **query)

    async def delete(self, path: str, body: object = None, **query: str) -> Reply:
        """DELETE."""
        return await self.send("DELETE", path, body, **query)

    async def merge(self, path: str, body: object, **query: str) -> Reply:
        """PATCH with a merge patch."""
        return await self.send("PATCH", path, body, "application/merge-patch+json", **query)

    async def apply(self, path: str, body: object, manager: str, **query: str) -> Reply:
        """Server-side apply."""
        return await self.send("PATCH", path, body, "application/apply-patch+yaml", fieldManager=manager, **query)

    async def created(self, path: str, body: object) -> JsonObject:
        """POST that has to succeed; the created object."""
        reply = await self.post(path, body)
        assert reply.status == 201, reply.body
        return reply.body

    async def until(self, path: str, accept: Callable[[Reply], bool], seconds: float = 60) -> Reply:
        """GET again and again until the answer is as wished.

        Raises:
            TimeoutError: it was not within `seconds`.
        """
        return await self.repeated(lambda: self.get(path), accept, seconds)

    async def repeated(
        self, request: Callable[[], Awaitable[Reply]], accept: Callable[[Reply], bool], seconds: float = 60
    ) -> Reply:
        """Send a request again and again until the answer is as wished.

        Raises:
            TimeoutError: it was not within `seconds`.
        """
        async with asyncio.timeout(seconds):
            while True:
                reply = await request()
                if accept(reply):
                    return reply
                await asyncio.sleep(0.01)

    async def until_gone(self, path: str) -> None:
        """Wait for a 404."""
        await self.until(path, lambda reply: reply.status == 404)


@asynccontextmanager
async def raw_api(url: str) -> AsyncIterator[RawApi]:
    """A client of the API at `url`."""
    async with aiohttp.ClientSession(url, read_bufsize=2**21) as session:
        yield RawApi(session)


@asynccontextmanager
async def watching(api: RawApi, path: str, **query: str) -> AsyncIterator[AsyncIterator[JsonObject]]:
    """The events of a watch; the stream is established when the context is entered."""
    async with api.session.get(api.path(path), params={"watch": "1"} | query) as response:
        assert response.status == 200, await response.text()
        # A short answer has ended by now, and its connection is free for the next request.
        protocol = None if response.connection is None else response.connection.protocol
        yield _events(api, response)
    # With TLS a connection is closed some turns of the event loop later, which may be the last one of the test.
    if protocol is not None and not protocol.is_connected() and (closed := protocol.closed) is not None:
        await asyncio.wait([closed])


async def _events(api: RawApi, response: aiohttp.ClientResponse) -> AsyncIterator[JsonObject]:
    async for line in response.content:
        yield api.decode(line)


async def take(events: AsyncIterator[JsonObject], count: int, seconds: float = 60) -> list[JsonObject]:
    """The next events of a watch.

    Raises:
        TimeoutError: fewer came within `seconds`.
    """
    taken: list[JsonObject] = []
    async with asyncio.timeout(seconds):
        async for event in events:
            taken.append(event)
            if len(taken) == count:
                break
    return taken


async def eventually(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it did not within `seconds`.
    """
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


@dataclass(frozen=True, slots=True)
class Ran:
    """The end of a kubectl process."""

    code: int
    out: str
    err: str


Kubectl: TypeAlias = Callable[..., Coroutine[None, None, Ran]]


@pytest.fixture
def kubectl(controlplane: ControlPlane, tmp_path: Path) -> Kubectl:
    """Runs the real kubectl against the control plane; skipped only where none is installed."""
    config = tmp_path / "kubeconfig"
    config.write_text(controlplane.kubeconfig())
    return kubectl_with(config)


def kubectl_with(config: Path) -> Kubectl:
    """The real kubectl with a kubeconfig; skips the test only where none is installed."""
    binary = shutil.which("kubectl")
    if binary is None:
        pytest.skip("no kubectl on this machine")

    async def run(
        *arguments: str, stdin: str = "", check: bool = True, environment: Mapping[str, str] | None = None
    ) -> Ran:
        process = await asyncio.create_subprocess_exec(
            binary, "--kubeconfig", str(config), "--cache-dir", str(config.with_name("cache")), *arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
        async with asyncio.timeout(60):
            out, err = await process.communicate(stdin.encode())
        assert process.returncode is not None
        ran = Ran(process.returncode, out.decode(), err.decode())
        assert not check or ran.code == 0, ran
        return ran

    return run
