"""`RealCluster`: starts everything in order, ends everything whatever happens."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, final

import yaml

from aim_local.assets import Definitions, Toolset, find_toolset
from aim_local.assets import Program as Asset
from aim_local.ports import HOST
from aim_local.realcluster import kserve
from aim_local.realcluster.audit import AuditLog
from aim_local.realcluster.definitions import MANAGER, all_definitions, install
from aim_local.realcluster.keys import Keys
from aim_local.realcluster.ports import Ports
from aim_local.realcluster.programs import KEDA_NAMESPACE, KSERVE_NAMESPACE, Programs
from aim_local.realcluster.settings import PERMISSIONS, ClusterSettings
from aim_local.realcluster.users import SYSTEM_NAMESPACE, USERS, service_roles, status_updater
from aim_local.supervision.folder import OwnFolder
from aim_local.supervision.process import Program, StackError, Supervised
from controller_runtime import KubeClient
from controller_runtime.kind_names import KindName
from controller_runtime.kinds import CONFIG_MAP, NAMESPACE
from controller_runtime.kube import from_kubeconfig

_ROLES: Final = {
    kind: KindName("rbac.authorization.k8s.io", "v1", kind, f"{kind.lower()}s", not kind.startswith("Cluster"))
    for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
}
_WEBHOOKS: Final = {
    kind: KindName("admissionregistration.k8s.io", "v1", kind, f"{kind.lower()}s", False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}

_REPLACED: Final = ("etcd", "logs", "private", "tmp", "kubeconfig")
_ALWAYS: Final = (Asset.ETCD, Asset.APISERVER)


@final
class RealCluster:
    """A control plane of real programs, as an async context; everything listens on the loopback.

    On exit nothing is left running. Should this process be killed, the kernel ends its children (Linux).
    """

    def __init__(self, settings: ClusterSettings, toolset: Toolset | None = None) -> None:
        """``toolset`` is this machine's unless given.

        Raises:
            AssetError: a program that is wanted was not built, or definitions were not copied.
        """
        self.settings = settings
        self.audit = AuditLog(settings.audit_log)
        self._toolset = toolset or find_toolset()
        self._toolset.require(
            *_ALWAYS,
            *((Asset.CONTROLLER_MANAGER,) if settings.controllers else ()),
            *((Asset.SCHEDULER,) if settings.scheduler else ()),
            *((Asset.KSERVE,) if settings.kserve else ()),
            *((Asset.KEDA,) if settings.keda else ()),
            # A change of the pins may bring definitions that the last `make kube-assets` did not copy yet.
            *Definitions,
        )
        self._ports = Ports.choose()
        self._processes: dict[str, Supervised] = {}
        self._keys: Keys | None = None
        self._folder = OwnFolder(settings.folder, "--folder of `python -m aim_local.realcluster`")

    @property
    def url(self) -> str:
        """Base URL of the API server."""
        return f"https://{HOST}:{self._ports.apiserver}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.settings.kubeconfig

    @property
    def processes(self) -> tuple[Supervised, ...]:
        """All processes in the order of their start."""
        return tuple(self._processes.values())

    def kubeconfig_for(self, user: str) -> Path:
        """The kubeconfig of a user, by its short name.

        Raises:
            ValueError: there is no such user.
        """
        assert self._keys is not None, "the cluster has no kubeconfigs before it is entered"
        if user not in USERS:
            raise ValueError(f"no user {user} of this cluster; there are {', '.join(USERS)}")
        return self._keys.kubeconfig(user)

    def __getitem__(self, name: str) -> Supervised:
        """A process by the name of its program, such as ``kube-apiserver``.

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
            ApiError: the API server refuses a definition.
        """
        try:
            await self._start()
        except BaseExceptionGroup as errors:
            await self._stop()
            raise first_cause(errors) from None
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def guard(self) -> None:
        """Wait for a process that ends by itself.

        Raises:
            StackError: one did; it quotes its log.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for one in self.processes:
                    group.create_task(_fail_at_end(one))
        except* StackError as errors:
            raise first_cause(errors) from None

    async def _start(self) -> None:
        await asyncio.to_thread(self._prepare)
        self._keys = await asyncio.to_thread(Keys.make, self.settings, self.url)
        programs = Programs(self.settings, self._toolset, self._ports, self._keys)
        await self._start_together([programs.etcd()])
        async with asyncio.TaskGroup() as group:
            group.create_task(self._start_together([programs.apiserver()]))
            reading = group.create_task(asyncio.to_thread(all_definitions, self._toolset, self.settings.crds))
        connection = await from_kubeconfig(str(self.kubeconfig))
        async with KubeClient(connection, service="local-cluster") as client:
            async with asyncio.TaskGroup() as group:
                group.create_task(install(connection, reading.result(), self.settings.start_timeout))
                group.create_task(self._furnish(client))
            # Not before the definitions: what controllers do not find at their start, such as the kinds that the
            # garbage collector follows, they look for again only half a minute later or never.
            await self._start_together(programs.controllers())
            if self.settings.kserve:
                await self._register_webhooks(client, self._keys)

    async def _furnish(self, client: KubeClient) -> None:
        """Create what is expected to be there: namespaces, permissions of the services, KServe's settings."""
        for name in (SYSTEM_NAMESPACE, KSERVE_NAMESPACE, KEDA_NAMESPACE):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await client.create(NAMESPACE, namespace, MANAGER)
        if self.settings.roles:
            table = await asyncio.to_thread(lambda: yaml.safe_load(PERMISSIONS.read_text(encoding="utf-8")))
            for role in (*service_roles(table), status_updater(table)):
                await client.create(_ROLES[role["kind"]], role, MANAGER)
        [shipped] = self._toolset.definitions(Definitions.KSERVE_CONFIG)
        await client.create(CONFIG_MAP, kserve.settings(shipped, KSERVE_NAMESPACE), MANAGER)

    async def _register_webhooks(self, client: KubeClient, keys: Keys) -> None:
        shipped = self._toolset.definitions(Definitions.KSERVE_WEBHOOKS)
        at = kserve.at_loopback(self._ports.kserve_webhook)
        for one in kserve.webhooks(shipped, at, keys.authority):
            await client.create(_WEBHOOKS[one["kind"]], one, MANAGER)

    async def _start_together(self, programs: Iterable[Program]) -> None:
        async with asyncio.TaskGroup() as group:
            for program in programs:
                group.create_task(self._supervise(program).start())

    def _supervise(self, program: Program) -> Supervised:
        process = Supervised(
            program,
            self.settings.logs / f"{program.name}.log",
            start_timeout=self.settings.start_timeout,
            stop_patience=self.settings.stop_patience,
        )
        self._processes[program.name] = process
        return process

    def _prepare(self) -> None:
        self._folder.take()
        self._folder.clean(*_REPLACED)
        for place in (self.settings.logs, self.settings.temporary):
            place.mkdir()

    async def _stop(self) -> None:
        """End the clients of the API server, then it, then its store."""
        for names in ({one.name for one in self.processes} - {*_ALWAYS}, {Asset.APISERVER}, {Asset.ETCD}):
            async with asyncio.TaskGroup() as group:
                for one in self.processes:
                    if one.name in names:
                        group.create_task(one.stop())
        if self._folder.taken:
            await asyncio.to_thread(self._folder.clean, "etcd", "tmp")
            self._folder.release()


async def _fail_at_end(process: Supervised) -> None:
    await process.wait_ended()
    raise process.failure(process.ending)


def first_cause(error: BaseException) -> BaseException:
    """What went wrong first, without the groups that tasks wrap it into."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
