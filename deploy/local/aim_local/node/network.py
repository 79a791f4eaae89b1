"""Networks of the machine's nodes: a bridge that joins the pods of each, and the namespace of a worker.

    pods - aim0 10.77.0.1 - aim1 = uplink 10.77.1.1 - aim0 - pods
           machine               | namespace of the worker

The machine routes between the two, so pods see each other's own addresses; what leaves the cluster is masqueraded.
"""

import subprocess
from typing import Final

from aim_local.node.machine import THIS, Machine
from aim_local.node.requirements import NodeError, program
from aim_local.node.settings import CLUSTER_PODS, NodeSettings

TABLE: Final = "aim-node"
"""Of nftables, with the rule about what leaves the cluster."""
_UPLINK: Final = "uplink"
"""The worker's end of the pair of interfaces."""
_MASQUERADE: Final = f"""\
table ip {TABLE} {{
  chain leaving {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {CLUSTER_PODS} ip daddr != {{ {CLUSTER_PODS}, 224.0.0.0/4 }} masquerade
  }}
}}
"""
_SYSCTLS: Final = ("net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")


def make_bridge(settings: NodeSettings) -> None:
    """Make the bridge, which carries the node's address before a pod uses it: nothing depends on the machine's.

    Raises:
        NodeError: the machine refuses it.
    """
    _run("nft", "-f", "-", given=_MASQUERADE)
    _bridge(settings)


def make_namespace(worker: NodeSettings) -> None:
    """Make the network namespace of a worker, its bridge, and a route each way.

    The file that names it is a mount below the sockets of the node, so it goes with the other mounts: `ip netns add`
    would leave one on its folder.

    Raises:
        NodeError: the machine refuses it.
    """
    namespace = worker.namespace
    namespace.parent.mkdir(parents=True, exist_ok=True)
    namespace.touch()
    _run("unshare", f"--net={namespace}", "true")
    _run("ip", "link", "add", worker.link, "type", "veth", "peer", "name", _UPLINK, "netns", str(namespace))
    for setting in _SYSCTLS:
        _inside(worker, "busybox", "sysctl", "-w", setting)
    _inside(worker, "ip", "link", "set", "lo", "up")
    _bridge(worker)
    address = str(worker.address)
    _inside(worker, "ip", "addr", "add", f"{address}/32", "dev", _UPLINK)
    _inside(worker, "ip", "link", "set", _UPLINK, "up")
    control = str(worker.control)
    # Both ends answer for addresses that lie on their bridges.
    _inside(worker, "ip", "route", "add", control, "dev", _UPLINK, "src", address)
    _inside(worker, "ip", "route", "add", "default", "via", control, "dev", _UPLINK, "onlink", "src", address)
    set_link(worker, "up")


def make_cgroups(worker: NodeSettings, machine: Machine = THIS) -> None:
    """Make the group of a worker in each hierarchy: its kubelet makes its own below, and demands that one."""
    top = machine.path("/sys/fs/cgroup")
    controllers = top / "cgroup.controllers"
    if controllers.exists():
        given = controllers.read_text(encoding="ascii").split()
        (top / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in given), encoding="ascii")
        hierarchies = [top]
    else:
        hierarchies = [one for one in top.iterdir() if one.is_dir() and not one.is_symlink()]
    for one in hierarchies:
        (one / worker.cgroup.lstrip("/")).mkdir(exist_ok=True)


def set_link(worker: NodeSettings, state: str) -> None:
    """Bring the machine's end of a worker's link `up` or `down`; the route to its pods comes back with it.

    Raises:
        NodeError: there is no such link.
    """
    _run("ip", "link", "set", worker.link, state)
    if state == "up":
        way = ("via", str(worker.address), "dev", worker.link, "onlink", "src", str(worker.control))
        _run("ip", "route", "replace", str(worker.pods), *way)


def _bridge(settings: NodeSettings) -> None:
    address = f"{settings.address}/{settings.pods.prefixlen}"
    for words in (
        ("link", "add", settings.bridge, "type", "bridge"),
        ("addr", "add", address, "dev", settings.bridge),
        ("link", "set", settings.bridge, "up"),
    ):
        _inside(settings, "ip", *words)


def _inside(settings: NodeSettings, name: str, *arguments: str) -> None:
    """Run a program in the network of a node."""
    if settings.is_worker:
        _run("nsenter", f"--net={settings.namespace}", "--", program(name), *arguments)
    else:
        _run(name, *arguments)


def _run(name: str, *arguments: str, given: str | None = None) -> None:
    command = (program(name), *arguments)
    ran = subprocess.run(command, check=False, capture_output=True, text=True, input=given)  # noqa: S603
    if ran.returncode:
        raise NodeError(
            f"network not made: `{name} {' '.join(arguments)}` says {ran.stderr.strip()}; "
            "the machine has to allow network interfaces (capability NET_ADMIN)"
        )
