"""`ControlPlane`: the embedded API server as an async context. For demos and tests, never for production."""

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import yaml
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from controller_runtime import JsonObject
from embedded_apiserver.app import App
from embedded_apiserver.debugapi import DebugApi, RequestLog
from embedded_apiserver.faults import Crash, Faults
from embedded_apiserver.http import Handler, Middleware, Request
from embedded_apiserver.injection import Injector
from embedded_apiserver.life import Life
from embedded_apiserver.resources import Registry
from embedded_apiserver.serving import HOST, Listener
from embedded_apiserver.store import Limits, Store

EXTERNAL_CRDS: Final = Path(__file__).parent / "crds"
"""Definitions of the neighbours' kinds: KServe, KEDA, Gateway API and the OpenTelemetry operator."""

_LIMITS: Final = Limits()


class ControlPlane:
    """A Kubernetes API server over memory.

    Args:
        port: the TCP port on 127.0.0.1; 0 takes a free one.
        limits: what is kept of the past; watches and pages from before answer 410.
        bookmark_seconds: how often idle watches get a bookmark.
        middleware: sees every request before anything else does.
        clock: the wall clock in seconds.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        limits: Limits = _LIMITS,
        bookmark_seconds: float = 60.0,
        middleware: Middleware | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.requests: Final = RequestLog()
        self._middleware = middleware
        self.faults: Final = Faults()
        self._begin: Callable[[], Life] = lambda: Life(limits=limits, bookmark_seconds=bookmark_seconds, clock=clock)
        self._installed: list[JsonObject] = []
        self._listener = Listener(port, self)
        self._crashed: Crash | None = None
        self._injector = Injector(self.faults, self._die)
        self._life, self._app = self._be_born()
        self._runner: asyncio.Task[None] | None = None

    @property
    def store(self) -> Store:
        """The objects; another store after a crash that took it."""
        return self._life.store

    @property
    def registry(self) -> Registry:
        """The kinds that are served; another registry after such a crash."""
        return self._life.registry

    @property
    def url(self) -> str:
        """The server's base URL."""
        return f"http://{HOST}:{self._listener.port}"

    def kubeconfig(self) -> str:
        """A kubeconfig (YAML) for this server."""
        name = "aim-local"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        return yaml.safe_dump(config, sort_keys=False)

    def install_crds(self, sources: Iterable[Path | JsonObject]) -> None:
        """Create or replace custom resource definitions.

        Args:
            sources: objects, YAML files, or folders of YAML files.

        Raises:
            ApiError: a definition is invalid.
            ValueError: a file holds another kind.
        """
        for source in sources:
            for crd in load_crds(source) if isinstance(source, Path) else [source]:
                self._life.install(crd)
                self._installed.append(crd)

    def restore(self, obj: JsonObject, applied_by: str = "") -> None:
        """Store an object with the identity and the status that it names, as from a backup; checked as any other is.

        Args:
            applied_by: field manager that has applied the status; else an unnamed manager has updated it.

        Raises:
            ApiError: the object is invalid, or its namespace is not there.
            ValueError: no such kind is served.
        """
        self._life.restore(obj, applied_by)

    def wipe(self) -> None:
        """Let every object be gone but the definitions and the first namespaces; without admission."""
        self._life.wipe()

    def collect(self) -> None:
        """Collect now what lost its place, instead of when the event loop gets there."""
        self._life.collect()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, as an ASGI application: of a connection, or of a caller in the same process."""
        await self._app(scope, receive, send)

    async def __aenter__(self) -> Self:
        """Listen; requests are answered when this returns."""
        self._listener.bind()
        self._runner = asyncio.create_task(self._run())
        # The listener is bound, so a request that comes early waits in its backlog.
        await asyncio.sleep(0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all watches and stop listening."""
        assert self._runner is not None
        self._crashed = None
        self.store.close_watchers()
        self._listener.stop()
        await self._runner

    async def _run(self) -> None:
        """Live, and after each crash again."""
        while True:
            await self._live()
            crash = self._crashed
            if crash is None:
                return
            self._crashed = None
            await asyncio.sleep(crash.down_seconds)
            if crash.keep_store:
                # A server that starts knows no version before the present one.
                self.store.compact()
            else:
                self._life, self._app = self._be_born()
            self._listener.bind()

    async def _live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            living = tasks.create_task(self._life.run())
            await self._listener.serve()
            living.cancel()
        await self._life.logs.close()

    def _be_born(self) -> tuple[Life, App]:
        life = self._begin()
        for crd in self._installed:
            life.install(crd)
        debug = DebugApi(life.store, self.requests, self.faults)
        return life, App(life.registry, life.api, self.requests, self._seams, debug)

    async def _seams(self, request: Request, handler: Handler) -> Response:
        if self._middleware is None:
            return await self._injector(request, handler)

        async def behind(passed: Request) -> Response:
            return await self._injector(passed, handler)

        return await self._middleware(request, behind)

    def _die(self, crash: Crash) -> None:
        self._crashed = crash
        self._listener.die()


def load_crds(path: Path) -> list[JsonObject]:
    """The definitions in a YAML file, or in all YAML files of a folder in order of their names."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    documents: list[JsonObject] = []
    for file in files:
        documents.extend(doc for doc in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) if doc)
    return documents
