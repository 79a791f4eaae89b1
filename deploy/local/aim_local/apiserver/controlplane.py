"""`ControlPlane`: the embedded API server as an async context. For demos and tests, never for production."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import uvicorn
import yaml

from aim_local.apiserver import customtypes
from aim_local.apiserver.app import App
from aim_local.apiserver.builtins import builtin_types
from aim_local.apiserver.collector import Collector
from aim_local.apiserver.debugapi import DebugApi
from aim_local.apiserver.deletion import Deleter
from aim_local.apiserver.http import Middleware
from aim_local.apiserver.podlogs import PodLogs
from aim_local.apiserver.reading import Reader
from aim_local.apiserver.requestlog import RequestLog
from aim_local.apiserver.resourceapi import ResourceApi
from aim_local.apiserver.resources import Registry
from aim_local.apiserver.store import Event, EventType, Store
from aim_local.apiserver.writing import WriteContext, Writer
from aim_shared.json import JsonObject, dumps, loads

HOST: Final = "127.0.0.1"
EXTERNAL_CRDS: Final = Path(__file__).parents[1] / "crds"
"""Definitions of the neighbours' kinds: KServe, KEDA, Gateway API and the OpenTelemetry operator."""
_FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public")
_MANAGER: Final = "aim-local"


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


class ControlPlane:
    """A Kubernetes API server over memory.

    Args:
        port: the TCP port on 127.0.0.1; 0 takes a free one.
        window: events kept per resource; watches and pages from before answer 410.
        bookmark_seconds: how often idle watches get a bookmark.
        middleware: sees every request before the API does (fault injection).
        clock: the wall clock in seconds.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        window: int = 4_000,
        bookmark_seconds: float = 60.0,
        middleware: Middleware | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._port = port
        self.store: Final = Store(window=window)
        self.requests: Final = RequestLog()
        self._registry = Registry()
        for resource in builtin_types():
            self._registry.add(resource)
        self._writer = Writer(self.store, self._registry, clock)
        deleter = Deleter(self.store, clock)
        self.store.observe(self._follow_definitions)
        self._collector = Collector(self.store, self._registry, self._writer, deleter, clock)
        self._logs = PodLogs(self.store)
        reader = Reader(self.store, bookmark_seconds=bookmark_seconds)
        api = ResourceApi(
            registry=self._registry, reader=reader, writer=self._writer, deleter=deleter, logs=self._logs, clock=clock
        )
        self._app = App(self._registry, api, self.requests, middleware, DebugApi(self.store, self.requests))
        self._server: _Server | None = None
        self._runner: asyncio.Task[None] | None = None
        for namespace in _FIRST_NAMESPACES:
            self._create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})

    @property
    def url(self) -> str:
        """The server's base URL."""
        return f"http://{HOST}:{self._port}"

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
                self._install(crd)

    async def __aenter__(self) -> Self:
        """Listen; requests are answered when this returns."""
        # Only with the protocol given asyncio sets TCP_NODELAY on accepted connections; else answers may wait 40 ms.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, self._port))
        listener.listen(512)
        self._port = listener.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            http="httptools",
            loop="none",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            date_header=False,
            timeout_keep_alive=120,
            timeout_graceful_shutdown=2,
        )
        self._server = _Server(config)
        started = asyncio.Event()
        self._runner = asyncio.create_task(self._run(self._server, listener, started))
        await started.wait()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all watches and stop listening."""
        assert self._server is not None
        assert self._runner is not None
        self.store.close_watchers()
        self._server.stop()
        await self._runner

    async def _run(self, server: _Server, listener: socket.socket, started: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            collecting = tasks.create_task(self._collector.run())
            # The listener is bound already, so a request that comes early waits in its backlog.
            started.set()
            await server.serve(sockets=[listener])
            collecting.cancel()
        await self._logs.close()
        listener.close()

    def _create(self, obj: JsonObject) -> None:
        resource = self._registry.find_kind(obj["apiVersion"], obj["kind"])
        assert resource is not None
        self._writer.create(resource, ("", obj["metadata"]["name"]), obj, WriteContext(_MANAGER))

    def _install(self, given: JsonObject) -> None:
        crd = loads(dumps(given))
        resource = self._registry.storage_type(customtypes.STORAGE)
        assert resource is not None
        if crd.get("kind") != resource.kind:
            raise ValueError(f"expected a {resource.kind}, got {crd.get('kind')!r}: remove it from the CRD files")
        key = ("", crd["metadata"]["name"])
        if self.store.get(resource.storage, key) is None:
            self._create(crd)
        else:
            self._writer.update(resource, key, crd, WriteContext(_MANAGER))

    def _follow_definitions(self, storage: str, event: Event) -> None:
        """Serve what the stored definitions say; inside the write, so that a created type can be used at once."""
        if storage != customtypes.STORAGE:
            return
        crd = event.current.obj
        served = customtypes.storage_of(crd)
        unchanged = event.previous is not None and event.previous.obj["spec"] == crd["spec"]
        if event.type is EventType.DELETED:
            self._registry.remove_storage(served)
            self.store.close_watchers(served)
        elif not unchanged:
            self._registry.remove_storage(served)
            for resource in customtypes.types_of(crd):
                self._registry.add(resource)


def load_crds(path: Path) -> list[JsonObject]:
    """The definitions in a YAML file, or in all YAML files of a folder in order of their names."""
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    documents: list[JsonObject] = []
    for file in files:
        documents.extend(doc for doc in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader) if doc)
    return documents
