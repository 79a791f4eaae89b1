"""What a node leaves is found by names and places, removed, and nothing else is touched.

The machine is a folder, and its tools answer from a list; `tests/node_lifecycle` does it with a node.
"""

import json
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from aim_local.node import NodeSettings, kernel
from aim_local.node.leftovers import leftovers, remove
from aim_local.node.machine import Machine, run_program
from controller_runtime import JsonObject

BOOT = "proc/sys/kernel/random/boot_id"
FORWARD = "net/ipv4/ip_forward"
PANIC = "kernel/panic"


@dataclass
class Fake:
    """A machine.

    Attributes:
        root: its files.
        printed: what a command prints.
        ran: commands that change something.
        killed: processes that were sent a signal; they end.
    """

    root: Path
    printed: dict[str, str] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)

    @property
    def machine(self) -> Machine:
        return Machine(self.root, self.run, self.kill)

    def run(self, name: str, *arguments: str, given: str | None = None) -> str:
        command = " ".join((name, *arguments))
        if command in self.printed:
            return self.printed[command]
        if not command.endswith("-save") and "list" not in arguments:
            self.ran.append(command)
            self.given.extend([given] if given is not None else [])
        return ""

    def kill(self, pid: int, number: int) -> None:
        assert number == signal.SIGKILL
        self.killed.append(pid)
        (self.root / f"proc/{pid}/cmdline").unlink()
        for file in (self.root / "sys/fs/cgroup").rglob("cgroup.procs"):
            if file.read_text() == f"{pid}\n":
                file.unlink()

    def put(self, file: str, text: str = "") -> Path:
        path = self.root / file.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def process(self, pid: int, *command: str) -> None:
        self.put(f"proc/{pid}/cmdline", "\0".join((*command, "")))

    def ruleset(self, *objects: JsonObject) -> None:
        self.printed["nft -j list ruleset"] = json.dumps({"nftables": [{"metainfo": {}}, *objects]})

    def sysctl(self, name: str) -> str:
        return (self.root / "proc/sys" / name).read_text().strip()


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    found = NodeSettings(tmp_path / "node")
    found.folder.mkdir()
    return found


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    found = Fake(tmp_path / "root")
    found.put(BOOT, "first\n")
    for name in (FORWARD, PANIC, "net/bridge/bridge-nf-call-iptables"):
        found.put(f"proc/sys/{name}", "0\n")
    found.put("proc/sys/fs/inotify/max_user_instances", "8192\n")
    return found


def table(name: str, family: str = "ip") -> JsonObject:
    return {"table": {"family": family, "name": name}}


def chain(of: str, name: str, family: str = "ip", **more: object) -> JsonObject:
    return {"chain": {"family": family, "table": of, "name": name, "policy": "accept", **more}}


def rule(of: str, name: str) -> JsonObject:
    return {"rule": {"family": "ip", "table": of, "chain": name, "expr": []}}


def test_a_machine_without_a_node_has_nothing(fake: Fake, settings: NodeSettings) -> None:
    fake.process(7, "/usr/sbin/sshd", "-D")
    assert leftovers(settings, fake.machine) == []
    remove(settings, fake.machine)
    assert (fake.ran, fake.killed) == ([], [])


def test_programs_are_known_by_the_nodes_folder_in_their_arguments(fake: Fake, settings: NodeSettings) -> None:
    fake.process(7, "/cache/kubelet", f"--config={settings.run}/conf/kubelet.yaml")
    fake.process(8, "/cache/kubelet", "--config=/var/lib/other/kubelet.yaml")
    fake.process(9, "/usr/bin/vi", f"{settings.run}/conf/kubelet.yaml")
    fake.process(10, "/usr/bin/containerd", "-c", f"{settings.run}-other/containerd.toml")
    # A long command is cut.
    [found] = leftovers(settings, fake.machine)
    assert found.startswith("process 7: /cache/kubelet --config=")
    remove(settings, fake.machine)
    assert fake.killed == [7]


def test_parents_of_containers_are_known_by_the_runtimes_socket(fake: Fake, settings: NodeSettings) -> None:
    shim = "/usr/bin/containerd-shim-runc-v2"
    fake.process(7, shim, "-namespace", "k8s.io", "-address", "/run/aim-node/containerd.sock")
    fake.process(8, shim, "-namespace", "moby", "-address", "/run/containerd/containerd.sock")
    remove(settings, fake.machine)
    assert fake.killed == [7]


