"""Where a node keeps its files, and that its addresses do not collide with each other."""

from pathlib import Path

from aim_local.node import NodeSettings
from aim_local.node.settings import CLUSTER_PODS, SOCKETS


def test_the_folder_is_the_one_that_the_variable_names() -> None:
    settings = NodeSettings.from_environment({"AIM_NODE_FOLDER": "/var/tmp/n", "XDG_CACHE_HOME": "/cache"})
    assert settings.folder == Path("/var/tmp/n")


def test_a_relative_folder_becomes_absolute() -> None:
    assert NodeSettings.from_environment({"AIM_NODE_FOLDER": "n"}).folder == Path.cwd() / "n"


def test_the_folder_is_in_the_users_cache_otherwise() -> None:
    assert NodeSettings.from_environment({"XDG_CACHE_HOME": "/cache"}).folder == Path("/cache/aim-engine/node")
    assert NodeSettings.from_environment({}).folder == Path.home() / ".cache/aim-engine/node"


def test_an_empty_variable_counts_as_none() -> None:
    found = NodeSettings.from_environment({"AIM_NODE_FOLDER": "", "XDG_CACHE_HOME": ""})
    assert found.folder == Path.home() / ".cache/aim-engine/node"


def test_images_outlive_a_node_and_its_state_does_not() -> None:
    settings = NodeSettings(Path("/n"))
    assert not settings.containerd.is_relative_to(settings.run)
    assert not settings.registry_storage.is_relative_to(settings.run)
    assert settings.kubeconfig.is_relative_to(settings.run)


def test_the_path_of_the_runtimes_socket_is_short_wherever_the_folder_is() -> None:
    # The kernel takes 107 bytes, and containers' parents make their own below it.
    assert NodeSettings(Path("/n" * 60)).socket == SOCKETS / "containerd.sock"


def test_addresses_follow_the_networks() -> None:
    settings = NodeSettings(Path("/n"))
    assert settings.address in settings.pods
    assert {settings.dns, settings.kubernetes_service} <= set(list(settings.services)[:16])
    assert settings.dns != settings.kubernetes_service
    assert not settings.pods.overlaps(settings.services)
    assert (settings.server, settings.registry) == ("https://10.77.0.1:6443", "10.77.0.1:5000")


def test_a_worker_shares_nothing_with_the_node_but_its_control_plane() -> None:
    node = NodeSettings(Path("/n"))
    worker = node.worker
    assert worker.nodes == (worker,)
    assert node.nodes == (node, worker)
    own = [(one.name, one.address, one.run, one.containerd, one.socket, one.cgroup) for one in node.nodes]
    assert all(len(set(values)) == 2 for values in zip(*own, strict=True))
    shared = [(one.server, one.registry, one.hub, one.dns, one.logs) for one in node.nodes]
    assert len(set(shared)) == 1


def test_addresses_of_a_worker_are_of_the_cluster_and_its_own() -> None:
    node = NodeSettings(Path("/n"))
    worker = node.worker
    assert worker.address in worker.pods
    assert not worker.pods.overlaps(node.pods)
    assert all(one.pods.subnet_of(CLUSTER_PODS) for one in node.nodes)
    assert not CLUSTER_PODS.overlaps(node.services)


def test_programs_of_a_worker_carry_its_name() -> None:
    node = NodeSettings(Path("/n"))
    assert [one.program("kubelet") for one in node.nodes] == ["kubelet", "kubelet-node-1"]
