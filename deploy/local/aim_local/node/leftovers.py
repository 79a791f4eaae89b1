"""What nodes leave on their machine, and its removal: processes, mounts, networks, rules, cgroups, files.

A worker has processes, mounts, a link and cgroups of its own, which go while the node stays. Its rules and sets are in
its network namespace, and the rest is removed with the node.

Each thing is found by a name or a place that only a node's has, never by what was noted while it ran: a node that was
killed has noted nothing. Only what bears no name is known by what was there before (`aim_local.node.kernel`).
"""

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from aim_local.node import kernel
from aim_local.node.machine import THIS, Machine, read_lines
from aim_local.node.network import TABLE
from aim_local.node.settings import NodeSettings

_CGROUPS: Final = "/sys/fs/cgroup"
_GROUPS: Final = ("kubepods", "k8s.io")
_TABLES: Final = frozenset({"kube-proxy", TABLE})
_RULES: Final = ("KUBE-", "CNI-")
_SETS: Final = ("KUBE-", "kube-router-")
_SECONDS: Final = 15.0
_OWN: Final = frozenset(
    {
        "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kube-router",
        "containerd", "docker-registry",
    }
)  # fmt: skip
"""Programs of a node, by the names of their files."""
_SHIMS: Final = "/run/containerd/s"
"""Sockets of containers' parents; containerd has no setting for the place."""
_FILES: Final = (
    "/run/containerd/runc/k8s.io/*",
    "/var/lib/cni/results/aim-*",
    "/var/lib/cni/results/cni-loopback-*",
    "/var/lib/kubelet/device-plugins/*",
)
"""What programs write to places for which they have no setting."""
_POD_LOGS: Final = "/var/log/containers"
"""Links of the kubelet to pods' logs."""
_FOLDERS: Final = (
    "/run/containerd/runc/k8s.io",
    "/run/containerd/runc",
    _SHIMS,
    "/run/containerd",
    "/opt/containerd/bin",
    "/opt/containerd/lib",
    "/opt/containerd",
    "/var/lib/cni/results",
    "/var/lib/cni",
    "/var/lib/kubelet/device-plugins",
    "/var/lib/kubelet",
    _POD_LOGS,
)
"""Folders of these, removed where nothing is in them."""


def leftovers(settings: NodeSettings, machine: Machine = THIS) -> list[str]:
    """Everything of a node that is on this machine, a line each; empty where there is nothing.

    That of a node with a control plane contains what is of its worker.
    """
    found = [
        *(f"process {pid}: {command}" for pid, command in _processes(settings, machine)),
        *(f"mount {point}" for point in _mounts(settings, machine)),
        *(f"interface {name}" for name in _interfaces(settings, machine)),
        *(f"cgroup {folder}" for folder in _cgroups(settings, machine)),
        *(f"file {one}" for one in _files(settings, machine)),
    ]
    return found if settings.is_worker else [*found, *_of_the_machine(settings, machine)]


def _of_the_machine(settings: NodeSettings, machine: Machine) -> list[str]:
    """What is in tables and settings that all share."""
    return [
        *(f"nftables table {family} {name}" for family, name in _tables(machine)),
        *(f"{tool} rule {line}" for tool in ("iptables", "ip6tables") for line in _rules(tool, machine)),
        *(f"nftables chain {' '.join(one).strip()}" for one in kernel.new_chains(settings, machine)),
        *(f"ipset {name}" for name in _sets(machine)),
        *(f"sysctl {name}, {value} before" for name, value in kernel.changed_sysctls(settings, machine).items()),
    ]


def remove(settings: NodeSettings, machine: Machine = THIS) -> None:
    """Remove all of it; what is not there is no error."""
    _kill(settings, machine)
    # The deepest first; twice, as one may lie over another at the same place.
    for _ in range(2):
        for point in sorted(_mounts(settings, machine), reverse=True):
            machine.run("umount", "-l", point)
    if not settings.is_worker:
        _clear_tables(machine)
    for name in _interfaces(settings, machine):
        machine.run("ip", "link", "del", name)
    _remove_cgroups(settings, machine)
    if not settings.is_worker:
        kernel.restore(settings, machine)
    _remove_files(settings, machine)


def _clear_tables(machine: Machine) -> None:
    for family, name in _tables(machine):
        machine.run("nft", "delete", "table", family, name)
    for tool in ("iptables", "ip6tables"):
        _remove_rules(tool, machine)
    for name in _sets(machine):
        machine.run("ipset", "destroy", name)


def _kill(settings: NodeSettings, machine: Machine) -> None:
    """End its processes: those that end may have started others meanwhile, until all are gone."""
    deadline = time.monotonic() + _SECONDS
    while (found := _processes(settings, machine)) and time.monotonic() < deadline:
        for pid, _ in found:
            with contextlib.suppress(ProcessLookupError):
                machine.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def _processes(settings: NodeSettings, machine: Machine) -> list[tuple[int, str]]:
    """Those in pods' cgroups, the shims of our container runtimes, and programs whose arguments name our folders."""
    own = os.getpid()
    contained = {int(line) for folder in _cgroups(settings, machine) for line in read_lines(folder / "cgroup.procs")}
    found = []
    for entry in machine.path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == own:
            continue
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if int(entry.name) in contained or any(_is_program(command, one) for one in settings.nodes):
                found.append((int(entry.name), command[:120]))
    return found