def test_the_hub_is_known_by_its_address(fake: Fake, settings: NodeSettings) -> None:
    fake.process(7, "/venv/bin/python", "-m", "aim_local.hub", "10.77.0.1", "18088")
    fake.process(8, "/venv/bin/python", "-m", "aim_local.hub", "127.0.0.1", "18088")
    remove(settings, fake.machine)
    assert fake.killed == [7]


@pytest.mark.parametrize("top", ["sys/fs/cgroup", "sys/fs/cgroup/memory"])
def test_processes_of_containers_are_known_by_their_cgroup(fake: Fake, settings: NodeSettings, top: str) -> None:
    fake.process(7, "/app", "--serve")
    fake.process(8, "/app", "--serve")
    fake.put(f"{top}/kubepods/burstable/pod1/c1/cgroup.procs", "7\n")
    fake.put(f"{top}/system/cgroup.procs", "8\n")
    found = leftovers(settings, fake.machine)
    assert "process 7: /app --serve" in found
    assert f"cgroup {fake.root / top}/kubepods/burstable/pod1/c1" in found
    assert not any("system" in one or " 8:" in one for one in found)


def test_cgroups_are_removed_from_the_deepest_up(fake: Fake, settings: NodeSettings) -> None:
    for name in ("kubepods/burstable/pod1", "kubepods/besteffort", "k8s.io/c1", "other"):
        (fake.root / "sys/fs/cgroup/cpu" / name).mkdir(parents=True)
    remove(settings, fake.machine)
    assert [one.name for one in (fake.root / "sys/fs/cgroup/cpu").iterdir()] == ["other"]


def test_mounts_of_the_nodes_folders_are_unmounted_twice_from_the_deepest_up(
    fake: Fake, settings: NodeSettings
) -> None:
    points = (
        "/", f"{settings.run}/kubelet/pods/a", f"{settings.run}/kubelet/pods/a/volumes/b\\040c",
        "/run/aim-node/containerd/x/rootfs", f"{settings.folder}-other/run/x", f"{settings.containerd}/tmp",
    )  # fmt: skip
    fake.put("proc/mounts", "".join(f"dev {one} ext4 rw 0 0\n" for one in points))
    found = [one.partition(" ")[2] for one in leftovers(settings, fake.machine)]
    assert f"{settings.run}/kubelet/pods/a/volumes/b c" in found
    assert len(found) == 4
    remove(settings, fake.machine)
    commands = [f"umount -l {one}" for one in sorted(found, reverse=True)]
    assert fake.ran == [*commands, *commands]


def test_interfaces_and_tables_go(fake: Fake, settings: NodeSettings) -> None:
    fake.put("run/netns/other")
    for name in ("aim0", "aim1", "eth0"):
        fake.put(f"sys/class/net/{name}")
    fake.printed["nft list tables"] = (
        "table ip kube-proxy\ntable ip6 kube-proxy\ntable ip aim-node\ntable inet firewall\n"
    )
    assert leftovers(settings, fake.machine) == [
        "interface aim0",
        "interface aim1",
        "nftables table ip kube-proxy",
        "nftables table ip6 kube-proxy",
        "nftables table ip aim-node",
    ]
    remove(settings, fake.machine)
    assert fake.ran == [
        "nft delete table ip kube-proxy",
        "nft delete table ip6 kube-proxy",
        "nft delete table ip aim-node",
        "ip link del aim0",
        "ip link del aim1",
    ]


SAVED = """\
*filter
:INPUT DROP [1:2]
:KUBE-FIREWALL - [0:0]
:DOCKER - [0:0]
-A INPUT -j KUBE-FIREWALL
-A INPUT -i lo -j ACCEPT
-A KUBE-FIREWALL -j DROP
COMMIT
"""


def test_rules_of_others_stay(fake: Fake, settings: NodeSettings) -> None:
    fake.printed["iptables-save"] = SAVED
    assert leftovers(settings, fake.machine) == [
        "iptables rule :KUBE-FIREWALL - [0:0]",
        "iptables rule -A INPUT -j KUBE-FIREWALL",
        "iptables rule -A KUBE-FIREWALL -j DROP",
    ]
    remove(settings, fake.machine)
    assert fake.ran == ["iptables-restore"]
    assert fake.given == [
        "*filter\n:INPUT DROP [1:2]\n:DOCKER - [0:0]\n-A INPUT -i lo -j ACCEPT\nCOMMIT\n",
    ]


