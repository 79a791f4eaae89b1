"""Which programs make up a stack, with which arguments and variables."""

import importlib.util
import os
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aim_domain.services import SERVICES
from aim_local.actors.settings import UnknownActorError, parse_actors
from aim_local.nats import nats_program
from aim_local.ports import HOST, LOOPBACK, free_ports
from aim_local.stack.settings import StackSettings
from aim_local.supervision.probes import all_probes, file_probe, http_probe
from aim_local.supervision.process import Program, StackError

SYSTEM_NAMESPACE: Final = "aim-system"
_OWN_PREFIX: Final = "AIM_"
_KEPT: Final = frozenset({"AIM_LOG_LEVEL", "AIM_NATS_ROOT"})
_REGISTRY_VARIABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "model-sync": ("AIM_DOCKER_REGISTRY_URL", "AIM_DOCKER_HUB_API_URL"),
    "discovery": ("AIM_DOCKER_REGISTRY_URL",),
}
"""By service, the variables that name the registry."""
_LOOPBACK_VARIABLE: Final = "AIM_REGISTRY_ALLOWED_NETWORKS"


@dataclass(frozen=True, slots=True)
class Addresses:
    """Ports on the loopback."""

    nats: int
    control_plane: int
    registry: int
    engine: int
    failures: int
    gateway: int
    services: Mapping[str, int]

    @classmethod
    def choose(cls, services: tuple[str, ...]) -> "Addresses":
        """Free ports."""
        nats, control_plane, registry, engine, failures, gateway, *rest = free_ports(6 + len(services))
        return cls(nats, control_plane, registry, engine, failures, gateway, dict(zip(services, rest, strict=True)))

    @staticmethod
    def url(port: int) -> str:
        """Base URL of a port."""
        return f"http://{HOST}:{port}"


