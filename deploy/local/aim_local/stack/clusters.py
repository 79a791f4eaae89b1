"""The clusters that a stack can run against: the embedded control plane, a real one on this machine, any other."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol, TypeAlias, final

import aiohttp

from aim_domain.services import SERVICES
from aim_local.assets import AssetError
from aim_local.realcluster import ClusterSettings, RealCluster, User
from aim_local.realcluster.audit import request_report
from aim_local.stack.programs import embedded_kubeconfig
from aim_local.stack.settings import ClusterKind, StackSettings
from aim_local.supervision.process import Program, StackError, Supervised
from controller_runtime import JsonObject, loads

_CLIENTS: Final[Mapping[str, str]] = {
    "actors": User.ACTORS,
    "gateway": User.ACTORS,
    **{name: name for name in SERVICES},
}


Supervise: TypeAlias = Callable[[Program], Supervised]
"""Prepares a process of the stack."""


class Cluster(Protocol):
    """What has the API server; started and stopped with the stack, unless it was there before."""

    @property
    def missing_actors(self) -> str:
        """Parts of a cluster that have to be played here, as `--actors` takes them; empty if there are none."""
        ...

    @property
    def irreplaceable(self) -> frozenset[str]:
        """Processes whose end no restart makes good."""
        ...

    @property
    def processes(self) -> tuple[Supervised, ...]:
        """Its processes, in the order of their start."""
        ...

    @property
    def url(self) -> str:
        """Base URL of the API server."""
        ...

    @property
    def kubeconfig(self) -> Path:
        """For people and kubectl."""
        ...

    def kubeconfig_for(self, client: str) -> Path:
        """For one of the stack's processes, by its name."""
        ...

    async def start(self) -> None:
        """Start it; it is ready when this returns.

        Raises:
            StackError: it can't be.
        """
        ...

    async def stop(self) -> None:
        """End what was started."""
        ...

    async def requests(self) -> JsonObject:
        """What the API server was asked since the last reset, by user agent, verb and resource.

        Raises:
            StackError: it is not counted.
        """
        ...

    async def reset_requests(self) -> None:
        """Count from zero."""
        ...


@final
class EmbeddedCluster:
    """The control plane in memory, as a process of its own; everything else of a cluster is played."""

    missing_actors: Final = "all"
    irreplaceable: Final = frozenset({"control-plane"})

    def __init__(self, program: Program, kubeconfig: Path, supervise: Supervise) -> None:
        self._process = supervise(program)
        self._kubeconfig = kubeconfig
        self._begun = False

    @property
    def processes(self) -> tuple[Supervised, ...]:
        return (self._process,) if self._begun else ()

    @property
    def url(self) -> str:
        return self._process.url

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    def kubeconfig_for(self, client: str) -> Path:
        # It knows no users, and tells clients apart by their user agents.
        del client
        return self._kubeconfig

    async def start(self) -> None:
        self._begun = True
        await self._process.start()

    async def stop(self) -> None:
        await self._process.stop()

    async def requests(self) -> JsonObject:
        url = f"{self.url}/debug/requests"
        async with aiohttp.ClientSession(trust_env=False) as session, session.get(url) as answer:
            return loads(await answer.read())

    async def reset_requests(self) -> None:
        url = f"{self.url}/debug/requests"
        async with aiohttp.ClientSession(trust_env=False) as session, session.delete(url):
            pass


@final
class LocalRealCluster:
    """etcd, kube-apiserver, its controllers and KServe; played are hardware, metrics, KEDA if need be."""

    irreplaceable: Final[frozenset[str]] = frozenset()

    def __init__(self, settings: StackSettings) -> None:
        self.missing_actors = "hardware,hpa" if settings.keda else "hardware,hpa,keda"
        try:
            self._cluster = RealCluster(
                ClusterSettings(
                    settings.folder / "cluster",
                    kserve=settings.kserve,
                    keda=settings.keda,
                    roles=settings.roles,
                    crds=settings.crds,
                )
            )
        except AssetError as error:
            raise StackError(str(error)) from error

    @property
    def processes(self) -> tuple[Supervised, ...]:
        return self._cluster.processes

    @property
    def url(self) -> str:
        return self._cluster.url

    @property
    def kubeconfig(self) -> Path:
        return self._cluster.kubeconfig

    def kubeconfig_for(self, client: str) -> Path:
        return self._cluster.kubeconfig_for(_CLIENTS[client])

    async def start(self) -> None:
        await self._cluster.__aenter__()

    async def stop(self) -> None:
        await self._cluster.__aexit__(None, None, None)

    async def requests(self) -> JsonObject:
        return request_report(await self._cluster.audit.counts())

    async def reset_requests(self) -> None:
        await self._cluster.audit.reset()


@final
class GivenCluster:
    """A foreign cluster, with the rights of its kubeconfig. Nothing of it is played unless asked for."""

    missing_actors: Final = ""
    irreplaceable: Final[frozenset[str]] = frozenset()
    processes: Final[tuple[Supervised, ...]] = ()

    def __init__(self, kubeconfig: Path) -> None:
        # Not every shell has made a path of the ~ in KUBECONFIG=~/.kube/config.
        self._kubeconfig = kubeconfig.expanduser().absolute()
        if not self._kubeconfig.is_file():
            raise StackError(f"there is no kubeconfig {kubeconfig}; set the path of one: make up KUBECONFIG=path")

    @property
    def url(self) -> str:
        return "the API server of the kubeconfig"

    @property
    def kubeconfig(self) -> Path:
        return self._kubeconfig

    def kubeconfig_for(self, client: str) -> Path:
        del client
        return self._kubeconfig

    async def start(self) -> None:
        """It runs already."""

    async def stop(self) -> None:
        """It stays."""

    async def requests(self) -> JsonObject:
        raise StackError("the requests to this cluster are not counted")

    async def reset_requests(self) -> None:
        raise StackError("the requests to this cluster are not counted")


def cluster_of(settings: StackSettings, embedded: Program, supervise: Supervise) -> Cluster:
    """The cluster that the settings name.

    Raises:
        StackError: it can't be had on this machine.
    """
    match settings.cluster:
        case ClusterKind.EMBEDDED:
            return EmbeddedCluster(embedded, embedded_kubeconfig(settings), supervise)
        case ClusterKind.REAL:
            return LocalRealCluster(settings)
        case ClusterKind.NODE:
            raise StackError(
                "a stack has no node: the services of CLUSTER=node are pods; use `aim_local.node.platform`"
            )
        case Path() as given:
            return GivenCluster(given)