def test_sets_of_policies_go(fake: Fake, settings: NodeSettings) -> None:
    names = ("KUBE-SRC-1", "inet6:KUBE-DST-2", "kube-router-local-pods", "inet6:kube-router-x", "blocked")
    fake.printed["ipset list -n"] = "\n".join(names)
    assert leftovers(settings, fake.machine) == [f"ipset {one}" for one in names[:-1]]
    remove(settings, fake.machine)
    assert fake.ran == [f"ipset destroy {one}" for one in names[:-1]]


def test_files_at_fixed_places_go_with_their_folders(fake: Fake, settings: NodeSettings) -> None:
    ours = [
        fake.put("run/containerd/s/0abc"),
        fake.put("var/lib/cni/results/aim-1-eth0"),
        fake.put("var/lib/cni/results/cni-loopback-1-lo"),
        fake.put("var/lib/kubelet/device-plugins/kubelet.sock"),
        fake.put("run/containerd/runc/k8s.io/1/state.json").parent,
    ]
    assert sorted(leftovers(settings, fake.machine)) == sorted(f"file {one}" for one in ours)
    remove(settings, fake.machine)
    assert leftovers(settings, fake.machine) == []
    assert not (fake.root / "run/containerd").exists()
    assert not (fake.root / "var/lib/cni").exists()
    assert not (fake.root / "var/lib/kubelet").exists()


def test_what_another_container_runtime_uses_stays(fake: Fake, settings: NodeSettings) -> None:
    fake.put("proc/net/unix", "Num RefCount\n0: 00000002 0 00010000 0001 01 99 /run/containerd/s/0abc\n")
    kept = [
        fake.put("run/containerd/s/0abc"),
        fake.put("run/containerd/containerd.sock"),
        fake.put("run/containerd/runc/moby/1/state.json"),
        fake.put("var/lib/cni/results/podman-1-eth0"),
    ]
    assert leftovers(settings, fake.machine) == []
    remove(settings, fake.machine)
    assert all(one.exists() for one in kept)


def test_links_to_logs_of_the_nodes_pods_go(fake: Fake, settings: NodeSettings) -> None:
    folder = fake.root / "var/log/containers"
    folder.mkdir(parents=True)
    (folder / "ours.log").symlink_to(settings.run / "pod-logs/default_a/0.log")
    (folder / "other.log").symlink_to("/var/log/pods/default_a/0.log")
    assert leftovers(settings, fake.machine) == [f"file {folder / 'ours.log'}"]
    remove(settings, fake.machine)
    assert [one.name for one in folder.iterdir()] == ["other.log"]


def test_of_the_nodes_folder_images_and_logs_stay(fake: Fake, settings: NodeSettings) -> None:
    for folder in (settings.logs, settings.containerd, settings.registry_storage, settings.run / "etcd"):
        folder.mkdir(parents=True)
    (settings.logs / "kubelet.log").touch()
    settings.kubeconfig.touch()
    (settings.run / "link").symlink_to(settings.containerd)
    remove(settings, fake.machine)
    assert [one.name for one in settings.run.iterdir()] == ["logs"]
    assert (settings.logs / "kubelet.log").exists()
    assert settings.containerd.is_dir()
    assert settings.registry_storage.is_dir()


def test_kernel_settings_are_set_and_set_back(fake: Fake, settings: NodeSettings) -> None:
    kernel.prepare(settings, fake.machine)
    fake.put(f"proc/sys/{PANIC}", "10\n")  # as the kubelet does
    assert fake.sysctl(FORWARD) == "1"
    assert {f"sysctl {FORWARD}, 0 before", f"sysctl {PANIC}, 0 before"} < set(leftovers(settings, fake.machine))
    remove(settings, fake.machine)
    assert (fake.sysctl(FORWARD), fake.sysctl(PANIC)) == ("0", "0")
    assert leftovers(settings, fake.machine) == []


def test_settings_of_before_are_those_before_the_first_of_two_starts(fake: Fake, settings: NodeSettings) -> None:
    kernel.prepare(settings, fake.machine)
    kernel.prepare(settings, fake.machine)  # after a node that was killed
    remove(settings, fake.machine)
    assert fake.sysctl(FORWARD) == "0"