@dataclass(frozen=True, slots=True)
class Programs:
    """Builds the programs of one stack.

    Attributes:
        uid: tells this stack from any other one.
    """

    settings: StackSettings
    addresses: Addresses
    uid: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def nats_url(self) -> str:
        """Where services find the broker."""
        return self.settings.broker_url or f"nats://{HOST}:{self.addresses.nats}"

    def nats(self) -> Program:
        """The broker; its store begins empty, as the control plane's does.

        Raises:
            StackError: there is no nats-server.
        """
        return nats_program(
            self.settings.folder / "nats", self.addresses.nats, _inherited(), extra=self.settings.broker
        )

    def control_plane(self) -> Program:
        """The API server with all definitions; it answers before its kubeconfig is written, and clients need both."""
        port = self.addresses.control_plane
        kubeconfig = embedded_kubeconfig(self.settings)
        command = _python("embedded_apiserver", "--port", port, "--kubeconfig", kubeconfig)
        command += ["--crds", str(self.settings.crds)]
        url = Addresses.url(port)
        ready = all_probes(http_probe(f"{url}/readyz"), file_probe(kubeconfig))
        return Program("control-plane", command, _inherited(), ready, url)

    def registry(self) -> Program:
        """The registry that plays docker.io."""
        url = Addresses.url(self.addresses.registry)
        command = _python("aim_local.registry", "--port", self.addresses.registry)
        return Program("registry", command, _inherited(), http_probe(f"{url}/v2/"), url)

    def actors(self, kubeconfig: Path, names: str) -> Program:
        """Simulated parts of a cluster, with the engine."""
        url = Addresses.url(self.addresses.engine)
        settings = self.settings
        command = _python(
            "aim_local.actors", "--data", settings.folder / "data", "--engine-port", self.addresses.engine
        )
        command += ["--delay", str(settings.actor_delay), "--retry-delay", str(settings.actor_retry_delay)]
        command += ["--actors", names, "--nodes", str(settings.nodes)]
        command += ["--failure-port", str(self.addresses.failures), "--weights", settings.weights]
        return Program("actors", command, _client_env(kubeconfig), http_probe(f"{url}/-/ready"), url)

    def gateway(self, kubeconfig: Path) -> Program:
        """The gateway."""
        url = Addresses.url(self.addresses.gateway)
        command = _python("aim_local.gateway", "--port", self.addresses.gateway)
        command += ["--engine-url", Addresses.url(self.addresses.engine)]
        return Program("gateway", command, _client_env(kubeconfig), http_probe(f"{url}/-/ready"), url)

    def check(self, name: str) -> None:
        """Make sure that a service can be started.

        Raises:
            StackError: there is no such service, or it is not installed.
        """
        if name not in SERVICES:
            raise StackError(f"{name} is not a service; services are {', '.join(SERVICES)}")
        module = _module(name)
        if importlib.util.find_spec(module) is None or importlib.util.find_spec(f"{module}.__main__") is None:
            raise StackError(f"service {name} cannot be started: `python -m {module}` does not exist; run `make setup`")

    def check_actors(self, names: str) -> None:
        """Make sure that there are such parts of a cluster.

        Raises:
            StackError: a name is none.
        """
        try:
            parse_actors(names)
        except UnknownActorError as error:
            raise StackError(str(error)) from error

    def service(self, name: str, kubeconfig: Path, *, with_registry: bool) -> Program:
        """One of the five services; ``with_registry``: it asks the registry that plays docker.io, not the real one."""
        port = self.addresses.services[name]
        env = {**_client_env(kubeconfig), **self._service_env(name, port, with_registry=with_registry)}
        url = Addresses.url(port)
        return Program(name, _python(_module(name)), env, http_probe(f"{url}/readyz"), url)

    def _service_env(self, name: str, port: int, *, with_registry: bool) -> dict[str, str]:
        settings, address = self.settings, f"{HOST}:{port}"
        env = {
            "AIM_NATS_URL": self.nats_url,
            "AIM_HEALTH_PROBE_BIND_ADDRESS": address,
            "AIM_METRICS_BIND_ADDRESS": address,
            "AIM_METRICS_SECURE": "false",
            "AIM_LEADER_ELECT": str(settings.leader_elect).lower(),
            "AIM_POD_NAME": f"aim-{name}-0",
            # The supervisor of a stack starts the processes of a service one after the other, as a kubelet does.
            "AIM_POD_UID": f"{self.uid}-{name}",
            "AIM_WATCHDOG_FOLDER": str(settings.folder),
            "AIM_SYSTEM_NAMESPACE": SYSTEM_NAMESPACE,
        }
        if name == "serving":
            # Pods have addresses that nothing listens at: the engine plays all of them.
            env["AIM_ENGINE_PROXY"] = Addresses.url(self.addresses.engine)
        if with_registry:
            variables = _REGISTRY_VARIABLES.get(name, ())
            env |= dict.fromkeys(variables, Addresses.url(self.addresses.registry))
            # Registries on the service's own machine are refused unless a setting allows them (FW-590).
            env |= {_LOOPBACK_VARIABLE: LOOPBACK} if variables else {}
        return {**env, **settings.env, **settings.service_env.get(name, {})}


def embedded_kubeconfig(settings: StackSettings) -> Path:
    """Written by the embedded control plane when it starts."""
    return settings.folder / "kubeconfig"


def _module(service: str) -> str:
    return f"aim_{service.replace('-', '_')}"


def _client_env(kubeconfig: Path) -> dict[str, str]:
    return {**_inherited(), "KUBECONFIG": str(kubeconfig)}


def _inherited() -> dict[str, str]:
    """Our environment without settings meant for other services, and without proxies before the loopback."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_PREFIX) or name in _KEPT}
    exempt = ",".join(filter(None, (env.get("NO_PROXY", env.get("no_proxy", "")), HOST, "localhost")))
    return {**env, "NO_PROXY": exempt, "no_proxy": exempt, "PYTHONUNBUFFERED": "1"}


def _python(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, arguments)]
