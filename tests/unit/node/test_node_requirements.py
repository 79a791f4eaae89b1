"""What a machine must have: each thing that is missing is named with a remedy."""

import os
import re
import socket
import sys
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from aim_local.node import NodeError, NodeSettings
from aim_local.node.machine import Machine
from aim_local.node.requirements import (
    PROCESSOR,
    install_packages,
    missing_packages,
    program,
    require_free_ports,
    require_linux_and_root,
    require_machine,
)


def processor(name: str) -> os.uname_result:
    return os.uname_result(("Linux", "node", "6.1", "1", name))


@pytest.fixture
def settings(tmp_path: Path) -> NodeSettings:
    return NodeSettings(tmp_path / "node")


@pytest.fixture
def machine(tmp_path: Path, installed: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One that can run a node; a test takes something away."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "uname", lambda: processor(PROCESSOR))
    root = tmp_path / "root"
    for file, text in {
        "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids",
        "proc/filesystems": "nodev\tsysfs\n\text4\nnodev\toverlay\n",
        "proc/mounts": "/dev/vda / ext4 rw 0 0\n",
        "proc/sys/net/bridge/bridge-nf-call-iptables": "0",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    return Machine(root)


def refusal(settings: NodeSettings, machine: Machine) -> str:
    with pytest.raises(NodeError) as caught:
        require_machine(settings, machine)
    said = str(caught.value)
    assert re.fullmatch(r"[^:;\n]+: [^;\n]+; .+", said), "<object> <state>: <cause>; <remedy>"
    return said


def test_a_machine_with_everything_is_accepted(settings: NodeSettings, machine: Machine) -> None:
    require_machine(settings, machine)


def test_another_system_than_linux(settings: NodeSettings, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert refusal(settings, machine) == (
        "node unavailable: a kubelet runs on Linux, this is darwin; use CLUSTER=embedded or real"
    )


def test_another_user_than_root(settings: NodeSettings, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "run it as root" in refusal(settings, machine)
    with pytest.raises(NodeError, match="need root"):
        require_linux_and_root()


def test_another_processor_is_refused_before_anything_is_built(
    settings: NodeSettings, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: processor("aarch64"))
    assert refusal(settings, machine) == (
        "node unavailable: the images of its registry are for x86_64, this processor is aarch64; "
        "use CLUSTER=embedded or real"
    )


def test_programs_are_named_by_their_packages(settings: NodeSettings, machine: Machine, installed: Path) -> None:
    for name in ("containerd", "ctr", "ip"):
        (installed / name).unlink()
    said = refusal(settings, machine)
    assert said.startswith("packages containerd, iproute2 missing: ")
    assert said.endswith("run `make node-assets`, or `apt-get install containerd iproute2`")


def test_network_plugins_count_only_together(settings: NodeSettings, machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "cni" / "portmap").unlink()
    assert missing_packages() == ["containernetworking-plugins"]
    assert "containernetworking-plugins" in refusal(settings, machine)


def test_a_program_is_found_beside_the_path(installed: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "usr-sbin"
    elsewhere.mkdir()
    (installed / "nft").rename(elsewhere / "nft")
    assert program("nft") == str(elsewhere / "nft")
    assert missing_packages() == []


def test_packages_are_installed_by_apt_alone(installed: Path) -> None:
    assert install_packages() == []
    (installed / "runc").unlink()
    with pytest.raises(NodeError, match="packages runc missing: there is no apt-get here"):
        install_packages()


def test_what_is_missing_is_installed(installed: Path) -> None:
    (installed / "runc").unlink()
    apt(installed, f': > "{installed}/said"; echo "$@" >> "{installed}/said"')
    assert install_packages() == ["runc"]
    assert (installed / "said").read_text() == "install -y -q --no-install-recommends runc\n"


def test_why_apt_failed_is_quoted(installed: Path) -> None:
    (installed / "runc").unlink()
    apt(installed, "echo Reading >&2; echo 'E: Unable to locate package runc' >&2; exit 100")
    with pytest.raises(NodeError, match=r"not installed: E: Unable to locate package runc; run `apt-get install"):
        install_packages()


def apt(folder: Path, script: str) -> None:
    (folder / "apt-get").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "apt-get").chmod(0o755)


def test_a_controller_of_cgroups(settings: NodeSettings, machine: Machine) -> None:
    machine.path("/sys/fs/cgroup/cgroup.controllers").write_text("cpuset cpu io")
    said = refusal(settings, machine)
    assert said.startswith("cgroups incomplete: ")
    assert "has no controller memory, pids;" in said


def test_hierarchies_of_version_1_are_enough(settings: NodeSettings, machine: Machine) -> None:
    top = machine.path("/sys/fs/cgroup")
    (top / "cgroup.controllers").unlink()
    for name in ("cpu", "memory", "pids"):
        (top / name).mkdir()
    require_machine(settings, machine)


def test_cgroups_that_cannot_be_written(
    settings: NodeSettings, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    assert refusal(settings, machine).startswith("cgroups read-only: ")


def test_the_overlay_file_system(settings: NodeSettings, machine: Machine) -> None:
    machine.path("/proc/filesystems").write_text("nodev\tsysfs\nnodev\toverlayfs2\n")
    assert refusal(settings, machine) == (
        "overlay file system missing: containers are mounted with it; run `modprobe overlay`"
    )


@pytest.mark.parametrize("kind", ["overlay", "nfs4"])
def test_a_folder_on_which_overlay_cannot_be_mounted(settings: NodeSettings, machine: Machine, kind: str) -> None:
    machine.path("/proc/mounts").write_text(f"/dev/vda / ext4 rw 0 0\nx {settings.folder.parent} {kind} rw 0 0\n")
    said = refusal(settings, machine)
    assert said.startswith(f"folder {settings.folder} unusable: it lies on {kind},")
    assert "AIM_NODE_FOLDER" in said


def test_the_last_of_two_mounts_at_one_place_counts(settings: NodeSettings, machine: Machine) -> None:
    machine.path("/proc/mounts").write_text("rootfs / rootfs rw 0 0\noverlay / overlay rw 0 0\n")
    assert "lies on overlay" in refusal(settings, machine)


def test_a_mount_beside_the_folder_does_not_count(settings: NodeSettings, machine: Machine) -> None:
    beside = settings.folder.with_name("nod")  # begins as the folder does
    machine.path("/proc/mounts").write_text(f"/dev/vda / ext4 rw 0 0\nx {beside} overlay rw 0 0\n")
    require_machine(settings, machine)


def test_the_filter_of_bridges(settings: NodeSettings, machine: Machine) -> None:
    machine.path("/proc/sys/net/bridge/bridge-nf-call-iptables").unlink()
    assert refusal(settings, machine).endswith("run `modprobe br_netfilter`")


def test_a_port_in_use_is_named_with_what_needs_it() -> None:
    settings = NodeSettings(Path("/n"), address=IPv4Address("127.0.0.1"))
    with socket.socket() as other:
        other.bind((str(settings.address), 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(NodeError) as caught:
            require_free_ports(settings, {port: "kubelet"})
        assert str(caught.value) == (
            f"port {port} of 127.0.0.1 in use: another process listens on it, where kubelet has to; "
            f"find it with `ss -ltnp 'sport = :{port}'` and stop it (Address already in use)"
        )
    require_free_ports(settings, {port: "kubelet"})
