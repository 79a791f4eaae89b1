"""Where the nodes of this machine have their addresses, and where their files are."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

SOCKETS: Final = Path("/run/aim-node")
"""Sockets and mounts of the container runtime, whose paths have to be short."""
CLUSTER_DOMAIN: Final = "cluster.local"
GPUS: Final = 8
"""Accelerators that the node claims to have."""

CLUSTER_PODS: Final = IPv4Network("10.77.0.0/16")
"""Addresses of all nodes and their pods."""

_ADDRESS: Final = IPv4Address("10.77.0.1")
_PODS: Final = IPv4Network("10.77.0.0/24")
_WORKER: Final = "node-1"
_WORKER_ADDRESS: Final = IPv4Address("10.77.1.1")
_WORKER_PODS: Final = IPv4Network("10.77.1.0/24")
_SERVICES: Final = IPv4Network("10.97.0.0/16")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One node. A machine has one with the control plane, and a `worker` in a network of its own when a test wants two.

    Addresses are fixed, because pods, certificates and pages name them.

    Attributes:
        folder: everything that stays between two nodes: images, and below `run` what one node leaves to look at.
        name: of the Node.
        bridge: network interface that carries the node's address and joins the pods.
        address: of the node; its kubelet listens on it.
        pods: addresses of the node's pods.
        services: addresses of Services.
        policies: whether NetworkPolicies are enforced.
        control: where API server, registry and Hub listen.
        link: the machine's end of the pair of interfaces that leads to a worker; empty for the machine's own network.
    """

    folder: Path
    name: str = "node-0"
    bridge: str = "aim0"
    address: IPv4Address = _ADDRESS
    pods: IPv4Network = _PODS
    services: IPv4Network = _SERVICES
    policies: bool = True
    control: IPv4Address = _ADDRESS
    link: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "NodeSettings":
        """State lies in the folder that `AIM_NODE_FOLDER` names, else in the user's cache."""
        if chosen := environment.get("AIM_NODE_FOLDER"):
            return cls(Path(chosen).absolute())
        user_cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(user_cache) / "aim-engine" / "node")

    @property
    def worker(self) -> "NodeSettings":
        """The second node, whose programs have a network namespace, a container runtime and cgroups of their own."""
        return replace(
            self,
            folder=self.folder / _WORKER,
            name=_WORKER,
            address=_WORKER_ADDRESS,
            pods=_WORKER_PODS,
            link="aim1",
        )

    @property
    def nodes(self) -> tuple["NodeSettings", ...]:
        """This one and the worker that it may have."""
        return (self,) if self.is_worker else (self, self.worker)

    @property
    def is_worker(self) -> bool:
        """Whether it is a node without a control plane, in a network namespace of its own."""
        return bool(self.link)

    @property
    def run(self) -> Path:
        """State of the running node, deleted by the next start but for logs."""
        return self.folder / "run"

    @property
    def logs(self) -> Path:
        """One file per program, for all nodes of the machine."""
        return (self.folder.parent if self.is_worker else self.folder) / "run" / "logs"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.run / "kubeconfig"

    @property
    def containerd(self) -> Path:
        """Content and file systems of images and containers."""
        return self.folder / "containerd"

    @property
    def registry_storage(self) -> Path:
        """What was pushed to the node's registry."""
        return self.folder / "registry"

    @property
    def sockets(self) -> Path:
        """Sockets and mounts of the container runtime."""
        return SOCKETS / self.name if self.is_worker else SOCKETS

    @property
    def socket(self) -> Path:
        """Where the container runtime listens."""
        return self.sockets / "containerd.sock"

    @property
    def namespace(self) -> Path:
        """File that keeps the network namespace of a worker, and names it for `nsenter` and `ip`."""
        return self.sockets / "net"

    @property
    def cgroup(self) -> str:
        """The group below which the kubelet makes its own, in each hierarchy."""
        return f"/aim-{self.name}" if self.is_worker else "/"

    def program(self, name: str) -> str:
        """What a program of this node is called among those of the machine: its log, and for `Node.restart`."""
        return f"{name}-{self.name}" if self.is_worker else name

    @property
    def server(self) -> str:
        """URL of the API server; a port that the chart's NetworkPolicies allow."""
        return f"https://{self.control}:6443"

    @property
    def registry(self) -> str:
        """Host and port of the registry that answers for all names of images."""
        return f"{self.control}:5000"

    @property
    def hub(self) -> str:
        """URL of the Hub of made-up weights."""
        return f"http://{self.control}:18088"

    @property
    def kubernetes_service(self) -> IPv4Address:
        """Address of the API server's Service, as Kubernetes chooses it."""
        return self.services[1]

    @property
    def dns(self) -> IPv4Address:
        """Address of the Service of the cluster's DNS."""
        return self.services[10]