def test_what_was_changed_between_two_nodes_stays(fake: Fake, settings: NodeSettings) -> None:
    kernel.prepare(settings, fake.machine)
    remove(settings, fake.machine)
    fake.put(f"proc/sys/{PANIC}", "30\n")
    kernel.prepare(settings, fake.machine)
    remove(settings, fake.machine)
    assert fake.sysctl(PANIC) == "30"


def test_a_record_holds_for_one_boot(fake: Fake, settings: NodeSettings) -> None:
    kernel.prepare(settings, fake.machine)
    fake.put(BOOT, "second\n")
    assert leftovers(settings, fake.machine) == []
    remove(settings, fake.machine)
    assert fake.sysctl(FORWARD) == "1", "set by something else since"
    kernel.prepare(settings, fake.machine)
    fake.put(f"proc/sys/{PANIC}", "10\n")
    remove(settings, fake.machine)
    assert fake.sysctl(PANIC) == "0"


def test_tables_that_iptables_made_go_once_they_are_empty(fake: Fake, settings: NodeSettings) -> None:
    fake.ruleset()
    kernel.prepare(settings, fake.machine)
    made = (table("nat"), chain("nat", "OUTPUT"), chain("nat", "KUBE-MARK", policy=None), table("mangle", "ip6"))
    fake.ruleset(*made, rule("nat", "OUTPUT"))
    assert [one for one in leftovers(settings, fake.machine) if "chain" in one] == ["nftables chain ip6 mangle"]
    fake.ruleset(*made[:2], *made[3:])
    remove(settings, fake.machine)
    assert fake.ran == [
        "nft delete chain ip nat OUTPUT",
        "nft delete table ip nat",
        "nft delete table ip6 mangle",
    ]


BEFORE: Sequence[JsonObject] = (table("nat"), chain("nat", "POSTROUTING"), table("filter"), chain("filter", "INPUT"))


def test_tables_and_chains_of_before_stay(fake: Fake, settings: NodeSettings) -> None:
    fake.ruleset(*BEFORE)
    kernel.prepare(settings, fake.machine)
    fake.ruleset(*BEFORE, chain("nat", "PREROUTING"))
    remove(settings, fake.machine)
    assert fake.ran == ["nft delete chain ip nat PREROUTING"]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((table("nat"), chain("nat", "OUTPUT"), rule("nat", "OUTPUT")), id="rules"),
        pytest.param((table("nat"), chain("nat", "OUTPUT", policy="drop")), id="policy"),
        pytest.param((table("nat"), {"chain": {"family": "ip", "table": "nat", "name": "DOCKER"}}), id="own chain"),
        pytest.param((table("firewall"),), id="own table"),
        pytest.param((table("nat", "bridge"),), id="other family"),
    ],
)
def test_what_another_program_made_meanwhile_stays(
    fake: Fake, settings: NodeSettings, objects: Sequence[JsonObject]
) -> None:
    fake.ruleset()
    kernel.prepare(settings, fake.machine)
    fake.ruleset(*objects)
    remove(settings, fake.machine)
    assert fake.ran == []


def test_without_a_record_no_table_is_removed(fake: Fake, settings: NodeSettings) -> None:
    fake.ruleset(table("nat"))
    remove(settings, fake.machine)
    assert fake.ran == []


def test_a_record_is_kept_until_all_of_it_is_set_back(fake: Fake, settings: NodeSettings) -> None:
    fake.ruleset()
    kernel.prepare(settings, fake.machine)
    fake.ruleset(table("nat"))  # and `nft delete` has no effect here
    remove(settings, fake.machine)
    assert "nftables chain ip nat" in leftovers(settings, fake.machine)
    fake.ruleset()
    remove(settings, fake.machine)
    assert list(settings.folder.iterdir()) == []


def test_a_program_that_is_missing_or_fails_prints_nothing() -> None:
    assert run_program("aim-no-such-program") == ""
    assert run_program("sh", "-c", "echo words; exit 1") == ""
    assert run_program("cat", given="words") == "words"


@dataclass
class Two:
    """A machine on which a node and its worker left something of everything.

    Attributes:
        shared: what is neither the one's nor the other's alone, and goes with the node.
    """

    fake: Fake
    node: NodeSettings
    of_node: Sequence[str]
    of_worker: Sequence[str]
    shared: Sequence[str]


