"""What is on this machine that a node could leave there: two snapshots are equal where it left nothing.

It asks the kernel and its tools, and knows no name of a node's things but where a machine has too many of its own.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

Snapshot = Mapping[str, frozenset[str]]

_VOLATILE: Final = re.compile(
    r"fs/(aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota/.*|binfmt_misc/.*)"
    r"|kernel/(ns_last_pid|pty/nr|random/.*|perf_.*|sched_.*)"
    r"|net/netfilter/nf_conntrack_count"
    r"|net/ipv[46]/(conf|neigh)/(?!all/|default/|lo/).*"
)
"""Settings of the kernel that change by themselves, or belong to an interface, which is compared as such."""
_PLACES: Final = (
    "/etc", "/opt", "/run", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/rancher",
    "/var/log/containers", "/var/log/pods",
)  # fmt: skip
_UNNAMED: Final = frozenset({"/run/xtables.lock"})
"""Locks of tools, which those keep."""
_COUNTERS: Final = re.compile(r" ?\[\d+:\d+\]")


def snapshot() -> Snapshot:
    """All of it, by subject."""
    return {
        "mounts": frozenset(_mounts()),
        "links": frozenset(one.name for one in Path("/sys/class/net").iterdir()),
        "addresses": frozenset(_addresses()),
        "routes": frozenset(_run("ip", "route", "show", "table", "all")),
        "network namespaces": frozenset(_names(["/run/netns"])),
        "nftables": frozenset(_ruleset()),
        "iptables": frozenset(_rules("iptables-save")),
        "ip6tables": frozenset(_rules("ip6tables-save")),
        "ipset": frozenset(_run("ipset", "list", "-n")),
        "cgroups": frozenset(_cgroups()),
        "sysctls": frozenset(_sysctls()),
        "files": frozenset(_names(_PLACES)) - _UNNAMED,
    }


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """A line for each thing that is there now and was not, or was and is not; nothing where both are the same."""
    return [
        *(f"{subject}: + {one}" for subject in before for one in sorted(after[subject] - before[subject])),
        *(f"{subject}: - {one}" for subject in before for one in sorted(before[subject] - after[subject])),
    ]


def marked_processes(mark: str) -> dict[int, str]:
    """Processes with a folder in their PATH that was given to a command, or in a group of containers; by number.

    Programs and what they start inherit the variable; what runs in a container has a group.
    """
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            environment, groups = (entry / "environ").read_bytes(), (entry / "cgroup").read_text()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:  # it has ended
            continue
        # One that has ended, and whose parent has not noticed, has no command.
        if command and (mark.encode() in environment or "/kubepods" in groups or "/k8s.io" in groups):
            found[int(entry.name)] = command
    return found


def _mounts() -> Iterator[str]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        yield f"{words[4]} {words[words.index('-') + 1]}"


def _cgroups() -> Iterator[str]:
    """The upmost groups of each hierarchy: those further down come and go with whatever runs here."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind in {"cgroup", "cgroup2"}:
            yield from (str(one) for one in Path(place).iterdir() if one.is_dir())


def _addresses() -> Iterator[str]:
    for link in json.loads("".join(_run("ip", "-j", "address"))):
        for one in link["addr_info"]:
            yield f"{link['ifname']} {one['local']}/{one['prefixlen']}"


def _ruleset() -> Iterator[str]:
    """Tables, chains and rules without numbers that the kernel gives, and counts."""
    for one in json.loads("".join(_run("nft", "-j", "list", "ruleset")) or '{"nftables": []}')["nftables"]:
        [(kind, content)] = one.items()
        if kind != "metainfo":
            yield f"{kind} {json.dumps(_uncounted(content), sort_keys=True)}"


def _uncounted(value: object) -> object:
    if isinstance(value, dict):
        return {name: _uncounted(one) for name, one in value.items() if name not in {"handle", "packets", "bytes"}}
    return [_uncounted(one) for one in value] if isinstance(value, list) else value


def _rules(command: str) -> Iterator[str]:
    table = ""
    for line in _run(command):
        if line.startswith("*"):
            table = line
        if not line.startswith("#"):
            yield f"{table} {_COUNTERS.sub('', line)}"


def _sysctls() -> Iterator[str]:
    root = Path("/proc/sys")
    for folder, _, names in os.walk(root):
        for file in (Path(folder, name) for name in names):
            name = str(file.relative_to(root))
            if _VOLATILE.fullmatch(name) is None:
                try:
                    yield f"{name} = {file.read_text(errors='replace').strip()}"
                except OSError:  # only to be written
                    continue


def _names(places: Iterable[str]) -> Iterator[str]:
    for place in places:
        for folder, folders, files in os.walk(place):
            yield from (f"{folder}/{one}" for one in (*folders, *files))


def _run(*command: str) -> list[str]:
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return ran.stdout.splitlines()
