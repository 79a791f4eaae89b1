"""What a node leaves on its machine, and its removal: processes, mounts, networks, rules, cgroups.

Each thing is found by a name or a place that only a node's has, never by what was noted while it ran: a node that was
killed has noted nothing.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from aim_local.node.settings import SOCKETS, NodeSettings

CGROUPS: Final = Path("/sys/fs/cgroup")
_GROUPS: Final = ("kubepods", "k8s.io")
_NAMESPACES: Final = Path("/run/netns")
_TABLE: Final = "kube-proxy"
_RULES: Final = ("KUBE-", "CNI-")
_SECONDS: Final = 15.0
SYSCTLS: Final = {
    "net/ipv4/ip_forward": "1",
    "net/bridge/bridge-nf-call-iptables": "1",
    "fs/inotify/max_user_instances": "8192",
}
"""What the node sets of the kernel, by path below /proc/sys."""


def leftovers(settings: NodeSettings) -> list[str]:
    """Everything of a node that is on this machine, a line each; empty where there is nothing."""
    return [
        *(f"process {pid}: {command}" for pid, command in _processes(settings)),
        *(f"mount {point}" for point in _mounts(settings)),
        *(f"network namespace {one.name}" for one in _namespaces()),
        *(f"interface {settings.bridge}" for _ in range(_has_bridge(settings))),
        *(f"nftables table {family} {_TABLE}" for family in _families()),
        *(f"{tool} rule {line}" for tool in ("iptables", "ip6tables") for line in _rules(tool)),
        *(f"ipset {name}" for name in _sets()),
        *(f"cgroup {folder}" for folder in _cgroups()),
        *(f"sysctl {name} set by the node" for name in _kept_sysctls(settings)),
    ]


def remove(settings: NodeSettings) -> None:
    """Remove all of it; what is not there is no error."""
    _kill(settings)
    # The deepest first; twice, as one may lie over another at the same place.
    for _ in range(2):
        for point in sorted(_mounts(settings), reverse=True):
            _run("umount", "-l", point)
    for one in _namespaces():
        _run("ip", "netns", "del", one.name)
    for family in _families():
        _run("nft", "delete", "table", family, _TABLE)
    for tool in ("iptables", "ip6tables"):
        _remove_rules(tool)
    for name in _sets():
        _run("ipset", "destroy", name)
    if _has_bridge(settings):
        _run("ip", "link", "del", settings.bridge)
    for folder in sorted(_cgroups(), reverse=True):
        with contextlib.suppress(OSError):
            folder.rmdir()
    restore_sysctls(settings)
    shutil.rmtree(SOCKETS, ignore_errors=True)
    if settings.run.is_dir():
        for one in settings.run.iterdir():
            if one != settings.logs:
                shutil.rmtree(one) if one.is_dir() and not one.is_symlink() else one.unlink()


def _kill(settings: NodeSettings) -> None:
    """End its processes: those that end may have started others meanwhile, until all are gone."""
    deadline = time.monotonic() + _SECONDS
    while (found := _processes(settings)) and time.monotonic() < deadline:
        for pid, _ in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def set_sysctls(settings: NodeSettings) -> None:
    """Set what the node needs, and keep what was there before."""
    before = {name: _sysctl(name).read_text(encoding="ascii").strip() for name in SYSCTLS}
    changed = {name: value for name, value in before.items() if value != SYSCTLS[name]}
    file = _sysctl_file(settings)
    if not file.exists():
        file.write_text(json.dumps(changed), encoding="ascii")
    for name in changed:
        _sysctl(name).write_text(SYSCTLS[name], encoding="ascii")


def restore_sysctls(settings: NodeSettings) -> None:
    """Set back what the node changed."""
    for name, value in _kept_sysctls(settings).items():
        _sysctl(name).write_text(value, encoding="ascii")
    _sysctl_file(settings).unlink(missing_ok=True)


def _kept_sysctls(settings: NodeSettings) -> dict[str, str]:
    try:
        kept: dict[str, str] = json.loads(_sysctl_file(settings).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return {}
    return kept


def _sysctl_file(settings: NodeSettings) -> Path:
    return settings.folder / "sysctls.json"


def _sysctl(name: str) -> Path:
    return Path("/proc/sys") / name


def _processes(settings: NodeSettings) -> list[tuple[int, str]]:
    """Those in pods' cgroups, the shims of our container runtime, and programs whose arguments name our folders."""
    own = os.getpid()
    contained = {int(line) for folder in _cgroups() for line in _lines(folder / "cgroup.procs")}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == own:
            continue
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if int(entry.name) in contained or _is_program(command, settings):
                found.append((int(entry.name), command[:120]))
    return found


def _is_program(command: str, settings: NodeSettings) -> bool:
    first, _, rest = command.partition(" ")
    if rest == f"-m aim_local.hub {settings.hub.rpartition('/')[2].replace(':', ' ')}":
        return True
    if str(settings.socket) in rest and Path(first).name.startswith("containerd-shim"):
        return True
    return f"{settings.run}/" in rest and Path(first).name in _OWN


_OWN: Final = frozenset(
    {
        "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kube-router",
        "containerd", "docker-registry",
    }
)  # fmt: skip
"""Programs of a node, by the names of their files."""


def _mounts(settings: NodeSettings) -> list[str]:
    places = (f"{settings.run}/", f"{SOCKETS}/", f"{settings.containerd}/")
    points = [line.split()[1].replace("\\040", " ") for line in _lines(Path("/proc/mounts"))]
    return [one for one in points if one.startswith(places)]


def _namespaces() -> list[Path]:
    """Those that the container runtime makes for pods."""
    return sorted(_NAMESPACES.glob("cni-*")) if _NAMESPACES.is_dir() else []


def _has_bridge(settings: NodeSettings) -> bool:
    return Path("/sys/class/net", settings.bridge).exists()


def _families() -> list[str]:
    tables = [line.split() for line in _run("nft", "list", "tables").splitlines()]
    return [words[1] for words in tables if len(words) == 3 and words[2] == _TABLE]


def _rules(tool: str) -> list[str]:
    return [line for line in _run(f"{tool}-save").splitlines() if any(one in line for one in _RULES)]


def _remove_rules(tool: str) -> None:
    if _rules(tool):
        kept = [line for line in _run(f"{tool}-save").splitlines() if not any(one in line for one in _RULES)]
        _run(f"{tool}-restore", given="\n".join([*kept, ""]))


def _sets() -> list[str]:
    """Sets of the controller of NetworkPolicies; those for IPv6 have a name of their own."""
    return [
        one
        for one in _run("ipset", "list", "-n").splitlines()
        if one.startswith(("KUBE-", "inet6:KUBE-", "kube-router-"))
    ]


def _cgroups() -> list[Path]:
    tops = [place / name for place in (CGROUPS, *_hierarchies()) for name in _GROUPS]
    return [Path(folder) for top in tops if top.is_dir() for folder, _, _ in os.walk(top)]


def _hierarchies() -> Iterable[Path]:
    return [one for one in CGROUPS.iterdir() if one.is_dir() and not one.is_symlink()] if CGROUPS.is_dir() else []


def _lines(file: Path) -> Sequence[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def _run(name: str, *arguments: str, given: str | None = None) -> str:
    """What a program of the machine prints; nothing where it is not there or fails."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if path is None:
        return ""
    ran = subprocess.run(  # noqa: S603 - names and arguments are those above
        (path, *arguments), check=False, capture_output=True, text=True, input=given
    )
    return ran.stdout if ran.returncode == 0 else ""
