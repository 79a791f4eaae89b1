"""The platform as the chart installs it on a real control plane: by helm, with its roles, brokers and pods.

The Deployment controller makes the pods, and `support.kubelet` starts the process of each beside the cluster. The three
brokers with TLS and users run beside it as well (`support.rendered_broker`), at the port that the chart names.
"""

import asyncio
import dataclasses
import os
import random
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final

import yaml
from support.controlplane import RawApi
from support.forks import fork
from support.helm import ENGINE, NAMESPACE, Finished, helm, run
from support.image_programs import contained, own_variables
from support.images import wrapped, wrapped_env
from support.kubelet import Kubelet
from support.pod_root import Container
from support.real_cluster import raw_api
from support.rendered_broker import NAMES, RenderedBroker, rendered_broker
from support.restricted import RESTRICTED

from aim_domain.services import SERVICES
from aim_local.assets import Program as Asset
from aim_local.processes import Child, dying_with_parent
from aim_local.stack import StackSettings
from aim_local.supervision.process import Program, spawn
from controller_runtime import JsonObject
from controller_runtime.kube.config import from_kubeconfig

_PORT: Final = 4222
_BROKER: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/aim-engine-nats"
_LISTENING: Final = ("AIM_HEALTH_PROBE_BIND_ADDRESS", "AIM_METRICS_BIND_ADDRESS")
_OF_THE_CHART: Final = frozenset(
    {
        *_LISTENING,
        *("AIM_METRICS_SECURE", "AIM_LEADER_ELECT", "AIM_POD_NAME", "AIM_POD_UID", "AIM_SYSTEM_NAMESPACE"),
        *("AIM_NATS_URL", "KUBECONFIG", "NO_PROXY", "no_proxy", "PYTHONUNBUFFERED"),
    }
)
_FIRST_BLOCK: Final = 64
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


