"""What a machine must have to run a node, and what to do where it has not."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aim_local.node.machine import THIS, Machine
from aim_local.node.settings import NodeSettings

PACKAGES: Final[Mapping[str, str]] = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "docker-registry": "docker-registry",
    "busybox": "busybox-static",
    "iptables": "iptables",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ipset": "ipset",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
"""Programs of the machine, and the Debian package that each comes with."""
CNI: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
"""Where the network plugins may be; Debian's package is containernetworking-plugins."""
_PLUGINS: Final = ("bridge", "host-local", "portmap", "loopback")
PROCESSOR: Final = "x86_64"
"""The only architecture that the node's registry has images for."""
_ELSEWHERE: Final = (Path("/usr/sbin"), Path("/sbin"), Path("/usr/local/sbin"))
"""Folders that the PATH of a user without privileges may lack."""
PORTS: Final[Mapping[int, str]] = {6443: "kube-apiserver", 5000: "docker-registry", 10250: "kubelet"}
"""Ports of the node's address, and what listens there."""


class NodeError(Exception):
    """A node cannot run, or a part of it failed; the message is `<object> <state>: <cause>; <remedy>`."""


def program(name: str) -> str:
    """The path of a program of the machine.

    Raises:
        NodeError: it is not installed.
    """
    found = shutil.which(name) or shutil.which(name, path=":".join(map(str, _ELSEWHERE)))
    if found is None:
        raise NodeError(f"{name} missing: the node runs it; {_install([PACKAGES.get(name, name)])}")
    return found


def plugins() -> Path:
    """The folder of the network plugins.

    Raises:
        NodeError: they are not installed.
    """
    for folder in CNI:
        if all((folder / one).exists() for one in _PLUGINS):
            return folder
    raise NodeError(
        f"network plugins missing: neither {CNI[0]} nor {CNI[1]} has {', '.join(_PLUGINS)}; "
        f"{_install(['containernetworking-plugins'])}"
    )


def require_machine(settings: NodeSettings, machine: Machine = THIS) -> None:
    """Make sure that a node can run here.

    Raises:
        NodeError: it cannot, with the cause and the remedy.
    """
    require_linux_and_root()
    missing = missing_packages()
    if missing:
        raise NodeError(f"packages {', '.join(missing)} missing: the node runs their programs; {_install(missing)}")
    _require_cgroups(machine)
    _require_overlay(settings.folder, machine)
    _require_bridges(machine)


def require_linux_and_root() -> None:
    """Make sure that this is Linux on x86-64, and root.

    Raises:
        NodeError: it is not.
    """
    if sys.platform != "linux":
        raise NodeError(
            f"node unavailable: a kubelet runs on Linux, this is {sys.platform}; use CLUSTER=embedded or real"
        )
    if os.geteuid() != 0:
        raise NodeError("node unavailable: mounts, bridges and cgroups need root; run it as root or use CLUSTER=real")
    if (processor := os.uname().machine) != PROCESSOR:
        raise NodeError(
            f"node unavailable: the images of its registry are for {PROCESSOR}, this processor is {processor}; "
            "use CLUSTER=embedded or real"
        )


def missing_packages() -> list[str]:
    """Debian's names of the packages that the machine lacks."""
    found = {package for name, package in PACKAGES.items() if not _is_installed(name)}
    try:
        plugins()
    except NodeError:
        found.add("containernetworking-plugins")
    return sorted(found)


def install_packages() -> list[str]:
    """Install what is missing with apt-get; the names of what was.

    Raises:
        NodeError: this is no Debian, or apt-get fails.
    """
    missing = missing_packages()
    if not missing:
        return []
    if shutil.which("apt-get") is None:
        raise NodeError(
            f"packages {', '.join(missing)} missing: there is no apt-get here; install them with this system's tool"
        )
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for one in (["apt-get", "update", "-q"], command):
        ran = subprocess.run(one, check=False, capture_output=True, text=True, env=environment)  # noqa: S603
        if ran.returncode and one is command:
            said = (ran.stderr or ran.stdout).strip().splitlines()
            cause = said[-1] if said else f"apt-get exited with {ran.returncode}"
            raise NodeError(f"packages {', '.join(missing)} not installed: {cause}; run `{' '.join(command)}`")
    return missing


def require_free_ports(settings: NodeSettings, ports: Mapping[int, str] = PORTS) -> None:
    """Make sure that no other cluster has the ports of the node; the bridge has its address already.

    Raises:
        NodeError: a port is in use.
    """
    for port, name in ports.items():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((str(settings.address), port))
            except OSError as error:
                raise NodeError(
                    f"port {port} of {settings.address} in use: another process listens on it, where {name} has to; "
                    f"find it with `ss -ltnp 'sport = :{port}'` and stop it ({error.strerror})"
                ) from error


def _is_installed(name: str) -> bool:
    try:
        program(name)
    except NodeError:
        return False
    return True


def _install(packages: list[str]) -> str:
    return f"run `make node-assets`, or `apt-get install {' '.join(packages)}`"


def _require_cgroups(machine: Machine) -> None:
    root = machine.path("/sys/fs/cgroup")
    second = root / "cgroup.controllers"
    controllers = (
        second.read_text(encoding="ascii").split() if second.exists() else [one.name for one in root.glob("*")]
    )
    missing = sorted({"cpu", "memory", "pids"} - set(controllers))
    if missing:
        raise NodeError(
            f"cgroups incomplete: {root} has no controller {', '.join(missing)}; "
            "mount them (a container needs `--privileged --cgroupns=host`) or use CLUSTER=real"
        )
    if not os.access(root, os.W_OK):
        raise NodeError(
            f"cgroups read-only: the kubelet makes groups below {root}; remount it writable or use CLUSTER=real"
        )


def _require_overlay(folder: Path, machine: Machine) -> None:
    if not any(line.split()[-1:] == ["overlay"] for line in machine.lines("/proc/filesystems")):
        raise NodeError("overlay file system missing: containers are mounted with it; run `modprobe overlay`")
    folder.mkdir(parents=True, exist_ok=True)
    kind = _file_system(folder, machine)
    if kind in {"overlay", "nfs", "nfs4"}:
        raise NodeError(
            f"folder {folder} unusable: it lies on {kind}, which overlay cannot be mounted over; "
            "set AIM_NODE_FOLDER to a folder on a local disk"
        )


def _file_system(folder: Path, machine: Machine) -> str:
    """The type of the file system of a folder: of the longest mount point above it the last, which hides the others."""
    mounts = [line.split() for line in machine.lines("/proc/mounts")]
    real = folder.resolve()
    found = [
        (len(point), number, kind) for number, (_, point, kind, *_) in enumerate(mounts) if real.is_relative_to(point)
    ]
    return max(found)[2] if found else ""


def _require_bridges(machine: Machine) -> None:
    if not machine.path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists():
        raise NodeError(
            "bridge filter missing: Services are rewritten on the pods' bridge; run `modprobe br_netfilter`"
        )
