"""Which programs of a node can be restarted, and when."""

from pathlib import Path

import pytest

from aim_local.assets import Program, Toolset
from aim_local.assets.cache import Cache
from aim_local.node import Node, NodeError, NodeSettings


@pytest.fixture
def node(tmp_path: Path) -> Node:
    toolset = Toolset(Cache(tmp_path / "cache"), tmp_path)
    return Node(NodeSettings(tmp_path / "node"), print, toolset)


@pytest.mark.parametrize(
    "name",
    [
        "registry",
        "hub",
        "containerd",
        Program.ETCD,
        Program.APISERVER,
        Program.KUBELET,
        Program.KUBE_PROXY,
        "kubelet-node-1",
    ],
)
def test_without_a_node_nothing_is_restarted(node: Node, name: str) -> None:
    with pytest.raises(NodeError, match=f"{name} not restarted: the node is not running; start it with"):
        node.restart(name)


def test_what_is_no_program_of_a_node_is_refused_with_those_that_are(node: Node) -> None:
    known = "name one of containerd, containerd-node-1, etcd, hub, .*kubelet-node-1, registry"
    with pytest.raises(NodeError, match=f"nginx unknown: the node has no such program; {known}"):
        node.restart("nginx")


def test_a_worker_without_a_node_is_not_started(node: Node) -> None:
    with pytest.raises(NodeError, match="node-1 not started: there is no node; start it with `make node`"):
        node.add_worker()
