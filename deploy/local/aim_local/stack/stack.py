"""`Stack`: starts everything in order, ends everything whatever happens."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, final

from aim_local.realcluster.cluster import first_cause
from aim_local.stack.clusters import Cluster, cluster_of
from aim_local.stack.programs import SYSTEM_NAMESPACE, Addresses, Programs
from aim_local.stack.settings import StackSettings
from aim_local.supervision.folder import OwnFolder
from aim_local.supervision.process import Program, Row, StackError, Supervised
from controller_runtime import JsonObject, KubeClient, KubeError
from controller_runtime.kinds import NAMESPACE
from controller_runtime.kube import from_kubeconfig

_REPLACED: Final = ("nats", "data", "logs", "kubeconfig", "cluster")
_MANAGER: Final = "aim-local"


@final
class Stack:
    """All processes of the platform and its simulated cluster, as an async context.

    On exit nothing is left running. Should this process be killed, the kernel ends its children (Linux).
    """

    def __init__(self, settings: StackSettings) -> None:
        """See the class.

        Raises:
            StackError: the cluster can't be had on this machine.
        """
        self.settings = settings
        self._addresses = Addresses.choose(settings.services)
        self._programs = Programs(settings, self._addresses)
        self._processes: dict[str, Supervised] = {}
        self._folder = OwnFolder(settings.folder, "FOLDER=/tmp/second after `make demo` or `make up`")
        self.cluster: Final[Cluster] = cluster_of(settings, self._programs.control_plane(), self._supervised)

    @property
    def kubeconfig(self) -> Path:
        """For kubectl and clients."""
        return self.cluster.kubeconfig

    @property
    def api_url(self) -> str:
        """Base URL of the API server."""
        return self.cluster.url

    @property
    def played(self) -> str:
        """Parts of the cluster that are played here, as `--actors` takes them; empty if there are none.

        Nodes that are not played pull images from the real docker.io, and real gateways do not lead to the engine, so
        without actors there are no registry and no gateway either.
        """
        return self.cluster.missing_actors if self.settings.actors is None else self.settings.actors

    @property
    def gateway_url(self) -> str:
        """Base URL under which the paths of HTTPRoutes are served, if something is `played`."""
        return Addresses.url(self._addresses.gateway)

    @property
    def failures_url(self) -> str:
        """Where failures of simulated parts of the cluster are planned."""
        return f"{Addresses.url(self._addresses.failures)}/failures"

    @property
    def registry_url(self) -> str:
        """Base URL of the registry that plays docker.io, if something is `played`."""
        return Addresses.url(self._addresses.registry)

    @property
    def nats_url(self) -> str:
        """URL of the broker."""
        return self._programs.nats_url

    @property
    def processes(self) -> tuple[Supervised, ...]:
        """All processes: the cluster's, then the others in the order of their start."""
        return (*self.cluster.processes, *self._processes.values())

    async def rows(self) -> list[Row]:
        """The processes, for a report."""
        return [one.row for one in self.processes]

    async def reset_requests(self) -> None:
        """Count requests to the API server from zero."""
        await self.cluster.reset_requests()

    async def requests(self) -> JsonObject:
        """What the API server was asked since, by user agent, verb and resource."""
        return await self.cluster.requests()

    def __getitem__(self, name: str) -> Supervised:
        """A process by name, such as ``serving`` or ``nats``.

        Raises:
            StackError: there is none of that name.
        """
        found = next((one for one in self.processes if one.name == name), None)
        if found is None:
            raise StackError(f"no process {name}; there are {', '.join(one.name for one in self.processes)}")
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

    async def _start(self) -> None:
        # What does not exist is found before anything was started for it.
        for name in self.settings.services:
            self._programs.check(name)
        if self.played:
            self._programs.check_actors(self.played)
        await asyncio.to_thread(self._prepare)
        await self._together(self.cluster.start(), *map(self._begin, self._servers()))
        await self._create_system_namespace()
        await self._together(*map(self._begin, self._clients()))

    def _servers(self) -> Iterator[Program]:
        """What needs no API server."""
        if not self.settings.broker_url:
            yield self._programs.nats()
        if self.played:
            yield self._programs.registry()

    def _clients(self) -> Iterator[Program]:
        """What talks to the API server."""
        if self.played:
            yield self._programs.actors(self.cluster.kubeconfig_for("actors"), self.played)
            yield self._programs.gateway(self.cluster.kubeconfig_for("gateway"))
        for name in self.settings.services:
            yield self._programs.service(name, self.cluster.kubeconfig_for(name), with_registry=bool(self.played))

    async def _begin(self, program: Program) -> None:
        process = self._processes[program.name] = self._supervised(program)
        await process.start()

    async def _together(self, *work: Coroutine[Any, Any, None]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for one in work:
                    group.create_task(one)
        except* (StackError, KubeError) as errors:
            raise first_cause(errors) from None

    def _supervised(self, program: Program) -> Supervised:
        log = self.settings.folder / "logs" / f"{program.name}.log"
        return Supervised(
            program,
            log,
            start_timeout=self.settings.start_timeout,
            stop_patience=self.settings.stop_patience,
            spawn=self.settings.spawn,
        )

    def _prepare(self) -> None:
        self._folder.take()
        self._folder.clean(*_REPLACED)
        (self._folder.path / "logs").mkdir()

    async def _create_system_namespace(self) -> None:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
        async with KubeClient(await from_kubeconfig(str(self.kubeconfig)), service="local-stack") as client:
            await client.apply(NAMESPACE, namespace, _MANAGER)

    async def _stop(self) -> None:
        """End the clients, then what they use; each step together."""
        lower = {"nats", "registry"}
        await self._together(*(one.stop() for name, one in self._processes.items() if name not in lower))
        await self._together(
            self.cluster.stop(), *(one.stop() for name, one in self._processes.items() if name in lower)
        )
        if self._folder.taken:
            await asyncio.to_thread(self._folder.clean, "nats", "data")
            self._folder.release()
