"""Arguments and configuration files of a node's programs, as far as something depends on them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from aim_local.assets import Program, Toolset
from aim_local.assets.cache import Cache
from aim_local.node import NodeSettings
from aim_local.node import programs as of_node
from aim_local.node.daemons import Daemon
from aim_local.node.keys import FRONT_PROXY, Keys
from aim_local.node.platform import node_values
from aim_local.node.programs import MIRRORED, Programs
from aim_local.ports import free_port
from aim_packaging.values import Values


@pytest.fixture
def programs(tmp_path: Path, installed: Path) -> Programs:
    """Those of the node with the control plane."""
    given = tmp_path / "given"
    given.mkdir()
    for one in Program:
        (given / one).touch()
    settings = NodeSettings(tmp_path / "node")
    made = Programs(settings, Toolset(Cache(tmp_path / "cache"), given), Keys(settings.run / "keys", settings))
    made.keys.write()
    return made


@pytest.fixture
def worker(programs: Programs) -> Programs:
    """Those of the second node."""
    return replace(programs, settings=programs.settings.worker)


def flags(daemon: Daemon) -> dict[str, str]:
    # The last of each name: a program in a network namespace follows those of nsenter.
    pairs = [word.removeprefix("--").partition("=") for word in daemon.command[1:]]
    return {name: value for name, _, value in pairs}


def file(daemon: Daemon) -> dict[str, object]:
    """The configuration that a program is given."""
    found: dict[str, object] = yaml.safe_load(Path(flags(daemon)["config"]).read_text())
    return found


def all_of_them(programs: Programs) -> list[Daemon]:
    return [
        programs.registry(), programs.hub(), programs.etcd(), programs.apiserver(), programs.controller_manager(),
        programs.scheduler(), programs.containerd(), programs.kubelet(), programs.proxy(), programs.policies(),
    ]  # fmt: skip


def test_each_program_but_the_hub_is_known_by_the_nodes_folder(programs: Programs) -> None:
    # That is how leftovers are found.
    for one in all_of_them(programs):
        assert one.name == "hub" or f"{programs.settings.run}/" in " ".join(one.command), one.name


def test_each_program_has_a_name_of_its_own(programs: Programs) -> None:
    names = [one.name for one in all_of_them(programs)]
    assert len(set(names)) == len(names)


def test_kubelets_may_touch_only_what_is_theirs(programs: Programs) -> None:
    found = flags(programs.apiserver())
    assert found["authorization-mode"] == "Node,RBAC"
    assert "NodeRestriction" in found["enable-admission-plugins"].split(",")
    kubeconfig = flags(programs.kubelet())["kubeconfig"]
    assert kubeconfig == str(programs.keys.kubeconfig("system:node:node-0"))


def test_requests_are_in_the_audit_log(programs: Programs) -> None:
    found = flags(programs.apiserver())
    assert found["audit-log-path"] == str(programs.settings.logs / "audit.log")
    assert yaml.safe_load(Path(found["audit-policy-file"]).read_text())["kind"] == "Policy"


def test_pods_can_add_apis(programs: Programs) -> None:
    found = flags(programs.apiserver())
    # The API server reaches them at their pods, and says with its certificate for whom it asks.
    assert found["enable-aggregator-routing"] == "true"
    assert found["requestheader-client-ca-file"] == found["client-ca-file"]
    assert found["requestheader-allowed-names"] == FRONT_PROXY
    assert found["proxy-client-cert-file"] == str(programs.keys.file(f"{FRONT_PROXY}.crt"))
    assert found["proxy-client-key-file"] == str(programs.keys.file(f"{FRONT_PROXY}.key"))


def test_the_api_server_listens_where_pods_reach_it(programs: Programs) -> None:
    found = flags(programs.apiserver())
    assert (found["bind-address"], found["advertise-address"]) == ("10.77.0.1", "10.77.0.1")
    assert found["secure-port"] == "6443"
    assert flags(programs.controller_manager())["bind-address"] == "127.0.0.1"
    assert flags(programs.scheduler())["bind-address"] == "127.0.0.1"


def test_the_kubelet_verifies_who_asks(programs: Programs) -> None:
    found = file(programs.kubelet())
    assert found["authentication"] == {
        "anonymous": {"enabled": False},
        "webhook": {"enabled": True},
        "x509": {"clientCAFile": str(programs.keys.file("ca.crt"))},
    }
    assert found["authorization"] == {"mode": "Webhook"}


def test_the_kubelet_keeps_everything_in_the_nodes_folder(programs: Programs) -> None:
    found, given = file(programs.kubelet()), flags(programs.kubelet())
    run = programs.settings.run
    for place in (found["podLogsDir"], given["root-dir"], given["cert-dir"]):
        assert Path(str(place)).is_relative_to(run)
    assert found["containerRuntimeEndpoint"] == f"unix://{programs.settings.socket}"


def test_kubelet_and_runtime_use_the_same_driver_of_cgroups(programs: Programs) -> None:
    assert file(programs.kubelet())["cgroupDriver"] == "cgroupfs"
    assert "SystemdCgroup = false" in containerd(programs)


def containerd(programs: Programs) -> str:
    return Path(programs.containerd().command[-1]).read_text()


def of_a_worker(worker: Programs) -> list[Daemon]:
    return [worker.containerd(), worker.kubelet(), worker.proxy(), worker.policies()]


def test_programs_of_a_worker_run_in_its_network_under_names_of_their_own(
    programs: Programs, worker: Programs, installed: Path
) -> None:
    found = of_a_worker(worker)
    assert [one.name for one in found] == [
        "containerd-node-1", "kubelet-node-1", "kube-proxy-node-1", "kube-router-node-1",
    ]  # fmt: skip
    for one in found:
        assert one.command[:3] == (str(installed / "nsenter"), "--net=/run/aim-node/node-1/net", "--")
    assert all("nsenter" not in one.command[0] for one in all_of_them(programs))


def test_nodes_share_no_place(programs: Programs, worker: Programs) -> None:
    def places(of: Programs) -> set[str]:
        given, found = flags(of.kubelet()), file(of.kubelet())
        return {
            given["root-dir"], given["cert-dir"], given["hostname-override"], given["node-ip"], given["kubeconfig"],
            *(str(found[name]) for name in ("podLogsDir", "containerRuntimeEndpoint", "cgroupRoot", "tlsCertFile")),
            *(line for line in containerd(of).splitlines() if line.startswith(("root", "state", "  address"))),
        }  # fmt: skip

    assert not places(programs) & places(worker)
    assert file(worker.kubelet())["cgroupRoot"] == "/aim-node-1"
    assert file(worker.kubelet())["clusterDNS"] == file(programs.kubelet())["clusterDNS"]
    assert flags(worker.kubelet())["kubeconfig"] == str(programs.keys.kubeconfig("system:node:node-1"))


def test_a_worker_is_asked_at_its_own_address(worker: Programs) -> None:
    assert file(worker.kubelet())["healthzBindAddress"] == "10.77.1.1", "its loopback is not the machine's"
    assert worker.kubelet().ready().startswith("http://10.77.1.1:")


def test_pods_of_all_nodes_are_of_the_cluster_for_the_proxies(programs: Programs, worker: Programs) -> None:
    found = [file(one.proxy()) for one in (programs, worker)]
    assert {one["clusterCIDR"] for one in found} == {"10.77.0.0/16"}
    assert [one["bindAddress"] for one in found] == ["10.77.0.1", "10.77.1.1"]


def test_pods_of_a_worker_have_addresses_of_its_own_bridge_and_keep_them(worker: Programs) -> None:
    worker.containerd()
    [bridge, _] = json.loads((worker.conf / "cni" / "10-aim.conflist").read_text())["plugins"]
    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.77.1.0/24", "gateway": "10.77.1.1"}]]
    assert bridge["ipMasq"] is False, "NetworkPolicies of the other node know pods by their addresses"


def test_network_namespaces_of_pods_are_among_the_runtimes_mounts(programs: Programs) -> None:
    # That is how those of one node are found; the usual folder has those of all.
    assert "netns_mounts_under_state_dir = true" in containerd(programs)


def test_each_registrys_name_leads_to_the_nodes_registry(programs: Programs) -> None:
    hosts = programs.conf / "hosts"
    assert f'config_path = "{hosts}"' in containerd(programs)
    for name in ("docker.io", "ghcr.io", "quay.io", "registry.k8s.io", "10.77.0.1:5000"):
        text = (hosts / name / "hosts.toml").read_text()
        assert text == (
            'server = "http://10.77.0.1:5000"\n[host."http://10.77.0.1:5000"]\n  capabilities = ["pull", "resolve"]\n'
        )
    assert {one.name for one in hosts.iterdir()} == {*MIRRORED, "10.77.0.1:5000"}


def test_pods_have_addresses_of_the_nodes_bridge(programs: Programs) -> None:
    programs.containerd()
    network = json.loads((programs.conf / "cni" / "10-aim.conflist").read_text())
    [bridge, portmap] = network["plugins"]
    assert (bridge["bridge"], bridge["ipam"]["ranges"]) == (
        "aim0",
        [[{"subnet": "10.77.0.0/24", "gateway": "10.77.0.1"}]],
    )
    assert Path(bridge["ipam"]["dataDir"]).is_relative_to(programs.settings.run)
    assert portmap["type"] == "portmap"


def test_services_are_in_one_range_for_all_that_handle_them(programs: Programs) -> None:
    found = {flags(one)["service-cluster-ip-range"] for one in (programs.apiserver(), programs.controller_manager())}
    assert found == {str(programs.settings.services)} == {flags(programs.policies())["service-cluster-ip-range"]}


def test_the_autoscaler_looks_often(programs: Programs) -> None:
    assert flags(programs.controller_manager())["horizontal-pod-autoscaler-sync-period"] == "5s"


def test_kube_router_enforces_policies_and_routes_nothing(programs: Programs) -> None:
    found = flags(programs.policies())
    assert {name: found[f"run-{name}"] for name in ("firewall", "router", "service-proxy", "loadbalancer")} == {
        "firewall": "true",
        "router": "false",
        "service-proxy": "false",
        "loadbalancer": "false",
    }


def test_a_program_that_does_not_listen_is_not_ready(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()  # on its own one a node of this machine may listen
    monkeypatch.setattr(of_node, "_ETCD", port)
    assert programs.etcd().ready().startswith(f"http://127.0.0.1:{port}/readyz does not answer: ")


def test_the_chart_reads_images_where_the_kubelet_does() -> None:
    settings = NodeSettings(Path("/n"))
    values = node_values(settings, "0a1b")
    Values.model_validate(values)
    assert values["registries"] == {
        "docker.io": {"mirrors": [{"url": f"http://{settings.registry}"}], "upstream": {"enabled": False}}
    }


def test_the_chart_asks_for_less_than_a_node_of_two_cores_has() -> None:
    values = node_values(NodeSettings(Path("/n")), "0a1b")
    requests = [values[name]["resources"]["requests"]["cpu"] for name in ("nats", "manager")]
    # One broker and five services.
    broker, service = (int(one.removesuffix("m")) for one in requests)
    assert broker + 5 * service <= 500
