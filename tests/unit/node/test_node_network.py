"""Groups of a second node; its network is in tests/node_lifecycle."""

from pathlib import Path

import pytest

from aim_local.node import NodeSettings
from aim_local.node.machine import Machine
from aim_local.node.network import make_cgroups


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    found = tmp_path / "sys/fs/cgroup"
    found.mkdir(parents=True)
    return found


def test_a_worker_has_a_group_in_each_hierarchy(groups: Path, tmp_path: Path) -> None:
    for name in ("cpu", "memory", "unified"):
        (groups / name).mkdir()
    (groups / "cpu,cpuacct").symlink_to(groups / "cpu")
    worker = NodeSettings(Path("/n")).worker
    make_cgroups(worker, Machine(tmp_path))
    make_cgroups(worker, Machine(tmp_path))  # after one that was killed
    assert sorted(one.parent.name for one in groups.glob("*/aim-node-1")) == ["cpu", "cpu,cpuacct", "memory", "unified"]


def test_in_the_unified_hierarchy_it_has_the_controllers(groups: Path, tmp_path: Path) -> None:
    (groups / "cgroup.controllers").write_text("cpuset cpu memory pids\n")
    make_cgroups(NodeSettings(Path("/n")).worker, Machine(tmp_path))
    assert (groups / "cgroup.subtree_control").read_text() == "+cpuset +cpu +memory +pids"
    assert (groups / "aim-node-1").is_dir()
