"""What a node changes of the kernel: settings, and the tables that iptables makes. Recorded before, restored after.

Unlike processes, mounts and rules these bear no name of a node, so a record in the node's folder says what was there
before. It outlives a node that was killed, and holds for one boot.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from aim_local.node.machine import THIS, Machine
from aim_local.node.settings import NodeSettings
from controller_runtime import JsonObject

_NEEDED: Final = {
    "net/ipv4/ip_forward": "1",
    "net/bridge/bridge-nf-call-iptables": "1",
    "fs/inotify/max_user_instances": "8192",
}
"""What the node sets, by path below /proc/sys."""
_CHANGED: Final = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait",
    "net/netfilter/nf_conntrack_tcp_timeout_established",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
"""What kubelet and kube-proxy set."""
_FAMILIES: Final = frozenset({"ip", "ip6"})
_TABLES: Final = frozenset({"filter", "mangle", "nat", "raw", "security"})
"""Those that iptables keeps in nftables; it makes a table with its chains when a first rule is added, and no command
of it removes them."""


def prepare(settings: NodeSettings, machine: Machine = THIS) -> None:
    """Record what there is before a node changes it, and set what the node needs."""
    file = _file(settings)
    if not _record(settings, machine):
        sysctls = {name: value for name in (*_NEEDED, *_CHANGED) if (value := _value(name, machine)) is not None}
        chains = [list(one) for one in _chains(_ruleset(machine))]
        record = {"boot": _boot(machine), "sysctls": sysctls, "chains": chains}
        # As a whole or not at all: a part would lose what there was.
        partial = file.with_suffix(".partial")
        partial.write_text(json.dumps(record), encoding="utf-8")
        partial.rename(file)
    for name, value in _NEEDED.items():
        if _value(name, machine) != value:
            _sysctl(name, machine).write_text(value, encoding="ascii")


def changed_sysctls(settings: NodeSettings, machine: Machine = THIS) -> dict[str, str]:
    """The value before of each kernel setting that has another one now."""
    before: dict[str, str] = _record(settings, machine).get("sysctls", {})
    return {name: value for name, value in before.items() if _value(name, machine) not in {value, None}}


def new_chains(settings: NodeSettings, machine: Machine = THIS) -> list[tuple[str, str, str]]:
    """Family, table and name of iptables' chains that were not there before and have no rule; a table's last is "".

    A chain with rules belongs to another program: those of a node are removed before.
    """
    record = _record(settings, machine)
    if not record:
        return []
    ruleset = _ruleset(machine)
    before = {(family, table, name) for family, table, name in record["chains"]}
    used = {(one["family"], one["table"], one["chain"]) for one in _objects(ruleset, "rule")}
    found = [
        (family, table, name)
        for family, table, name in _chains(ruleset)
        if (family, table, name) not in before | used and (not name or _is_plain(ruleset, family, table, name))
    ]
    kept = {(family, table) for family, table, name in _chains(ruleset) if name and (family, table, name) not in found}
    return [one for one in found if one[2] or one[:2] not in kept]


def restore(settings: NodeSettings, machine: Machine = THIS) -> None:
    """Set back what was changed, and forget the record."""
    for name, value in changed_sysctls(settings, machine).items():
        _sysctl(name, machine).write_text(value, encoding="ascii")
    for family, table, name in new_chains(settings, machine):
        if name:
            machine.run("nft", "delete", "chain", family, table, name)
        else:
            machine.run("nft", "delete", "table", family, table)
    if not changed_sysctls(settings, machine) and not new_chains(settings, machine):
        _file(settings).unlink(missing_ok=True)


def _file(settings: NodeSettings) -> Path:
    return settings.folder / "before.json"


def _record(settings: NodeSettings, machine: Machine) -> JsonObject:
    """What was there before; empty where no node has started since the machine has."""
    try:
        record: JsonObject = json.loads(_file(settings).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if record.get("boot") == _boot(machine) else {}


def _boot(machine: Machine) -> str:
    return "".join(machine.lines("/proc/sys/kernel/random/boot_id"))


def _sysctl(name: str, machine: Machine) -> Path:
    return machine.path("/proc/sys") / name


def _value(name: str, machine: Machine) -> str | None:
    """The value of a setting; None where the kernel has no such setting."""
    try:
        return _sysctl(name, machine).read_text(encoding="ascii").strip()
    except OSError:
        return None


def _ruleset(machine: Machine) -> list[JsonObject]:
    printed = machine.run("nft", "-j", "list", "ruleset")
    found: list[JsonObject] = json.loads(printed)["nftables"] if printed else []
    return found


def _objects(ruleset: Iterable[JsonObject], kind: str) -> Iterator[JsonObject]:
    return (one[kind] for one in ruleset if kind in one and one[kind]["family"] in _FAMILIES)


def _chains(ruleset: list[JsonObject]) -> list[tuple[str, str, str]]:
    """Family, table and name of each chain of iptables' tables, and of each table, whose name is "", after them."""
    chains = [(one["family"], one["table"], one["name"]) for one in _objects(ruleset, "chain")]
    tables = [(one["family"], one["name"], "") for one in _objects(ruleset, "table")]
    return [one for one in (*chains, *tables) if one[1] in _TABLES]


def _is_plain(ruleset: list[JsonObject], family: str, table: str, name: str) -> bool:
    """Whether it is a chain as iptables makes one: called by the kernel, and lets everything pass."""
    return any(
        (one["family"], one["table"], one["name"]) == (family, table, name) and one.get("policy") == "accept"
        for one in _objects(ruleset, "chain")
    )
