"""A node ends, however it ended, and the machine is as it was before; it needs the machine's only node and root.

Nothing else that makes mounts, interfaces or rules may run meanwhile: the whole machine is compared.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.machine_snapshot import Snapshot, differences, marked_processes, snapshot

from aim_local.assets import AssetError
from aim_local.node import Node, NodeError, NodeSettings
from aim_local.node.images import HELPER
from aim_local.node.leftovers import leftovers
from controller_runtime import JsonObject

pytestmark = pytest.mark.timeout(900)

OF_A_KERNEL = {
    "kernel/panic": "0",
    "kernel/panic_on_oops": "0",
    "net/ipv4/ip_forward": "0",
    "net/netfilter/nf_conntrack_tcp_timeout_close_wait": "60",
    "net/netfilter/nf_conntrack_tcp_timeout_established": "432000",
    "vm/overcommit_memory": "0",
}
"""Settings that a node changes, as they are where none has run."""
_HOST = "kubernetes.io/hostname"
CORE = ("kubelet", "containerd", "kube-apiserver")


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine with a node that may be there.

    Attributes:
        node: what runs on it.
        mark: a folder in the PATH of all commands, by which their processes are known.
        before: what there was without a node.
    """

    node: Node
    mark: str
    before: Snapshot

    def command(self, *words: str) -> subprocess.Popen[str]:
        """Start a command of the node."""
        return subprocess.Popen(
            (sys.executable, "-m", "aim_local.node", *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PATH": f"{os.environ['PATH']}:{self.mark}"},
        )

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints, once it has ended with this exit code."""
        with self.command(*words) as process:
            said, _ = process.communicate(timeout=600)
        assert process.returncode == code, said
        return said

    def up(self, *, worker: bool = False) -> None:
        """Start the node, and a pod with a volume, behind a Service and a policy; on a second node where wished."""
        self.run("up")
        assert marked_processes(self.mark), "else nothing below shows anything"
        if worker:
            self.run("add-worker")
        self.node.apply_objects(pod_with_volume("node-1" if worker else "node-0"))
        self.node.kubectl("wait", "--for=condition=Ready", "pod/writer", "--timeout=180s")
        said = self.node.kubectl("exec", "writer", "--", "/bin/sh", "-c", "read words < /data/file; echo $words")
        assert said == "words\n"
        wait_for(lambda: [] if worker or has_rules() else ["no rule of the policy"])

    def kill_all(self) -> None:
        """Kill every process of the node, until none is left that starts another one."""

        def alive() -> list[str]:
            found = marked_processes(self.mark)
            for pid in found:
                kill(pid)
            return list(found.values())

        wait_for(alive)

    def assert_as_before(self) -> None:
        """Nothing of a node is there; the kernel may take a moment for interfaces."""
        assert leftovers(self.node.settings) == []
        assert marked_processes(self.mark) == {}
        wait_for(lambda: differences(self.before, snapshot()))
        kept = [one.name for one in self.node.settings.run.iterdir()]
        assert kept == ["logs"]


def pod_with_volume(node: str = "node-0") -> list[JsonObject]:
    labels = {"app": "writer"}
    container: JsonObject = {
        "name": "main",
        "image": HELPER,
        # Waits for words that never come; the image has nothing else that waits.
        "command": ["/bin/sh", "-c", "echo words > /data/file && read never"],
        "stdin": True,
        "securityContext": {"runAsUser": 0},
        "readinessProbe": {"exec": {"command": ["/bin/sh", "-c", "read words < /data/file"]}, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "memory", "mountPath": "/memory"}],
    }
    volumes: list[JsonObject] = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    ]
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    policy = {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}
    specs: dict[tuple[str, str, str], JsonObject] = {
        ("v1", "PersistentVolumeClaim", "data"): claim,
        ("v1", "Pod", "writer"): {"containers": [container], "volumes": volumes, "nodeSelector": {_HOST: node}},
        ("v1", "Service", "writer"): {"selector": labels, "ports": [{"port": 80}]},
        ("networking.k8s.io/v1", "NetworkPolicy", "writer"): policy,
    }
    return [
        {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "default", "labels": labels}}
        | {"spec": spec}
        for (version, kind, name), spec in specs.items()
    ]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """The machine without a node, with settings as a kernel has them; at the end of a test no node is there either."""
    try:
        node = Node(NodeSettings.from_environment(), print)
    except (NodeError, AssetError) as error:
        pytest.exit(str(error), returncode=1)
    if found := leftovers(node.settings):
        pytest.exit(
            f"node present: these tests need the machine's only one, and found {found[0]}; run `make node-down`"
        )
    files = {Path("/proc/sys", name): value for name, value in OF_A_KERNEL.items()}
    kept = {file: file.read_text() for file in files}
    for file, value in files.items():
        file.write_text(value)
    try:
        yield Machine(node, str(tmp_path), snapshot())
    finally:
        node.stop()
        for file, value in kept.items():
            file.write_text(value)


def test_after_down_the_machine_is_as_before(machine: Machine) -> None:
    machine.up()
    refused = machine.run("up", code=1)
    assert refused == "node: node node-0 running already; use it, or end it with `make node-down`\n"
    machine.node.kubectl("get", "pod", "writer")

    assert machine.run("down").endswith("the node has ended, and left nothing\n")
    machine.assert_as_before()
    assert machine.run("down").endswith("the node has ended, and left nothing\n"), "twice does no harm"
    machine.assert_as_before()


def test_after_kubelet_runtime_and_api_server_were_killed_down_removes_the_rest(machine: Machine) -> None:
    machine.up()
    for name in CORE:
        machine.node.daemons.signal(name, signal.SIGKILL)
    wait_for(lambda: [name for name in CORE if machine.node.daemons.pid(name) is not None])

    machine.run("down")
    machine.assert_as_before()


def test_after_everything_was_killed_up_and_down_work(machine: Machine) -> None:
    with machine.command("up") as starter:
        # Containers run from here on, and the start is not over.
        assert starter.stdout is not None
        for line in starter.stdout:
            if re.match(r"node +[0-9.]+ s$", line):
                break
        else:
            pytest.fail("it ended without a node")
        starter.kill()
        machine.kill_all()
    assert leftovers(machine.node.settings), "a killed node leaves something"

    machine.up()
    machine.kill_all()
    assert any(one.startswith("mount ") for one in leftovers(machine.node.settings))
    machine.run("down")
    machine.assert_as_before()


def test_a_worker_goes_alone_and_with_its_node(machine: Machine) -> None:
    machine.up(worker=True)
    refused = machine.run("add-worker", code=1)
    assert refused == "node: node-1 running already; use it, or end both with `make node-down`\n"
    machine.run("remove-worker")
    assert leftovers(machine.node.settings.worker) == []
    assert machine.node.kubectl("get", "nodes", "-o", "name") == "node/node-0\n"
    wait_for(lambda: machine.node.kubectl("get", "pods", "-n", "default", "-o", "name").split())

    machine.run("add-worker")
    machine.run("down")
    machine.assert_as_before()


def test_after_a_node_and_its_worker_were_killed_down_removes_the_rest(machine: Machine) -> None:
    machine.up(worker=True)
    machine.kill_all()
    assert "interface aim1" in leftovers(machine.node.settings.worker)
    machine.run("down")
    machine.assert_as_before()


def test_a_node_does_not_start_where_a_port_is_taken(machine: Machine) -> None:
    with subprocess.Popen((sys.executable, "-m", "http.server", "6443", "--bind", "0.0.0.0")) as other:
        try:
            wait_for(lambda: [] if listens(6443) else ["the other server does not listen"])
            said = machine.run("up", code=1)
        finally:
            other.kill()
    assert said == (
        "node: port 6443 of 10.77.0.1 in use: another process listens on it, where kube-apiserver has to; "
        "find it with `ss -ltnp 'sport = :6443'` and stop it (Address already in use)\n"
    )
    machine.assert_as_before()


def has_rules() -> bool:
    """Whether a policy has rules on this machine; those of a second node are in its network."""
    return any("KUBE-" in one for one in snapshot()["iptables"])


def listens(port: int) -> bool:
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(words[1].endswith(f":{port:04X}") and words[3] == "0A" for words in sockets)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
        os.kill(pid, signal.SIGKILL)


def wait_for(missing: Callable[[], list[str]], seconds: float = 60) -> None:
    """Wait until nothing is missing; else the test fails with what is."""
    deadline = time.monotonic() + seconds
    while found := missing():
        assert time.monotonic() < deadline, "\n".join(found)
        time.sleep(0.2)
