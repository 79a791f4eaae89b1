"""The programs of a node, with their arguments and configuration files."""

import http.client
import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import yaml

from aim_local.assets import Program as Asset
from aim_local.assets import Toolset
from aim_local.control_plane_flags import apiserver_flags, component_flags, etcd_flags
from aim_local.node.daemons import Daemon
from aim_local.node.images import PAUSE_IMAGE
from aim_local.node.keys import ADMIN, CONTROLLER_MANAGER, FRONT_PROXY, PROXY, SCHEDULER, Keys, node_user
from aim_local.node.requirements import plugins, program
from aim_local.node.settings import CLUSTER_DOMAIN, CLUSTER_PODS, NodeSettings
from aim_local.realcluster.audit import POLICY
from controller_runtime import JsonObject

LOOPBACK: Final = "127.0.0.1"
_ETCD: Final = 26444
_ETCD_PEER: Final = 26445
_CONTROLLER_MANAGER: Final = 26446
_SCHEDULER: Final = 26447
_KUBELET_HEALTH: Final = 26448
_PROXY_HEALTH: Final = 26449
_PROXY_METRICS: Final = 26450
_PROBE_SECONDS: Final = 5.0
MIRRORED: Final = ("docker.io", "ghcr.io", "quay.io", "registry.example.com", "registry.k8s.io")
"""Registries whose names of images the node's own registry answers for, so that charts keep their names."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Builds the programs of one node; those of a worker are container runtime, kubelet, proxy and policies."""

    settings: NodeSettings
    toolset: Toolset
    keys: Keys

    @property
    def conf(self) -> Path:
        """Folder of the configuration files."""
        return self.settings.run / "conf"

    def registry(self) -> Daemon:
        """Debian's docker-registry, without TLS."""
        configuration: JsonObject = {
            "version": 0.1,
            "log": {"level": "warn", "accesslog": {"disabled": True}},
            "storage": {
                "filesystem": {"rootdirectory": str(self.settings.registry_storage)},
                "delete": {"enabled": True},
            },
            "http": {"addr": self.settings.registry, "secret": "of-a-node"},
        }
        file = self._file("registry.yml", configuration)
        ready = _answers(f"http://{self.settings.registry}/v2/")
        return Daemon("registry", (program("docker-registry"), "serve", str(file)), ready, {})

    def hub(self) -> Daemon:
        """The Hub of made-up weights, for pods."""
        host, _, port = self.settings.hub.rpartition("/")[2].partition(":")
        ready = _answers(f"{self.settings.hub}/api/models/made/up")
        return Daemon("hub", (sys.executable, "-m", "aim_local.hub", host, port), ready, {})

    def etcd(self) -> Daemon:
        """The store."""
        client, peer = f"http://{LOOPBACK}:{_ETCD}", f"http://{LOOPBACK}:{_ETCD_PEER}"
        flags = etcd_flags(self.settings.run / "etcd", client, peer)
        return self._daemon(Asset.ETCD, flags, _answers(f"{client}/readyz"))

    def apiserver(self) -> Daemon:
        """The API server, with the admission and authorization of a cluster, and an aggregation layer."""
        keys, settings = self.keys, self.settings
        policy = self._file("audit-policy.yaml", POLICY)
        flags = {
            **apiserver_flags(
                etcd=f"http://{LOOPBACK}:{_ETCD}",
                address=settings.address,
                port=settings.server.rpartition(":")[2],
                account_keys=keys.file("service-accounts.key"),
                policy=policy,
                log=settings.logs / "audit.log",
            ),
            "tls-cert-file": keys.file("apiserver.crt"),
            "tls-private-key-file": keys.file("apiserver.key"),
            "client-ca-file": keys.file("ca.crt"),
            "token-auth-file": keys.file("tokens.csv"),
            "kubelet-client-certificate": keys.file("apiserver-kubelet.crt"),
            "kubelet-client-key": keys.file("apiserver-kubelet.key"),
            "kubelet-certificate-authority": keys.file("ca.crt"),
            "requestheader-client-ca-file": keys.file("ca.crt"),
            "requestheader-allowed-names": FRONT_PROXY,
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "proxy-client-cert-file": keys.file(f"{FRONT_PROXY}.crt"),
            "proxy-client-key-file": keys.file(f"{FRONT_PROXY}.key"),
            "enable-aggregator-routing": "true",
            "service-account-issuer": f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
            "service-cluster-ip-range": settings.services,
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction,OwnerReferencesPermissionEnforcement",
        }
        ready = _answers(f"{settings.server}/readyz", keys.trusting())
        return self._daemon(Asset.APISERVER, flags, ready)

    def controller_manager(self) -> Daemon:
        """All controllers but those of clouds and of networks of nodes; the HPA's looks often."""
        keys = self.keys
        flags = {
            **component_flags(keys.kubeconfig(CONTROLLER_MANAGER), LOOPBACK, _CONTROLLER_MANAGER),
            "controllers": "*,-node-ipam-controller,-cloud-node-lifecycle-controller,-node-route-controller,"
            "-service-lb-controller",
            "use-service-account-credentials": "true",
            "service-account-private-key-file": keys.file("service-accounts.key"),
            "root-ca-file": keys.file("ca.crt"),
            "service-cluster-ip-range": self.settings.services,
            "horizontal-pod-autoscaler-sync-period": "5s",
            "horizontal-pod-autoscaler-downscale-stabilization": "10s",
            "kube-api-qps": 200,
            "kube-api-burst": 400,
        }
        ready = _answers(f"https://{LOOPBACK}:{_CONTROLLER_MANAGER}/healthz", _unverified())
        return self._daemon(Asset.CONTROLLER_MANAGER, flags, ready)

    def scheduler(self) -> Daemon:
        """The scheduler."""
        flags = component_flags(self.keys.kubeconfig(SCHEDULER), LOOPBACK, _SCHEDULER)
        ready = _answers(f"https://{LOOPBACK}:{_SCHEDULER}/healthz", _unverified())
        return self._daemon(Asset.SCHEDULER, flags, ready)

    def containerd(self) -> Daemon:
        """The container runtime; every registry's name leads to the node's registry."""
        self._hosts()
        text = _CONTAINERD.format(
            root=self.settings.containerd,
            state=self.settings.sockets / "containerd",
            socket=self.settings.socket,
            pause=PAUSE_IMAGE,
            plugins=plugins(),
            networks=self.conf / "cni",
            hosts=self.conf / "hosts",
            runc=program("runc"),
        )
        file = self.conf / "containerd.toml"
        file.write_text(text, encoding="utf-8")
        networks = {"cniVersion": "1.0.0", "name": "aim", "plugins": self._network_plugins()}
        self._file("cni/10-aim.conflist", networks)
        return self._node_daemon("containerd", program("containerd"), ("-c", str(file)), self._containerd_answers)

    def kubelet(self) -> Daemon:
        """The kubelet."""
        settings, keys = self.settings, self.keys
        self.conf.mkdir(parents=True, exist_ok=True)
        resolver = self.conf / "resolv.conf"
        resolver.write_text("".join(f"nameserver {one}\n" for one in _resolvers(settings)), encoding="ascii")
        configuration: JsonObject = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": str(settings.address),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(keys.file("ca.crt"))},
            },
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": settings.cgroup,
            "failCgroupV1": False,
            "clusterDNS": [str(settings.dns)],
            "clusterDomain": CLUSTER_DOMAIN,
            "containerRuntimeEndpoint": f"unix://{settings.socket}",
            "failSwapOn": False,
            "healthzBindAddress": str(settings.address),
            "healthzPort": _KUBELET_HEALTH,
            "tlsCertFile": str(keys.file(f"kubelet-{settings.name}.crt")),
            "tlsPrivateKeyFile": str(keys.file(f"kubelet-{settings.name}.key")),
            "resolvConf": str(resolver),
            # A container may lack the capability to set it.
            "oomScoreAdj": 0,
            "podLogsDir": str(settings.run / "pod-logs"),
            "evictionHard": {"memory.available": "200Mi", "nodefs.available": "2%", "imagefs.available": "2%"},
            "imageGCHighThresholdPercent": 98,
            "imageGCLowThresholdPercent": 97,
            "imageMinimumGCAge": "24h",
            "serializeImagePulls": False,
            "nodeStatusUpdateFrequency": "5s",
        }
        file = self._file("kubelet.yaml", configuration)
        flags = {
            "config": file,
            "kubeconfig": keys.kubeconfig(node_user(settings)),
            "hostname-override": settings.name,
            "node-ip": settings.address,
            "root-dir": settings.run / "kubelet",
            "cert-dir": settings.run / "kubelet-pki",
        }
        ready = _answers(f"http://{settings.address}:{_KUBELET_HEALTH}/healthz")
        # A container runtime that answers may not have read its containers yet, and the kubelet does not wait for that.
        return replace(self._daemon(Asset.KUBELET, flags, ready), retried=True)

    def proxy(self) -> Daemon:
        """The proxy that makes Services work, with nftables: IPVS is in few kernels, iptables is on its way out."""
        settings = self.settings
        configuration: JsonObject = {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "bindAddress": str(settings.address),
            "healthzBindAddress": f"{settings.address}:{_PROXY_HEALTH}",
            "metricsBindAddress": f"{LOOPBACK}:{_PROXY_METRICS}",
            "clusterCIDR": str(CLUSTER_PODS),
            "hostnameOverride": settings.name,
            "oomScoreAdj": 0,
            "conntrack": {"maxPerCore": 0},
            "clientConnection": {"kubeconfig": str(self.keys.kubeconfig(PROXY))},
        }
        file = self._file("proxy.yaml", configuration)
        ready = _answers(f"http://{settings.address}:{_PROXY_HEALTH}/livez")
        return self._daemon(Asset.KUBE_PROXY, {"config": file}, ready)

    def policies(self) -> Daemon:
        """kube-router as the controller of NetworkPolicies, and nothing else of it."""
        flags = {
            "run-firewall": "true",
            "run-router": "false",
            "run-service-proxy": "false",
            "run-loadbalancer": "false",
            "kubeconfig": self.keys.kubeconfig(ADMIN),
            "hostname-override": self.settings.name,
            "service-cluster-ip-range": self.settings.services,
            "iptables-sync-period": "30s",
            "health-port": "0",
        }
        return self._daemon(Asset.KUBE_ROUTER, flags, lambda: "")

    def _daemon(self, asset: Asset, flags: Mapping[str, object], ready: Callable[[], str]) -> Daemon:
        arguments = [f"--{name}={value}" for name, value in flags.items()]
        return self._node_daemon(asset, str(self.toolset.program(asset)), arguments, ready)

    def _node_daemon(self, name: str, binary: str, arguments: Sequence[str], ready: Callable[[], str]) -> Daemon:
        """A program in the network of the node; kubelet and runtime share mounts, so those are the machine's."""
        settings = self.settings
        inside = (program("nsenter"), f"--net={settings.namespace}", "--") if settings.is_worker else ()
        return Daemon(settings.program(name), (*inside, binary, *arguments), ready, {})

    def _network_plugins(self) -> list[JsonObject]:
        settings = self.settings
        address = {
            "type": "host-local",
            "dataDir": str(settings.run / "ipam"),
            "ranges": [[{"subnet": str(settings.pods), "gateway": str(settings.address)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        }
        bridge: JsonObject = {
            "type": "bridge",
            "bridge": settings.bridge,
            "isGateway": True,
            # Pods of other nodes see a pod's own address; what leaves the cluster is masqueraded by the machine.
            "ipMasq": False,
            "hairpinMode": True,
            "ipam": address,
        }
        return [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]

    def _hosts(self) -> None:
        server = f"http://{self.settings.registry}"
        text = f'server = "{server}"\n[host."{server}"]\n  capabilities = ["pull", "resolve"]\n'
        for name in (*MIRRORED, self.settings.registry):
            folder = self.conf / "hosts" / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "hosts.toml").write_text(text, encoding="utf-8")

    def _containerd_answers(self) -> str:
        command = (program("ctr"), "-a", str(self.settings.socket), "version")
        ran = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        return ran.stderr.strip() if ran.returncode else ""

    def _file(self, name: str, content: JsonObject) -> Path:
        file = self.conf / name
        file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(content) if name.endswith(".conflist") else yaml.safe_dump(content, sort_keys=False)
        file.write_text(text, encoding="utf-8")
        return file


_CONTAINERD: Final = """\
version = 2
root = "{root}"
state = "{state}"
oom_score = 0
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{hosts}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{runc}"
"""


def _resolvers(settings: NodeSettings) -> list[str]:
    """Name servers that pods reach: the machine's but for its loopback's; the node's address where there are none."""
    lines = [line.split() for line in Path("/etc/resolv.conf").read_text(encoding="utf-8").splitlines()]
    found = [words[1] for words in lines if words[:1] == ["nameserver"] and not words[1].startswith(("127.", "::1"))]
    return found[:3] or [str(settings.address)]


def _answers(url: str, tls: ssl.SSLContext | None = None) -> Callable[[], str]:
    """Ready when a GET is answered with success."""

    def probe() -> str:
        # Without proxies: everything listens on this machine.
        handlers = [urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=tls)] if tls else [])]
        try:
            with urllib.request.build_opener(*handlers).open(url, timeout=_PROBE_SECONDS):
                return ""
        except urllib.error.HTTPError as error:
            return f"{url} answers {error.code}"
        except (OSError, http.client.HTTPException) as error:
            return f"{url} does not answer: {error}"

    return probe


def _unverified() -> ssl.SSLContext:
    """For a component that signs its own certificate, on the loopback."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