class Installation:
    """One installation, made when the first service is to be started; use `installation`."""

    def __init__(self, folder: Path, trees: Path, broker: RenderedBroker, address: str) -> None:
        self.broker = broker
        self._folder = folder
        self._trees = trees
        self._address = address
        self._wanted: dict[str, Program] = {}
        self._known = asyncio.Event()
        self._installed: asyncio.Task[None] | None = None

    def adapted(self, settings: StackSettings) -> StackSettings:
        """A stack whose services are the pods of this installation."""
        return dataclasses.replace(
            settings,
            folder=self._folder / "platform",
            roles=False,
            broker_url=self.broker.cluster.url,
            spawn=self.spawn,
        )

    async def spawn(self, program: Program, log: Path) -> Child:
        """Start a program of a stack: a service as the container of its pod."""
        if program.name not in SERVICES:
            return await (contained if program.name == "actors" else fork)(program, log)
        self._wanted[program.name] = program
        if len(self._wanted) == len(SERVICES):
            self._known.set()
        # What registries there are, only the programs say; the chart wants to hear it of all services at once.
        await self._known.wait()
        if self._installed is None:
            self._installed = asyncio.create_task(self._install())
        await self._installed
        container = await self._container(program.name, {name: program.env[name] for name in _LISTENING})
        return await spawn(dataclasses.replace(program, command=wrapped(container), env=wrapped_env()), log)

    async def hooks(self) -> list[JsonObject]:
        """What helm makes after the installation, which here nobody made."""
        done = await self.helm("get", "hooks", "aim-engine")
        assert done.status == 0, done.errors
        return [one for one in done.objects if "post-install" in one["metadata"]["annotations"]["helm.sh/hook"]]

    async def helm(self, *arguments: str) -> Finished:
        """Run helm with this cluster."""
        return await helm(*arguments, "--kubeconfig", str(self._kubeconfig), "--namespace", NAMESPACE)

    async def broker_ready(self, api: RawApi) -> None:
        """Wait until the cluster tells of the broker's pods that they run; the check after an installation asks it."""
        servers = len(self.broker.cluster.servers)
        await api.until(_BROKER, lambda reply: reply.body["status"].get("readyReplicas") == servers)

    async def start(self, component: str, log: Path, hosts: Mapping[str, str] | None = None) -> Child:
        """Start the container of a pod that is no service's; where it listens is of no concern.

        Args:
            hosts: names that it has to find, beside the broker's.
        """
        command = wrapped(await self._container(component, {}, hosts or {}))
        with await asyncio.to_thread(log.open, "ab") as output:
            return await asyncio.create_subprocess_exec(
                *command,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env=wrapped_env(),
                start_new_session=True,
                preexec_fn=dying_with_parent(signal.SIGKILL),
            )

    async def _container(
        self, component: str, listening: Mapping[str, str], named: Mapping[str, str] = _NO_NAMES
    ) -> Container:
        hosts, config = {NAMES[0]: self._address, **named}, await from_kubeconfig(str(self._kubeconfig))
        async with raw_api(self._kubeconfig) as api:
            kubelet = Kubelet(api, config.server, self._trees, self._folder / "volumes", hosts)
            return await kubelet.container(await _pod_of(api, component), listening)

    @property
    def _kubeconfig(self) -> Path:
        return self._folder / "platform" / "cluster" / "kubeconfig"

    async def _install(self) -> None:
        config = str(self._kubeconfig)
        async with raw_api(self._kubeconfig) as api:
            reply = await api.merge(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": RESTRICTED}})
            assert reply.status == 200, reply.body
        secrets = [*yaml.safe_load_all(self.broker.secrets.read_text(encoding="utf-8")), self._certificate()]
        done = await run(Asset.KUBECTL, "--kubeconfig", config, "apply", "-f", "-", stdin=yaml.safe_dump_all(secrets))
        assert done.status == 0, done.errors
        values = self._folder / "installed.yaml"
        values.write_text(yaml.safe_dump(self._values()), encoding="utf-8")
        # The check would be over before the processes of the pods are there; `hooks` tells what it is.
        done = await self.helm("install", "aim-engine", ENGINE, "--no-hooks", "-f", str(values))
        assert done.status == 0, done.errors

    def _values(self) -> JsonObject:
        services = {name: {"env": _reported(own_variables(one.env))} for name, one in self._wanted.items()}
        # Definitions are the cluster's. Requests of tests to the metrics have no token; `test_real_metrics` has.
        special = {"crd": {"enabled": False}, "metrics": {"secure": False}, "check": {"seconds": 5}}
        return {**self.broker.values, "services": services, **special}

    def _certificate(self) -> JsonObject:
        authority = self.broker.cluster.authority.read_text(encoding="utf-8")
        metadata = {"name": self.broker.values["nats"]["tls"]["secretName"], "namespace": NAMESPACE}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"ca.crt": authority}}


@asynccontextmanager
async def installation(folder: Path, trees: Path) -> AsyncIterator[Installation]:
    """Brokers, and the means to start a platform whose folder is `platform` in this one."""
    # Each installation has the broker's port at an address of its own.
    address = f"127.{random.randint(_FIRST_BLOCK, 254)}.{random.randint(0, 254)}.{random.randint(1, 254)}"
    async with rendered_broker(folder, address=address, port=_PORT) as broker:
        with _environment(
            AIM_NATS_CREDENTIALS_FILE=str(broker.seeds["aim-engine-nats-aim"]),
            AIM_NATS_CA_FILE=str(broker.cluster.authority),
        ):
            yield Installation(folder, trees, broker, address)


async def _pod_of(api: RawApi, service: str) -> JsonObject:
    """The newest pod of a component; pod security that refuses it shows in the ReplicaSet."""
    selector = f"app.kubernetes.io/name=aim-engine,app.kubernetes.io/component={service}"
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    found = await api.repeated(lambda: api.get(path, labelSelector=selector), lambda reply: bool(reply.body["items"]))
    pod: JsonObject = max(found.body["items"], key=lambda one: one["metadata"]["creationTimestamp"])
    return pod


def _reported(env: Mapping[str, str]) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in env.items() if name not in _OF_THE_CHART]


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Variables of this process, which the commands that tests run inherit."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
