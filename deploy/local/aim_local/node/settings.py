"""Where a node has its addresses, and where its files are."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

SOCKETS: Final = Path("/run/aim-node")
"""Sockets and mounts of the container runtime, whose paths have to be short."""
CLUSTER_DOMAIN: Final = "cluster.local"
GPUS: Final = 8
"""Accelerators that the node claims to have."""

_ADDRESS: Final = IPv4Address("10.77.0.1")
_PODS: Final = IPv4Network("10.77.0.0/24")
_SERVICES: Final = IPv4Network("10.97.0.0/16")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One node per machine: its addresses are fixed, because pods, certificates and pages name them.

    Attributes:
        folder: everything that stays between two nodes: images, and below `run` what one node leaves to look at.
        name: of the Node.
        bridge: network interface that carries the node's address and joins the pods.
        address: of the node; API server, kubelet, registry and Hub listen on it.
        pods: addresses of pods.
        services: addresses of Services.
        policies: whether NetworkPolicies are enforced.
    """

    folder: Path
    name: str = "node-0"
    bridge: str = "aim0"
    address: IPv4Address = _ADDRESS
    pods: IPv4Network = _PODS
    services: IPv4Network = _SERVICES
    policies: bool = True

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "NodeSettings":
        """State lies in the folder that `AIM_NODE_FOLDER` names, else in the user's cache."""
        if chosen := environment.get("AIM_NODE_FOLDER"):
            return cls(Path(chosen).absolute())
        user_cache = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return cls(Path(user_cache) / "aim-engine" / "node")

    @property
    def run(self) -> Path:
        """State of the running node, deleted by the next start but for logs."""
        return self.folder / "run"

    @property
    def logs(self) -> Path:
        """One file per program."""
        return self.run / "logs"

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
    def socket(self) -> Path:
        """Where the container runtime listens."""
        return SOCKETS / "containerd.sock"

    @property
    def server(self) -> str:
        """URL of the API server; a port that the chart's NetworkPolicies allow."""
        return f"https://{self.address}:6443"

    @property
    def registry(self) -> str:
        """Host and port of the registry that answers for all names of images."""
        return f"{self.address}:5000"

    @property
    def hub(self) -> str:
        """URL of the Hub of made-up weights."""
        return f"http://{self.address}:18088"

    @property
    def kubernetes_service(self) -> IPv4Address:
        """Address of the API server's Service, as Kubernetes chooses it."""
        return self.services[1]

    @property
    def dns(self) -> IPv4Address:
        """Address of the Service of the cluster's DNS."""
        return self.services[10]