def _is_program(command: str, settings: NodeSettings) -> bool:
    first, _, rest = command.partition(" ")
    if rest == f"-m aim_local.hub {settings.hub.rpartition('/')[2].replace(':', ' ')}":
        return not settings.is_worker
    if str(settings.socket) in rest and Path(first).name.startswith("containerd-shim"):
        return True
    return f"{settings.run}/" in rest and Path(first).name in _OWN


def _mounts(settings: NodeSettings, machine: Machine) -> list[str]:
    """File systems of pods and containers, and network namespaces."""
    places = tuple(f"{place}/" for one in settings.nodes for place in (one.run, one.sockets, one.containerd))
    points = [line.split()[1].replace("\\040", " ") for line in machine.lines("/proc/mounts")]
    return [one for one in points if one.startswith(places)]


def _interfaces(settings: NodeSettings, machine: Machine) -> list[str]:
    """Bridge and links in the machine's own network; what is in a worker's goes with its namespace."""
    names = [one.link or one.bridge for one in settings.nodes]
    return [one for one in names if machine.path(f"/sys/class/net/{one}").exists()]


def _tables(machine: Machine) -> list[tuple[str, str]]:
    """Family and name."""
    tables = [line.split() for line in machine.run("nft", "list", "tables").splitlines()]
    return [(words[1], words[2]) for words in tables if len(words) == 3 and words[2] in _TABLES]


def _rules(tool: str, machine: Machine) -> list[str]:
    return [line for line in machine.run(f"{tool}-save").splitlines() if any(one in line for one in _RULES)]


def _remove_rules(tool: str, machine: Machine) -> None:
    if _rules(tool, machine):
        lines = machine.run(f"{tool}-save").splitlines()
        kept = [line for line in lines if not any(one in line for one in _RULES)]
        machine.run(f"{tool}-restore", given="\n".join([*kept, ""]))


def _sets(machine: Machine) -> list[str]:
    """Sets of the controller of NetworkPolicies; those for IPv6 have a prefix."""
    names = machine.run("ipset", "list", "-n").splitlines()
    return [one for one in names if one.removeprefix("inet6:").startswith(_SETS)]


def _cgroups(settings: NodeSettings, machine: Machine) -> list[Path]:
    top = machine.path(_CGROUPS)
    hierarchies = [one for one in top.iterdir() if one.is_dir() and not one.is_symlink()] if top.is_dir() else []
    names = [name for one in settings.nodes for name in ([one.cgroup.strip("/")] if one.is_worker else _GROUPS)]
    groups = [place / name for place in (top, *hierarchies) for name in names]
    return [Path(folder) for one in groups if one.is_dir() for folder, _, _ in os.walk(one)]


def _remove_cgroups(settings: NodeSettings, machine: Machine) -> None:
    """Remove the folders; that of a process that has just ended is busy until its parent has noticed."""
    deadline = time.monotonic() + _SECONDS
    while (found := _cgroups(settings, machine)) and time.monotonic() < deadline:
        for folder in sorted(found, reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        if _cgroups(settings, machine):
            time.sleep(0.1)


def _files(settings: NodeSettings, machine: Machine) -> list[Path]:
    """What is outside the nodes' folders, but for what dies with its process."""
    logs = [one for one in machine.path(_POD_LOGS).glob("*") if _is_pod_log(one, settings)]
    if settings.is_worker:
        return sorted(logs)
    # A socket on which a process listens belongs to another container runtime.
    listening = {line.split()[-1] for line in machine.lines("/proc/net/unix")}
    sockets = [one for one in machine.path(_SHIMS).glob("*") if f"{_SHIMS}/{one.name}" not in listening]
    placed = [one for pattern in _FILES for one in machine.root.glob(pattern.lstrip("/"))]
    return sorted([*sockets, *logs, *placed])


def _is_pod_log(link: Path, settings: NodeSettings) -> bool:
    return link.is_symlink() and any(link.readlink().is_relative_to(one.run) for one in settings.nodes)


def _remove_files(settings: NodeSettings, machine: Machine) -> None:
    _delete(_files(settings, machine))
    for folder in _FOLDERS:
        with contextlib.suppress(OSError):
            machine.path(folder).rmdir()
    for one in settings.nodes:
        shutil.rmtree(machine.path(one.sockets), ignore_errors=True)
        if one.run.is_dir():
            _delete(file for file in one.run.iterdir() if file != settings.logs)
        if one.is_worker:
            with contextlib.suppress(OSError):
                one.run.rmdir()


def _delete(paths: Iterable[Path]) -> None:
    for one in paths:
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one)
        else:
            one.unlink(missing_ok=True)