@pytest.fixture
def two(fake: Fake, settings: NodeSettings) -> Two:
    worker = settings.worker
    shim = "/usr/bin/containerd-shim-runc-v2"
    links = fake.root / "var/log/containers"
    links.mkdir(parents=True)
    mounts = []
    for number, one in enumerate(settings.nodes):
        first = 10 * (number + 1)
        fake.process(first, "/cache/kube-proxy", f"--config={one.run}/conf/proxy.yaml")
        fake.process(first + 1, shim, "-namespace", "k8s.io", "-address", str(one.socket))
        fake.process(first + 2, "/app")
        fake.put(f"sys/fs/cgroup/pids/{one.cgroup}/kubepods/pod1/cgroup.procs", f"{first + 2}\n")
        fake.put(f"sys/class/net/{one.link or one.bridge}")
        mounts += [one.run / "kubelet/pods/a", one.sockets / "containerd/x/rootfs", one.containerd / "tmp"]
        (links / f"{one.name}.log").symlink_to(one.run / "pod-logs/a.log")
    mounts.append(worker.namespace)
    fake.put("proc/mounts", "".join(f"dev {one} ext4 rw 0 0\n" for one in mounts))
    fake.printed["nft list tables"] = "table ip kube-proxy\n"
    of_worker = [
        "process 20: /cache/kube-proxy", f"process 21: {shim}", "process 22: /app", f"mount {worker.run}",
        f"mount {worker.sockets}/containerd", f"mount {worker.containerd}", f"mount {worker.namespace}",
        "interface aim1", f"cgroup {fake.root}/sys/fs/cgroup/pids/aim-node-1", f"file {links}/node-1.log",
    ]  # fmt: skip
    of_node = [
        "process 10: /cache/kube-proxy", f"process 11: {shim}", "process 12: /app", f"mount {settings.run}",
        "mount /run/aim-node/containerd", f"mount {settings.containerd}", "interface aim0",
        f"cgroup {fake.root}/sys/fs/cgroup/pids/kubepods", f"file {links}/node-0.log",
    ]  # fmt: skip
    return Two(fake, settings, of_node, of_worker, ["nftables table ip kube-proxy"])


def unlike(found: Sequence[str], expected: Sequence[str]) -> list[str]:
    """What is there and not expected, and the other way."""
    more = [one for one in found if not one.startswith(tuple(expected))]
    return more + [one for one in expected if not any(line.startswith(one) for line in found)]


def test_what_is_left_of_a_worker_is_left_of_its_node_too(two: Two) -> None:
    assert unlike(leftovers(two.node.worker, two.fake.machine), two.of_worker) == []
    all_of_it = [*two.of_node, *two.of_worker, *two.shared]
    assert unlike(leftovers(two.node, two.fake.machine), all_of_it) == []


def test_a_worker_goes_and_its_node_stays(two: Two) -> None:
    worker, fake = two.node.worker, two.fake
    (worker.run / "conf").mkdir(parents=True)
    two.node.logs.mkdir(parents=True)
    two.node.kubeconfig.touch()
    worker.containerd.mkdir()
    remove(worker, fake.machine)
    assert sorted(fake.killed) == [20, 21, 22]
    unmounted = [one.removeprefix("umount -l ") for one in fake.ran if one.startswith("umount")]
    assert set(unmounted) == {
        f"{worker.run}/kubelet/pods/a", f"{worker.sockets}/containerd/x/rootfs", f"{worker.containerd}/tmp",
        str(worker.namespace),
    }  # fmt: skip
    assert fake.ran[len(unmounted) :] == ["ip link del aim1"]
    left = leftovers(two.node, fake.machine)
    assert not any(one.startswith(("process 2", f"cgroup {fake.root}/sys/fs/cgroup/pids/aim-")) for one in left)
    assert two.node.kubeconfig.exists()
    assert not worker.run.exists()
    assert worker.containerd.is_dir(), "images stay"


def test_a_node_goes_with_its_worker(two: Two) -> None:
    (two.node.worker.run / "conf").mkdir(parents=True)
    remove(two.node, two.fake.machine)
    assert sorted(two.fake.killed) == [10, 11, 12, 20, 21, 22]
    assert not two.node.worker.run.exists()
    assert {"ip link del aim0", "ip link del aim1", "nft delete table ip kube-proxy"} < set(two.fake.ran)
