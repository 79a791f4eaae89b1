"""`Stack`: starts everything in order, ends everything whatever happens."""

import asyncio
import fcntl
import os
import shutil
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self, final

import aiohttp

from aim_local.stack.process import Program, Supervised
from aim_local.stack.programs import SYSTEM_NAMESPACE, Addresses, Programs
from aim_local.stack.settings import StackError, StackSettings
from aim_shared.api.kinds import NAMESPACE
from aim_shared.json import JsonObject, loads
from aim_shared.kube.client import KubeClient
from aim_shared.kube.config import from_kubeconfig

_REPLACED: Final = ("nats", "data", "logs", "kubeconfig")
_MANAGER: Final = "aim-local"


@final
class Stack:
    """All processes of the platform and its simulated cluster, as an async context.

    On exit nothing is left running. Should this process be killed, the kernel ends its children (Linux).
    """

    def __init__(self, settings: StackSettings) -> None:
        self.settings = settings
        self._addresses = Addresses.choose(settings.services)
        self._programs = Programs(settings, self._addresses)
        self._processes: dict[str, Supervised] = {}
        self._lock: IO[str] | None = None

    @property
    def kubeconfig(self) -> Path:
        """For kubectl and clients."""
        return self._programs.kubeconfig

    @property
    def api_url(self) -> str:
        """Base URL of the API server."""
        return Addresses.url(self._addresses.control_plane)

    @property
    def gateway_url(self) -> str:
        """Base URL under which the paths of HTTPRoutes are served."""
        return Addresses.url(self._addresses.gateway)

    @property
    def registry_url(self) -> str:
        """Base URL of the registry that plays docker.io."""
        return Addresses.url(self._addresses.registry)

    @property
    def nats_url(self) -> str:
        """URL of the broker."""
        return f"nats://127.0.0.1:{self._addresses.nats}"

    @property
    def processes(self) -> tuple[Supervised, ...]:
        """All processes in the order of their start."""
        return tuple(self._processes.values())

    def __getitem__(self, name: str) -> Supervised:
        """A process by name, such as ``serving`` or ``nats``.

        Raises:
            StackError: there is none of that name.
        """
        found = self._processes.get(name)
        if found is None:
            raise StackError(f"no process {name}; there are {', '.join(self._processes)}")
        return found

    async def __aenter__(self) -> Self:
        """Start everything; all of it is ready when this returns.

        Raises:
            StackError: something can't be started, with its name and the end of its log; nothing runs then.
        """
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def requests(self) -> JsonObject:
        """What the API server was asked so far (`/debug/requests`)."""
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(f"{self.api_url}/debug/requests") as answer,
        ):
            return loads(await answer.read())

    async def reset_requests(self) -> None:
        """Count the requests to the API server from zero."""
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.delete(f"{self.api_url}/debug/requests"),
        ):
            pass

    async def _start(self) -> None:
        # A service that does not exist is found before anything was started for it.
        services = [self._programs.service(name) for name in self.settings.services]
        await asyncio.to_thread(self._prepare)
        await self._start_together(self._programs.nats(), self._programs.control_plane(), self._programs.registry())
        await self._create_system_namespace()
        await self._start_together(self._programs.actors(), self._programs.gateway(), *services)

    async def _start_together(self, *programs: Program) -> None:
        fresh = [self._supervise(program) for program in programs]
        try:
            async with asyncio.TaskGroup() as group:
                for process in fresh:
                    group.create_task(process.start())
        except* StackError as errors:
            first = errors.exceptions[0]
            while isinstance(first, ExceptionGroup):
                first = first.exceptions[0]
            raise first from None

    def _supervise(self, program: Program) -> Supervised:
        log = self.settings.folder / "logs" / f"{program.name}.log"
        process = Supervised(
            program, log, start_timeout=self.settings.start_timeout, stop_patience=self.settings.stop_patience
        )
        self._processes[program.name] = process
        return process

    def _prepare(self) -> None:
        folder = self.settings.folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.seek(0)
            holder = self._lock.read().strip() or "unknown"
            self._lock.close()
            self._lock = None
            raise StackError(
                f"another demo (process {holder}) uses {folder}; stop it with `kill {holder}`, or use another folder: "
                "make demo FOLDER=/tmp/second"
            ) from None
        self._lock.truncate(0)
        self._lock.write(str(os.getpid()))
        self._lock.flush()
        self._clean(*_REPLACED)
        (folder / "logs").mkdir()

    def _clean(self, *names: str) -> None:
        for name in names:
            place = self.settings.folder / name
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)

    async def _create_system_namespace(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
        async with KubeClient(await from_kubeconfig(str(self.kubeconfig)), service="local-stack") as client:
            await client.apply(NAMESPACE, namespace, _MANAGER)

    async def _stop(self) -> None:
        """End the services, then what they use; each step together."""
        below = ("nats", "control-plane", "registry")
        upper = [one for one in self.processes if one.name not in below]
        lower = [one for one in self.processes if one.name in below]
        for step in (upper, lower):
            async with asyncio.TaskGroup() as group:
                for one in step:
                    group.create_task(one.stop())
        if self._lock is not None:
            await asyncio.to_thread(self._clean, "nats", "data")
            self._lock.close()
            self._lock = None
